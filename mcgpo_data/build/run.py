"""`build-prefs` from end to end: find the logs, stage their steps, build bucket by bucket, publish the output
with one rename.
"""

from __future__ import annotations

import datetime
import os
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from mcgpo_data import __version__
from mcgpo_data.build.assemble import NARROW
from mcgpo_data.build.bucket import Bucket, BucketJob, BucketResult, build_bucket
from mcgpo_data.build.database import interruptible
from mcgpo_data.build.decisions import rules_input
from mcgpo_data.build.funnel import make_funnel
from mcgpo_data.config import BuildConfig
from mcgpo_data.engines.local import Pool
from mcgpo_data.errors import DataError, OutputError, UsageError
from mcgpo_data.inputs import Source, find_sources
from mcgpo_data.readers.base import Reader, Report
from mcgpo_data.readers.logfile import LogFile
from mcgpo_data.readers.native import NativeReader
from mcgpo_data.rules.mixed import SAMPLE_ROWS
from mcgpo_data.rules.registry import detect_rules
from mcgpo_data.staging import KEY_SPACE, Stage, h60, read_range
from mcgpo_data.store import finish, is_store, open_store, read_parquet, sha256_file, staged_output

BUCKET_STEPS = 64_000
BUCKET_NARROW_BYTES = 64 * 2**20
PART_TEXT_BYTES = 16 * 2**20
SPAN_BYTES = 128 * 2**20
MAX_PARTITIONS = 64
SAMPLE_TASKS = 64


@dataclass(frozen=True)
class BuildOptions:
    """What a build does besides `BuildConfig`, which alone decides the content of its tables."""

    rules: str = "auto"
    format_name: str | None = None
    mapping: Reader | None = None
    overwrite: bool = False
    max_bad_fraction: float = 0.1
    workers: int = field(default_factory=lambda: os.cpu_count() or 1)
    progress: Callable[[str, int, int], None] = lambda stage, done, total: None
    note: Callable[[str], None] = lambda text: None


@dataclass(frozen=True)
class ExtractJob:
    """One file, or one range of its lines, for one worker."""

    source: Source
    index: int
    span: tuple[int, int] | None
    staging: Path
    partitions: int
    thin: bool


@dataclass
class Extracted:
    """What one file, or one range of it, gave."""

    report: Report
    lines: int = 0
    steps: int = 0
    text_bytes: int = 0
    narrow_bytes: int = 0
    sha256: str = ""  # of whole files only

    def add(self, later: Extracted) -> None:
        """Take in the next range of the same file."""
        self.report.add(later.report, self.lines)
        self.lines += later.lines
        self.steps += later.steps
        self.text_bytes += later.text_bytes
        self.narrow_bytes += later.narrow_bytes


def extract(job: ExtractJob) -> Extracted:
    """Read one file, or one range of it, into the staging folder."""
    reader = job.source.reader
    assert reader is not None
    report = Report(path=job.source.display, format=reader.name)
    stage = Stage(job.staging, job.index, reader.name, job.partitions, job.thin)
    log = LogFile(job.source.path, job.source.display, job.span)
    if isinstance(reader, NativeReader):
        for columns in reader.read_columns(log, report, thin=job.thin):
            stage.add_columns(columns)
    else:
        for rollout in reader.read(log, report):
            report.rollouts += 1
            report.steps += len(rollout.steps)
            stage.add(rollout)
    stage.close()
    return Extracted(report, log.line_count, stage.steps, stage.text_bytes, stage.narrow_bytes)


def extract_or_hash(job: ExtractJob | Path) -> Extracted | str:
    """`extract`, or the checksum of a file: both are work for a worker, and neither waits for the other."""
    return sha256_file(job) if isinstance(job, Path) else extract(job)


def spans_of(source: Source) -> list[tuple[int, int] | None]:
    """Ranges of lines that can be read alone: of plain native JSON lines, whose records are steps."""
    log = LogFile(source.path, source.display)
    alone = isinstance(source.reader, NativeReader) and log.packing == "plain" and log.head().kind == "jsonl"
    return [*log.spans(SPAN_BYTES)] if alone and log.size > SPAN_BYTES else [None]


