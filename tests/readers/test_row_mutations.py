"""Damaged row-shaped and home-made logs are read, skipped or refused, but never break a reader."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mcgpo_data.errors import McgpoError, UsageError
from mcgpo_data.readers.mapping import MappingReader, load_mapping
from mcgpo_data.readers.mapping_spec import read_spec
from mcgpo_data.readers.mapping_yaml import load_yaml
from mcgpo_data.readers.trl import TrlReader
from mcgpo_data.readers.verl import READERS

from .step_rows import rows
from .test_mapping_shipped import INTERCODE
from .test_message_mutations import mutated, read_all

AGENT_R1, TRAJECTORIES, STEP_ROWS, VERL = READERS
TURNS = [("desk", "go to desk 1"), ("pen", "take pen 1"), ("done", "look")]
STEP = {"observation": "o", "action": "<think>t</think><action>a</action>", "step_reward": 0.0, "step": 0}
TRAJECTORY = {"traj_id": "t" * 20, "n_steps": 1, "success": True, "episode_reward": 10.0, "steps": [STEP]}
CALL = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
VERL_ROW = {"input": "user\nq\nassistant\n", "output": f"{CALL}\ntool\n1\nassistant\nx", "score": 1.0, "step": 1}
SAID = [{"role": "user", "content": "q"}]
ALFWORLD = "room\n> Think: t\n> go\nhall\n> ActionPath: x"


def home_made(steps: str, more: str = "") -> MappingReader:
    text = f"name: x\ntask: t\nrollout: [t, i]\noutcome: {{field: o, min: 0, max: 1}}\n{more}steps: {steps}\n"
    return MappingReader(read_spec(load_yaml(text, "x.yaml")))


FIXTURES: list[tuple[Any, dict[str, Any]]] = [
    (VERL, VERL_ROW | {"uid": "1_0_0", "acc": 1.0}),
    (STEP_ROWS, rows("a pen", TURNS, 10.0)[0]),
    (STEP_ROWS, rows("a pen", TURNS, 9.9, traj_uid="t", uid="g", is_action_valid=1)[1]),
    (TRAJECTORIES, {"global_step": 80, "trajectories": [TRAJECTORY, TRAJECTORY | {"traj_id": "u" * 20}]}),
    (TRAJECTORIES, {"traj_uid": "v" * 20, "task": "x", "outcome": "success", "steps": [STEP, STEP]}),
    (
        AGENT_R1,
        {
            "trajectory_uid": "w" * 20,
            "input": "q",
            "output": "a",
            "score": 1.0,
            "step": 1,
            "num_steps": 1,
            "steps": [{"step_index": 0, "input": "user\nq\nassistant\n", "output": "<action>a</action>", "gts": 1}],
        },
    ),
    (TrlReader(), {"step": 1, "prompt": "q", "completion": "a", "reward": 0.5, "extra": "e", "advantage": 1.0}),
    (TrlReader(), {"step": 1, "prompt": SAID, "completion": [{"role": "assistant", "content": "a"}], "r": 0.5}),
    (load_mapping("intercode"), INTERCODE | {"turn_history": {"actions": ["a"], "observations": ["o"]}}),
    (load_mapping("knowagent-alfworld"), {"name": "g", "result": True, "traj": ALFWORLD}),
    (
        load_mapping("knowagent-hotpotqa"),
        {
            "question": "q",
            "answer": "a",
            "correct": "True",
            "reward": "1.0",
            "halted": "False",
            "error": "False",
            "prompt": "Question: q\nActionPath 1: Start\nThought 1: t\nAction 1: Finish[a]\nObservation 1: x",
        },
    ),
    (
        home_made("{form: list, at: s, order: n, phase: after, initial: b, fields: {response: r, observation: o}}"),
        {"t": 1, "i": 2, "o": 1, "b": "start", "s": [{"n": 0, "r": "Action: a", "o": {"x": [1]}}, {"n": 1, "r": "b"}]},
    ),
    (
        home_made(
            "{form: rows, order: n, phase: before, fields: {action: a, observation: v, valid: k, admissible: c}}"
        ),
        {"t": "x", "i": 0, "n": 0, "a": "go", "v": "room", "k": True, "d": False, "c": ["go", 1], "o": 0.5},
    ),
]
IDS = [f"{reader.name}-{i}" for i, (reader, _) in enumerate(FIXTURES)]


@pytest.mark.parametrize("reader, record", FIXTURES, ids=IDS)
def test_sound_fixtures_give_rollouts(tmp_path: Path, reader, record):
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps(wrapped(reader, [record])) + "\n")
    count, report = read_all(reader, path)
    assert count >= 1
    assert report.skipped == {}


def wrapped(reader: Any, records: list[Any]) -> Any:
    """One record as it stands in a line of its log."""
    return {"0": records[0]} if reader.name == "intercode" else records[0]


@pytest.mark.parametrize("reader, record", FIXTURES, ids=IDS)
def test_dropped_keys_wrong_types_and_nulls(tmp_path: Path, reader, record):
    rng = random.Random(7)
    path = tmp_path / "log.jsonl"
    for _ in range(60):
        broken = [mutated(record, rng) for _ in range(5)]
        path.write_text("".join(json.dumps(wrapped(reader, [row])) + "\n" for row in [*broken, record]))
        count, report = read_all(reader, path)
        assert count >= 1 or reader.name in ("verl_agent", "x"), "the sound row must survive its neighbours"
        assert report.records >= len(broken)


@pytest.mark.parametrize("reader, record", FIXTURES, ids=IDS)
def test_truncated_and_garbled_bytes(tmp_path: Path, reader, record):
    rng = random.Random(11)
    path = tmp_path / "log.jsonl"
    for indent in (None, 1):
        data = "\n".join(json.dumps(wrapped(reader, [record]), indent=indent) for _ in range(3)).encode()
        for _ in range(60):
            damaged = bytearray(data[: rng.randint(1, len(data))])
            for _ in range(rng.randint(0, 4)):
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
            path.write_bytes(bytes(damaged))
            try:
                read_all(reader, path)
            except McgpoError:
                continue


def test_threads_survive_changed_rows(tmp_path: Path):
    rng = random.Random(5)
    path = tmp_path / "log.jsonl"
    log = [row for score in (0.0, 10.0) for row in rows("a pen", TURNS, score)]
    for _ in range(60):
        changed = [mutated(row, rng) if rng.random() < 0.3 else row for row in log]
        path.write_text("".join(json.dumps(row) + "\n" for row in changed))
        read_all(STEP_ROWS, path)


def test_deep_nesting_is_no_crash(tmp_path: Path):
    path = tmp_path / "log.jsonl"
    deep = "[" * 900 + "]" * 900
    for reader, record in FIXTURES:
        line = json.dumps(wrapped(reader, [record | {"extra": "DEEP", "step": "DEEP", "t": "DEEP"}])).replace(
            '"DEEP"', deep
        )
        path.write_text(line + "\n" + json.dumps(wrapped(reader, [record])) + "\n")
        read_all(reader, path)


def test_damaged_parquet_is_refused_or_skipped(tmp_path: Path):
    rng = random.Random(3)
    path = tmp_path / "c.parquet"
    pq.write_table(pa.table({"step": [1] * 50, "prompt": ["q"] * 50, "completion": ["a"] * 50, "r": [0.5] * 50}), path)
    data = path.read_bytes()
    for _ in range(80):
        damaged = bytearray(data[: rng.randint(8, len(data))] if rng.random() < 0.3 else data)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(4, len(damaged))] = rng.randrange(256)
        path.write_bytes(bytes(damaged))
        try:
            read_all(TrlReader(), path)
        except McgpoError:
            continue


def test_odd_mapping_files_are_usage_errors():
    rng = random.Random(2)
    text = (
        "name: x\ntask: [a, {file: '(b)'}]\noutcome: {field: o, values: {w: 1}, min: 0, max: 1}\n"
        "detect: {keys: [a], match: {a: b}}\nsteps:\n  form: list\n  at: s\n  fields: {action: a}\n  invalid: 'x'\n"
    )
    kept = 0
    for _ in range(400):
        changed = list(text)
        for _ in range(rng.randint(1, 3)):
            changed[rng.randrange(len(changed))] = rng.choice("[]{}:'\"&*!|>-#%@`\n\t ?,\x00(\\0")
        try:
            read_spec(load_yaml("".join(changed), "m.yaml"))
            kept += 1
        except UsageError:
            continue
    assert 0 < kept < 400
