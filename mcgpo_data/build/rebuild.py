"""Other options on an existing build: its rollouts, steps and decisions are linked, only what depends on the
options is made again.
"""

from __future__ import annotations

import datetime
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from mcgpo_data import __version__
from mcgpo_data.build.assemble import evidence, summed_reward
from mcgpo_data.build.bucket import Bucket, BucketJob, BucketResult, pair_bucket
from mcgpo_data.build.funnel import make_funnel
from mcgpo_data.build.run import BuildOptions, merge, run_jobs, versions
from mcgpo_data.build.text import with_text
from mcgpo_data.config import BuildConfig
from mcgpo_data.engines.local import Pool
from mcgpo_data.errors import UsageError
from mcgpo_data.readers.base import Report
from mcgpo_data.schema import PREFERENCES, PREFERENCES_THIN, ROLLOUTS
from mcgpo_data.staging import KEY_SPACE, h60
from mcgpo_data.store import Store, finish, read_parquet, staged_output, write_part

OUTCOME_OPTIONS = ("outcome", "outcome_range", "truncated")


@dataclass(frozen=True)
class RebuildJob:
    """One bucket of an existing build."""

    job: BucketJob
    store: Path
    regrade: bool


def rebuild_preferences(store: Store, out: Path, config: BuildConfig, options: BuildOptions) -> dict[str, Any]:
    """Pairs of an existing build under other options. Returns the manifest of the new build.

    Raises:
        UsageError: options that need the logs again (other rules, text that a thin build does not have).
        IntegrityError: a file of the build is missing or damaged.
    """
    before = store.manifest["config"]
    if before["rules"] == "from-decisions":
        raise UsageError(f"{store.path}: was made with --from-decisions; name the decisions table again.")
    if options.rules not in ("auto", before["rules"]):
        raise UsageError(
            f"{store.path}: was built with --rules {before['rules']}; other rules need the logs. Name them as input."
        )
    if before["form"] == "thin" and config.form == "full":
        raise UsageError(f"{store.path}: is a thin build without text. Add --form thin, or name the logs as input.")
    if out.resolve() == store.path.resolve():
        raise UsageError(f"{out}: a build cannot be rebuilt onto itself; choose another output.")
    store.verify(("decisions", "rollouts", "steps"))
    after = config.to_dict()
    regrade = any(before.get(name) != after[name] for name in OUTCOME_OPTIONS)
    count, parts = store.manifest["layout"]["buckets"], store.manifest["layout"]["text_parts"]
    width = KEY_SPACE // count
    with staged_output(out, overwrite=options.overwrite) as stage:
        staging = stage / ".staging"
        staging.mkdir()
        jobs = [
            RebuildJob(
                BucketJob(
                    Bucket(i, i * width, (i + 1) * width, parts), staging, 1, stage, config, before["rules"], []
                ),
                store.path,
                regrade,
            )
            for i in range(count)
            if (store.path / "decisions" / f"part-{i:05d}.parquet").is_file()
        ]
        with Pool(options.workers) as pool:
            total = merge(run_jobs(rebuild_bucket, jobs, "build", options, pool))
        total.rule_names = tuple(before["rule_names"])
        shutil.rmtree(staging)
        linked = store.link(("rollouts", "steps", "decisions", "sources"), stage)
        reports = [Report(e["path"], e["format"], e["records"], e["rollouts"], e["steps"], e["skipped"], e["warnings"])
                   for e in store.manifest["inputs"]]  # fmt: skip
        funnel = make_funnel(reports, total, config)
        kept = {k: store.manifest[k] for k in ("inputs", "ignored_inputs", "layout")}
        return finish(
            stage,
            {
                "builder": {"name": "mcgpo", "version": __version__},
                "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                "config": {**after, "rules": before["rules"], "rule_names": before["rule_names"]},
                **kept,
                "rebuilt_from": store.manifest["content_id"],
                "versions": versions(),
                "funnel": funnel.to_dict(),
            },
            linked,
        )


def rebuild_bucket(work: RebuildJob) -> BucketResult:
    """Pairs of one bucket from its stored decisions."""
    job, part = work.job, f"{work.job.bucket.number:05d}"
    result = BucketResult()
    decisions = read_parquet(work.store / "decisions" / f"part-{part}.parquet")
    stored = read_parquet(work.store / "rollouts" / f"part-{part}.parquet")
    rollouts = pl.DataFrame(stored)
    if work.regrade:
        rollouts = rollouts.with_columns(_return(work, len(rollouts)))
        rollouts = rollouts.with_columns(evidence_outcome=evidence(rollouts, job.config)).drop("_return")
        write_part(job.out, "rollouts", part, ROLLOUTS, [rollouts.to_arrow()])
    rollouts = rollouts.with_columns(pl.Series("task_key", [h60(t) for t in rollouts["task_id"]], pl.Int64))
    pairs = pair_bucket(decisions, rollouts, job, result)
    key_of = dict(zip(rollouts["task_id"].to_list(), rollouts["task_key"].to_list(), strict=True))
    pair_key = np.array([key_of[t] for t in pairs["task_id"].to_pylist()], np.int64)
    for name, low, high in job.bucket.ranges():
        here = pairs.filter(pa.array((pair_key >= low) & (pair_key < high)))
        if job.config.form == "thin":
            write_part(job.out, "preferences", name, PREFERENCES_THIN, [here])
        else:
            columns = ["rollout_id", "step_index", "prompt_from", "messages"]
            steps = read_parquet(work.store / "steps" / f"part-{name}.parquet", columns)
            write_part(job.out, "preferences", name, PREFERENCES, with_text(here, steps))
    return result


def _return(work: RebuildJob, count: int) -> pl.Series:
    """Sum of rewards per rollout, in the order of the stored rollouts; null where any is missing or nobody asks."""
    job = work.job
    if job.config.outcome != "return":
        return pl.Series("_return", [None] * count, pl.Float64)
    files = [work.store / "steps" / f"part-{name}.parquet" for name, _, _ in job.bucket.ranges()]
    steps = pa.concat_tables(read_parquet(f, ["rollout_id", "reward"]) for f in files)
    return (
        pl.DataFrame(steps)
        .group_by("rollout_id", maintain_order=True)
        .agg(summed_reward().alias("_return"))["_return"]
    )
