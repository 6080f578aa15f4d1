"""Native logs of any size with real-length text: the steps of `world.py`, each with a prompt of about 7 KB."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from world import simulate

PROMPT_BYTES = 7_000


def words(seed: int, count: int = 400_000) -> str:
    """Text of Zipf-distributed invented words, which compresses about threefold, as real prompts do."""
    rng = np.random.default_rng(seed)
    letters = np.array(list("etaoinshrdlucmfwypvbgkjqxz"))
    vocabulary = ["".join(rng.choice(letters, rng.integers(2, 11))) for _ in range(20_000)]
    weights = 1 / np.arange(1, len(vocabulary) + 1)
    return " ".join(vocabulary[i] for i in rng.choice(len(vocabulary), count, p=weights / weights.sum()))


def write_log(path: Path, groups: int, seed: int = 0) -> int:
    """Write one JSON object per step; returns the number of steps."""
    steps = simulate(groups, seed)
    rng = np.random.default_rng(seed)
    text = words(seed)
    lengths = np.clip(rng.lognormal(np.log(PROMPT_BYTES * 0.9), 0.4, len(steps["step"])), 500, 60_000).astype(int)
    starts = rng.integers(0, len(text) - 60_001, len(lengths))
    session = rng.integers(0, 2**31, len(lengths))
    columns = [steps[c].tolist() for c in ("group", "rollout", "step", "state", "action", "exact", "success")]
    rows = zip(*columns, lengths.tolist(), starts.tolist(), session.tolist(), strict=True)
    with open(path, "w", encoding="utf-8") as stream:
        for group, rollout, step, state, action, exact, success, length, start, number in rows:
            seen = f"You are in state {state}." + ("" if exact else f" Ticket {number}.")
            record = {
                "task_id": f"task-{group}",
                "rollout_id": f"rollout-{rollout}",
                "step": step,
                "observation": seen,
                "prompt": [
                    {"role": "system", "content": text[start : start + length]},
                    {"role": "user", "content": seen},
                ],
                "response": f"<think>{text[start : start + 200]}</think><action>do {action}</action>",
                "action": f"do {action}",
                "success": success,
            }
            stream.write(json.dumps(record) + "\n")
    return len(lengths)
