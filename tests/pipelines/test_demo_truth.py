"""Preferences from the demo log against the known action values of its world."""

from __future__ import annotations

import gzip
import json
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from mcgpo_data.build.reference import reference_pairs
from mcgpo_data.config import BuildConfig

DEMO = Path(__file__).resolve().parents[2] / "pipelines" / "demo"
Record = dict[str, Any]
Context = tuple[str, str]


def unpacked(name: str) -> str:
    return gzip.decompress((DEMO / name).read_bytes()).decode()


@pytest.fixture(scope="module")
def log() -> list[Record]:
    return [json.loads(line) for line in unpacked("demo_rollouts.jsonl.gz").splitlines()]


@pytest.fixture(scope="module")
def advantages(log: list[Record]) -> dict[Context, list[dict[str, float]]]:
    """Per (task, observation): for each visit, the true value of every action."""
    tasks = json.loads(unpacked("demo_truth.json.gz"))["tasks"]
    found: dict[Context, list[dict[str, float]]] = defaultdict(list)
    for r in log:
        values = tasks[r["task_id"]]["states"][r["metadata"]["state_id"]]["values"][str(r["step"])]
        found[r["task_id"], r["observation"]].append(values)
    return found


def success(log: list[Record]) -> dict[str, bool]:
    return {r["rollout_id"]: r["success"] for r in log if r["success"] is not None}


def build(log: list[Record], outcomes: dict[str, bool], config: BuildConfig) -> list[Record]:
    """Pairs of exact matches: the context is the observation."""
    rows = [
        {
            "group_id": r["task_id"],
            "rollout_id": r["rollout_id"],
            "step": r["step"],
            "rule": 0,
            "context": r["observation"],
            "action": r["action"] or "",
            "valid": r["action_valid"],
            "outcome": float(outcomes[r["rollout_id"]]),
        }
        for r in log
    ]
    return reference_pairs(rows, config)


def judged(pairs: list[Record], advantages: dict[Context, list[dict[str, float]]]) -> list[tuple[float, bool]]:
    """(weight, whether the chosen action is the better one) per pair, less those with equally good actions."""
    result = []
    for pair in pairs:
        chosen, rejected = pair["chosen_action"], pair["rejected_action"]
        visits = advantages[pair["group_id"], pair["context"]]
        gaps = [values[chosen] - values[rejected] for values in visits if chosen in values and rejected in values]
        gap = sum(gaps) / len(gaps)
        if abs(gap) > 1e-3:
            result.append((pair["weight"] * pair["class_pairs"], gap > 0))
    return result


def share_right(verdicts: list[tuple[float, bool]]) -> float:
    return sum(right for _, right in verdicts) / len(verdicts)


def weighted_share_right(verdicts: list[tuple[float, bool]]) -> float:
    return sum(weight for weight, right in verdicts if right) / sum(weight for weight, _ in verdicts)


def test_the_log_gives_hundreds_of_pairs(log: list[Record]) -> None:
    assert len(build(log, success(log), BuildConfig())) > 500


def test_pairs_point_the_right_way_and_heavy_ones_more_often(
    log: list[Record], advantages: dict[Context, list[dict[str, float]]]
) -> None:
    verdicts = sorted(judged(build(log, success(log), BuildConfig()), advantages))
    light, middle, heavy = (verdicts[i * len(verdicts) // 3 : (i + 1) * len(verdicts) // 3] for i in range(3))
    assert share_right(light) < share_right(middle) < share_right(heavy)
    assert share_right(heavy) > 0.8
    assert weighted_share_right(verdicts) > share_right(verdicts) > 0.6


def test_shuffled_outcomes_teach_nothing(log: list[Record], advantages: dict[Context, list[dict[str, float]]]) -> None:
    outcomes = success(log)
    rng = random.Random(0)
    shares = []
    for _ in range(5):
        shuffled = {}
        for task in sorted({r["task_id"] for r in log}):
            names = sorted(name for name in outcomes if name.startswith(task))
            values = [outcomes[name] for name in names]
            rng.shuffle(values)
            shuffled |= dict(zip(names, values, strict=True))
        shares.append(weighted_share_right(judged(build(log, shuffled, BuildConfig()), advantages)))
    assert sum(shares) / len(shares) == pytest.approx(0.5, abs=0.1)
