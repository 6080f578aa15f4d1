"""Advantages of an existing build, written into it as one more table per estimator.

    OUT/advantages_<estimator>/part-*.parquet    one row per step by group_id, rollout_id, step_index; one part per
                                                 bucket; those columns of `schema.ADVANTAGES` that the estimator has
    OUT/manifest.json                            `credit`: how each of them was made; content_id of the build before

Several estimators may lie side by side. The build is staged anew beside the old one, its other tables as links, and
takes its place by rename: readers see it without the table or with it. Pairs made again with other options
(`build-prefs OUT -o OUT2`) come without advantages, since outcomes may differ there.

Cost: one bucket per worker at a time; keys and flags are read, text is not (beside whether a state is known).
"""

from __future__ import annotations

import datetime
import os
import platform
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mcgpo_data import __version__
from mcgpo_data.credit import resolve
from mcgpo_data.credit.compare import signal_counts
from mcgpo_data.credit.options import nearest
from mcgpo_data.credit.table import EPISODE_ONLY, credit_store
from mcgpo_data.engines.local import run_buckets
from mcgpo_data.errors import DataError, OutputError, UsageError
from mcgpo_data.schema import ADVANTAGES, DECISIONS, ROLLOUTS
from mcgpo_data.store import Store, finish, open_store, read_parquet, recover, staged_output, write_part

REWARDS: Final = ("outcome", "logged")
ROLLOUT_COLUMNS: Final = (
    "rollout_id", "success", "evidence_outcome", "terminal_status", "order_trusted", "num_steps", "final_state_key",
)  # fmt: skip


@dataclass(frozen=True)
class CreditOptions:
    """What is read of a build, and how the work is done.

    Attributes:
        rule: name or index of the rule whose states and actions are used; "0": the finest.
        with_progress: whether equal states must have equal rubric progress too.
        rewards: "outcome": the outcome of the build, at the last step; "logged": the rewards of the steps. A rollout
            without one of its rewards is then unscored.
        workers: processes.
        progress: told a stage, and how many of how many buckets are done.
    """

    rule: str = "0"
    with_progress: bool = False
    rewards: str = "outcome"
    workers: int = field(default_factory=lambda: os.cpu_count() or 1)
    progress: Callable[[str, int, int], None] = lambda stage, done, total: None

    def __post_init__(self) -> None:
        if self.rewards not in REWARDS:
            raise UsageError(f"--rewards is {self.rewards!r}; choose one of {', '.join(REWARDS)}.")

    @property
    def keys(self) -> tuple[str, ...]:
        """Key columns that make a state."""
        return ("state_key", "progress_key") if self.with_progress else ("state_key",)


@dataclass(frozen=True)
class CreditBucket:
    """One bucket of a build: the files of its tables, and how they are read. Plain values, for worker processes."""

    part: str
    files: dict[str, list[Path]]
    rule: int
    keys: tuple[str, ...]
    logged: bool

    def tables(self) -> Tables:
        """Read what estimators need."""
        decisions = pa.concat_tables(_decisions(path, self.rule, self.keys) for path in self.files["decisions"])
        rollouts = self.read("rollouts", ROLLOUT_COLUMNS)
        rewards = self.read("steps", ("rollout_id", "step_index", "reward")) if self.logged else None
        return Tables(decisions, rollouts, rewards, self.rule, self.keys)

    def read(self, table: str, columns: Sequence[str]) -> pa.Table:
        """Some columns of a table."""
        return pa.concat_tables(read_parquet(path, list(columns)) for path in self.files[table])


@dataclass(frozen=True)
class Tables:
    """What estimators need of a bucket."""

    decisions: pa.Table
    rollouts: pa.Table
    rewards: pa.Table | None
    rule: int
    keys: tuple[str, ...]

    def credit(self, estimator: str, options: Mapping[str, Any]) -> pa.Table:
        """Table of one estimator, see `credit_store`."""
        return credit_store(
            self.decisions, self.rollouts, estimator, options, rule=self.rule, keys=self.keys, rewards=self.rewards
        )


@dataclass(frozen=True)
class WriteJob:
    """One bucket, one estimator, and where its part goes."""

    bucket: CreditBucket
    estimator: str
    options: dict[str, Any]
    stage: Path


