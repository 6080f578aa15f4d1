"""Sections 2 to 5 of the method for one bucket of whole groups: decisions in, pairs out, one SQL file per step.

    folds -> visits -> cells -> live -> evidence, both -> classes -> directed -> ranked -> sides, compared, finer
    -> crossed -> unclaimed -> kept (repeated until no class lacks pairs) -> ordered

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
import pyarrow.compute as pc

from mcgpo_data.build.database import statement
from mcgpo_data.build.posterior import superiority
from mcgpo_data.config import BuildConfig
from mcgpo_data.errors import DataError, ResourceError

SCALE = 10**9
COLUMNS = (
    "rule", "context", "chosen_key", "rejected_key", "chosen_rollout_id", "chosen_step", "rejected_rollout_id",
    "rejected_step", "chosen_action_key", "rejected_action_key", "chosen_outcome", "rejected_outcome", "chosen_fold",
    "rejected_fold", "chosen_support", "rejected_support", "chosen_mean", "rejected_mean", "chosen_estimate",
    "rejected_estimate", "context_mean", "delta", "support", "class_weight", "class_pairs", "weight",
)  # fmt: skip


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
    """Pairs of one bucket, with keys in place of text.

    Tables that tell what became of the decisions stay in `con`: rollouts, visits, cells, classes, directed, pairs. A
    connection serves one bucket.

    Returns:
        One row per pair with `COLUMNS`, named as in the preferences table; `chosen_key` is the chosen rollout's key.
        Ordered by unit, rule, context, chosen and rejected decision.

    Raises:
        DataError: weight = posterior with outcomes that are not 0 or 1; a rollout given twice with different content.
        ResourceError: the memory limit of `con` and its spill folder do not suffice.
    """
    try:
        take_visits(con, data, config)
        _run(con, "cells", "live")
        if config.scope == "task":
            _run(con, "strata", "evidence_stratified", "both_stratified")
        else:
            _run(con, "evidence", "both")
        _run(con, "classes", "directed")
        _drop(con, "evidence", "both_taken")
        _run(con, "ranked")
        _drop(con, "live")
        _run(con, "sides", "compared", "finer", "pending")
        _cross(con, config, data.num_rules)
        _drop(con, "compared", "finer", "pending")
        con.register("posterior", _posterior(con, config))
        return _result(con)
    except duckdb.OutOfMemoryException as error:
        raise ResourceError(f"a bucket does not fit into memory and spill folder: {error}") from error


def take_visits(con: duckdb.DuckDBPyConnection, data: PairInput, config: BuildConfig) -> None:
    """Only the first stages: tables `rollouts` with folds, and `visits` with outcomes."""
    _set_up(con, data, config)
    _run(con, "folds")
    _check_rollouts(con)
    _run(con, "visits")


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
        "num_rules": data.num_rules,
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


def _drop(con: duckdb.DuckDBPyConnection, *tables: str) -> None:
    for table in tables:
        con.execute(f"DROP TABLE {table}")


def _check_rollouts(con: duckdb.DuckDBPyConnection) -> None:
    query = "SELECT min(rollout_id) FROM rollouts GROUP BY rollout_key HAVING count(*) > 1 LIMIT 1"
    if twice := con.execute(query).fetchone():
        raise DataError(f"rollout {twice[0]!r} is given twice, with different content. Give each rollout its own id.")


def _cross(con: duckdb.DuckDBPyConnection, config: BuildConfig, num_rules: int) -> None:
    """Table `pairs`.

    W x L of a class can be 1,000 times the pairs it keeps, so it is looked at from its beginning, and on only where
    finer rules claimed too many.
    """
    con.execute("CREATE TEMP TABLE pairs (class INTEGER, rule SMALLINT, position INTEGER, w INTEGER, l INTEGER)")
    low, bound = 0, config.max_pairs_per_class
    while con.execute("SELECT 1 FROM pending LIMIT 1").fetchall():
        con.execute("SET VARIABLE low = ?", [low])
        con.execute("SET VARIABLE bound = ?", [bound])
        _run(con, "crossed")
        for finer_rule in range(max(num_rules - 1, 1)):
            con.execute("SET VARIABLE finer_rule = ?", [finer_rule])
            _run(con, "unclaimed")
        _run(con, "kept", "remaining")
        low, bound = bound, 4 * bound


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


def _result(con: duckdb.DuckDBPyConnection) -> pa.Table:
    """The sorted pairs, with wide columns looked up once the narrow ones are sorted."""
    pairs, classes, rollouts = (con.sql(statement(n)).to_arrow_table() for n in ("ordered", "weighed", "outcomes"))
    place = np.empty(len(classes), np.int64)
    place[classes["class"].to_numpy()] = np.arange(len(classes))
    of_class = classes.take(pa.array(place[pairs["class"].to_numpy()]))
    columns = {name: of_class[name] for name in classes.column_names}
    for side in ("chosen", "rejected"):
        of_rollout = rollouts.take(pairs[f"{side}_rollout"])
        columns |= {f"{side}_{name}": of_rollout[name] for name in rollouts.column_names}
    columns |= {name: pairs[name] for name in ("rule", "chosen_step", "rejected_step", "class_pairs")}
    columns["weight"] = pc.divide(of_class["class_weight"], pairs["class_pairs"])
    return pa.table(columns).select(COLUMNS)
