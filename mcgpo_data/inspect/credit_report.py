"""How estimators differ on the steps of a build: numbers, and a table for the terminal.

Memory: what is compared stays in memory for all steps at once, about 40 bytes per step and estimator, and 100 per
step while two are compared.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mcgpo_data.credit import ESTIMATORS, PRESETS, resolve
from mcgpo_data.credit.compare import IDS, PairRows, compare, signal
from mcgpo_data.credit.options import nearest
from mcgpo_data.credit.store import CreditBucket, CreditOptions, buckets_of, run_over
from mcgpo_data.errors import DataError, UsageError
from mcgpo_data.store import open_store

USUAL_PENALTY: Final = 0.1  # of verl-agent, where the options of an estimator have none
COLUMNS: Final = ("step_advantage", "advantage", "scored", "valid", "anchor_size")
SIDES: Final = tuple(f"{side}_{what}" for side in ("chosen", "rejected") for what in ("rollout_id", "step"))


@dataclass(frozen=True)
class CompareJob:
    """One bucket and the options of every estimator, without and with a penalty on invalid actions."""

    bucket: CreditBucket
    without: dict[str, dict[str, Any]]
    penalised: dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Gathered:
    """What a bucket gives: ids of its steps once, columns of every estimator, pairs as rows."""

    ids: pa.Table
    without: dict[str, pa.Table]
    penalised: dict[str, pa.Table]
    pairs: PairRows


def gather(job: CompareJob) -> Gathered:
    """Run all estimators on one bucket."""
    tables = job.bucket.tables()
    careless = not bool(pc.all(tables.decisions["valid"]).as_py())
    ids: pa.Table | None = None
    columns: list[dict[str, pa.Table]] = []
    for options in (job.without, job.penalised):
        if columns and not careless:
            columns.append(columns[0])  # a penalty on nothing
            continue
        columns.append({})
        for name, values in options.items():
            table = tables.credit(name, values)
            ids = table.select(IDS) if ids is None else ids
            columns[-1][name] = table.select([c for c in COLUMNS if c in table.column_names])
    assert ids is not None
    pairs = PairRows.of(ids, job.bucket.read("preferences", (*SIDES, "weight")))
    coded = [ids[name] if name == "step_index" else ids[name].combine_chunks().dictionary_encode() for name in IDS]
    return Gathered(pa.table(coded, names=IDS), columns[0], columns[1], pairs)


def compare_build(
    out: str | os.PathLike[str],
    estimators: Sequence[str],
    *,
    preset: str | None = None,
    options: Mapping[str, Any] | None = None,
    how: CreditOptions | None = None,
) -> dict[str, Any]:
    """Run several estimators on a build, side by side. Writes nothing.

    Args:
        out: folder of a build from logs.
        estimators: names in `mcgpo_data.credit.ESTIMATORS`.
        preset: a name in `mcgpo_data.credit.PRESETS`; an estimator that it does not have takes its defaults.
        options: options for those estimators that have them.
        how: what is read.

    Returns:
        Plain data: `build` (content_id), `rule`, `keys`, `rewards`; `preset`, `options` and `penalty` per estimator,
        the latter of an invalid action in `invalid`; then the parts of `mcgpo_data.credit.compare.compare`.

    Raises:
        UsageError: names and values that do not exist.
        DataError: no rollout has an outcome that counts.
    """
    how = how or CreditOptions()
    presets = _presets(estimators, preset)
    chosen = _resolved(presets, options or {})
    store = open_store(out)
    buckets = buckets_of(store, how, also=("preferences",))
    penalty = {name: values["invalid_penalty"] or USUAL_PENALTY for name, values in chosen.items()}
    without = {name: {**values, "invalid_penalty": 0.0} for name, values in chosen.items()}
    penalised = {name: {**values, "invalid_penalty": penalty[name]} for name, values in chosen.items()}
    parts = run_over(gather, [CompareJob(bucket, without, penalised) for bucket in buckets], how)
    ids = pa.concat_tables(part.ids for part in parts).unify_dictionaries()
    penalties = {}
    for name in chosen:
        sides = ([part.without[name] for part in parts], [part.penalised[name] for part in parts])
        plain, fined = (_beside(ids, pa.concat_tables(tables)) for tables in sides)
        penalties[name] = (plain, fined)
    tables = {name: penalties[name][values["invalid_penalty"] > 0] for name, values in chosen.items()}
    if not any(pc.any(table["scored"]).as_py() for table in tables.values()):
        raise DataError(f"{out}: no rollout has an outcome that counts (`mcgpo show {out}` says how many have one).")
    return {
        "build": store.manifest["content_id"],
        "rule": store.manifest["config"]["rule_names"][buckets[0].rule],
        "keys": list(how.keys),
        "rewards": how.rewards,
        "preset": presets,
        "options": chosen,
        "penalty": penalty,
        **compare(tables, _joined(parts), penalties),
    }


def _presets(names: Sequence[str], preset: str | None) -> dict[str, str | None]:
    """Preset of each estimator: None where the preset does not have it."""
    if len(set(names)) != len(names) or len(names) < 2:
        raise UsageError(f"--compare {','.join(names)}: name two or more different estimators, as in grpo,graphgpo.")
    for name in names:
        if name not in ESTIMATORS:
            raise nearest("estimator", name, ESTIMATORS)
    if preset is not None and preset not in PRESETS:
        raise nearest("preset", preset, PRESETS)
    return {name: preset if preset is None or name in PRESETS[preset] else None for name in names}


def _resolved(presets: Mapping[str, str | None], options: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Options by estimator; each takes of `options` what it has."""
    known = {name: asdict(resolve(name)) for name in presets}
    names = {option: None for values in known.values() for option in values}
    for option in options:
        if option not in names:
            raise nearest("option of these estimators", option, names)
    return {
        name: asdict(resolve(name, preset, {k: v for k, v in options.items() if k in known[name]}))
        for name, preset in presets.items()
    }


