"""One bucket of staged rows made into `rollouts` and `steps`: put in order, doubles removed, contradictions
refused.
"""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from mcgpo_data.config import BuildConfig
from mcgpo_data.errors import DataError, UsageError
from mcgpo_data.staging import KEY_COLUMNS, ROLLOUT_COLUMNS, STEP_COLUMNS, TEXT_COLUMNS

NARROW = [*KEY_COLUMNS, *ROLLOUT_COLUMNS, *(c for c in STEP_COLUMNS if c not in TEXT_COLUMNS)]
OF_STEPS = ["task_key", "task_id", "group_id", "rollout_id", "step_index"]
OF_STEPS += [c for c in STEP_COLUMNS if c not in TEXT_COLUMNS]
ORDER = ["task_key", "task_id", "group_id", "rollout_id", "step_index"]
CONSTANT = ["task_id", "group_id", "policy", "policy_version", "instruction", "outcome_min", "outcome_max"]
LAST = ["outcome", "success", "terminal_status", "final_observation"]


def assemble(
    staged: pl.DataFrame, config: BuildConfig, name_of: Callable[[int], str]
) -> tuple[pl.DataFrame, pl.DataFrame, dict[str, int]]:
    """Sorted, deduplicated steps, one row per rollout, and counts of what was repaired.

    Args:
        config: options; those of the outcome count here.
        staged: `NARROW` columns of whole tasks, in any order.
        name_of: display name of a source file, for messages.

    Raises:
        DataError: one rollout id with two contents, or with two tasks, groups or policies.
        UsageError: outcomes outside [0, 1] without a declared range.
    """
    counts: dict[str, int] = {}
    steps = _deduplicate(staged.sort([*ORDER, "source_file", "source_row"]), name_of, counts)
    del staged
    rollouts = _rollouts(steps, name_of)
    steps = _renumber(steps.select(OF_STEPS), counts)
    rollouts = rollouts.join(
        steps.group_by("rollout_id").agg(
            pl.len().cast(pl.Int32).alias("num_steps"),
            pl.col("_gap").any().alias("_gap"),
            summed_reward().alias("_return"),
        ),
        on="rollout_id",
        maintain_order="left",
    )
    rollouts = rollouts.with_columns(order_trusted=pl.col("order_trusted") & ~pl.col("_gap"))
    rollouts = rollouts.with_columns(evidence_outcome=evidence(rollouts, config)).drop("_gap", "_return")
    return rollouts, steps.drop("_gap"), counts


def _deduplicate(rows: pl.DataFrame, name_of: Callable[[int], str], counts: dict[str, int]) -> pl.DataFrame:
    """One row per (rollout, step): identical repeats go, differing ones are an error."""
    key = ["rollout_id", "step_index"]
    repeated = rows.filter(pl.struct(key).is_duplicated())
    if repeated.is_empty():
        return rows
    place = ("task_key", "source_file", "source_row", *key)
    refuse_contradiction(repeated, [c for c in NARROW if c not in place], name_of)
    once = rows.unique(subset=key, keep="first", maintain_order=True)
    counts["duplicate steps dropped"] = len(rows) - len(once)
    return once


def refuse_contradiction(repeated: pl.DataFrame, content: list[str], name_of: Callable[[int], str]) -> None:
    """Rows of one (rollout, step) must agree in the columns `content`.

    Raises:
        DataError: two of them do not; both places are named.
    """
    key = ["rollout_id", "step_index"]
    distinct = repeated.unique(subset=[*key, *content], keep="first", maintain_order=True).sort(
        *key, maintain_order=True
    )
    clash = distinct.filter(pl.struct(key).is_duplicated())
    if not clash.is_empty():
        first, second = clash.head(2).iter_rows(named=True)
        differ = [c for c in content if first[c] != second[c]]
        raise DataError(
            f"rollout {first['rollout_id']!r} has two different contents at step {first['step_index']} "
            f"({', '.join(differ[:4])}): {_place(first, name_of)} and {_place(second, name_of)}. "
            "If these are two attempts, give them different rollout ids; if one is stale, leave its file out."
        )


def _place(row: dict[str, object], name_of: Callable[[int], str]) -> str:
    return f"{name_of(int(str(row['source_file'])))}:{row['source_row']}"