def power_of_two(value: float) -> int:
    """The smallest power of two that is at least `value`."""
    return 1 << max(0, (int(-(-value // 1)) - 1).bit_length())


def build_preferences(
    paths: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    config: BuildConfig,
    options: BuildOptions | None = None,
) -> dict[str, Any]:
    """Build preferences from logs (or from an existing build) and write them to `out`.

    A build without a single pair is written all the same: its funnel says why, and it can be rebuilt with other
    options.

    Args:
        paths: log files and folders, or one existing build.
        out: folder to make.
        config: how contexts are matched and pairs are formed.
        options: how files are read, and where progress is told.

    Returns:
        The manifest.

    Raises:
        McgpoError: see `mcgpo_data.errors`; nothing is written then.
    """
    options = options or BuildOptions()
    target = Path(out)
    if any(is_store(Path(p)) for p in paths):
        from mcgpo_data.build.rebuild import rebuild_preferences

        if len(paths) > 1:
            raise UsageError("an existing build can only be rebuilt alone; name one build, or logs.")
        return rebuild_preferences(open_store(paths[0]), target, config, options)
    sources = find_sources(paths, options.format_name, options.mapping, options.note)
    there = os.path.isdir(target)  # unlike Path.is_dir this answers for every name
    inside = [s.display for s in sources if there and target.resolve() in s.path.resolve().parents]
    if inside:
        raise OutputError(
            f"{target}: holds the input {inside[0]}, which --overwrite would remove. Choose another output."
        )
    with staged_output(target, overwrite=options.overwrite) as stage, Pool(options.workers) as pool:
        staging = stage / ".staging"
        staging.mkdir()
        partitions = _partitions(sources, thin=config.form == "thin")
        used = [s for s in sources if s.reader is not None]
        extracted, places = _extract_all(used, staging, partitions, config, options, pool)
        reports = [e.report for e in extracted]
        _check_bad(reports, options.max_bad_fraction)
        if not sum(e.steps for e in extracted):
            raise DataError(f"no decision found in {len(used)} file(s): " + "; ".join(_losses(reports)[:5]))
        rules = options.rules if options.rules != "auto" else _detect(staging, partitions)
        buckets = _buckets(extracted, config)
        jobs = [BucketJob(bucket, staging, partitions, stage, config, rules, places) for bucket in buckets]
        results = run_jobs(build_bucket, jobs, "build", options, pool)
        shutil.rmtree(staging)
        _check_ids(results, stage)
        total = merge(results)
        funnel = make_funnel(reports, total, config)
        manifest = {
            "builder": {"name": "mcgpo", "version": __version__},
            "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "config": {**config.to_dict(), "rules": rules, "rule_names": list(total.rule_names)},
            "inputs": [_input(source, e) for source, e in zip(used, extracted, strict=True)],
            "ignored_inputs": [{"path": s.display, "why": s.why} for s in sources if s.reader is None],
            "layout": {"buckets": len(buckets), "text_parts": buckets[0].text_parts},
            "versions": versions(),
            "funnel": funnel.to_dict(),
        }
        return finish(stage, manifest)


def _partitions(sources: list[Source], *, thin: bool) -> int:
    """Staging partitions for the expected amount of data; a matter of speed only."""
    expected = sum(s.size * (8 if s.path.suffix in (".gz", ".zst") else 1) for s in sources if s.reader)
    return min(MAX_PARTITIONS, power_of_two(expected / (16 if thin else 1) / PART_TEXT_BYTES))


def _extract_all(
    used: list[Source], staging: Path, partitions: int, config: BuildConfig, options: BuildOptions, pool: Pool
) -> tuple[list[Extracted], list[tuple[str, int]]]:
    """What each file gave; and for each `source_file` of the staged rows its name and the lines before its rows."""
    spans = [(i, span) for i, source in enumerate(used) for span in spans_of(source)]
    jobs = [
        ExtractJob(used[i], number, span, staging, partitions, config.form == "thin")
        for number, (i, span) in enumerate(spans)
    ]
    small = sum(s.size for s in used) < 4 * 2**20
    all_jobs = [*(s.path for s in used), *jobs]
    results = run_jobs(extract_or_hash, all_jobs, "read", options, Pool(1) if small else pool)
    extracted = [
        Extracted(Report(s.display, s.reader.name if s.reader else ""), sha256=digest)
        for s, digest in zip(used, results[: len(used)], strict=True)
    ]
    places = []
    for (i, _), part in zip(spans, results[len(used) :], strict=True):
        places.append((used[i].display, extracted[i].lines))
        extracted[i].add(part)
    return extracted, places


def run_jobs(
    function: Callable[[Any], Any], jobs: list[Any], stage: str, options: BuildOptions, pool: Pool
) -> list[Any]:
    """`function` of all jobs in worker processes, in order, with progress."""
    results = []
    options.progress(stage, 0, len(jobs))
    with interruptible():
        for result in pool.run(function, jobs):
            results.append(result)
            options.progress(stage, len(results), len(jobs))
    return results


def _check_ids(results: list[BucketResult], stage: Path) -> None:
    """One bucket holds whole tasks; ids that return in another task are seen only here."""
    for name, remedy in (
        ("rollout_id", "Rollout ids must be unique over all input files"),
        ("group_id", "A group lies inside one task: make its id unique, for example by putting the task before it"),
    ):
        found = [result.ids[name] for result in results if name in result.ids]
        keys = np.sort(np.concatenate(found))
        twice = set(keys[1:][keys[1:] == keys[:-1]][:1].tolist())
        if twice:
            tables = [read_parquet(path, [name, "task_id"]) for path in sorted((stage / "rollouts").iterdir())]
            rows = [row for table in tables for row in table.to_pylist() if h60(row[name]) in twice]
            tasks = sorted({row["task_id"] for row in rows})
            raise DataError(
                f"{name} {rows[0][name]!r} occurs in more than one task: {tasks[0]!r}, {tasks[-1]!r}. {remedy}."
            )


def _check_bad(reports: list[Report], limit: float) -> None:
    records, bad = sum(r.records for r in reports), sum(sum(r.skipped.values()) for r in reports)
    if records and bad / records > limit:
        raise DataError(
            f"{bad:,} of {records:,} records ({bad / records:.1%}) cannot be used, more than "
            f"--max-bad-fraction {limit:g}:\n  " + "\n  ".join(_losses(reports)[:12])
        )


def _losses(reports: list[Report]) -> list[str]:
    lines = []
    for report in reports:
        for reason, count in sorted(report.skipped.items(), key=lambda kv: -kv[1]):
            place = (report.places.get(reason) or [report.path])[0]
            lines.append(f"{count:,} x {reason} (first: {place})")
    return lines or ["the files hold no records"]


def _detect(staging: Path, partitions: int) -> str:
    """Name of the rules that fit a sample of tasks: the first ones in the order of their hash, whatever files and
    partitions they lie in.
    """
    width = KEY_SPACE // partitions
    frames: list[pl.DataFrame] = []
    for low in range(0, KEY_SPACE, width):
        frame = pl.DataFrame(read_range(staging, partitions, low, low + width, NARROW))
        frame = frame.sort("task_key", "rollout_id", "step_index", "source_file", "source_row")
        frame = frame.unique(["rollout_id", "step_index"], keep="first", maintain_order=True)
        frames.append(frame.filter(pl.int_range(pl.len()).over("task_id") < SAMPLE_ROWS))
        if sum(f["task_id"].n_unique() for f in frames) >= SAMPLE_TASKS:
            break
    sample = pl.concat(frames)
    tasks = sample["task_id"].unique(maintain_order=True).head(SAMPLE_TASKS)
    sample = sample.filter(pl.col("task_id").is_in(tasks.to_list()))
    rollouts = sample.group_by("rollout_id", maintain_order=True).agg(
        pl.col("order_trusted", "instruction", "final_observation").first(), num_steps=pl.len().cast(pl.Int32)
    )
    return detect_rules(rules_input(sample, rollouts)).name


def _buckets(extracted: list[Extracted], config: BuildConfig) -> list[Bucket]:
    """Buckets from the amount of data alone, so that they do not depend on how it is split into files, nor on a file
    that is there twice.
    """
    once = {e.sha256: e for e in extracted}.values()
    steps, narrow, text = (sum(getattr(e, name) for e in once) for name in ("steps", "narrow_bytes", "text_bytes"))
    count = power_of_two(max(steps / BUCKET_STEPS, narrow / BUCKET_NARROW_BYTES))
    parts = 1 if config.form == "thin" else power_of_two(text / count / PART_TEXT_BYTES)
    width = KEY_SPACE // count
    return [Bucket(i, i * width, (i + 1) * width, parts) for i in range(count)]


def merge(results: list[BucketResult]) -> BucketResult:
    """Sum of the counts of all buckets."""
    total = BucketResult()
    for result in results:
        total.counts.update(result.counts)
        total.repairs.update(result.repairs)
        total.rule_names = result.rule_names or total.rule_names
        for rule, counts in result.rules.items():
            total.rules.setdefault(rule, Counter()).update(counts)
    return total


def _input(source: Source, e: Extracted) -> dict[str, Any]:
    return {
        "path": source.display, "sha256": e.sha256, "bytes": source.size, "format": e.report.format,
        "records": e.report.records, "rollouts": e.report.rollouts, "steps": e.report.steps,
        "skipped": e.report.skipped, "warnings": e.report.warnings, "places": e.report.places,
    }  # fmt: skip


def versions() -> dict[str, str]:
    """Versions that the bytes of a build depend on."""
    import platform
    from importlib.metadata import version

    return {"python": platform.python_version(), **{name: version(name) for name in ("duckdb", "polars", "pyarrow")}}
