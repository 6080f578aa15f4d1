"""The pair builder on sorted integer arrays.

    rollouts, decisions -> visits -> live -> classes -> directed -> candidates -> pairs -> table

All sums are integer sums (outcomes in units of 1e-9) and every order is total: the result does not depend on the order
of rows or on how groups are spread over buckets.
"""

from __future__ import annotations

import math

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mcgpo_data.build.arrays.crossing import Candidates, Directed, Pairs, candidates, cross, direct, finer_cells
from mcgpo_data.build.arrays.evidence import Classes, compare
from mcgpo_data.build.arrays.ints import Floats, Ints, codes, pack, ranks
from mcgpo_data.build.arrays.visits import (
    Decisions,
    Live,
    Rollouts,
    Visits,
    code_decisions,
    first_visits,
    live_visits,
    number_rollouts,
)
from mcgpo_data.build.pair_input import COLUMNS, SCALE, PairInput
from mcgpo_data.build.posterior import superiority
from mcgpo_data.config import BuildConfig
from mcgpo_data.errors import ResourceError


def array_pairs(con: duckdb.DuckDBPyConnection, data: PairInput, config: BuildConfig) -> pa.Table:
    """`build_pairs` in memory."""
    try:
        rollouts = number_rollouts(data.rollouts, config)
        decisions = code_decisions(data.decisions, rollouts)
        visits = first_visits(decisions)
        live = live_visits(visits, rollouts, config)
        classes = compare(live, rollouts, config)
        directed = direct(classes, config.margin)
        found = candidates(con, live, rollouts, directed, decisions.rule_of, config)
        finer = [
            finer_cells(found, decisions, live, rollouts, rule, config.folds) for rule in range(data.num_rules - 1)
        ]
        pairs = cross(found, classes, directed, finer, config)
        table = _table(pairs, found, directed, decisions, live, rollouts, config)
        _register(con, data, table["rule"], decisions, rollouts, visits, live, classes, directed)
        return table
    except MemoryError as error:
        raise ResourceError(f"a bucket does not fit into memory: {error}") from error


def _register(
    con: duckdb.DuckDBPyConnection,
    data: PairInput,
    rule: pa.ChunkedArray,
    decisions: Decisions,
    rollouts: Rollouts,
    visits: Visits,
    live: Live,
    classes: Classes,
    directed: Directed,
) -> None:
    """What `build_pairs` leaves in the connection."""
    outcome = pa.array(rollouts.outcome, mask=~rollouts.graded)
    keys = rollouts.table.select(["rollout_key", "rollout_id", "unit_key"])
    number = pa.array(np.arange(len(keys), dtype=np.int32))
    contexts = decisions.contexts[live.context]
    tables = {
        "decisions": data.decisions,
        "rollouts_in": data.rollouts,
        "rollouts": keys.append_column("rollout", number)
        .append_column("fold", pa.array(rollouts.fold))
        .append_column("outcome", outcome),
        "visits": pa.table(
            {
                "rule": decisions.rule_of[visits.context],
                "context": decisions.contexts[visits.context],
                "action": decisions.actions[visits.action],
                "rollout": visits.rollout,
                "step": visits.step,
                "fold": rollouts.fold[visits.rollout],
                "outcome": outcome.take(pa.array(visits.rollout)),
            }
        ),
        "classes": pa.table({"context": contexts[classes.a.arm]}),
        "directed": pa.table({"context": contexts[directed.chosen.arm]}),
        "pairs": pa.table({"rule": rule}),
    }
    for name, table in tables.items():
        con.register(name, table)


def _table(
    pairs: Pairs,
    found: Candidates,
    directed: Directed,
    decisions: Decisions,
    live: Live,
    rollouts: Rollouts,
    config: BuildConfig,
) -> pa.Table:
    """The pairs in the order of the output: unit, rule, context, then both decisions as the text "rollout_id:step"."""
    step, steps = codes(found.step)
    place = pack(found.rollout, ranks(np.argsort(steps.astype(str)))[step])
    context = live.context[directed.chosen.arm]
    some = found.first[directed.chosen.arm * config.folds + directed.chosen.fold]
    in_order = np.lexsort((decisions.contexts[context], found.rule[some], rollouts.unit[found.rollout[some]]))
    rank = np.zeros(len(decisions.contexts), np.int32)
    rank[context[in_order]] = np.arange(len(context))
    order = np.argsort(pack(rank[context][pairs.directed], place[pairs.chosen], place[pairs.rejected]))
    which, win, loss = pairs.directed[order], pairs.chosen[order], pairs.rejected[order]

    rule = found.rule[some]
    harmonic = 2.0 * directed.chosen.n * directed.rejected.n / (directed.chosen.n + directed.rejected.n)
    class_weight = _class_weight(directed, rule, harmonic, config)
    class_pairs = np.bincount(which, minlength=len(class_weight))
    columns = {
        "rule": rule[which],
        "context": decisions.contexts[context][which],
        "context_mean": directed.mu[which],
        "delta": directed.delta[which],
        "support": harmonic[which],
        "class_weight": class_weight[which],
        "class_pairs": class_pairs[which].astype(np.int32),
        "weight": (class_weight / np.maximum(class_pairs, 1))[which],
    }
    names = rollouts.table.select(["rollout_key", "rollout_id", "outcome"])
    for name, side, decision in (("chosen", directed.chosen, win), ("rejected", directed.rejected, loss)):
        own = names.take(pa.array(found.rollout[decision]))
        columns |= {
            f"{name}_key": own["rollout_key"],
            f"{name}_rollout_id": own["rollout_id"],
            f"{name}_outcome": pc.divide(own["outcome"].cast(pa.float64()), 1e9),
            f"{name}_step": found.step[decision],
            f"{name}_action_key": decisions.actions[live.action[side.arm]][which],
            f"{name}_fold": side.fold[which].astype(np.int16),
            f"{name}_support": side.n[which],
            f"{name}_mean": (side.s / 1e9 / side.n)[which],
            f"{name}_estimate": side.p[which],
        }
    return pa.table({name: columns[name] for name in COLUMNS})


def _class_weight(directed: Directed, rule: Ints, harmonic: Floats, config: BuildConfig) -> Floats:
    discount = np.array([math.prod([config.discount] * r) for r in range(int(rule.max(initial=0)) + 1)])[rule]
    if config.weight == "uniform":
        return np.ones(len(rule))
    if config.weight == "support":
        return discount * harmonic / (harmonic + config.support_prior)
    if config.weight == "support_margin":
        return discount * directed.delta * harmonic / (harmonic + config.support_prior)
    counts = (directed.chosen.s // SCALE, directed.chosen.n, directed.rejected.s // SCALE, directed.rejected.n)
    _, some, which = np.unique(pack(*counts), return_index=True, return_inverse=True)
    probability = superiority(*(values[some] for values in counts))[which]
    return discount * (2 * probability - 1)
