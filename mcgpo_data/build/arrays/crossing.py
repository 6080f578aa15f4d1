"""Section 5 of the method on arrays: directions, candidates in hash order, and the pairs that stay."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa

from mcgpo_data.build.arrays.evidence import Classes, Side
from mcgpo_data.build.arrays.ints import Floats, Ints, combine, find, number_runs, pack, ranks, spans, starts_of_runs
from mcgpo_data.build.arrays.visits import Decisions, Live, Rollouts
from mcgpo_data.build.database import statement
from mcgpo_data.config import BuildConfig

NOISE = 1e-12  # smaller differences of estimates, and from the margin, are floating noise


@dataclass(frozen=True)
class Directed:
    """Classes with a direction: the action with the larger estimate is chosen."""

    chosen: Side
    rejected: Side
    mu: Floats
    delta: Floats


def direct(classes: Classes, margin: float) -> Directed:
    """Section 4: classes whose estimates differ by more than the margin."""
    rows = np.flatnonzero(np.abs(classes.a.p - classes.b.p) > margin + NOISE)
    better = (classes.a.p > classes.b.p)[rows]
    a, b = ([values[rows] for values in side] for side in (classes.a, classes.b))
    chosen, rejected = (Side._make(map(np.where, [first] * len(a), a, b)) for first in (better, ~better))
    return Directed(chosen, rejected, classes.mu[rows], chosen.p - rejected.p)


@dataclass(frozen=True)
class Candidates:
    """Decisions of the cells that are a side of a directed class, cell by cell in hash order.

    Attributes:
        rollout, step, rule: one element per decision.
        first, size: of each cell: its first decision, and how many of them may enter pairs.
    """

    rollout: Ints
    step: Ints
    rule: Ints
    first: Ints
    size: Ints


def candidates(
    con: duckdb.DuckDBPyConnection,
    live: Live,
    rollouts: Rollouts,
    directed: Directed,
    rule_of: Ints,
    config: BuildConfig,
) -> Candidates:
    """Decisions by the first 60 bits of sha256(seed || rollout_id || ':' || step); hashed only where a cap bites."""
    sides = [side.arm * config.folds + side.fold for side in (directed.chosen, directed.rejected)]
    is_side, is_capped = np.zeros((2, len(live.size)), bool)
    capped = live.size[sides[0]] * live.size[sides[1]] > config.max_pairs_per_class
    for cells in sides:
        is_side[cells] = True
        is_capped[cells[capped]] = True
    is_capped |= live.size > config.max_decisions_per_side
    rows = np.flatnonzero(is_side[live.cell])
    cell, rollout, step = live.cell[rows], live.rollout[rows], live.step[rows]
    hashed = np.flatnonzero(is_capped[cell])
    steps = int(step.max(initial=0)) + 1
    distinct, which = np.unique(combine(rollout[hashed], step[hashed], steps), return_inverse=True)
    ids = rollouts.table["rollout_id"].take(pa.array(distinct // steps))
    con.execute("SET VARIABLE seed = ?", [str(config.seed)])
    con.register("to_hash", pa.table({"rollout_id": ids, "step": distinct % steps}))
    digest = con.sql(statement("digests")).to_arrow_table()["digest"].to_numpy()
    con.unregister("to_hash")
    rank = np.zeros(len(rows), np.int32)
    rank[hashed] = ranks(np.argsort(digest, kind="stable"))[which]
    order = np.argsort(pack(cell, rank))
    starts = starts_of_runs(cell[order])
    first = np.zeros(len(live.size), np.int32)
    first[cell[order[starts]]] = starts
    return Candidates(
        rollout[order],
        step[order],
        rule_of[live.context[live.arm[rows[order]]]],
        first,
        np.minimum(live.size, config.max_decisions_per_side).astype(np.int32),
    )


def finer_cells(
    found: Candidates, decisions: Decisions, live: Live, rollouts: Rollouts, finer_rule: int, folds: int
) -> Ints:
    """The cell of each candidate of a coarser rule under `finer_rule`; -1 where that context compares nothing."""
    coarser = np.flatnonzero(found.rule > finer_rule)
    is_live = np.zeros(len(decisions.contexts), bool)
    is_live[live.context] = True
    rows = np.flatnonzero((decisions.rule == finer_rule) & is_live[decisions.context])
    steps = int(decisions.step.max(initial=0)) + 1
    place = find(
        combine(found.rollout[coarser], found.step[coarser], steps),
        combine(decisions.rollout[rows], decisions.step[rows], steps),
    )
    coarser, rows = coarser[place >= 0], rows[place[place >= 0]]
    actions = len(decisions.actions)
    arm = find(
        combine(decisions.context[rows], decisions.action[rows], actions), combine(live.context, live.action, actions)
    )
    result = np.full(len(found.rollout), -1, np.int32)
    result[coarser] = np.where(arm >= 0, arm * folds + rollouts.fold[found.rollout[coarser]], -1)
    return result


@dataclass(frozen=True)
class Pairs:
    """One element per pair: its class, and the numbers of two candidates."""

    directed: Ints
    chosen: Ints
    rejected: Ints


def cross(found: Candidates, classes: Classes, directed: Directed, finer: list[Ints], config: BuildConfig) -> Pairs:
    """The first pairs of every class in diagonal order that are of two rollouts and that no finer rule compares.

    W x L of a class can be 1,000 times the pairs it keeps, so it is looked at from its beginning, and on only where
    finer rules claimed too many.
    """
    cells = len(found.size)
    chosen, rejected, a, b = (
        side.arm * config.folds + side.fold for side in (directed.chosen, directed.rejected, classes.a, classes.b)
    )
    looked_up = np.zeros(cells, bool)
    for cell in finer:
        looked_up[cell[cell >= 0]] = True
    a, b = (values[looked_up[a] & looked_up[b]] for values in (a, b))
    compared = combine(np.minimum(a, b), np.maximum(a, b), cells)
    wins, losses = found.size[chosen], found.size[rejected]
    pending = np.arange(len(chosen), dtype=np.int32)
    missing = np.full(len(chosen), config.max_pairs_per_class)
    kept: list[tuple[Ints, Ints, Ints]] = [(pending[:0],) * 3]
    most = int((wins * losses).max(initial=0))
    low, bound = 0, min(config.max_pairs_per_class, most)
    while len(pending):
        owner, offset = spans(np.minimum(wins[pending] * losses[pending], bound) - low)
        owner = pending[owner]
        rank_w, rank_l = diagonal(low + offset, wins[owner], losses[owner])
        win, loss = found.first[chosen[owner]] + rank_w, found.first[rejected[owner]] + rank_l
        free = found.rollout[win] != found.rollout[loss]
        for cell in finer:
            asked = np.flatnonzero(free & (cell[win] >= 0) & (cell[loss] >= 0))
            one, other = cell[win[asked]], cell[loss[asked]]
            free[asked] = find(combine(np.minimum(one, other), np.maximum(one, other), cells), compared) < 0
        owner, win, loss = owner[free], win[free], loss[free]
        starts = starts_of_runs(owner)
        nth = np.arange(len(owner)) - starts[number_runs(starts, len(owner))]
        stays = nth < missing[owner]
        kept.append((owner[stays], win[stays], loss[stays]))
        missing -= np.bincount(owner[stays], minlength=len(missing))
        pending = pending[(wins[pending] * losses[pending] > bound) & (missing[pending] > 0)]
        low, bound = bound, min(4 * bound, most)
    return Pairs(*(np.concatenate(columns) for columns in zip(*kept, strict=True)))


def diagonal(position: Ints, wins: Ints, losses: Ints) -> tuple[Ints, Ints]:
    """(rank_W, rank_L) of the pair at a position of W x L in diagonal order.

    Diagonal d = (rank_L - rank_W) mod max(|W|, |L|) holds min(|W|, |L|) pairs, in the order of rank_W. Where
    |W| <= |L| the i-th is that of the i-th of W. Where |W| > |L| the ranks 0 .. |L| - d - 1 come first, whose partner
    is rank_W + d; then the last d ranks, from |W| - d on, whose partners are the first of L (at most |L| of them).
    """
    length = np.minimum(wins, losses)
    d = position // length
    i = position - d * length
    before = np.maximum(losses - d, 0)
    rank_w = np.where((wins <= losses) | (i < before), i, wins - d + i - before)
    rank_l = rank_w + d
    return rank_w, np.where(rank_l < np.maximum(wins, losses), rank_l, rank_l - np.maximum(wins, losses))
