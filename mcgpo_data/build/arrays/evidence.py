"""Sections 3 and 4 of the method on arrays: comparable classes with their evidence and estimates."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np

from mcgpo_data.build.arrays.ints import (
    Bools,
    Floats,
    Ints,
    codes,
    column,
    combine,
    find,
    number_runs,
    pack,
    spans,
    starts_of_runs,
    sums,
)
from mcgpo_data.build.arrays.visits import Live, Rollouts
from mcgpo_data.build.pair_input import evidence_folds
from mcgpo_data.config import BuildConfig

FINE = 10**4  # means of policy versions are counted in units of 1e-9 / FINE


class Side(NamedTuple):
    """One action of each class: arm, fold of its candidates, evidence rollouts n, sum s of outcomes, estimate p."""

    arm: Ints
    fold: Ints
    n: Ints
    s: Ints
    p: Floats


class Classes(NamedTuple):
    """Comparable classes: two sides and the mean outcome mu of the context's evidence; one element per class."""

    a: Side
    b: Side
    mu: Floats


def compare(live: Live, rollouts: Rollouts, config: BuildConfig) -> Classes:
    """Sections 3 and 4: every comparable class with its evidence.

    With two folds both candidates lie in one of them.
    """
    both = _both_taken(live, rollouts)
    folds = combinations_with_replacement(range(config.folds), 2)
    parts = [_compare(live, rollouts, both, f, g, config) for f, g in folds if config.folds > 2 or f == g]
    a, b = (
        Side._make(map(np.concatenate, zip(*sides, strict=True)))
        for sides in zip(*(p[:2] for p in parts), strict=True)
    )
    return Classes(a, b, np.concatenate([part.mu for part in parts]))


@dataclass(frozen=True)
class _Both:
    """Graded rollouts that took two actions in one context: pair of arms by pair of arms, beginning at `starts`."""

    key: Ints
    visit: Ints
    starts: Ints


def _key(live: Live, one: Ints, other: Ints) -> Ints:
    return combine(np.minimum(one, other), np.maximum(one, other), len(live.starts))


def _both_taken(live: Live, rollouts: Rollouts) -> _Both:
    graded = np.flatnonzero(rollouts.graded[live.rollout])
    group = pack(live.context[live.arm[graded]], live.rollout[graded])
    order = np.argsort(group)
    starts = starts_of_runs(group[order])
    ends = np.append(starts[1:], len(order))[number_runs(starts, len(order))]
    owner, offset = spans(ends - np.arange(len(order)) - 1)  # visits of the same rollout still to come
    one, other = graded[order[owner]], graded[order[owner + 1 + offset]]
    key = _key(live, live.arm[one], live.arm[other])
    order = np.argsort(key)
    starts = starts_of_runs(key[order])
    return _Both(key[order[starts]], one[order], starts)


def _compare(live: Live, rollouts: Rollouts, both: _Both, f: int, g: int, config: BuildConfig) -> Classes:
    """Classes with candidates in folds f and g."""
    judges = [e for one, other, e in evidence_folds(config) if (one, other) == (f, g)]
    counts = np.isin(rollouts.fold, judges) & rollouts.graded
    weigh = counts[live.rollout]
    outcome = np.where(weigh, rollouts.outcome[live.rollout], 0)
    expected = _expected(live, rollouts, weigh, outcome) if config.scope == "task" else None
    n, s = sums(weigh, live.starts), sums(outcome, live.starts)
    of_context = starts_of_runs(live.context)
    context = number_runs(of_context, len(live.context))
    with np.errstate(invalid="ignore"):  # contexts without evidence have no mean, and no class
        mean = sums(s, of_context) / (1e9 * sums(n, of_context))

    size = live.size.reshape(-1, config.folds)
    left, right = (np.flatnonzero((size[:, fold] > 0) & (n >= config.min_support)) for fold in (f, g))
    begin = np.arange(len(left)) + 1 if f == g else np.searchsorted(context[right], context[left], "left")
    owner, offset = spans(np.searchsorted(context[right], context[left], "right") - begin)
    a, b = left[owner], right[begin[owner] + offset]
    if f != g:
        a, b = a[a != b], b[a != b]

    found = find(_key(live, a, b), both.key)
    n_both, s_both = (np.append(sums(values[both.visit], both.starts), 0)[found] for values in (weigh, outcome))
    enough = np.flatnonzero(np.minimum(n[a], n[b]) - n_both >= config.min_support)
    mu = mean[context[a[enough]]]
    sides = []
    for arm, fold in ((a, f), (b, g)):
        arm = arm[enough]
        n_u, s_u = n[arm] - n_both[enough], s[arm] - s_both[enough]
        if expected is None:
            p = (s_u / 1e9 + config.kappa * mu) / (n_u + config.kappa)
        else:  # (ours) each outcome is taken against the context mean of its own policy version
            x_both = np.append(sums(expected[both.visit], both.starts), 0)[found[enough]]
            x_u = sums(expected, live.starts)[arm] - x_both
            p = mu + (s_u - x_u / FINE) / 1e9 / (n_u + config.kappa)
        sides.append(Side(arm, np.full(len(arm), fold, np.int8), n_u, s_u, p))
    return Classes(sides[0], sides[1], mu)


def _expected(live: Live, rollouts: Rollouts, weigh: Bools, outcome: Ints) -> Ints:
    """Mean outcome of each visit's policy version in its context, rounded half up; 0 for visits that do not count."""
    stratum, _ = codes(column(rollouts.table, "stratum"))
    group = pack(live.context[live.arm], stratum[live.rollout])
    order = np.argsort(group)
    starts = starts_of_runs(group[order])
    n, s = sums(weigh[order], starts), sums(outcome[order], starts)
    whole, rest = np.divmod(s, np.maximum(n, 1))
    mean = whole * FINE + (2 * FINE * rest + n) // np.maximum(2 * n, 1)
    result = np.empty(len(order), np.int64)
    result[order] = mean[number_runs(starts, len(order))]
    return np.where(weigh, result, 0)
