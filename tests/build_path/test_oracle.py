"""Pairs of a build are those that the plain reference makes of the build's own decisions and rollouts."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcgpo_data.build.reference import reference_pairs
from mcgpo_data.config import BuildConfig, build_config
from mcgpo_data.store import Store

from .logs import Row, build, make_rows, pairs_of, write_log

OPTIONS: list[dict[str, Any]] = [
    {},
    {"scope": "task"},
    {"scope": "task", "folds": 3, "weight": "support"},
    {"representation": "history"},
    {"representation": "state", "folds": 3},
    {"representation": "progress"},
    {"outcome": "score", "outcome_range": (-2.0, 5.0), "kappa": 0.0},
    {"outcome": "return", "outcome_range": (0.0, 10.0), "margin": 0.05},
    {"truncated": "unscored", "max_pairs_per_class": 1},
    {"weight": "posterior", "outcome": "success"},
    {"orientation": "all-folds", "discount": 1.0, "seed": 5},
    {"folds": 4, "max_decisions_per_side": 1, "min_support": 2},
]
COMPARED = ["group_id", "rule", "chosen_action", "rejected_action", "chosen_rollout_id", "chosen_step"]
COMPARED += ["rejected_rollout_id", "rejected_step", "chosen_fold", "rejected_fold", "chosen_support"]
COMPARED += ["rejected_support", "class_pairs"]
CLOSE = ["chosen_mean", "rejected_mean", "chosen_estimate", "rejected_estimate", "context_mean", "delta", "support"]
CLOSE += ["class_weight", "weight"]


@st.composite
def logs(draw: st.DrawFn) -> list[Row]:
    """Logs with groups inside tasks, versions, scores, rewards, refused actions, cuts and crashes."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    grouped, versioned = rng.random() < 0.3, rng.random() < 0.5
    rows = make_rows(
        seed=rng.randrange(10**6),
        tasks=2,
        rollouts=rng.randint(14, 20),
        length=rng.randint(2, 4),
        states=rng.randint(1, 2),
        actions=rng.randint(2, 3),
    )
    facts: dict[str, Row] = {}
    for row in rows:
        shared = facts.setdefault(
            row["rollout_id"],
            {"policy_version": rng.choice(["1", "2"]), "half": rng.choice("xy"), "end": rng.random()},
        )
        row["reward"] = rng.choice([0.0, 1.0, 0.25])
        if grouped:
            row["group_id"] = f"{row['task_id']}-{shared['half']}"
        if versioned:
            row["policy_version"] = shared["policy_version"]
        if rng.random() < 0.1:
            row["action_valid"] = False
        if row.get("done"):
            row["outcome"] = rng.choice([-2.0, 0.1, 1 / 3, 5.0])
            if shared["end"] < 0.1:
                row |= {"success": None, "outcome": None}
            elif shared["end"] < 0.2:
                row |= {"terminal_status": "error_infra"}
            elif shared["end"] < 0.3:
                row |= {"done": False, "truncated": True}
    return rows


def reference_rows(store: Store, config: BuildConfig) -> list[Row]:
    """What the reference takes: contexts are texts that stand for what the representation compares."""
    rollouts = {r["rollout_id"]: r for r in store.read("rollouts").to_pylist()}
    rows, history = [], {}
    for d in store.read("decisions").sort_by([("rollout_id", "ascending"), ("step_index", "ascending")]).to_pylist():
        rollout = rollouts[d["rollout_id"]]
        past = history.get((d["rollout_id"], d["step_index"] - 1), "")
        seen = f"{past}|{d['state_summary']}"
        history[d["rollout_id"], d["step_index"]] = f"{seen}>{d['action']}"
        context = {
            "state": d["state_summary"],
            "progress": d["progress"],
            "state+progress": f"{d['state_summary']}/{d['progress']}",
            "history": seen,
        }[config.representation]
        rows.append(
            {
                "group_id": rollout["task_id" if config.scope == "task" else "group_id"],
                "rollout_id": d["rollout_id"],
                "step": d["step_index"],
                "rule": d["rule"],
                "context": context,
                "action": d["action"],
                "valid": d["valid"],
                "outcome": rollout["evidence_outcome"],
                "version": repr((rollout["policy"], rollout["policy_version"])),
            }
        )
    return rows


def agree(store: Store, config: BuildConfig) -> int:
    def place(pair: Row) -> Any:
        names = ("chosen_rollout_id", "chosen_step", "rejected_rollout_id", "rejected_step", "rule", "group_id")
        return tuple(str(pair[name]) for name in names)

    wanted = sorted(reference_pairs(reference_rows(store, config), config), key=place)
    found = sorted(pairs_of(store), key=place)
    assert [[p[c] for c in COMPARED] for p in found] == [[p[c] for c in COMPARED] for p in wanted]
    for ours, worked in zip(found, wanted, strict=True):
        for name in CLOSE:
            assert ours[name] == pytest.approx(worked[name], rel=0, abs=1e-12), name
    return len(found)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: ",".join(f"{k}={v}" for k, v in o.items()) or "defaults")
def test_pairs_of_a_build_are_those_of_the_reference(options: dict[str, Any]) -> None:
    config, pairs = build_config(options), []

    @settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(logs())
    def check(rows: list[Row]) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            store = build(write_log(folder / "log.jsonl", rows), folder / "out", config=config)
            pairs.append(agree(store, config))

    check()
    assert sum(pairs) > 0


def test_the_order_of_pairs_is_group_rule_context_chosen_rejected(tmp_path: Path) -> None:
    store = build(write_log(tmp_path / "log.jsonl", make_rows(seed=5, rollouts=16)), tmp_path / "out")
    keys = [
        (
            p["group_id"], p["rule"], p["context"], f"{p['chosen_rollout_id']}:", str(p["chosen_step"]),
            f"{p['rejected_rollout_id']}:", str(p["rejected_step"]),
        )
        for p in pairs_of(store)
    ]  # fmt: skip
    assert len({(k[0], k[1], k[2]) for k in keys}) > 3
    assert keys == sorted(keys)