def credit_build(
    out: str | os.PathLike[str],
    estimator: str,
    *,
    preset: str | None = None,
    options: Mapping[str, Any] | None = None,
    how: CreditOptions | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Write the advantages of all steps of a build into it.

    Args:
        out: folder of a build from logs.
        estimator: a name in `mcgpo_data.credit.ESTIMATORS`.
        preset: a name in `mcgpo_data.credit.PRESETS`.
        options: options of the estimator, above those of the preset.
        how: what is read.
        overwrite: replace the table of an earlier call.

    Returns:
        The manifest of the build with its new table.

    Raises:
        UsageError: no build, or names and values that do not exist.
        OutputError: the build has this table already, or was changed meanwhile.
        DataError: no rollout has an outcome that counts.
    """
    how = how or CreditOptions()
    chosen = asdict(resolve(estimator, preset, options))
    path, table = Path(out).resolve(), f"advantages_{estimator}"
    recover(path)
    store = open_store(path)
    buckets = buckets_of(store, how)
    if table in store.manifest["tables"] and not overwrite:
        raise OutputError(f"{out}: has a table {table} already. Use --overwrite to replace it.")
    with staged_output(path, overwrite=True) as stage:
        jobs = [WriteJob(bucket, estimator, chosen, stage) for bucket in buckets]
        counts: Counter[str] = Counter()
        for found in run_over(write_bucket, jobs, how):
            counts.update(found)
        _check_scored(counts, store, estimator)
        others = [name for name in store.manifest["tables"] if name != table]
        linked = store.link(others, stage)
        if open_store(path).manifest != store.manifest:
            raise OutputError(f"{out}: was changed by another program meanwhile; nothing was written. Run it again.")
        return finish(stage, _manifest(store, estimator, preset, chosen, buckets[0], counts), linked)


def buckets_of(store: Store, how: CreditOptions, also: tuple[str, ...] = ()) -> list[CreditBucket]:
    """Buckets of a build that hold decisions.

    Args:
        store: the build.
        how: what is read of it.
        also: tables that are read besides.

    Raises:
        UsageError: the build holds none, or has no such rule.
        IntegrityError: a table that will be read is damaged.
    """
    if not store.files("decisions") or not store.files("rollouts"):
        raise UsageError(
            f"{store.path}: holds no rollouts to judge (it was built from a decisions table). Build from logs."
        )
    rule = _rule_index(store.manifest["config"]["rule_names"], how.rule)
    logged = how.rewards == "logged"
    store.verify(("decisions", "rollouts", *(("steps",) if logged else ()), *also))
    buckets = []
    for path in store.files("decisions"):
        part = path.stem.removeprefix("part-")
        files = {
            table: [p for p in store.files(table) if p.stem.removeprefix("part-").split("-")[0] == part]
            for table in ("decisions", "rollouts", "steps", "preferences")
        }
        buckets.append(CreditBucket(part, files, rule, how.keys, logged))
    return buckets


def _rule_index(names: Sequence[str], rule: str) -> int:
    if rule in names:
        return names.index(rule)
    if rule.isdecimal() and int(rule) < len(names):
        return int(rule)
    raise nearest("rule of this build", rule, [*names, *map(str, range(len(names)))])


def run_over(function: Callable[[Any], Any], jobs: list[Any], how: CreditOptions) -> list[Any]:
    """`function` of all jobs in worker processes, in order, with progress."""
    results = []
    how.progress("credit", 0, len(jobs))
    for result in run_buckets(function, jobs, how.workers):
        results.append(result)
        how.progress("credit", len(results), len(jobs))
    return results


def write_bucket(job: WriteJob) -> Counter[str]:
    """Write the part of one bucket. Returns the counts of `signal_counts`, and rollouts by why they do not count."""
    tables = job.bucket.tables()
    found = tables.credit(job.estimator, job.options)
    write_part(job.stage, f"advantages_{job.estimator}", job.bucket.part, advantages_schema(job.estimator), [found])
    counts = signal_counts(found)
    rollouts = tables.rollouts
    graded = rollouts["evidence_outcome"].is_valid()
    counts.update(
        {
            "all_steps": found.num_rows,
            "rollouts": rollouts.num_rows,
            "no_outcome": rollouts.num_rows - int(pc.sum(graded).as_py() or 0),
            "order_not_trusted": int(pc.sum(pc.and_(graded, pc.invert(rollouts["order_trusted"]))).as_py() or 0),
        }
    )
    return counts


def advantages_schema(estimator: str) -> pa.Schema:
    """Schema of the table of one estimator: columns that its code returns, as `schema.ADVANTAGES` describes them."""
    columns = credit_store(DECISIONS.empty_table(), ROLLOUTS.empty_table(), estimator).column_names
    return pa.schema([ADVANTAGES.field(name) for name in columns])


def _decisions(path: Path, rule: int, keys: Sequence[str]) -> pa.Table:
    """Rows of one rule. Read by row group: other rules are never all in memory; states are dictionary codes."""
    columns = ["group_id", "rollout_id", "step_index", "rule", "action_key", "valid", "state_summary", *keys]
    with pq.ParquetFile(path, read_dictionary=["state_summary"]) as file:
        groups = (file.read_row_group(i, columns) for i in range(file.num_row_groups))
        return pa.concat_tables(group.filter(pc.equal(group["rule"], rule)) for group in groups)


def _check_scored(counts: Counter[str], store: Store, estimator: str) -> None:
    if counts["steps"]:
        return
    if estimator in EPISODE_ONLY or not counts["order_not_trusted"]:
        remedy = "Rebuild with another --outcome, or use the outcome of the build: --rewards outcome."
    else:
        remedy = f"Use an estimator without a step term: {', '.join(EPISODE_ONLY)}."
    raise DataError(
        f"{store.path}: no rollout counts. Of {counts['rollouts']:,} rollouts {counts['no_outcome']:,} have no "
        f"outcome, {counts['order_not_trusted']:,} have steps whose order is not trusted. {remedy}"
    )


def _manifest(
    store: Store,
    estimator: str,
    preset: str | None,
    options: dict[str, Any],
    bucket: CreditBucket,
    counts: Counter[str],
) -> dict[str, Any]:
    """The manifest of the build with one more entry under `credit`."""
    before = store.manifest.get("credit", {"of": store.manifest["content_id"], "estimators": {}})
    entry = {
        "options": options,
        "preset": preset,
        "rule": bucket.rule,
        "keys": list(bucket.keys),
        "rewards": REWARDS[bucket.logged],
        "counts": dict(counts),
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "versions": {
            "mcgpo": __version__,
            "python": platform.python_version(),
            **{name: version(name) for name in ("numpy", "pyarrow", "scipy")},
        },
    }
    made_anew = ("schema_version", "tables", "content_id")
    kept = {name: value for name, value in store.manifest.items() if name not in made_anew}
    return {**kept, "credit": {"of": before["of"], "estimators": {**before["estimators"], estimator: entry}}}
