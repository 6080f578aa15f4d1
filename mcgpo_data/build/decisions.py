"""Steps through task rules into the `decisions` table: summaries as text, and the integer keys that are matched."""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import dataclass

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from mcgpo_data.build.database import connect, statement
from mcgpo_data.config import BuildConfig
from mcgpo_data.rules.base import INPUT_COLUMNS, TaskRules
from mcgpo_data.schema import DECISIONS
from mcgpo_data.staging import h60

MASK = np.int64(2**60 - 1)


@dataclass(frozen=True)
class Decided:
    """`decisions` as in the schema (rule by rule, rows in step order), and two keys per rollout."""

    decisions: pa.Table
    sequence_keys: NDArray[np.int64]
    final_state_keys: pa.Array


def decide(steps: pl.DataFrame, rollouts: pl.DataFrame, rules: TaskRules) -> Decided:
    """Apply `rules` to sorted steps (whole rollouts, in the order of `rollouts`).

    Where the order of steps is not trusted each step is shown to the rules alone, so that nothing is derived from its
    neighbours.
    """
    applied = rules.apply(rules_input(steps, rollouts))
    names = rules.rules
    for r in range(len(names)):
        if f"progress_{r}" not in applied.columns:
            applied = applied.with_columns(pl.col("progress").alias(f"progress_{r}"))
    if "observation_key" not in applied.columns:
        applied = applied.with_columns(observation_key=pl.col("observation"))
    logged = pl.col("action_valid").fill_null(True) & pl.col("action_kind").is_in(["invalid", "lost"]).not_()
    judged = pl.col("valid").fill_null(logged) if "valid" in applied.columns else logged
    applied = applied.with_columns(_valid=judged & pl.col("action_text").is_not_null())
    final = applied.filter("is_final").select("rollout_id", "state_0")
    rows = applied.filter(pl.col("is_final").not_())

    lengths = rollouts["num_steps"].to_numpy()
    starts = np.concatenate([[0], np.cumsum(lengths)])
    keys = np.array([h60(r) for r in rollouts["rollout_id"]], np.int64)
    con = connect(memory_limit="300MB")
    ids = {
        "row": np.arange(len(steps), dtype=np.uint32),
        "group_id": steps["group_id"].to_arrow().cast(pa.string()),
        "rollout_id": steps["rollout_id"].to_arrow().cast(pa.string()),  # `rows` may hold another, see rules_input
        "step_index": steps["step_index"].to_numpy(),
        "rollout_key": np.repeat(keys, lengths),
    }

    def register(**columns: str | pl.Expr) -> None:
        table = rows.select(**columns).to_arrow()
        con.register("rows", pa.table({**ids, **dict(zip(table.column_names, table.columns, strict=True))}))

    register(observation_key="observation_key", action="action_0")
    ids["history"] = _history(con, starts)
    parts = []
    for r, name in enumerate(names):
        register(state=f"state_{r}", progress=f"progress_{r}", action=f"action_{r}", may_count="_valid")
        con.execute("SET VARIABLE rule = ?", [r])
        con.execute("SET VARIABLE rule_name = ?", [name])
        parts.append(con.sql(statement("decided")).to_arrow_table().select(DECISIONS.names).cast(DECISIONS))
    con.close()
    decisions = pa.concat_tables(parts)
    exact = parts[0]
    sequences = sequence_keys(exact["action_key"].to_numpy(), exact["valid"].to_numpy(), starts)
    last = (
        rollouts.select("rollout_id")
        .join(final, on="rollout_id", how="left", maintain_order="left")["state_0"]
        .to_list()
    )
    final_keys = pa.array([None if s is None else h60(f"s0\x1f{s}") for s in last], pa.int64())
    return Decided(decisions, sequences, final_keys)


def rules_input(steps: pl.DataFrame, rollouts: pl.DataFrame) -> pl.DataFrame:
    """The frame that rules are given: steps, then a last row per rollout whose final observation was logged."""
    shared = rollouts.select("rollout_id", "order_trusted", "final_observation", "num_steps")
    rows = steps.select(c for c in INPUT_COLUMNS if c not in ("instruction", "is_final")).join(
        rollouts.select("rollout_id", "order_trusted", "instruction"), on="rollout_id", maintain_order="left"
    )
    rows = rows.with_columns(is_final=pl.lit(False))
    ends = shared.filter(pl.col("final_observation").is_not_null() & pl.col("order_trusted"))
    if len(ends):
        first = rows.unique("rollout_id", keep="first", maintain_order=True).select(
            "rollout_id", "task_id", "instruction"
        )
        final = ends.join(first, on="rollout_id", maintain_order="left").select(
            "rollout_id",
            "task_id",
            "instruction",
            "order_trusted",
            step_index=pl.col("num_steps"),
            observation="final_observation",
            is_final=pl.lit(True),
        )
        place = rollouts.select("rollout_id").with_row_index("_place")
        rows = pl.concat([rows, final], how="diagonal").join(place, on="rollout_id", maintain_order="left")
        rows = rows.sort("_place", "step_index").drop("_place")
    alone = pl.col("rollout_id") + pl.lit("\x1f") + pl.col("step_index").cast(pl.String)
    rows = rows.with_columns(rollout_id=pl.when("order_trusted").then("rollout_id").otherwise(alone))
    return rows.select(*INPUT_COLUMNS)


def _history(con: duckdb.DuckDBPyConnection, starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Key of the steps before each step and of its observation: a sum of hashes, modulo 2^60."""
    seen = con.sql(statement("seen")).to_arrow_table()
    total = np.concatenate([[0], np.cumsum(seen["step"].to_numpy())])  # wraps around, which differences survive
    before = total[:-1] - np.repeat(total[starts[:-1]], np.diff(starts))
    result: NDArray[np.int64] = np.bitwise_and(before + seen["observation"].to_numpy(), MASK)
    return result


def sequence_keys(
    action_keys: NDArray[np.int64], valid: NDArray[np.bool_], starts: NDArray[np.int64]
) -> NDArray[np.int64]:
    """60-bit key of each rollout's action sequence; an invalid action counts as one special key."""
    actions = np.ascontiguousarray(np.where(valid, action_keys, -1).astype("<i8"))
    return np.array(
        [int(hashlib.sha256(actions[a:b].tobytes()).hexdigest()[:15], 16) for a, b in itertools.pairwise(starts)],
        np.int64,
    )


def context_keys(decisions: pa.Table, config: BuildConfig) -> NDArray[np.int64]:
    """Key of each decision's context under a representation, not yet combined with its group."""
    state, progress, history = (
        pl.Series(decisions[c]).to_numpy() for c in ("state_key", "progress_key", "history_key")
    )
    chosen: NDArray[np.int64] = {
        "state": state,
        "progress": progress,
        "state+progress": state ^ progress,
        "history": history,
    }[config.representation]
    return chosen
