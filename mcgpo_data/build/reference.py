"""The method in plain Python: slow, obvious, and the oracle that the SQL is tested against.

Input is a list of decisions, one dict per decision and rule, as in the `--from-decisions` table:
`group_id, rollout_id, step, rule (0 = finest), context, action, valid, outcome (in [0, 1] or None)` and, for `scope: task`,
`version` (policy version). Sections are those of the method's description.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from fractions import Fraction
from itertools import product
from typing import Any

from mcgpo_data.build.posterior import superiority
from mcgpo_data.config import BuildConfig

Decision = tuple[str, int]  # rollout_id, step
SCALE = 10**9  # outcomes are counted in units of 1e-9
NOISE = 1e-12  # smaller differences of estimates are floating noise


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def assign_folds(rows: list[dict[str, Any]], seed: int, folds: int) -> dict[tuple[str, str], int]:
    """Section 2: {(group, rollout): fold}. Rollouts with one action sequence share a fold."""
    sequences: dict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
    for row in rows:
        if row["rule"] == 0:
            key = row["action"] if row["valid"] else None
            sequences[row["group_id"], row["rollout_id"]].append((row["step"], key))
    clusters: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for (group, rollout), steps in sequences.items():
        clusters[group, tuple(action for _, action in sorted(steps, key=lambda s: s[0]))].append(rollout)
    ranked: dict[str, list[tuple[str, list[str]]]] = defaultdict(list)
    for (group, _), rollouts in clusters.items():
        ranked[group].append((min(_sha(f"{seed}{rollout}") for rollout in rollouts), rollouts))
    return {
        (group, rollout): rank % folds
        for group, entries in ranked.items()
        for rank, (_, rollouts) in enumerate(sorted(entries))
        for rollout in rollouts
    }


def reference_pairs(rows: list[dict[str, Any]], config: BuildConfig) -> list[dict[str, Any]]:
    """Sections 2-5. Returns pairs ordered by (group, rule, context, chosen, rejected)."""
    folds = assign_folds(rows, config.seed, config.folds)
    outcome = {(r["group_id"], r["rollout_id"]): r["outcome"] for r in rows}
    version = {(r["group_id"], r["rollout_id"]): r.get("version") for r in rows}
    keys = {(r["group_id"], r["rollout_id"], r["step"], r["rule"]): (r["context"], r["action"]) for r in rows}

    # first visit of each rollout to (context, action); only valid actions count
    visits: dict[tuple[str, int, str], dict[str, dict[str, int]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        if row["valid"]:
            seen = visits[row["group_id"], row["rule"], row["context"]][row["action"]]
            seen[row["rollout_id"]] = min(row["step"], seen.get(row["rollout_id"], row["step"]))

    # sections 3 and 4: every comparable class, with its evidence
    classes: dict[tuple[str, int, str, str, str, int, int], dict[str, Any]] = {}
    for (group, rule, context), actions in visits.items():
        for a, b in product(sorted(actions), repeat=2):
            if a >= b:
                continue
            for fa, fb in product(range(config.folds), repeat=2):
                if config.folds == 2 and fa != fb:
                    continue
                has_a = any(folds[group, r] == fa for r in actions[a])
                has_b = any(folds[group, r] == fb for r in actions[b])
                if has_a and has_b:
                    evidence_folds = {
                        "opposite-fold": set(range(config.folds)) - {fa, fb},
                        "same-fold": {fa, fb},
                        "all-folds": set(range(config.folds)),
                    }[config.orientation]
                    found = _compare(group, actions, a, b, evidence_folds, folds, outcome, version, config)
                    if found is not None:
                        classes[group, rule, context, a, b, fa, fb] = found

    pairs: list[dict[str, Any]] = []
    for (group, rule, context, a, b, fa, fb), found in classes.items():
        delta = found["p"][a] - found["p"][b]
        if abs(delta) <= max(config.margin, NOISE):
            continue
        chosen, rejected, fw, fl = (a, b, fa, fb) if delta > 0 else (b, a, fb, fa)
        actions = visits[group, rule, context]

        def side(action: str, fold: int) -> list[Decision]:
            ordered = sorted(
                ((r, t) for r, t in actions[action].items() if folds[group, r] == fold),
                key=lambda d: _sha(f"{config.seed}{d[0]}:{d[1]}"),
            )
            return ordered[: config.max_decisions_per_side]

        # section 5: diagonal order, ordered fallback, caps
        wins, losses = side(chosen, fw), side(rejected, fl)
        size = max(len(wins), len(losses))
        candidates = [
            ((rank_l - rank_w) % size, rank_w, w, l)
            for rank_w, w in enumerate(wins)
            for rank_l, l in enumerate(losses)
            if w[0] != l[0]
            and not any(
                _finer_compares(classes, keys, group, finer, w, l, fw, fl) for finer in range(rule)
            )
        ]
        kept = sorted(candidates)[: config.max_pairs_per_class]
        class_weight = _class_weight(config, rule, abs(delta), found, chosen, rejected)
        for _, _, w, l in kept:
            pairs.append(
                {
                    "group_id": group,
                    "rule": rule,
                    "context": context,
                    "chosen_action": chosen,
                    "rejected_action": rejected,
                    "chosen_rollout_id": w[0],
                    "chosen_step": w[1],
                    "rejected_rollout_id": l[0],
                    "rejected_step": l[1],
                    "chosen_fold": fw,
                    "rejected_fold": fl,
                    "chosen_support": found["n"][chosen],
                    "rejected_support": found["n"][rejected],
                    "chosen_mean": found["s"][chosen] / SCALE / found["n"][chosen],
                    "rejected_mean": found["s"][rejected] / SCALE / found["n"][rejected],
                    "chosen_estimate": found["p"][chosen],
                    "rejected_estimate": found["p"][rejected],
                    "context_mean": found["mu"],
                    "delta": abs(delta),
                    "support": _harmonic(found["n"][chosen], found["n"][rejected]),
                    "class_weight": class_weight,
                    "class_pairs": len(kept),
                    "weight": class_weight / len(kept),
                }
            )
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


def _compare(
    group: str,
    actions: dict[str, dict[str, int]],
    a: str,
    b: str,
    evidence_folds: set[int],
    folds: dict[tuple[str, str], int],
    outcome: dict[tuple[str, str], float | None],
    version: dict[tuple[str, str], str | None],
    config: BuildConfig,
) -> dict[str, Any] | None:
    """Evidence for a against b, or None where they are not comparable."""

    def graded(action: str) -> list[tuple[int, str | None]]:
        found = []
        for rollout in actions[action]:
            y = outcome[group, rollout]
            if y is not None and folds[group, rollout] in evidence_folds:
                found.append((round(y * SCALE), version[group, rollout] if config.scope == "task" else None, rollout))
        return found

    entries = [e for action in actions for e in graded(action)]
    if not entries:
        return None
    mean_of_version = {
        v: Fraction(sum(y for y, w, _ in entries if w == v), sum(1 for _, w, _ in entries if w == v))
        for v in {w for _, w, _ in entries}
    }
    mu = sum(y for y, _, _ in entries) / (SCALE * len(entries))
    both = set(actions[a]) & set(actions[b])
    n, s, p = {}, {}, {}
    for u in (a, b):
        mine = [(y, v) for y, v, rollout in graded(u) if rollout not in both]
        n[u], s[u] = len(mine), sum(y for y, _ in mine)
        if n[u] < config.min_support:
            return None
        if config.scope == "group":
            p[u] = (s[u] / SCALE + config.kappa * mu) / (n[u] + config.kappa)
        else:  # (ours) each outcome is taken against the context mean of its own policy version
            expected = sum(mean_of_version[v] for _, v in mine)
            p[u] = mu + float((s[u] - expected) / SCALE) / (n[u] + config.kappa)
    return {"n": n, "s": s, "p": p, "mu": mu}


def _finer_compares(
    classes: dict[tuple[str, int, str, str, str, int, int], Any],
    keys: dict[tuple[str, str, int, int], tuple[str, str]],
    group: str,
    finer: int,
    w: Decision,
    l: Decision,
    fw: int,
    fl: int,
) -> bool:
    (context_w, action_w), (context_l, action_l) = keys[group, *w, finer], keys[group, *l, finer]
    if context_w != context_l or action_w == action_l:
        return False
    if action_w < action_l:
        return (group, finer, context_w, action_w, action_l, fw, fl) in classes
    return (group, finer, context_w, action_l, action_w, fl, fw) in classes


def _harmonic(a: int, b: int) -> float:
    return 2 * a * b / (a + b)


def _class_weight(
    config: BuildConfig, rule: int, delta: float, found: dict[str, Any], chosen: str, rejected: str
) -> float:
    n_w, n_l = found["n"][chosen], found["n"][rejected]
    h = _harmonic(n_w, n_l)
    discount = math.prod([config.discount] * rule)
    if config.weight == "uniform":
        return 1.0
    if config.weight == "support":
        return discount * h / (h + config.support_prior)
    if config.weight == "support_margin":
        return discount * delta * h / (h + config.support_prior)
    probability = superiority(found["s"][chosen] // SCALE, n_w, found["s"][rejected] // SCALE, n_l)
    return discount * (2 * probability - 1)