def _rollouts(steps: pl.DataFrame, name_of: Callable[[int], str]) -> pl.DataFrame:
    """Facts of each rollout: constants must agree over its rows; outcome and status are those of the last row
    that states them.
    """
    known = [pl.col(c).drop_nulls() for c in CONSTANT]
    last = [pl.col(c).drop_nulls().last() for c in LAST if c != "terminal_status"]
    status = pl.col("terminal_status").filter(pl.col("terminal_status") != "unknown").last().fill_null("unknown")
    table = steps.group_by("rollout_id", maintain_order=True).agg(
        *[k.first() for k in known],
        *[k.n_unique().alias(f"_{c}") for k, c in zip(known, CONSTANT, strict=True)],
        pl.col("task_key", "group_source", "source_format", "source_file", "source_row").first(),
        pl.col("outcome_kind").filter(pl.col("outcome_kind") != "missing").last().fill_null("missing"),
        pl.col("order_trusted").all(),
        pl.col("rollout_metadata").drop_nulls().first().alias("metadata"),
        *last,
        status,
    )
    for c in CONSTANT:
        wrong = table.filter(pl.col(f"_{c}") > 1)
        if not wrong.is_empty():
            row = wrong.row(0, named=True)
            values = (
                steps.filter(pl.col("rollout_id") == row["rollout_id"])[c]
                .drop_nulls()
                .unique(maintain_order=True)
                .to_list()
            )
            raise DataError(
                f"rollout {row['rollout_id']!r} ({_place(row, name_of)}) has more than one {c}: "
                f"{values[0]!r}, {values[1]!r}. "
                "Rollout ids must be unique over all input files."
            )
    return table.drop(*[f"_{c}" for c in CONSTANT])


def _renumber(steps: pl.DataFrame, counts: dict[str, int]) -> pl.DataFrame:
    """Step indices 0, 1, 2 ...; a gap in the source's numbers is counted and marks the rollout's order as not
    trusted.
    """
    index = pl.col("step_index")
    first = index.min().over("rollout_id")
    dense = pl.int_range(pl.len(), dtype=pl.Int32).over("rollout_id")
    steps = steps.with_columns(_dense=dense, _gap=(first > 1) | (index - first != dense))
    gaps = steps.filter(pl.col("_gap"))["rollout_id"].n_unique()
    if gaps:
        counts["rollouts with missing steps"] = gaps
    place = steps.select("rollout_id", prompt_from="step_index", _from="_dense")
    steps = steps.join(place, on=["rollout_id", "prompt_from"], how="left", maintain_order="left")
    return steps.with_columns(step_index="_dense", prompt_from=pl.col("_from").fill_null(0)).drop("_dense", "_from")


def summed_reward() -> pl.Expr:
    """Sum of rewards; null where any is missing."""
    return pl.when(pl.col("reward").is_null().any()).then(None).otherwise(pl.col("reward").sum())


def evidence(rollouts: pl.DataFrame, config: BuildConfig) -> pl.Series:
    """The outcome in [0, 1] that counts, quantised to 1e-9; null for crashed and unscored rollouts."""
    success = rollouts["success"].cast(pl.Float64)
    if config.outcome == "success":
        value = success
    elif config.outcome == "score":
        value = _scaled(rollouts, "outcome", config)
    elif config.outcome == "return":
        value = _scaled(rollouts, "_return", config)
    else:
        value = pl.select(pl.coalesce(success, _scaled(rollouts, "outcome", config))).to_series()
    unknown = rollouts["terminal_status"] == "error_infra"
    if config.truncated == "unscored":
        unknown = unknown | rollouts["terminal_status"].is_in(["truncated_steps", "truncated_tokens"])
    return pl.select(pl.when(unknown).then(None).otherwise(value)).to_series().round(9).alias("evidence_outcome")


def _scaled(rollouts: pl.DataFrame, column: str, config: BuildConfig) -> pl.Series:
    value = rollouts[column]
    needed = value.is_not_null()
    if config.outcome == "auto":
        needed = needed & rollouts["success"].is_null()
    if config.outcome_range is not None:
        low, high = (pl.Series([x]) for x in config.outcome_range)
    elif column == "outcome":
        low, high = rollouts["outcome_min"].fill_null(0.0), rollouts["outcome_max"].fill_null(1.0)
    else:
        low, high = pl.Series([0.0]), pl.Series([1.0])
    if (unclear := needed & ~((high > low) & (high - low).is_finite())).any():
        row = rollouts.filter(unclear).row(0, named=True)
        raise UsageError(
            f"rollout {row['rollout_id']!r} declares the scale [{row['outcome_min']}, {row['outcome_max']}] of its "
            "outcome; it must be two finite numbers, the lower one first. --outcome-range LOW,HIGH overrules it."
        )
    scaled = (value - low) / (high - low)
    bad = needed & ((scaled < 0) | (scaled > 1))
    if bad.any():
        row = rollouts.filter(bad).row(0, named=True)
        raise UsageError(
            f"rollout {row['rollout_id']!r} has {'outcome' if column == 'outcome' else 'return'} "
            f"{row[column]:g}, outside "
            f"[{', '.join(f'{(end if len(end) == 1 else end.filter(bad))[0]:g}' for end in (low, high))}]. "
            "Declare the scale of the task with --outcome-range LOW,HIGH (it is not guessed from the data)."
        )
    return scaled
