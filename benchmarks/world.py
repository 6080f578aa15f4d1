"""Logs of any size with planted truth: which action is best in each state is known.

A task has 80 states and 12 actions per state, one of them best. A rollout walks from a Zipf-distributed start state;
the best action moves it closer to the goal, any other usually does not; it succeeds when it gets there within the
horizon. 30 % of exact contexts carry a session id that no other rollout shares, so that only the coarse rule can match
them. 3 % of outcomes are flipped.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

STATES, ACTIONS, HORIZON = 80, 12, 50
KEY_BITS = 60


def mix(*values: np.ndarray | int) -> np.ndarray:
    """A 60-bit pseudo-random key of integer columns (splitmix64 steps)."""
    key = np.uint64(0x9E3779B97F4A7C15)
    out = np.zeros(1, np.uint64)
    with np.errstate(over="ignore"):
        for value in values:
            out = (out ^ np.asarray(value).astype(np.uint64)) * key
            out ^= out >> np.uint64(30)
            out *= np.uint64(0xBF58476D1CE4E5B9)
            out ^= out >> np.uint64(27)
            out *= np.uint64(0x94D049BB133111EB)
            out ^= out >> np.uint64(31)
    return (out >> np.uint64(64 - KEY_BITS)).astype(np.int64)


def best_action(task: np.ndarray, state: np.ndarray) -> np.ndarray:
    """The planted truth."""
    return mix(7, task, state) % ACTIONS


def simulate(groups: int, seed: int, base: float = 0.4, first_group: int = 0) -> dict[str, np.ndarray]:
    """Step columns of `groups` groups: group, rollout, step, state, action, exact (bool), success per step row.

    Args:
        base: share of rollouts that succeed.
    """
    rng = np.random.default_rng([seed, first_group])
    sizes = rng.choice([8, 16, 32, 64], groups, p=[0.40, 0.35, 0.15, 0.10])
    group = np.repeat(np.arange(first_group, first_group + groups), sizes)
    n = len(group)
    zipf = 1 / np.arange(1, STATES + 1) ** 0.8
    home = rng.choice(STATES, n, p=zipf / zipf.sum())
    skill = np.clip(rng.normal(0.4, 0.15, n), 0.05, 0.9)
    habit = 1 / np.arange(1, ACTIONS + 1) ** 2.0
    length = np.clip(rng.normal(40, 8, n).round(), 5, HORIZON).astype(int)
    state, progress = home.copy(), np.zeros(n)
    columns: list[dict[str, np.ndarray]] = []
    for t in range(HORIZON):
        live = np.flatnonzero(t < length)
        best = best_action(group[live], state[live])
        other = (best + 1 + rng.choice(ACTIONS - 1, len(live), p=habit[1:] / habit[1:].sum())) % ACTIONS
        action = np.where(rng.random(len(live)) < skill[live], best, other)
        columns.append(
            {
                "rollout": live,
                "step": np.full(len(live), t),
                "state": state[live].copy(),
                "action": action,
                "exact": rng.random(len(live)) >= 0.3,
            }
        )
        key_state = mix(9, group[live], state[live]) % 8 == 0  # one state in eight decides a lot
        progress[live] += np.where(action == best, np.where(key_state, 4.0, 0.25), 0.0) / length[live]
        state[live] = np.where(
            rng.random(len(live)) < 0.7, (state[live] + 1) % STATES, rng.choice(STATES, len(live), p=zipf / zipf.sum())
        )
    threshold = np.quantile(progress, 1 - base) if n else 0.0
    success = progress + rng.normal(0, 0.02, n) >= threshold
    success ^= rng.random(n) < 0.03
    out = {name: np.concatenate([c[name] for c in columns]) for name in columns[0]}
    out["group"] = group[out["rollout"]]
    out["success"] = success[out["rollout"]]
    order = np.lexsort((out["step"], out["rollout"]))
    return {name: column[order] for name, column in out.items()}


def core_tables(steps: dict[str, np.ndarray], first_rollout: int = 0) -> tuple[pa.Table, pa.Table]:
    """(decisions, rollouts) of `simulate` as the pair builder takes them: two rules, exact and coarse."""
    rollout = steps["rollout"] + first_rollout
    rollout_key = mix(1, steps["group"], rollout)
    session = np.where(steps["exact"], 0, mix(2, rollout, steps["step"]))
    contexts = [mix(10, steps["group"], steps["state"], session), mix(11, steps["group"], steps["state"])]
    actions = [mix(20, steps["action"]), mix(21, steps["action"])]
    n = len(rollout)
    decisions = pa.table(
        {
            "rule": pa.array(np.repeat(np.arange(2, dtype=np.int16), n)),
            "context": pa.array(np.concatenate(contexts)),
            "action": pa.array(np.concatenate(actions)),
            "rollout_key": pa.array(np.tile(rollout_key, 2)),
            "step": pa.array(np.tile(steps["step"].astype(np.int32), 2)),
            "valid": pa.array(np.ones(2 * n, bool)),
        }
    )
    first = np.flatnonzero(np.r_[True, np.diff(rollout) != 0])
    sequence = np.add.reduceat(mix(5, steps["step"], steps["action"]) >> 8, first)
    rollouts = pa.table(
        {
            "rollout_key": pa.array(rollout_key[first]),
            "rollout_id": pa.array([f"r{k:015x}" for k in rollout_key[first]]),
            "unit_id": pa.array([f"g{g:09d}" for g in steps["group"][first]]),
            "unit_key": pa.array(mix(4, steps["group"][first])),
            "sequence_key": pa.array(sequence),
            "stratum": pa.array(np.zeros(len(first), np.int64)),
            "outcome": pa.array(steps["success"][first].astype(np.int64) * 10**9),
        }
    )
    return decisions, rollouts