def _beside(ids: pa.Table, columns: pa.Table) -> pa.Table:
    return pa.table([*ids.columns, *columns.columns], names=[*ids.column_names, *columns.column_names])


def _joined(parts: Sequence[Gathered]) -> PairRows:
    """Pairs of all buckets, as rows of the tables put together."""
    starts = np.cumsum([0, *(part.ids.num_rows for part in parts)])
    shifted = [
        [np.where(rows >= 0, rows + start, -1) for rows in (part.pairs.chosen, part.pairs.rejected)]
        for part, start in zip(parts, starts, strict=False)
    ]
    chosen, rejected = (np.concatenate(side) for side in zip(*shifted, strict=True))
    return PairRows(chosen, rejected, np.concatenate([part.pairs.weight for part in parts]))


def credit_lines(entry: Mapping[str, Any], *, quiet: bool) -> list[str]:
    """What was written: `counts` of the manifest's entry and `output`, as text."""
    counts = entry["counts"]
    said = signal(counts)
    lines = [
        f"{counts['all_steps']:>12,}  steps of {counts['rollouts']:,} rollouts",
        f"{counts['steps']:>12,}  scored, in {counts['groups']:,} groups",
        f"{_percent(said['with_step_signal'])}  of them with a step signal",
        f"{_percent(said['collapsed'])}  of the groups without any signal",
    ]
    if counts["no_outcome"]:
        lines.append(f"{counts['no_outcome']:>12,}  rollouts have no outcome")
    if counts["order_not_trusted"]:
        lines.append(f"{counts['order_not_trusted']:>12,}  rollouts have steps whose order is not trusted")
    return [*(lines if not quiet else []), f"advantages of {counts['all_steps']:,} steps in {entry['output']}"]


def _percent(share: float | None) -> str:
    return f"{'-' if share is None else f'{share:.1%}':>12}"


def compare_lines(found: Mapping[str, Any]) -> list[str]:
    """The result of `compare_build` as text."""
    first = next(iter(found["signal"].values()))
    lines = [
        f"{first['steps']:,} scored steps of {first['groups']:,} groups; "
        f"rule {found['rule']}, states by {' and '.join(found['keys'])}, rewards: {found['rewards']}",
        *(
            f"{name} has no part in the preset: its defaults"
            for name, preset in found["preset"].items()
            if preset is None and any(found["preset"].values())
        ),
        "",
        *_columns("what says something", ["step signal", "alone", "no signal", "no step signal"]),
    ]
    for name, s in found["signal"].items():
        lines.append(_row(name, [s["with_step_signal"], s["alone"], s["collapsed"], s["collapsed_steps"]]))
    lines += ["  of steps: a step signal, alone in their state; of groups: no signal at all, no step signal", ""]
    lines += _columns("agreement", ["both speak", "same sign", "pearson", "spearman"])
    for pair, terms in found["agreement"].items():
        for term, a in terms.items():
            numbers = [a["both"], a["same_sign"], a["pearson"], a["spearman"]]
            lines.append(_row(f"{pair.replace('/', ' / ')}{', step term' * (term != 'advantage')}", numbers))
    lines += ["", *_columns(f"with the {judged_pairs(found):,} pairs", ["agree", "tied", "by weight"])]
    for name, terms in found["with_pairs"].items():
        for term, w in terms.items():
            numbers = [w["agree"], w["tied"], w["agree_weighted"]]
            lines.append(_row(f"{name}{', step term' * (term != 'advantage')}", numbers))
    return [*lines, "", *_invalid_lines(found)]


def _invalid_lines(found: Mapping[str, Any]) -> list[str]:
    share = max(effect["invalid"] or 0.0 for effect in found["invalid"].values())
    if not share:
        return ["no step is invalid: a penalty on invalid actions changes nothing"]
    lines = _columns("an invalid action", ["mean", "penalised", "moved", "flipped", "woken"])
    for name, i in found["invalid"].items():
        numbers = [i["mean_invalid"], i["mean_invalid_penalised"], i["valid_moved"], i["valid_flipped"]]
        lines.append(_row(f"{name}, penalty {found['penalty'][name]:g}", [*numbers, i["groups_woken"]]))
    return [
        *lines,
        f"  {_cell(share)} of the steps are invalid; their mean advantage without and with the penalty;",
        "  of the valid steps: moved by it, sign flipped; of the groups: an advantage by it alone",
    ]


def judged_pairs(found: Mapping[str, Any]) -> int:
    """Pairs of the build on which an estimator can be asked: both sides are scored."""
    return max(int(w["pairs"]) for terms in found["with_pairs"].values() for w in terms.values())


def _columns(title: str, names: list[str]) -> list[str]:
    return [f"{title:36}" + "".join(f"{name:>15}" for name in names)]


def _row(name: str, numbers: list[float | None]) -> str:
    return f"  {name:34}" + "".join(f"{_cell(number):>15}" for number in numbers)


def _cell(number: float | None) -> str:
    return "-" if number is None else f"{number:.3f}"
