"""Estimators side by side: how much of a log each gives a signal, and whether they, and the preference pairs, agree.

Tables are those of `credit_store`, of the same steps and therefore in the same order. Values of at most `SILENT` in
size count as no signal: they are what rounding leaves. A number that is not defined (no step to count, no spread to
correlate) is None, never NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mcgpo_data.credit.keys import Bools, Floats
from mcgpo_data.errors import UsageError

SILENT: Final = 1e-9
IDS: Final = ("group_id", "rollout_id", "step_index")


def signal(table: pa.Table) -> dict[str, Any]:
    """Where one estimator says something, over the scored steps.

    Returns:
        `steps`, `groups`; `with_step_signal`, `alone` (no other step in its state): shares of steps; `collapsed`,
        `collapsed_steps`: shares of groups in which no step has an advantage, or a step advantage.
    """
    table = table.filter(table["scored"])
    step, total = (np.abs(_numbers(table, name)) > SILENT for name in ("step_advantage", "advantage"))
    groups = _codes(table["group_id"])
    size = int(groups.max(initial=-1)) + 1
    alone = _numbers(table, "anchor_size") == 1 if "anchor_size" in table.column_names else np.zeros(0, bool)
    return {
        "steps": table.num_rows,
        "groups": size,
        "with_step_signal": _share(step),
        "alone": _share(alone),
        "collapsed": _share(np.bincount(groups, total, size) == 0),
        "collapsed_steps": _share(np.bincount(groups, step, size) == 0),
    }


def agreement(first: pa.Table, second: pa.Table, column: str = "step_advantage") -> dict[str, Any]:
    """How alike two estimators judge the same steps.

    Args:
        first: table of one estimator.
        second: table of the other, of the same steps.
        column: which advantage.

    Returns:
        `both`: share of the steps scored in both that have a signal in both; `same_sign`: share of those on which
        they agree; `pearson`, `spearman`: correlation over all steps scored in both.

    Raises:
        UsageError: tables of different steps.
    """
    if not first.select(IDS).equals(second.select(IDS)):
        raise UsageError("The two tables are not of the same steps in the same order; make both from one build.")
    known = _flags(first, "scored") & _flags(second, "scored")
    a, b = _numbers(first, column)[known], _numbers(second, column)[known]
    both = (np.abs(a) > SILENT) & (np.abs(b) > SILENT)
    return {
        "both": _share(both),
        "same_sign": _share(np.sign(a[both]) == np.sign(b[both])),
        "pearson": _correlation(a, b),
        "spearman": _correlation(_ranks(a), _ranks(b)),
    }


def with_pairs(table: pa.Table, preferences: pa.Table, column: str = "advantage") -> dict[str, Any]:
    """Whether an estimator prefers what the pairs prefer: the chosen step has the larger advantage.

    Args:
        table: table of one estimator.
        preferences: chosen and rejected rollout ids and steps, and weights, as in the preferences table.
        column: which advantage.

    Returns:
        `pairs` whose sides are both scored in the table; `agree`, `tied`: shares of them; `agree_weighted`: share
        of their weight on which they agree.
    """
    sides = [_looked_up(table, preferences, side, column) for side in ("chosen", "rejected")]
    known = ~(np.isnan(sides[0]) | np.isnan(sides[1]))
    gap = (sides[0] - sides[1])[known]
    weight = _numbers(preferences, "weight")[known]
    total = float(weight.sum())
    return {
        "pairs": len(gap),
        "agree": _share(gap > SILENT),
        "tied": _share(np.abs(gap) <= SILENT),
        "agree_weighted": float(weight[gap > SILENT].sum()) / total if total else None,
    }


def invalid_effect(without: pa.Table, penalised: pa.Table, column: str = "advantage") -> dict[str, Any]:
    """What the penalty on invalid actions does, beyond those actions.

    Args:
        without: table of an estimator without a penalty.
        penalised: table of the same estimator with one.
        column: which advantage.

    Returns:
        `invalid`: share of steps; `mean_invalid`, `mean_invalid_penalised`: mean advantage of those steps;
        `valid_moved`, `valid_flipped`: shares of valid steps whose advantage changes, or changes sign;
        `groups_woken`: share of groups that have an advantage only because of the penalty.
    """
    known = _flags(without, "scored") & _flags(penalised, "scored")
    before, after = _numbers(without, column)[known], _numbers(penalised, column)[known]
    valid = _flags(without, "valid")[known]
    groups = _codes(without["group_id"].filter(pa.array(known)))
    size = int(groups.max(initial=-1)) + 1
    quiet, loud = (np.bincount(groups, np.abs(x) > SILENT, size) > 0 for x in (before, after))
    flipped = (np.abs(before) > SILENT) & (np.abs(after) > SILENT) & (np.sign(before) != np.sign(after))
    return {
        "invalid": _share(~valid),
        "mean_invalid": _mean(before[~valid]),
        "mean_invalid_penalised": _mean(after[~valid]),
        "valid_moved": _share(np.abs(after - before)[valid] > SILENT),
        "valid_flipped": _share(flipped[valid]),
        "groups_woken": _share(loud & ~quiet),
    }


def compare(tables: Mapping[str, pa.Table], preferences: pa.Table | None = None) -> dict[str, Any]:
    """Everything above for several estimators.

    Args:
        tables: name -> table, all of the same steps.
        preferences: pairs of the same build.

    Returns:
        `signal` per name, `agreement` per pair of names ("a/b"), and `with_pairs` per name where pairs were given.
    """
    result: dict[str, Any] = {
        "signal": {name: signal(table) for name, table in tables.items()},
        "agreement": {f"{a}/{b}": agreement(tables[a], tables[b]) for a, b in combinations(tables, 2)},
    }
    if preferences is not None:
        result["with_pairs"] = {name: with_pairs(table, preferences) for name, table in tables.items()}
    return result


def _looked_up(table: pa.Table, preferences: pa.Table, side: str, column: str) -> Floats:
    """The advantage of one side of each pair; NaN where the table has no scored step of that name."""
    wanted = pa.table(
        {
            "rollout_id": preferences[f"{side}_rollout_id"],
            "step_index": preferences[f"{side}_step"],
            "row": pa.array(np.arange(preferences.num_rows)),
        }
    )
    scored = table.filter(table["scored"]).select(["rollout_id", "step_index", column])
    joined = wanted.join(scored, ["rollout_id", "step_index"])
    found = np.full(preferences.num_rows, np.nan)
    found[joined["row"].to_numpy()] = pc.fill_null(joined[column], np.nan).to_numpy()
    return found


def _numbers(table: pa.Table, name: str) -> Floats:
    return np.asarray(table[name].to_numpy(), np.float64)


def _flags(table: pa.Table, name: str) -> Bools:
    return np.asarray(table[name].to_numpy(), bool)


def _codes(column: pa.ChunkedArray) -> Any:
    return column.combine_chunks().dictionary_encode().indices.to_numpy()


def _share(flags: Bools) -> float | None:
    return float(np.count_nonzero(flags) / len(flags)) if len(flags) else None


def _mean(values: Floats) -> float | None:
    return float(values.mean()) if len(values) else None


def _correlation(a: Floats, b: Floats) -> float | None:
    """Pearson's r; None without spread in both."""
    if len(a) < 2:
        return None
    x, y = a - a.mean(), b - b.mean()
    scale = float(np.sqrt((x @ x) * (y @ y)))
    return float(np.clip((x @ y) / scale, -1, 1)) if scale > 0 else None


def _ranks(values: Floats) -> Floats:
    """Ranks from 1, equal values sharing the mean of theirs; values within rounding of 0 are equal."""
    _, code, count = np.unique(np.where(np.abs(values) > SILENT, values, 0.0), return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return (last - (count - 1) / 2)[code]
