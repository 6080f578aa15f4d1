"""One bucket from staged rows to finished parts: what a worker process does."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mcgpo_data import __version__
from mcgpo_data.build.assemble import NARROW, ORDER, assemble, refuse_contradiction
from mcgpo_data.build.database import connect, statement
from mcgpo_data.build.decisions import context_keys, decide
from mcgpo_data.build.pairs import SCALE, PairInput, build_pairs
from mcgpo_data.build.text import with_text
from mcgpo_data.config import BuildConfig
from mcgpo_data.errors import UsageError
from mcgpo_data.rules.registry import load_rules
from mcgpo_data.schema import DECISIONS, PREFERENCES, PREFERENCES_THIN, ROLLOUTS, SOURCES, STEPS
from mcgpo_data.staging import STAGED, TEXT_COLUMNS, h60, read_range
from mcgpo_data.store import write_part


@dataclass(frozen=True)
class Bucket:
    """A range [low, high) of the task hash, with `text_parts` equal sub-ranges for everything that carries long
    text.
    """

    number: int
    low: int
    high: int
    text_parts: int

    def ranges(self) -> list[tuple[str, int, int]]:
        """(part name, low, high) of the sub-ranges."""
        width = (self.high - self.low) // self.text_parts
        return [
            (
                f"{self.number:05d}-{i:05d}" if self.text_parts > 1 else f"{self.number:05d}",
                self.low + i * width,
                self.high if i == self.text_parts - 1 else self.low + (i + 1) * width,
            )
            for i in range(self.text_parts)
        ]


@dataclass(frozen=True)
class BucketJob:
    """Everything a worker needs; plain values only."""

    bucket: Bucket
    staging: Path
    partitions: int
    out: Path
    config: BuildConfig
    rules: str
    places: list[tuple[str, int]]  # name of each source_file, and the lines before its rows
    memory_limit: str = "250MB"

    def read(self, low: int, high: int, columns: list[str]) -> pa.Table:
        """Staged rows of a range of tasks; `source_row` counts from the start of the file."""
        staged = read_range(self.staging, self.partitions, low, high, columns)
        before = np.array([lines for _, lines in self.places], np.int64)
        if not before.any():
            return staged
        rows = pc.add(staged["source_row"], pa.array(before).take(staged["source_file"]))
        return staged.set_column(staged.column_names.index("source_row"), STAGED.field("source_row"), rows)

    def name_of(self, source_file: int) -> str:
        """Display name of a source file."""
        return self.places[source_file][0]


@dataclass
class BucketResult:
    """Counts of one bucket; additive over buckets."""

    counts: Counter[str] = field(default_factory=Counter)
    rules: dict[int, Counter[str]] = field(default_factory=dict)
    rule_names: tuple[str, ...] = ()
    repairs: Counter[str] = field(default_factory=Counter)
    ids: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    """Keys of what must be there once over all buckets: `rollout_id`, and `group_id` (a group lies in one task)."""


def build_bucket(job: BucketJob) -> BucketResult:
    """Read, order, apply rules, pair, write."""
    low, high = job.bucket.low, job.bucket.high
    result = BucketResult()
    staged = job.read(low, high, NARROW)
    if staged.num_rows == 0:
        return result
    rollouts, steps, repairs = assemble(_frame(staged), job.config, job.name_of)
    del staged
    result.repairs.update(repairs)
    rules = load_rules(job.rules)
    result.rule_names = tuple(rules.rules)
    decided = decide(steps, rollouts, rules)
    rollouts = rollouts.with_columns(
        pl.Series("action_sequence_key", decided.sequence_keys), pl.Series("final_state_key", decided.final_state_keys)
    )
    groups = rollouts.unique(["group_id", "task_id"])
    for name, values in (("rollout_id", rollouts["rollout_id"]), ("group_id", groups["group_id"])):
        result.ids[name] = np.array([h60(value) for value in values], np.int64)
    pairs = pair_bucket(decided.decisions, rollouts, job, result)
    part = f"{job.bucket.number:05d}"
    write_part(job.out, "decisions", part, DECISIONS, [decided.decisions])
    del decided
    write_part(job.out, "rollouts", part, ROLLOUTS, [rollouts.to_arrow()])
    sources = rollouts.select(
        "rollout_id",
        pl.col("source_file").replace_strict(
            {i: name for i, (name, _) in enumerate(job.places)}, return_dtype=pl.String
        ),
        "source_row",
    )
    write_part(job.out, "sources", part, SOURCES, [sources.to_arrow()])
    _write_text_parts(job, steps, rollouts, pairs)
    return result


def _frame(table: pa.Table) -> pl.DataFrame:
    """Strings stay where they lie."""
    frame = pl.from_arrow(table, rechunk=False)
    assert isinstance(frame, pl.DataFrame)
    return frame


def pair_inputs(decisions: pa.Table, rollouts: pl.DataFrame, config: BuildConfig) -> PairInput:
    """The narrow tables that the pair builder takes."""
    if config.representation == "history" and not rollouts["order_trusted"].all():
        bad = rollouts.filter(pl.col("order_trusted").not_()).row(0, named=True)
        raise UsageError(
            f"--representation history needs steps in time order, but that of rollout "
            f"{bad['rollout_id']!r} is not trusted. "
            "Use --representation state."
        )
    unit = rollouts["task_id" if config.scope == "task" else "group_id"].to_list()
    strata = zip(rollouts["policy"].to_list(), rollouts["policy_version"].to_list(), strict=True)
    keys = {u: h60(f"unit\x1f{u}") for u in set(unit)}
    outcome = (rollouts["evidence_outcome"] * SCALE).round().cast(pl.Int64)
    narrow = pa.table(
        {
            "rule": decisions["rule"],
            "context": context_keys(decisions, config),
            "action": decisions["action_key"],
            "rollout_key": decisions["rollout_key"],
            "step": decisions["step_index"],
            "valid": decisions["valid"],
        }
    )
    table = pa.table(
        {
            "rollout_key": pa.array([h60(r) for r in rollouts["rollout_id"]], pa.int64()),
            "rollout_id": rollouts["rollout_id"].to_arrow().cast(pa.string()),
            "task_id": rollouts["task_id"].to_arrow().cast(pa.string()),
            "unit_id": pa.array(unit, pa.string()),
            "unit_key": pa.array([keys[u] for u in unit], pa.int64()),
            "sequence_key": rollouts["action_sequence_key"].to_arrow(),
            "stratum": pa.array([h60(repr(s)) for s in strata], pa.int64()),
            "outcome": outcome.to_arrow(),
        }
    )
    return PairInput(narrow, table, int(pc.max(decisions["rule"]).as_py() or 0) + 1 if decisions.num_rows else 1)


def pair_bucket(decisions: pa.Table, rollouts: pl.DataFrame, job: BucketJob, result: BucketResult) -> pa.Table:
    """Thin preferences of one bucket; counts go into `result`."""
    data = pair_inputs(decisions, rollouts, job.config)
    spill = job.staging / f"spill-{job.bucket.number:05d}"
    spill.mkdir(exist_ok=True)
    con = connect(job.memory_limit, spill)
    found = build_pairs(con, data, job.config)
    con.register("pairs_found", found)
    text = decisions.select(["rule", "rule_name", "rollout_key", "step_index", "state_summary", "progress", "action"])
    con.register("decisions_text", text.rename_columns({"step_index": "step"}))
    pairs = con.sql(statement("preferences")).to_arrow_table()
    pairs = pairs.append_column("builder_version", pa.array([__version__] * pairs.num_rows, pa.string()))
    for row in con.sql(statement("funnel")).to_arrow_table().to_pylist():
        result.rules.setdefault(row.pop("rule"), Counter()).update({name: int(n) for name, n in row.items()})
    result.counts.update(bucket_counts(rollouts.with_columns(pl.Series("unit", data.rollouts["unit_id"])), pairs))
    policies = rollouts.group_by("group_id").agg(pl.struct("policy", "policy_version").n_unique() > 1)
    result.counts["groups_several_policies"] += int(policies["policy"].sum())
    for source in ("group_source", "terminal_status", "source_format"):
        for value, count in rollouts.group_by(source).len().iter_rows():
            result.counts[f"{source}:{value}"] += count
    con.close()
    return pairs


def bucket_counts(rollouts: pl.DataFrame, pairs: pa.Table) -> dict[str, int]:
    """Counts of one bucket for the funnel.

    Args:
        pairs: thin preferences of the bucket.
        rollouts: columns unit (what contexts are matched in), task_id, evidence_outcome, num_steps, order_trusted.
    """
    outcomes = rollouts.group_by("unit").agg(
        n=pl.len(), low=pl.col("evidence_outcome").min(), high=pl.col("evidence_outcome").max()
    )
    return {
        "rollouts": len(rollouts),
        "graded_rollouts": rollouts["evidence_outcome"].count(),
        "steps": int(rollouts["num_steps"].sum()),
        "tasks": rollouts["task_id"].n_unique(),
        "groups": len(outcomes),
        "groups_mixed": int((outcomes["low"] < outcomes["high"]).sum()),
        "groups_too_small": int((outcomes["n"] < 4).sum()),
        "pairs": pairs.num_rows,
        "tasks_with_pairs": pl.Series(pairs["task_id"]).n_unique() if pairs.num_rows else 0,
        "untrusted_order": int(rollouts["order_trusted"].not_().sum()),
    }


def _write_text_parts(job: BucketJob, steps: pl.DataFrame, rollouts: pl.DataFrame, pairs: pa.Table) -> None:
    thin = job.config.form == "thin"
    task_key = dict(zip(rollouts["task_id"].to_list(), rollouts["task_key"].to_list(), strict=True))
    pair_key = np.array([task_key[t] for t in pairs["task_id"].to_pylist()], np.int64)
    for part, low, high in job.bucket.ranges():
        inside = steps.filter((pl.col("task_key") >= low) & (pl.col("task_key") < high))
        here = pairs.filter(pa.array((pair_key >= low) & (pair_key < high)))
        table = inside.to_arrow()
        if not thin:
            table = _add_text(
                table,
                job.read(low, high, [*ORDER, "source_file", "source_row", *TEXT_COLUMNS]),
                job.name_of,
            )
        write_part(job.out, "steps", part, STEPS, [table])
        if thin:
            write_part(job.out, "preferences", part, PREFERENCES_THIN, [here])
        else:
            write_part(job.out, "preferences", part, PREFERENCES, with_text(here, table))


def _add_text(steps: pa.Table, staged: pa.Table, name_of: Callable[[int], str]) -> pa.Table:
    """Text columns in the order of `steps`: sorted and deduplicated exactly as `assemble` did.

    Raises:
        DataError: one step with two texts.
    """
    keys = pl.DataFrame(staged.select([*ORDER, "source_file", "source_row"])).with_row_index("_row")
    keys = keys.sort([*ORDER, "source_file", "source_row"])
    repeated = keys.filter(pl.struct("rollout_id", "step_index").is_duplicated())
    if len(repeated):
        texts = pl.DataFrame(staged.select(list(TEXT_COLUMNS)).take(pa.array(repeated["_row"].to_numpy())))
        refuse_contradiction(pl.concat([repeated, texts], how="horizontal"), list(TEXT_COLUMNS), name_of)
    keys = keys.unique(["rollout_id", "step_index"], keep="first", maintain_order=True)
    text = _in_order(staged.select(list(TEXT_COLUMNS)), keys["_row"].to_numpy())
    for name in TEXT_COLUMNS:
        column = text[name]
        steps = (
            steps.append_column(name, column)
            if name not in steps.column_names
            else steps.set_column(steps.column_names.index(name), name, column)
        )
    return _drop_repeated_observation(steps)


def _in_order(table: pa.Table, rows: NDArray[np.uint32]) -> pa.Table:
    """Rows of a table in pieces, in another order: text is copied once, in slices of rows that follow each other."""
    batches = table.to_batches()
    starts = np.cumsum([0, *(b.num_rows for b in batches)])
    piece = np.searchsorted(starts, rows, side="right") - 1
    breaks = np.flatnonzero((np.diff(rows.astype(np.int64)) != 1) | (np.diff(piece) != 0)) + 1
    bounds = itertools.pairwise([0, *breaks.tolist(), len(rows)])
    slices = [batches[piece[a]].slice(rows[a] - starts[piece[a]], b - a) for a, b in bounds if a < b]
    return pa.Table.from_batches(slices, table.schema).combine_chunks()


def _drop_repeated_observation(steps: pa.Table) -> pa.Table:
    """`observation` is null where it is the text of the last prompt message: long text is stored once."""
    messages = steps["messages"].combine_chunks()
    lengths = pc.fill_null(pc.list_value_length(messages), 0).to_numpy(zero_copy_only=False)
    offsets = np.cumsum(lengths)
    content = messages.flatten().field("content")
    has_prompt = lengths >= 2
    last = (
        content.take(pa.array(np.where(has_prompt, offsets - 2, 0)))
        if len(content)
        else pa.nulls(len(lengths), pa.string())
    )
    observation = steps["observation"].cast(pa.string()).combine_chunks()
    same = pc.and_(pa.array(has_prompt), pc.fill_null(pc.equal(last, observation), False))
    kept = pc.if_else(same, pa.scalar(None, pa.string()), observation)
    return steps.set_column(steps.column_names.index("observation"), "observation", kept)
