"""The demo log: reproducible, well formed, and true to its own dynamic programming."""

from __future__ import annotations

import gzip
import importlib.util
import json
import sys
from collections import defaultdict
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

DEMO = Path(__file__).resolve().parents[2] / "pipelines" / "demo"
Record = dict[str, Any]


@pytest.fixture(scope="module")
def world() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_demo_log", DEMO / "make_demo_log.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_demo_log"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def log() -> list[Record]:
    with gzip.open(DEMO / "demo_rollouts.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def truth() -> Record:
    with gzip.open(DEMO / "demo_truth.json.gz", "rt", encoding="utf-8") as text:
        value: Record = json.load(text)
        return value


@pytest.fixture(scope="module")
def rollouts(log: list[Record]) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = defaultdict(list)
    for record in log:
        found[record["rollout_id"]].append(record)
    return found


def test_the_files_are_what_the_script_writes(world: ModuleType) -> None:
    # Packed bytes depend on the build of zlib, so the content is compared.
    for name, data in zip(("demo_rollouts.jsonl.gz", "demo_truth.json.gz"), world.make(), strict=True):
        packed = (DEMO / name).read_bytes()
        assert gzip.decompress(packed) == data
        assert packed[4:8] == b"\0\0\0\0", "a time in the gzip header"


def test_the_files_are_small() -> None:
    assert (DEMO / "demo_rollouts.jsonl.gz").stat().st_size < 400_000
    assert (DEMO / "demo_truth.json.gz").stat().st_size < 200_000


def test_every_task_has_sixteen_rollouts_and_most_have_both_outcomes(rollouts: dict[str, list[Record]]) -> None:
    outcomes: dict[str, list[bool]] = defaultdict(list)
    for steps in rollouts.values():
        outcomes[steps[-1]["task_id"]].append(steps[-1]["success"])
    assert {len(values) for values in outcomes.values()} == {16}
    assert len(outcomes) == 24
    assert sum(len(set(values)) == 2 for values in outcomes.values()) >= 22
    assert 0.3 <= sum(map(sum, outcomes.values())) / len(rollouts) <= 0.6


def test_rollouts_are_whole(rollouts: dict[str, list[Record]]) -> None:
    for steps in rollouts.values():
        assert [record["step"] for record in steps] == list(range(len(steps)))
        for record in steps[:-1]:
            assert (record["done"], record["truncated"], record["success"]) == (False, False, None)
            assert "final_observation" not in record
        last = steps[-1]
        assert last["done"] != last["truncated"]
        assert last["final_observation"]
        assert last["success"] == (last["reward"] == 1.0)


def test_the_prompt_is_what_the_policy_saw_and_the_response_holds_the_action(log: list[Record]) -> None:
    for record in log:
        system, user = record["prompt"]
        assert (system["role"], user["role"]) == ("system", "user")
        for text in (record["instruction"], record["observation"], *record["admissible_actions"]):
            assert text in user["content"]
        tag = f"<action>{record['action']}</action>"
        assert (tag in record["response"]) == (record["action"] is not None)
        assert record["action_valid"] == (record["action"] in record["admissible_actions"])


def test_the_hidden_state_is_nowhere_in_the_text(log: list[Record]) -> None:
    for record in log:
        shown = {key: value for key, value in record.items() if key != "metadata"}
        assert record["metadata"]["state_id"] not in json.dumps(shown)


def test_contexts_repeat_with_different_actions_but_observations_do_not_tell_everything(log: list[Record]) -> None:
    seen: dict[tuple[str, str], set[str]] = defaultdict(set)
    states: dict[tuple[str, str], set[str]] = defaultdict(set)
    for record in log:
        if record["action_valid"]:
            key = (record["task_id"], record["observation"])
            seen[key].add(record["action"])
            states[key].add(record["metadata"]["state_id"])
    assert sum(len(actions) > 1 for actions in seen.values()) > 200
    assert sum(len(hidden) > 1 for hidden in states.values()) > 20


def test_the_truth_covers_every_step(log: list[Record], truth: Record) -> None:
    for record in log:
        state = truth["tasks"][record["task_id"]]["states"][record["metadata"]["state_id"]]
        assert list(state["values"][str(record["step"])]) == record["admissible_actions"]


def test_the_truth_predicts_the_outcomes(rollouts: dict[str, list[Record]], truth: Record) -> None:
    chances = [truth["tasks"][steps[0]["task_id"]]["success_probability"] for steps in rollouts.values()]
    wins = sum(steps[-1]["success"] for steps in rollouts.values())
    spread = sum(p * (1 - p) for p in chances) ** 0.5
    assert abs(wins - sum(chances)) < 3 * spread


def test_action_values_agree_with_fresh_play(world: ModuleType) -> None:
    build, distance = next(iter(world.worlds()))
    values = world.Values(build, distance)
    wins = [list(world.play(build, distance, number))[-1]["success"] for number in range(1000, 1400)]
    chance = values.value(build.start, world.STEP_LIMIT)
    assert abs(sum(wins) - 400 * chance) < 4 * (400 * chance * (1 - chance)) ** 0.5


def test_state_values_are_the_mean_of_action_values(world: ModuleType) -> None:
    build, distance = next(iter(world.worlds()))
    values = world.Values(build, distance)
    state, left = build.start, world.STEP_LIMIT
    acted = sum(p * values.action_value(state, a, left) for a, p in world.policy(build, distance, state).items())
    expected = (1 - world.INVALID) * acted + world.INVALID * values.value(state, left - 1)
    assert values.value(state, left) == pytest.approx(expected, abs=1e-12)


def test_the_best_action_leads_along_a_shortest_solution(world: ModuleType) -> None:
    for build, distance in world.worlds():
        state, steps = build.start, 0
        while state != world.WON:
            action = min(build.actions(state), key=lambda a: distance[build.apply(state, a)])
            state, steps = build.apply(state, action), steps + 1
        assert steps == distance[build.start]
