"""What the pair builder competes with: the same method as Python loops over dicts, on keys that are integers already.

Two folds, opposite-fold evidence, weight support_margin, all other options at their defaults. Written to be fast as
such loops go: one pass over the decisions, no objects, hashes only where an order is needed.
"""

from __future__ import annotations

from collections import defaultdict
from hashlib import sha256
from itertools import combinations
from typing import NamedTuple

Decision = tuple[int, int]  # rollout_key, step
KAPPA, SUPPORT_PRIOR, DISCOUNT, MAX_PAIRS, MAX_SIDE, SCALE = 1.0, 2.0, 0.5, 4, 32, 10**9


class Columns(NamedTuple):
    """The tables of `PairInput` as lists."""

    rule: list[int]
    context: list[int]
    action: list[int]
    rollout_key: list[int]
    step: list[int]
    valid: list[bool]
    rollouts: list[tuple[int, str, int, int, int | None]]  # key, id, unit, sequence, outcome


def fold_of(rollouts: list[tuple[int, str, int, int, int | None]]) -> dict[int, int]:
    sequences: dict[tuple[int, int], list[tuple[str, int]]] = defaultdict(list)
    for key, name, unit, sequence, _ in rollouts:
        sequences[unit, sequence].append((sha256(f"0{name}".encode()).hexdigest(), key))
    ranked: dict[int, list[tuple[str, list[int]]]] = defaultdict(list)
    for (unit, _), members in sequences.items():
        ranked[unit].append((min(members)[0], [key for _, key in members]))
    return {
        key: rank & 1 for entries in ranked.values() for rank, (_, keys) in enumerate(sorted(entries)) for key in keys
    }


def dict_pairs(data: Columns) -> list[tuple[int, int, Decision, Decision, float]]:
    """(rule, context, chosen, rejected, weight) of all pairs."""
    folds = fold_of(data.rollouts)
    names = {key: name for key, name, *_ in data.rollouts}
    units = {key: unit for key, _, unit, _, _ in data.rollouts}
    outcomes = {key: outcome for key, *_, outcome in data.rollouts}

    finer: dict[Decision, tuple[int, int]] = {}
    visits: tuple[dict[int, dict[int, dict[int, int]]], ...] = ({}, {})
    for rule, context, action, rollout, step, valid in zip(*data[:6], strict=True):
        context ^= units[rollout]
        if rule == 0:
            finer[rollout, step] = (context, action)
        if valid:
            first = visits[rule].setdefault(context, {}).setdefault(action, {})
            if first.get(rollout, step) >= step:
                first[rollout] = step

    comparable: set[tuple[int, int, int, int]] = set()
    pairs: list[tuple[int, int, Decision, Decision, float]] = []
    digests: dict[Decision, str] = {}

    def side(first: dict[int, int], fold: int) -> list[Decision]:
        found = [decision for decision in first.items() if folds[decision[0]] == fold]
        if len(found) > 1:
            for decision in found:
                if decision not in digests:
                    digests[decision] = sha256(f"0{names[decision[0]]}:{decision[1]}".encode()).hexdigest()
            found.sort(key=digests.__getitem__)
        return found[:MAX_SIDE]

    def claimed(win: Decision, loss: Decision, fold: int) -> bool:
        (context, a), (other, b) = finer[win], finer[loss]
        return context == other and (context, min(a, b), max(a, b), fold) in comparable

    for rule in (0, 1):
        for context, actions in visits[rule].items():
            if len(actions) < 2:
                continue
            evidence: tuple[dict[int, tuple[int, int]], ...] = ({}, {})
            candidates: tuple[set[int], ...] = (set(), set())
            for action, first in actions.items():
                n, s = [0, 0], [0, 0]
                for rollout in first:
                    fold = folds[rollout]
                    candidates[fold].add(action)
                    outcome = outcomes[rollout]
                    if outcome is not None:
                        n[fold] += 1
                        s[fold] += outcome
                for fold in (0, 1):
                    if n[fold]:
                        evidence[fold][action] = n[fold], s[fold]
            for fold in (0, 1):
                judges = evidence[1 - fold]
                offered = sorted(action for action in candidates[fold] if action in judges)
                if len(offered) < 2:
                    continue
                mu = sum(s for _, s in judges.values()) / (SCALE * sum(n for n, _ in judges.values()))
                for a, b in combinations(offered, 2):
                    (n_a, s_a), (n_b, s_b) = judges[a], judges[b]
                    for rollout in actions[a].keys() & actions[b].keys():
                        outcome = outcomes[rollout]
                        if folds[rollout] != fold and outcome is not None:
                            n_a, s_a, n_b, s_b = n_a - 1, s_a - outcome, n_b - 1, s_b - outcome
                    if not (n_a and n_b):
                        continue
                    if rule == 0:
                        comparable.add((context, a, b, fold))
                    p_a = (s_a / SCALE + KAPPA * mu) / (n_a + KAPPA)
                    p_b = (s_b / SCALE + KAPPA * mu) / (n_b + KAPPA)
                    delta = abs(p_a - p_b)
                    if delta <= 1e-12:
                        continue
                    chosen, rejected = (a, b) if p_a > p_b else (b, a)
                    wins, losses = side(actions[chosen], fold), side(actions[rejected], fold)
                    size, kept = max(len(wins), len(losses)), []
                    for diagonal in range(size):
                        for rank, win in enumerate(wins):
                            partner = (rank + diagonal) % size
                            if partner < len(losses):
                                loss = losses[partner]
                                if win[0] != loss[0] and not (rule and claimed(win, loss, fold)):
                                    kept.append((win, loss))
                                    if len(kept) == MAX_PAIRS:
                                        break
                        if len(kept) == MAX_PAIRS:
                            break
                    h = 2.0 * n_a * n_b / (n_a + n_b)
                    weight = DISCOUNT**rule * delta * h / (h + SUPPORT_PRIOR)
                    pairs += [(rule, context, win, loss, weight / len(kept)) for win, loss in kept]
    return pairs
