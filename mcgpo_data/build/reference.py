"""The method in plain Python: slow, obvious, and the oracle that the SQL is tested against.

Input is a list of decisions, one dict per decision and rule: `group_id, rollout_id, step, rule (0 = finest), context,
action, valid, outcome (in [0, 1] or None)` and, for `scope: task`, `version` (policy version). Sections are those of
the method's description.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, product
from typing import Any, NamedTuple

from mcgpo_data.build.posterior import superiority
from mcgpo_data.config import BuildConfig

SCALE = 10**9  # outcomes are counted in units of 1e-9
NOISE = 1e-12  # smaller differences of estimates, and from the margin, are floating noise

Row = dict[str, Any]
Decision = tuple[str, int]  # rollout_id, step


class Class(NamedTuple):
    """Two actions of one context, in name order, with a fold for the candidates of each."""

    group: str
    rule: int
    context: str
    a: str
    b: str
    fold_a: int
    fold_b: int


@dataclass
class Evidence:
    """Per action: evidence rollouts, sum of their outcomes (units of 1e-9), estimate. And the mean of the context."""

    mu: float
    n: dict[str, int] = field(default_factory=dict)
    s: dict[str, int] = field(default_factory=dict)
    p: dict[str, float] = field(default_factory=dict)


@dataclass
class World:
    """The rows, looked up in the ways the method needs."""

    fold: dict[tuple[str, str], int]  # of (group, rollout), and so on
    outcome: dict[tuple[str, str], float | None]
    version: dict[tuple[str, str], str | None]
    keys: dict[tuple[str, str, int, int], tuple[str, str]]  # (group, rollout, step, rule): (context, action)
    visits: dict[
        tuple[str, int, str], dict[str, dict[str, int]]
    ]  # (group, rule, context): action: rollout: first step


def assign_folds(rows: list[Row], seed: int, folds: int) -> dict[tuple[str, str], int]:
    """Section 2: {(group, rollout): fold}. Rollouts with one action sequence share a fold."""
    sequences: dict[tuple[str, str], dict[int, str | None]] = defaultdict(dict)
    for row in rows:
        if row["rule"] == 0:
            sequences[row["group_id"], row["rollout_id"]][row["step"]] = row["action"] if row["valid"] else None
    clusters: dict[tuple[str, tuple[str | None, ...]], list[str]] = defaultdict(list)
    for (group, rollout), steps in sequences.items():
        clusters[group, tuple(steps[t] for t in sorted(steps))].append(rollout)
    ranked: dict[str, list[tuple[str, list[str]]]] = defaultdict(list)
    for (group, _), rollouts in clusters.items():
        ranked[group].append((min(_sha(f"{seed}{rollout}") for rollout in rollouts), rollouts))
    return {
        (group, rollout): rank % folds
        for group, entries in ranked.items()
        for rank, (_, rollouts) in enumerate(sorted(entries))
        for rollout in rollouts
    }


def reference_pairs(rows: list[Row], config: BuildConfig) -> list[dict[str, Any]]:
    """Sections 2-5. Returns pairs ordered by (group, rule, context, chosen, rejected)."""
    world = _world(rows, config)
    classes = _comparable(world, config)
    pairs = [pair for c, evidence in classes.items() for pair in _pairs(world, classes, c, evidence, config)]
    return sorted(
        pairs,
        key=lambda p: (
            p["group_id"],
            p["rule"],
            p["context"],
            (f"{p['chosen_rollout_id']}:", str(p["chosen_step"])),
            (f"{p['rejected_rollout_id']}:", str(p["rejected_step"])),
        ),
    )


def _world(rows: list[Row], config: BuildConfig) -> World:
    visits: dict[tuple[str, int, str], dict[str, dict[str, int]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        if row["valid"]:
            first = visits[row["group_id"], row["rule"], row["context"]][row["action"]]
            first[row["rollout_id"]] = min(row["step"], first.get(row["rollout_id"], row["step"]))
    return World(
        fold=assign_folds(rows, config.seed, config.folds),
        outcome={(r["group_id"], r["rollout_id"]): r["outcome"] for r in rows},
        version={(r["group_id"], r["rollout_id"]): r.get("version") for r in rows},
        keys={(r["group_id"], r["rollout_id"], r["step"], r["rule"]): (r["context"], r["action"]) for r in rows},
        visits=visits,
    )


def _comparable(world: World, config: BuildConfig) -> dict[Class, Evidence]:
    """Sections 3 and 4: every comparable class with its evidence."""
    every = range(config.folds)
    classes = {}
    for (group, rule, context), actions in world.visits.items():
        seen = {action: {world.fold[group, r] for r in rollouts} for action, rollouts in actions.items()}
        for a, b in combinations(sorted(actions), 2):
            for f, g in product(every, every):
                if f not in seen[a] or g not in seen[b] or (config.folds == 2 and f != g):
                    continue
                judges = {"opposite-fold": set(every) - {f, g}, "same-fold": {f, g}, "all-folds": set(every)}
                evidence = _evidence(world, group, actions, a, b, judges[config.orientation], config)
                if evidence is not None:
                    classes[Class(group, rule, context, a, b, f, g)] = evidence
    return classes


def _evidence(
    world: World,
    group: str,
    actions: dict[str, dict[str, int]],
    a: str,
    b: str,
    judges: set[int],
    config: BuildConfig,
) -> Evidence | None:
    """Evidence for a against b from the folds `judges`, or None where they are not comparable."""
    both = actions[a].keys() & actions[b].keys()  # says nothing about a against b, but belongs to the context's mean
    outcomes: dict[str, list[tuple[int, str | None]]] = {}  # outcome, policy version
    entries = []
    for action, rollouts in actions.items():
        outcomes[action] = []
        for rollout in rollouts:
            y = world.outcome[group, rollout]
            if y is not None and world.fold[group, rollout] in judges:
                entry = (round(y * SCALE), world.version[group, rollout] if config.scope == "task" else None)
                entries.append(entry)
                if rollout not in both:
                    outcomes[action].append(entry)
    if min(len(outcomes[a]), len(outcomes[b])) < config.min_support:
        return None
    evidence = Evidence(mu=sum(y for y, _ in entries) / (SCALE * len(entries)))
    for u in (a, b):
        n, s = len(outcomes[u]), sum(y for y, _ in outcomes[u])
        if config.scope == "group":
            p = (s / SCALE + config.kappa * evidence.mu) / (n + config.kappa)
        else:  # (ours) each outcome is taken against the context mean of its own policy version
            expected = sum(_mean([y for y, w in entries if w == v]) for _, v in outcomes[u])
            p = evidence.mu + float((s - expected) / SCALE) / (n + config.kappa)
        evidence.n[u], evidence.s[u], evidence.p[u] = n, s, p
    return evidence


def _pairs(
    world: World, classes: dict[Class, Evidence], c: Class, evidence: Evidence, config: BuildConfig
) -> list[dict[str, Any]]:
    """Sections 4 and 5: direction and weight of one class, and its pairs."""
    delta = evidence.p[c.a] - evidence.p[c.b]
    if abs(delta) <= config.margin + NOISE:
        return []
    winner, loser = ((c.a, c.fold_a), (c.b, c.fold_b)) if delta > 0 else ((c.b, c.fold_b), (c.a, c.fold_a))
    wins, losses = _side(world, c, *winner, config), _side(world, c, *loser, config)
    size = max(len(wins), len(losses))
    candidates = sorted(
        ((rank_l - rank_w) % size, rank_w, win, loss)
        for rank_w, win in enumerate(wins)
        for rank_l, loss in enumerate(losses)
        if win[0] != loss[0]
        and not any(_compares(world, classes, c.group, r, (win, winner[1]), (loss, loser[1])) for r in range(c.rule))
    )
    kept = candidates[: config.max_pairs_per_class]
    (chosen, chosen_fold), (rejected, rejected_fold) = winner, loser
    n_w, n_l = evidence.n[chosen], evidence.n[rejected]
    class_weight = _class_weight(config, c.rule, abs(delta), evidence, chosen, rejected)
    return [
        {
            "group_id": c.group,
            "rule": c.rule,
            "context": c.context,
            "chosen_action": chosen,
            "rejected_action": rejected,
            "chosen_rollout_id": win[0],
            "chosen_step": win[1],
            "rejected_rollout_id": loss[0],
            "rejected_step": loss[1],
            "chosen_fold": chosen_fold,
            "rejected_fold": rejected_fold,
            "chosen_support": n_w,
            "rejected_support": n_l,
            "chosen_mean": evidence.s[chosen] / SCALE / n_w,
            "rejected_mean": evidence.s[rejected] / SCALE / n_l,
            "chosen_estimate": evidence.p[chosen],
            "rejected_estimate": evidence.p[rejected],
            "context_mean": evidence.mu,
            "delta": abs(delta),
            "support": _harmonic(n_w, n_l),
            "class_weight": class_weight,
            "class_pairs": len(kept),
            "weight": class_weight / len(kept),
        }
        for _, _, win, loss in kept
    ]


def _side(world: World, c: Class, action: str, fold: int, config: BuildConfig) -> list[Decision]:
    """Decisions of one side of a class in hash order, capped."""
    first = world.visits[c.group, c.rule, c.context][action]
    decisions = [(rollout, step) for rollout, step in first.items() if world.fold[c.group, rollout] == fold]
    decisions.sort(key=lambda d: _sha(f"{config.seed}{d[0]}:{d[1]}"))
    return decisions[: config.max_decisions_per_side]


def _compares(
    world: World,
    classes: dict[Class, Evidence],
    group: str,
    rule: int,
    one: tuple[Decision, int],
    other: tuple[Decision, int],
) -> bool:
    """Whether a (finer) rule compares two decisions, each given with its fold."""
    (decision, f), (decision_, g) = one, other
    (context, action), (context_, action_) = world.keys[group, *decision, rule], world.keys[group, *decision_, rule]
    if action > action_:
        action, action_, f, g = action_, action, g, f
    return context == context_ and action != action_ and Class(group, rule, context, action, action_, f, g) in classes


def _class_weight(
    config: BuildConfig, rule: int, delta: float, evidence: Evidence, chosen: str, rejected: str
) -> float:
    n_w, n_l = evidence.n[chosen], evidence.n[rejected]
    h = _harmonic(n_w, n_l)
    discount = math.prod([config.discount] * rule)
    if config.weight == "uniform":
        return 1.0
    if config.weight == "support":
        return discount * h / (h + config.support_prior)
    if config.weight == "support_margin":
        return discount * delta * h / (h + config.support_prior)
    probability = superiority(evidence.s[chosen] // SCALE, n_w, evidence.s[rejected] // SCALE, n_l)
    return discount * (2 * float(probability) - 1)


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _harmonic(a: int, b: int) -> float:
    return 2 * a * b / (a + b)


def _mean(values: list[int]) -> Fraction:
    return Fraction(sum(values), len(values))
