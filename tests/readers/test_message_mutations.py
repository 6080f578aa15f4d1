"""Damaged logs are read, skipped or refused, but never break a reader."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mcgpo_data.errors import McgpoError
from mcgpo_data.readers.base import Report
from mcgpo_data.readers.logfile import LogFile
from mcgpo_data.readers.openai import OpenAIMessages
from mcgpo_data.readers.sharegpt import ShareGPT
from mcgpo_data.readers.tau import Tau2Bench, TauBench
from mcgpo_data.readers.verifiers import VerifiersResults
from mcgpo_data.readers.verifiers_traces import VerifiersTraces
from mcgpo_data.schema import ACTION_KINDS, GROUP_SOURCES, OUTCOME_KINDS, STEPS, TERMINAL_STATUSES

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
TALK = [
    {"role": "system", "content": "s"},
    {"role": "user", "content": [{"type": "text", "text": "q"}, {"type": "image_url", "image_url": {"url": "u"}}]},
    {"role": "assistant", "content": None, "tool_calls": [CALL, json.dumps(CALL)], "reasoning_content": "r"},
    {"role": "tool", "content": "t", "tool_call_id": "c1"},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "c2", "name": "g", "input": {"b": 2}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c2", "content": "u"}]},
    {"role": "assistant", "content": "<action>end</action>"},
]
TURNS = [{"from": "human", "value": "q", "loss": None}, {"from": "gpt", "value": "Action: a", "loss": True}]
TOKENS = {"prompt_ids": [1, 2], "completion_ids": [3], "completion_logprobs": [-0.5]}
NODES = [
    {"message": {"role": "user", "content": "q"}, "token_ids": [1], "mask": [False], "logprobs": []},
    {"parent": 0, "sampled": True, "message": TALK[2], "token_ids": [2], "mask": [True], "logprobs": [-1.0]},
    {"parent": 1, "message": TALK[3], "token_ids": [3], "mask": [False]},
    {"parent": 2, "sampled": True, "message": TALK[6], "token_ids": [4], "mask": [True], "logprobs": [-1.0]},
]
FIXTURES = [
    (TauBench(), {"task_id": 0, "trial": 0, "reward": 1.0, "info": {"task": {"a": 1}, "error": None}, "traj": TALK}),
    (
        Tau2Bench(),
        {
            "info": {"agent_info": {"llm": "m"}, "environment_info": {"domain_name": "d"}},
            "tasks": [],
            "simulations": [
                {
                    "id": "s",
                    "task_id": "1",
                    "trial": 0,
                    "termination_reason": "user_stop",
                    "reward_info": {"reward": 1.0},
                    "messages": [
                        *TALK,
                        {"role": "user", "content": None, "tool_calls": [{"id": "u", "name": "h", "arguments": {}}]},
                        {"role": "tool", "id": "u", "content": "x", "requestor": "user"},
                    ],
                }
            ],
        },
    ),
    (
        VerifiersResults(),
        {
            "example_id": 0,
            "prompt": TALK[:2],
            "completion": TALK[2:],
            "reward": 1.0,
            "metrics": {"m": 1.0},
            "error": None,
            "stop_condition": "done",
            "is_truncated": False,
            "trajectory": [{"prompt": TALK[:2], "completion": TALK[2:3], "tokens": TOKENS, "reward": None}],
        },
    ),
    (
        VerifiersTraces(),
        {
            "id": "e",
            "env": {"id": "x"},
            "task": {"key": "k", "data": {}},
            "group": {"id": "g"},
            "run": {"work": {"policy": {"start": 1, "end": 2}}},
            "ok": True,
            "traces": [
                {
                    "id": "t",
                    "agent": {"name": "a", "trainable": True, "config": {"model": "m"}},
                    "nodes": NODES,
                    "calls": [{"model": "m"}],
                    "rewards": {"r": {"score": 1.0, "weight": 1.0}},
                    "ok": True,
                    "stop_condition": "x",
                }
            ],
        },
    ),
    (ShareGPT(), {"item_id": "w_1", "conversations": TURNS, "reward": 1.0, "success": 1}),
    (ShareGPT(), {"meta": {"steps": 1, "reward": 1.0, "success": True, "error": None}, "conversations": TURNS}),
    (OpenAIMessages(), {"task_id": "t", "trial": 0, "model": "m", "messages": TALK, "reward": 1.0, "error": None}),
    (OpenAIMessages(), {"id": 3, "prompt": TALK[:2], "completion": TALK[2:], "score": [0.5], "metadata": {"a": 1}}),
]
TOKEN_COLUMNS = ("prompt_token_ids", "response_token_ids", "response_logprobs")
ODD = [
    None,
    True,
    0,
    -1,
    3.5,
    10**30,
    "",
    "text",
    "{",
    "[1]",
    '{"role": "user"}',
    "half \ud83d",
    [],
    [None],
    [[]],
    {},
    {"x": None},
    float("nan"),
]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths to everything inside `value`."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, item in items for found in ((*path, key), *places(item, (*path, key)))]


def mutated(record: Any, rng: random.Random) -> Any:
    """`record` with one to three places dropped, replaced by something odd, or doubled."""
    record = copy.deepcopy(record)
    for _ in range(rng.randint(1, 3)):
        where = places(record)
        if not where:
            return record
        *path, key = rng.choice(where)
        holder = record
        for step in path:
            holder = holder[step]
        change = rng.choice(["drop", "replace", "replace", "double"])
        if change == "drop":
            del holder[key]
        elif change == "replace":
            holder[key] = copy.deepcopy(rng.choice(ODD))
        else:
            holder[key] = [copy.deepcopy(holder[key])] * 2
    return record


def read_all(reader: Any, path: Path) -> tuple[int, Report]:
    """Reads a file as the tool would; checks what every rollout promises."""
    report = Report(path.name)
    log = LogFile(path, path.name)
    reader.detect(log.head())
    count = 0
    for rollout in reader.read(log, report):
        count += 1
        assert rollout.task_id
        assert rollout.group_source in GROUP_SOURCES
        assert rollout.outcome_kind in OUTCOME_KINDS
        assert (rollout.outcome is None) == (rollout.outcome_kind == "missing")
        assert rollout.terminal_status in TERMINAL_STATUSES
        json.dumps(rollout.metadata, allow_nan=True)
        for index, step in enumerate(rollout.steps):
            assert step.action_kind in ACTION_KINDS
            assert step.prompt_from is None or 0 <= step.prompt_from <= index
            assert step.messages[-1]["role"] == "assistant"
            for column in ("messages", "observation", "thought", "action_text", "reward", *TOKEN_COLUMNS):
                pa.array([getattr(step, column)], STEPS.field(column).type)
            for message in step.messages:
                assert {type(message[key]) for key in ("role", "content", "name", "tool_call_id")} <= {str, type(None)}
                for call in message["tool_calls"] or []:
                    assert isinstance(call["function"]["arguments"], str)
    return count, report


@pytest.mark.parametrize("reader, record", FIXTURES, ids=lambda value: getattr(value, "name", ""))
def test_sound_fixtures_give_rollouts(tmp_path: Path, reader, record):
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps(record) + "\n")
    count, report = read_all(reader, path)
    assert (count, report.skipped) == (1, {})


@pytest.mark.parametrize("reader, record", FIXTURES, ids=lambda value: getattr(value, "name", ""))
def test_dropped_keys_wrong_types_and_nulls(tmp_path: Path, reader, record):
    rng = random.Random(7)
    path = tmp_path / "log.jsonl"
    for _ in range(60):
        rows = [record, *(mutated(record, rng) for _ in range(5))]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        count, report = read_all(reader, path)
        assert count >= 1, "the sound row must survive its neighbours"
        assert report.records >= len(rows)


@pytest.mark.parametrize("reader, record", FIXTURES, ids=lambda value: getattr(value, "name", ""))
def test_truncated_and_garbled_bytes(tmp_path: Path, reader, record):
    rng = random.Random(11)
    path = tmp_path / "log.jsonl"
    for indent in (None, 1):
        data = "\n".join(json.dumps(record, indent=indent) for _ in range(3)).encode()
        for _ in range(60):
            damaged = bytearray(data[: rng.randint(1, len(data))])
            for _ in range(rng.randint(0, 4)):
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
            path.write_bytes(bytes(damaged))
            try:
                read_all(reader, path)
            except McgpoError:
                continue
