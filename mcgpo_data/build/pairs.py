"""Sections 2 to 5 of the method for one bucket of whole groups: decisions in, pairs out.

There are two builders with one result, to the byte: arrays are three times as fast, SQL does not need to hold a bucket
in memory. Both are tested against `reference.py`.
"""

from __future__ import annotations

from dataclasses import replace

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from mcgpo_data.build.arrays.builder import array_pairs
from mcgpo_data.build.pair_input import COLUMNS, SCALE, PairInput, evidence_folds
from mcgpo_data.build.sql_pairs import sql_pairs, take_visits
from mcgpo_data.config import BuildConfig
from mcgpo_data.errors import DataError

__all__ = ["COLUMNS", "SCALE", "PairInput", "build_pairs", "evidence_folds", "take_visits"]

ARRAY_ROWS = 2_000_000
"""Rows of decisions that are held in arrays, which take about 200 bytes each."""


def build_pairs(con: duckdb.DuckDBPyConnection, data: PairInput, config: BuildConfig) -> pa.Table:
    """Pairs of one bucket, with keys in place of text.

    What tells of the decisions' fate stays in `con`, which serves one bucket: tables decisions and rollouts_in (the
    input), rollouts, visits, classes, directed, pairs.

    Returns:
        One row per pair with `COLUMNS`, ordered by unit, rule, context, chosen and rejected decision.

    Raises:
        DataError: weight = posterior with outcomes that are not 0 or 1; a rollout given twice with different content.
        ResourceError: the memory does not suffice (where SQL is used: the memory limit of `con` and its spill folder).
    """
    data = replace(data, rollouts=_distinct(data.rollouts))
    if config.weight == "posterior" and not _binary(data.rollouts["outcome"]):
        raise DataError(
            "--weight posterior needs outcomes that are 0 or 1, but some are graded. "
            "Use --outcome success, or another weight."
        )
    return (array_pairs if data.decisions.num_rows <= ARRAY_ROWS else sql_pairs)(con, data, config)


def _distinct(rollouts: pa.Table) -> pa.Table:
    """A rollout given twice counts once."""
    if pc.count_distinct(rollouts["rollout_key"]).as_py() == rollouts.num_rows:
        return rollouts
    rollouts = rollouts.group_by(rollouts.column_names, use_threads=False).aggregate([])
    counts = rollouts.group_by("rollout_key").aggregate([("rollout_id", "min"), ([], "count_all")])
    if twice := counts.filter(pc.greater(counts["count_all"], 1))["rollout_id_min"].to_pylist():
        raise DataError(
            f"rollout {min(twice)!r} is given twice, with different content. Give each rollout its own id."
        )
    return rollouts


def _binary(outcomes: pa.ChunkedArray) -> bool:
    return bool(pc.all(pc.is_in(outcomes, value_set=pa.array([0, SCALE, None], pa.int64())), min_count=0).as_py())
