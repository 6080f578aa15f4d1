"""Sections 2 to 5 of the method for one bucket of whole groups: decisions in, pairs out, one SQL file per step.

    rollouts -> folds -> visits -> cells -> evidence, both_taken -> classes -> directed -> ranked -> crossed, claimed
    -> kept -> pairs

All sums are integer sums (outcomes in units of 1e-9) and every order is total: the result does not depend on threads,
on the order of rows or on how groups are spread over buckets. Cost: linear in decisions, and in the comparable classes
of each context.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import duckdb
import numpy as np
import pyarrow as pa

from mcgpo_data.build.database import statement
from mcgpo_data.build.posterior import superiority
from mcgpo_data.config import BuildConfig
from mcgpo_data.errors import DataError, ResourceError

SCALE = 10**9


@dataclass(frozen=True)
class PairInput:
    """One bucket.

    Attributes:
        decisions: one row per decision and rule: rule int16 (0 = finest), context int64, action int64, rollout_key
            int64, step int32, valid bool. `context` need not identify the group: it is combined with unit_key.
        rollouts: one row per rollout: rollout_key int64, rollout_id string, unit_id string and unit_key int64 (group
            or task), sequence_key int64, stratum int64 (policy version; used with scope = task), outcome int64 in
            units of 1e-9 (null: unscored).
        num_rules: number of rules.
    """

    decisions: pa.Table
    rollouts: pa.Table
    num_rules: int


def evidence_folds(config: BuildConfig) -> list[tuple[int, int, int]]:
    """(f, g, e): outcomes of fold e may judge candidates in folds f and g. Of two folds both candidates share one."""
    every = range(config.folds)
    rows = []
    for f, g in product(every, every):
        if config.folds == 2 and f != g:
            continue
        allowed = {"opposite-fold": set(every) - {f, g}, "same-fold": {f, g}, "all-folds": set(every)}
        rows += [(f, g, e) for e in sorted(allowed[config.orientation])]
    return rows


def build_pairs(con: duckdb.DuckDBPyConnection, data: PairInput, config: BuildConfig) -> pa.Table:
    """Pairs of one bucket, with keys in place of text; see `sql/ordered.sql` for the columns.

    The intermediate tables stay in `con`, for the funnel; a connection serves one bucket.

    Raises:
        DataError: weight = posterior with outcomes that are not 0 or 1; a rollout given twice with different content.
        ResourceError: the memory limit of `con` and its spill folder do not suffice.
    """
    try:
        _set_up(con, data, config)
        stratified = "_stratified" if config.scope == "task" else ""
        _run(con, "folds")
        _check_rollouts(con)
        _run(con, "visits", "cells", *(["strata"] if stratified else []), f"evidence{stratified}", f"both{stratified}")
        _run(con, "classes", "directed", "sides", "ranked", "finer", "pending")
        _cross(con, config)
        con.register("posterior", _posterior(con, config))
        _run(con, "pairs")
        return con.sql(statement("ordered")).to_arrow_table()
    except duckdb.OutOfMemoryException as error:
        raise ResourceError(f"a bucket does not fit into memory and spill folder: {error}") from error


def _set_up(con: duckdb.DuckDBPyConnection, data: PairInput, config: BuildConfig) -> None:
    """Input tables, parameters and small tables that the SQL files read."""
    con.register("decisions", data.decisions)
    con.register("rollouts_in", data.rollouts)
    for name, value in {
        "seed": str(config.seed),
        "folds": config.folds,
        "kappa": float(config.kappa),
        "support_prior": float(config.support_prior),
        "margin": float(config.margin),
        "min_support": config.min_support,
        "min_folds": 2 if config.orientation == "opposite-fold" else 1,
        "max_pairs_per_class": config.max_pairs_per_class,
        "max_decisions_per_side": config.max_decisions_per_side,
        "weight": config.weight,
        "stratified": config.scope == "task",
    }.items():
        con.execute(f"SET VARIABLE {name} = ?", [value])
    f, g, e = (pa.array(column, pa.int8()) for column in zip(*evidence_folds(config), strict=True))
    con.register("evidence_folds", pa.table({"f": f, "g": g, "e": e}))
    rules = range(data.num_rules)
    discounts = pa.array([math.prod([config.discount] * rule) for rule in rules], pa.float64())
    con.register("discounts", pa.table({"rule": pa.array(rules, pa.int16()), "discount": discounts}))


def _run(con: duckdb.DuckDBPyConnection, *steps: str) -> None:
    for step in steps:
        con.execute(statement(step))


def _check_rollouts(con: duckdb.DuckDBPyConnection) -> None:
    query = "SELECT min(rollout_id) FROM rollouts GROUP BY rollout_key HAVING count(*) > 1 LIMIT 1"
    if twice := con.execute(query).fetchone():
        raise DataError(f"rollout {twice[0]!r} is given twice, with different content. Give each rollout its own id.")


def _cross(con: duckdb.DuckDBPyConnection, config: BuildConfig) -> None:
    """Table `kept`.

    W x L of a class can be 1,000 times the pairs it keeps, so only its first diagonals are made; classes that lose too
    many of these to finer rules are made again with a larger bound.
    """
    bound = config.max_pairs_per_class
    created = False
    while True:
        con.execute("SET VARIABLE bound = ?", [bound])
        _run(con, "crossed", "claimed", "kept", "short")
        done = "SELECT * FROM kept_now ANTI JOIN short USING (class)"
        con.execute(f"INSERT INTO kept {done}" if created else f"CREATE TEMP TABLE kept AS {done}")
        created = True
        con.execute("CREATE OR REPLACE TEMP TABLE pending AS FROM short")
        if not con.execute("SELECT 1 FROM pending LIMIT 1").fetchall():
            return
        bound *= 8


def _posterior(con: duckdb.DuckDBPyConnection, config: BuildConfig) -> pa.Table:
    """P(theta_chosen > theta_rejected) for each distinct evidence; empty unless the weight needs it."""
    columns = ("chosen_s", "chosen_n", "rejected_s", "rejected_n")
    if config.weight != "posterior":
        empty = {name: pa.array([], pa.int64()) for name in columns}
        return pa.table({**empty, "probability": pa.array([], pa.float64())})
    if con.execute("SELECT 1 FROM visits WHERE outcome NOT IN (0, ?) LIMIT 1", [SCALE]).fetchone():
        raise DataError(
            "--weight posterior needs outcomes that are 0 or 1, but some are graded. "
            "Use --outcome success, or another weight."
        )
    found = con.table("directed").select(*columns).distinct().to_arrow_table()
    s_w, n_w, s_l, n_l = (found.column(name).to_numpy() for name in columns)
    probability = superiority(s_w // SCALE, n_w, s_l // SCALE, n_l)
    return found.append_column("probability", pa.array(np.asarray(probability), pa.float64()))
