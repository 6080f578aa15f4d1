"""Estimators side by side: how much of a log each gives a signal, and whether they, and the preference pairs, agree.

Tables are those of `credit_store`, of the same steps and therefore in the same order. Values of at most `SILENT` in
size count as no signal: they are what rounding leaves. A number that is not defined (no step to count, no spread to
correlate) is None, never NaN.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mcgpo_data.credit.keys import Bools, Floats, Ints
from mcgpo_data.errors import UsageError

SILENT: Final = 1e-9
IDS: Final = ("group_id", "rollout_id", "step_index")
TERMS: Final = ("advantage", "step_advantage")


@dataclass(frozen=True)
class PairRows:
    """Preference pairs as rows of the tables.

    Attributes:
        chosen: row of the chosen step of each pair, shape (pairs,); -1 where the tables do not have it.
        rejected: row of the rejected step.
        weight: weight of the pair.
    """

    chosen: Ints
    rejected: Ints
    weight: Floats

    @classmethod
    def of(cls, table: pa.Table, preferences: pa.Table) -> PairRows:
        """Pairs of a preferences table (rollout ids and steps of both sides, weights) among the steps of a table."""
        chosen, rejected = (_rows(table, preferences, side) for side in ("chosen", "rejected"))
        return cls(chosen, rejected, _numbers(preferences, "weight"))


def signal_counts(table: pa.Table) -> Counter[str]:
    """Counts behind `signal`, to be added up over parts of a log that hold whole groups."""
    table = table.filter(table["scored"])
    step, total = (np.abs(_numbers(table, name)) > SILENT for name in ("step_advantage", "advantage"))
    groups = _codes(table["group_id"])
    size = int(groups.max(initial=-1)) + 1
    counts = {
        "steps": table.num_rows,
        "groups": size,
        "with_step_signal": np.count_nonzero(step),
        "collapsed": np.count_nonzero(np.bincount(groups, total, size) == 0),
        "collapsed_steps": np.count_nonzero(np.bincount(groups, step, size) == 0),
    }
    if "anchor_size" in table.column_names:
        counts["alone"] = np.count_nonzero(_numbers(table, "anchor_size") == 1)
    return Counter({name: int(count) for name, count in counts.items()})


def signal(counts: Mapping[str, int]) -> dict[str, Any]:
    """Where one estimator says something, over the scored steps, from `signal_counts`.

    Returns:
        `steps`, `groups`; `with_step_signal`, `alone` (no other step in its state; None without states): shares of
        steps; `collapsed`, `collapsed_steps`: shares of groups in which no step has an advantage, or a step advantage.
    """
    steps, groups = counts["steps"], counts["groups"]
    return {
        "steps": steps,
        "groups": groups,
        "with_step_signal": _ratio(counts["with_step_signal"], steps),
        "alone": _ratio(counts["alone"], steps) if "alone" in counts else None,
        "collapsed": _ratio(counts["collapsed"], groups),
        "collapsed_steps": _ratio(counts["collapsed_steps"], groups),
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
    a, b = (np.where(np.abs(x) > SILENT, x, 0.0) for x in (_numbers(t, column)[known] for t in (first, second)))
    both = (a != 0) & (b != 0)
    return {
        "both": _share(both),
        "same_sign": _share(np.sign(a[both]) == np.sign(b[both])),
        "pearson": _correlation(a, b),
        "spearman": _correlation(_ranks(a), _ranks(b)),
    }


def with_pairs(table: pa.Table, pairs: PairRows, column: str = "advantage") -> dict[str, Any]:
    """Whether an estimator prefers what the pairs prefer: the chosen step has the larger advantage.

    Args:
        table: table of one estimator.
        pairs: preference pairs as rows of it.
        column: which advantage.

    Returns:
        `pairs` whose sides are both scored in the table; `agree`, `tied`: shares of them; `agree_weighted`: share
        of their weight on which they agree.
    """
    scored = np.append(_flags(table, "scored"), False)  # row -1
    value = np.append(_numbers(table, column), 0.0)
    known = scored[pairs.chosen] & scored[pairs.rejected]
    gap, weight = (value[pairs.chosen] - value[pairs.rejected])[known], pairs.weight[known]
    return {
        "pairs": len(gap),
        "agree": _share(gap > SILENT),
        "tied": _share(np.abs(gap) <= SILENT),
        "agree_weighted": _ratio(float(weight[gap > SILENT].sum()), float(weight.sum())),
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


def compare(
    tables: Mapping[str, pa.Table],
    pairs: PairRows | None = None,
    penalties: Mapping[str, tuple[pa.Table, pa.Table]] | None = None,
) -> dict[str, Any]:
    """Everything above for several estimators.

    Args:
        tables: name -> table, all of the same steps.
        pairs: preference pairs of the same build.
        penalties: name -> (table without a penalty on invalid actions, table with one).

    Returns:
        `signal` per name; `agreement` per pair of names ("a/b") and term; and, where given, `with_pairs` per name
        and term, `invalid` per name.
    """
    result: dict[str, Any] = {
        "signal": {name: signal(signal_counts(table)) for name, table in tables.items()},
        "agreement": {
            f"{a}/{b}": {term: agreement(tables[a], tables[b], term) for term in TERMS}
            for a, b in combinations(tables, 2)
        },
    }
    if pairs is not None:
        result["with_pairs"] = {
            name: {term: with_pairs(table, pairs, term) for term in TERMS} for name, table in tables.items()
        }
    if penalties is not None:
        result["invalid"] = {name: invalid_effect(*both) for name, both in penalties.items()}
    return result


def _rows(table: pa.Table, preferences: pa.Table, side: str) -> Ints:
    """Row of one side of each pair; -1 where the table has no step of that name."""
    wanted = pa.table(
        {
            "rollout_id": preferences[f"{side}_rollout_id"],
            "step_index": preferences[f"{side}_step"],
            "pair": pa.array(np.arange(preferences.num_rows)),
        }
    )
    steps = table.select(["rollout_id", "step_index"]).append_column("row", pa.array(np.arange(table.num_rows)))
    joined = wanted.join(steps, ["rollout_id", "step_index"])
    found = np.full(preferences.num_rows, -1)
    found[joined["pair"].to_numpy()] = pc.fill_null(joined["row"], -1).to_numpy()
    return found


def _numbers(table: pa.Table, name: str) -> Floats:
    return np.asarray(table[name].to_numpy(), np.float64)


def _flags(table: pa.Table, name: str) -> Bools:
    return np.asarray(table[name].to_numpy(), bool)


def _codes(column: pa.ChunkedArray) -> Any:
    return column.combine_chunks().dictionary_encode().indices.to_numpy()


def _share(flags: Bools) -> float | None:
    return _ratio(int(np.count_nonzero(flags)), len(flags))


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _mean(values: Floats) -> float | None:
    return float(values.mean()) if len(values) else None


def _correlation(a: Floats, b: Floats) -> float | None:
    """Pearson's r; None without spread in both."""
    if len(a) < 2:
        return None
    x, y = a - a[0], b - b[0]  # of equal values the mean may differ by rounding, the first one does not
    x, y = x - x.mean(), y - y.mean()
    scale = float(np.sqrt((x @ x) * (y @ y)))
    return float(np.clip((x @ y) / scale, -1, 1)) if scale > 0 else None


def _ranks(values: Floats) -> Floats:
    """Ranks from 1, equal values sharing the mean of theirs."""
    _, code, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return (last - (count - 1) / 2)[code]
