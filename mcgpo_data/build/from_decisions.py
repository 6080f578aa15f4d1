"""The second door: pairs from a decisions table made elsewhere, for people who have their own contexts.

One row per decision and rule, columns `COLUMNS`; the same SQL as the main path makes the pairs. The table is read
once, in batches, into partitions of the group's hash, so that memory depends on the largest partition and not on the
table.
"""

from __future__ import annotations

import datetime
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mcgpo_data import __version__
from mcgpo_data.build.bucket import BucketResult, bucket_counts
from mcgpo_data.build.database import connect, statement
from mcgpo_data.build.decisions import sequence_keys
from mcgpo_data.build.funnel import make_funnel
from mcgpo_data.build.pairs import PairInput, build_pairs
from mcgpo_data.build.run import BuildOptions, merge, power_of_two, run_jobs, versions
from mcgpo_data.config import BuildConfig
from mcgpo_data.engines.local import Pool
from mcgpo_data.errors import DataError, UsageError
from mcgpo_data.readers.base import Report
from mcgpo_data.readers.logfile import LogFile
from mcgpo_data.schema import PREFERENCES_THIN
from mcgpo_data.staging import KEY_SPACE
from mcgpo_data.store import finish, sha256_file, staged_output, write_part

COLUMNS: Final = {
    "group_id": pa.string(),
    "rollout_id": pa.string(),
    "step": pa.int32(),
    "rule": pa.int16(),
    "context": pa.string(),
    "action": pa.string(),
    "valid": pa.bool_(),
    "outcome": pa.float64(),
}
NULLABLE: Final = ("action", "outcome")
BATCH_ROWS: Final = 131_072
BUCKET_ROWS: Final = 1_000_000


@dataclass(frozen=True)
class DecisionsJob:
    """One partition."""

    path: Path
    number: int
    out: Path
    config: BuildConfig


def build_from_decisions(file: Path, out: Path, config: BuildConfig, options: BuildOptions) -> dict[str, Any]:
    """Write `out/preferences/*.parquet` and the manifest, which is returned.

    Raises:
        UsageError: no such file, a missing column, or options that only make sense for logs.
        DataError: nulls, values of the wrong kind, outcomes outside [0, 1], contradictions; the row or rollout is
            named.
    """
    for name in ("scope", "representation"):
        default = BuildConfig.__dataclass_fields__[name].default
        if getattr(config, name) != default:
            raise UsageError(
                f"--{name} does not apply to --from-decisions: groups and contexts are those of the table."
            )
    with staged_output(out, overwrite=options.overwrite) as stage:
        staging = stage / ".staging"
        staging.mkdir()
        rows = _partition(file, staging)
        jobs = [DecisionsJob(p, i, stage, config) for i, p in enumerate(sorted(staging.glob("*.arrow")))]
        with Pool(options.workers) as pool:
            total = merge(run_jobs(pair_partition, jobs, "build", options, pool))
        shutil.rmtree(staging)
        report = Report(str(file), "decisions", rows, total.counts["rollouts"], total.counts["steps"])
        total.rule_names = tuple(f"rule {r}" for r in sorted(total.rules))
        funnel = make_funnel([report], total, config)
        entry = {
            "path": str(file),
            "sha256": sha256_file(file),
            "bytes": file.stat().st_size,
            "format": "decisions",
            "records": rows,
            "rollouts": report.rollouts,
            "steps": report.steps,
            "skipped": {},
            "warnings": {},
            "places": {},
        }
        return finish(
            stage,
            {
                "builder": {"name": "mcgpo", "version": __version__},
                "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                "config": {
                    **config.to_dict(),
                    "form": "thin",
                    "rules": "from-decisions",
                    "rule_names": list(total.rule_names),
                },
                "inputs": [entry],
                "ignored_inputs": [],
                "layout": {"buckets": len(jobs), "text_parts": 1},
                "versions": versions(),
                "funnel": funnel.to_dict(),
            },
        )


