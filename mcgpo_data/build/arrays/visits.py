"""Sections 2 and 3 of the method on arrays: folds, coded decisions, first visits, and those that can matter."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mcgpo_data.build.arrays.ints import Bools, Ints, codes, column, find, number_runs, pack, starts_of_runs, sums
from mcgpo_data.config import BuildConfig


@dataclass(frozen=True)
class Rollouts:
    """Rollouts, numbered in the text order of "rollout_id:".

    Attributes:
        table: as given, in this order.
        unit: number of the unit in text order.
        fold: fold.
        outcome: in units of 1e-9; 0 where there is none.
        graded: whether there is one.
    """

    table: pa.Table
    unit: Ints
    fold: Ints
    outcome: Ints
    graded: Bools


def number_rollouts(given: pa.Table, config: BuildConfig) -> Rollouts:
    """Number rollouts and assign folds (section 2)."""
    ids = given["rollout_id"].to_pylist()
    order = sorted(range(len(ids)), key=lambda i: f"{ids[i]}:")
    table = given.take(pa.array(order, pa.int64()))
    ids = [ids[i] for i in order]
    units = table["unit_id"].to_pylist()
    number = {unit: n for n, unit in enumerate(sorted(set(units)))}
    digests = [hashlib.sha256(f"{config.seed}{name}".encode()).digest() for name in ids]
    sequences = table["sequence_key"].to_pylist()
    ranks: dict[str, dict[int, int]] = defaultdict(dict)  # of the distinct action sequences of a unit
    fold = np.zeros(len(ids), np.int8)
    for i in sorted(range(len(ids)), key=digests.__getitem__):
        of_unit = ranks[units[i]]
        fold[i] = of_unit.setdefault(sequences[i], len(of_unit)) % config.folds
    return Rollouts(
        table,
        np.array([number[unit] for unit in units], np.int32),
        fold,
        column(table, "outcome", 0),
        np.asarray(pc.is_valid(table["outcome"].combine_chunks())),
    )


@dataclass(frozen=True)
class Decisions:
    """Decisions, one per rule, with codes in place of keys.

    Attributes:
        rule, context, action, rollout, step, valid: one element per decision and rule.
        contexts: key of each context code, combined with the key of its unit.
        actions: key of each action code.
        rule_of: rule of each context code.
    """

    rule: Ints
    context: Ints
    action: Ints
    rollout: Ints
    step: Ints
    valid: Bools
    contexts: Ints
    actions: Ints
    rule_of: Ints


def code_decisions(given: pa.Table, rollouts: Rollouts) -> Decisions:
    """Look up rollouts, and replace keys by codes."""
    rollout = find(column(given, "rollout_key"), column(rollouts.table, "rollout_key"))
    if (rollout < 0).any():
        given, rollout = given.filter(pa.array(rollout >= 0)), rollout[rollout >= 0]
    context, contexts = codes(column(given, "context") ^ column(rollouts.table, "unit_key")[rollout])
    action, actions = codes(column(given, "action"))
    rule = column(given, "rule")
    rule_of = np.zeros(len(contexts), rule.dtype)
    rule_of[context] = rule
    valid = np.asarray(given["valid"].combine_chunks())
    return Decisions(rule, context, action, rollout, column(given, "step"), valid, contexts, actions, rule_of)


@dataclass(frozen=True)
class Visits:
    """First visits of rollouts to (context, action), sorted by context, action and rollout."""

    context: Ints
    action: Ints
    rollout: Ints
    step: Ints


def first_visits(decisions: Decisions) -> Visits:
    """Section 3: only valid actions count, and a rollout counts once."""
    columns = [decisions.context, decisions.action, decisions.rollout, decisions.step]
    if not decisions.valid.all():
        columns = [values[decisions.valid] for values in columns]
    order = np.argsort(pack(*columns))
    first = order[starts_of_runs(*(values[order] for values in columns[:3]))]
    return Visits(*(values[first] for values in columns))


@dataclass(frozen=True)
class Live:
    """Visits in contexts that can hold a comparison: at least two actions, each seen in enough folds.

    An arm is an action in a context; arms and visits are sorted by context and action. A cell is an arm and a fold:
    arm * folds + fold.

    Attributes:
        arm, cell, rollout, step: one element per visit.
        context, action: codes, one element per arm.
        starts: first visit of each arm.
        size: visits of each cell.
    """

    arm: Ints
    cell: Ints
    rollout: Ints
    step: Ints
    context: Ints
    action: Ints
    starts: Ints
    size: Ints


def live_visits(visits: Visits, rollouts: Rollouts, config: BuildConfig) -> Live:
    """Leave out contexts that cannot hold a comparison."""
    starts = starts_of_runs(visits.context, visits.action)
    arm = number_runs(starts, len(visits.context))
    context = visits.context[starts]
    fold = rollouts.fold[visits.rollout]
    seen = np.bincount(arm * config.folds + fold, minlength=len(starts) * config.folds).reshape(-1, config.folds)
    enough_folds = np.count_nonzero(seen, axis=1) >= (2 if config.orientation == "opposite-fold" else 1)
    comparable = enough_folds & (sums(rollouts.graded[visits.rollout], starts) >= config.min_support)
    alive = np.bincount(context[comparable], minlength=int(context.max(initial=0)) + 1)[context] >= 2
    rows = np.flatnonzero(alive[arm])
    starts = starts_of_runs(arm[rows])
    number = number_runs(starts, len(rows))
    cell = number * config.folds + fold[rows]
    return Live(
        arm=number,
        cell=cell,
        rollout=visits.rollout[rows],
        step=visits.step[rows],
        context=context[alive],
        action=visits.action[rows[starts]],
        starts=starts,
        size=np.bincount(cell, minlength=len(starts) * config.folds),
    )
