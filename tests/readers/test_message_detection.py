"""Each log is known by one reader of message logs, by its keys alone; neighbours and other formats by none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcgpo_data.errors import McgpoError, UsageError
from mcgpo_data.readers import openai, sharegpt, tau, verifiers
from mcgpo_data.readers.logfile import LogFile

ALL = [reader for module in (tau, verifiers, sharegpt, openai) for reader in module.READERS]
TALK = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
TURNS = [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]
NODES = [{"message": m} for m in TALK]

OURS = {
    "tau_bench": [
        {"task_id": 0, "trial": 0, "reward": 0.0, "info": {}, "traj": []},
        {"task_id": 0, "trial": 0, "reward": 1.0, "info": {}, "traj": TALK},
    ],
    "tau2_bench": [
        {"info": {}, "tasks": [], "simulations": [{"task_id": "1", "messages": TALK}]},
        {"info": {}, "tasks": [], "simulation_index": []},
        {"id": "s", "task_id": "1", "termination_reason": "user_stop", "messages": TALK, "trial": 0},
    ],
    "verifiers": [
        {"id": 0, "prompt": TALK[:1], "completion": TALK[1:], "reward": 1.0, "generation_ms": 1.0, "task": "default"},
        {"example_id": 0, "prompt": None, "completion": None, "reward": 0.0, "error": "x"},
    ],
    "verifiers_traces": [
        {"id": "e", "env": {"id": "x"}, "task": {"key": "k"}, "ok": True, "traces": [{"nodes": NODES}]},
        {"id": "t", "task": {"key": "k"}, "nodes": NODES, "rewards": {}},
    ],
    "sharegpt": [
        {"item_id": "webshop_1", "conversations": TURNS, "reward": 1.0, "success": 1},
        {"id": "os_1", "conversations": TURNS},
        {"meta": {"reward": 1.0, "steps": 1}, "conversations": TURNS},
        {"item_id": "webshop_1", "conversations": None},
        {"conversations": TALK, "reward": 1.0},
    ],
    "openai_messages": [
        {"messages": TALK},
        {"task_id": 0, "trial": 0, "reward": 1.0, "messages": TALK},
        {"prompt": TALK[:1], "completion": TALK[1:], "reward": 1.0},
        {"instance_id": "i", "trajectory_format": "mini-swe-agent-1.1", "info": {}, "messages": TALK},
        {"messages": TALK, "steps": 3, "tokens": 17},
    ],
}
OTHERS = [
    {"env": "x", "model": "m", "num_examples": 5, "rollouts_per_example": 3, "avg_reward": 0.5},  # metadata.json
    {"responses_create_params": {"input": TALK}, "response": {"output": []}, "reward": 1.0},  # NeMo Gym
    {"instance_id": "i", "history": TALK, "metadata": {}, "test_result": {}},  # OpenHands
    {"trajectory": [{"action": "ls", "observation": ""}], "history": TALK, "info": {}},  # SWE-agent
    {"tokens": [[1]], "masks": [[1]], "scores": [1.0], "messages": [TALK]},  # Atropos
    {"eval": {}, "samples": [{"messages": TALK}], "plan": {}},  # Inspect
    {"input": "q", "output": "a", "gts": None, "score": 1.0, "step": 3},  # verl
    {"step": 1, "prompt": "q", "completion": "a", "reward_fn": 1.0, "advantage": 0.1},  # TRL
    {"global_step": 1, "trajectories": [{"steps": []}]},
    {"messages": ["[]"], "trajectory_data": ["{}"]},  # ROLL
    {"chosen": TALK, "rejected": TALK},  # preferences
    {"task_id": 1, "traj": "one text", "result": True},  # text logs
    {"trial_name": "t", "verifier_result": {"rewards": {}}},  # Harbor
]


def found(path: Path, record: Any, *, indent: int | None = None, array: bool = False) -> list[str]:
    path.write_text(json.dumps([record] if array else record, indent=indent))
    head = LogFile(path).head()
    return [reader.name for reader in ALL if reader.detect(head)]


@pytest.mark.parametrize("name, record", [(name, record) for name, records in OURS.items() for record in records])
@pytest.mark.parametrize("ending", ["jsonl", "json", "txt"])
def test_each_log_has_one_reader_whatever_its_file_is_called(tmp_path: Path, name, record, ending):
    path = tmp_path / f"log.{ending}"
    assert found(path, record) == [name]
    assert found(path, record, indent=2) == [name]
    assert found(path, record, array=True) == [name]


@pytest.mark.parametrize("record", OTHERS, ids=lambda record: "-".join(record)[:30])
def test_other_formats_and_neighbours_have_none(tmp_path: Path, record):
    assert found(tmp_path / "log.jsonl", record) == []


@pytest.mark.parametrize("text", ["free text\nAction: look\n", "[1, 2, 3]", "[]", "{}", '"word"', "null\n3\n"])
def test_what_is_no_record_has_none(tmp_path: Path, text):
    path = tmp_path / "log.txt"
    path.write_text(text)
    head = LogFile(path).head()
    assert [reader.name for reader in ALL if reader.detect(head)] == []


def test_a_git_lfs_pointer_is_named_for_what_it_is(tmp_path: Path):
    path = tmp_path / "results.jsonl"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:971642af\nsize 54411\n")
    with pytest.raises(UsageError, match="Git-LFS pointer"):
        LogFile(path).head()


def test_real_logs_are_found_by_their_own_reader_alone(shared: Path):
    owners: dict[str, set[str]] = {}
    for path in sorted((shared / "data").glob("*/*")):
        if path.suffix == ".md":
            continue
        try:
            head = LogFile(path).head()
        except McgpoError:
            continue  # zip archives, Git-LFS pointers
        names = tuple(reader.name for reader in ALL if reader.detect(head))
        assert len(names) <= 1, path
        owners.setdefault(path.parent.name, set()).update(names)
    assert {folder: names for folder, names in owners.items() if names} == {
        "tau_bench": {"tau_bench"},
        "verifiers": {"verifiers"},
    }
