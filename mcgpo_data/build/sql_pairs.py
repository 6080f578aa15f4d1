"""The pair builder in SQL, one file per step.

    folds -> visits -> cells -> live -> evidence, both -> classes -> directed -> ranked -> sides, compared, finer
    -> crossed -> unclaimed -> kept (repeated until no class lacks pairs) -> ordered

All sums are integer sums (outcomes in units of 1e-9) and every order is total: the result does not depend on threads,
on the order of rows or on how groups are spread over buckets. Cost: linear in decisions, and in the comparable classes
of each context.
"""

from __future__ import annotations

import math

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mcgpo_data.build.database import statement
from mcgpo_data.build.pair_input import COLUMNS, SCALE, PairInput, evidence_folds
from mcgpo_data.build.posterior import superiority
from mcgpo_data.config import BuildConfig
from mcgpo_data.errors import ResourceError


def sql_pairs(con: duckdb.DuckDBPyConnection, data: PairInput, config: BuildConfig) -> pa.Table:
    """`build_pairs` in SQL: as much in memory as `con` may use, the rest in its spill folder."""
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