def _partition(file: Path, staging: Path) -> int:
    """Spread the rows over files by group; returns the number of rows."""
    if not LogFile(file).parquet:
        raise UsageError(f"--from-decisions {file}: is not a Parquet file.")
    start = 0
    try:
        with pq.ParquetFile(file) as source:
            names = source.schema_arrow.names
            if missing := [name for name in COLUMNS if names.count(name) != 1]:
                raise UsageError(
                    f"--from-decisions {file}: lacks {', '.join(missing)} (or has more than one). It needs "
                    f"{', '.join(COLUMNS)}: one row per decision and rule."
                )
            if not source.metadata.num_rows:
                raise DataError(f"--from-decisions {file}: has no rows.")
            count = power_of_two(source.metadata.num_rows / BUCKET_ROWS)
            con = connect("200MB")
            writers: dict[int, pa.ipc.RecordBatchFileWriter] = {}
            for batch in source.iter_batches(BATCH_ROWS, columns=list(COLUMNS)):
                con.register("batch", _checked(pa.table(batch), file, start))
                start += batch.num_rows
                keyed = con.sql(statement("decisions_keys")).to_arrow_table().combine_chunks()
                part = pc.divide(keyed["group_key"], KEY_SPACE // count).to_numpy()
                for number in np.unique(part).tolist():
                    if number not in writers:
                        writers[number] = pa.ipc.new_file(str(staging / f"{number:05d}.arrow"), keyed.schema)
                    writers[number].write_table(keyed.filter(pa.array(part == number)))
            for writer in writers.values():
                writer.close()
            con.close()
    except pa.ArrowException as error:
        raise DataError(f"--from-decisions {file}: is damaged ({error}).") from error
    return start


def _checked(table: pa.Table, file: Path, start: int) -> pa.Table:
    for name, kind in COLUMNS.items():
        try:
            column = table[name].cast(kind)
        except pa.ArrowException as error:
            raise DataError(f"{file}: column {name}: a value is no {kind} ({error}).") from error
        bad = column.is_null() if name not in NULLABLE else None
        if name in ("step", "rule"):
            bad = pc.or_(bad, pc.less(column, 0))
        elif name == "outcome":
            column = pc.if_else(pc.is_nan(column), pa.scalar(None, kind), column)  # NaN is null, as everywhere
            bad = pc.fill_null(pc.or_(pc.less(column, 0.0), pc.greater(column, 1.0)), False)
        if bad is not None and (row := pc.index(pc.fill_null(bad, True), True).as_py()) >= 0:
            value = column[row].as_py()
            wanted = {"step": "an integer >= 0", "rule": "an integer >= 0", "outcome": "a number in [0, 1] or null"}
            raise DataError(f"{file}: row {start + row}: {name} is {value!r}; it must be {wanted.get(name, 'given')}.")
        table = table.set_column(table.column_names.index(name), name, column)
    return table


def pair_partition(job: DecisionsJob) -> BucketResult:
    """Pairs of one partition."""
    with pa.memory_map(str(job.path)) as source:
        rows = pl.DataFrame(pa.ipc.open_file(source).read_all())
    rollouts = _rollouts(rows)
    num_rules = int(str(rows["rule"].max())) + 1
    first = rows.filter(pl.col("rule") == 0).sort("rollout_key", "step")
    lengths = first.group_by("rollout_key").len().sort("rollout_key")
    starts = np.concatenate([[0], np.cumsum(lengths["len"].to_numpy())]).astype(np.int64)
    keys = sequence_keys(first["action_key"].to_numpy(), first["valid"].to_numpy(), starts)
    lengths = lengths.with_columns(sequence_key=pl.Series(keys))
    rollouts = rollouts.join(lengths, on="rollout_key", how="left", maintain_order="left")
    lone = rows.join(first, on=["rollout_key", "step"], how="anti", maintain_order="left")
    if not lone.is_empty():
        raise DataError(
            f"rollout {lone['rollout_id'][0]!r}, step {lone['step'][0]} has no row with rule 0; every decision needs "
            "a row of the finest rule."
        )

    result = BucketResult()
    con = connect("250MB", _spill(job))
    narrow = rows.select(
        "rule",
        pl.col("context_key").alias("context"),
        pl.col("action_key").alias("action"),
        "rollout_key",
        "step",
        "valid",
    )
    table = rollouts.select(
        "rollout_key", "rollout_id", pl.col("group_id").alias("unit_id"),
        pl.col("group_key").alias("unit_key"), "sequence_key",
        pl.lit(0, pl.Int64).alias("stratum"), "outcome",
    )  # fmt: skip
    found = build_pairs(con, PairInput(narrow.to_arrow(), table.to_arrow(), num_rules), job.config)
    con.register("pairs_found", found)
    con.register("decisions_text", rows.select("rule", "rollout_key", "step", "context", "action").to_arrow())
    pairs = con.sql(statement("decisions_preferences")).to_arrow_table()
    pairs = pairs.append_column("builder_version", pa.array([__version__] * pairs.num_rows, pa.string()))
    for row in con.sql(statement("funnel")).to_arrow_table().to_pylist():
        result.rules.setdefault(row.pop("rule"), Counter()).update({name: int(n) for name, n in row.items()})
    facts = rollouts.select(
        unit="group_id",
        task_id="group_id",
        evidence_outcome=pl.col("outcome") / 1e9,
        num_steps="len",
        order_trusted=pl.lit(True),
    )
    result.counts.update(bucket_counts(facts, pairs))
    write_part(job.out, "preferences", f"{job.number:05d}", PREFERENCES_THIN, [pairs])
    return result


def _spill(job: DecisionsJob) -> Path:
    folder = job.path.with_suffix(".spill")
    folder.mkdir(exist_ok=True)
    return folder


def _rollouts(rows: pl.DataFrame) -> pl.DataFrame:
    """One row per rollout; contradictions are refused."""
    twice = rows.filter(pl.struct("rollout_key", "step", "rule").is_duplicated())
    if not twice.is_empty():
        r = twice.row(0, named=True)
        raise DataError(
            f"rollout {r['rollout_id']!r} has two rows for step {r['step']}, rule {r['rule']}; one is allowed."
        )
    table = rows.group_by("rollout_key", maintain_order=True).agg(
        pl.col("rollout_id", "group_id", "group_key", "outcome").first(), _outcomes=pl.col("outcome").n_unique()
    )
    mixed = table.filter(pl.col("_outcomes") > 1)
    if not mixed.is_empty():
        raise DataError(
            f"rollout {mixed['rollout_id'][0]!r} has more than one outcome; it must be the same on all its rows."
        )
    return table.drop("_outcomes")
