"""Message logs of no particular make."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mcgpo_data.readers.base import Report
from mcgpo_data.readers.logfile import LogFile
from mcgpo_data.readers.openai import OpenAIMessages


def talk(task: str = "find it", answer: str = "found") -> list[dict[str, Any]]:
    return [
        {"role": "system", "content": "help"},
        {"role": "user", "content": task},
        {"role": "assistant", "content": answer},
    ]


def row(**fields: Any) -> dict[str, Any]:
    return {"messages": talk()} | fields


@pytest.mark.parametrize("key", ["messages", "conversation", "trajectory", "chat", "dialog"])
def test_names_of_the_message_list(read, key):
    (rollout,), report = read(OpenAIMessages(), [{key: talk(), "reward": 1}])
    assert [s.action_text for s in rollout.steps] == ["found"]
    assert key not in rollout.metadata
    assert not report.skipped


@pytest.mark.parametrize("completion", [talk()[2:], "found"], ids=["messages", "text"])
@pytest.mark.parametrize("key", ["completion", "response"])
def test_prompt_and_completion(read, key, completion):
    (rollout,), _ = read(OpenAIMessages(), [{"prompt": talk()[:2], key: completion, "reward": 1}])
    assert (rollout.steps[0].observation, rollout.steps[0].action_text) == ("find it", "found")


def test_lines_that_are_the_list_itself(read):
    (rollout, _), _ = read(OpenAIMessages(), [talk(), talk()])
    assert (rollout.outcome, rollout.rollout_id) == (None, None)


def test_messages_in_a_json_string(read):
    (rollout,), _ = read(OpenAIMessages(), [row(messages=json.dumps(talk()), score=0.5)])
    assert (rollout.outcome, len(rollout.steps)) == (0.5, 1)


@pytest.mark.parametrize("system", ["be kind", [{"type": "text", "text": "be kind"}]])
def test_a_system_prompt_beside_the_messages_belongs_to_the_prompt(read, system):
    bare = {"messages": talk()[1:], "system": system}
    split = {"prompt": talk()[1:2], "completion": "found", "system": system}
    own = {"messages": talk(), "system": system}
    rollouts, _ = read(OpenAIMessages(), [bare, split, own])
    assert [[m["content"] for m in r.steps[0].messages][:2] for r in rollouts] == [
        ["be kind", "find it"],
        ["be kind", "find it"],
        ["help", "find it"],
    ]


GROUPS = [
    ({"group_id": "g", "task_id": "t"}, ("g", "explicit", "t")),
    ({"group_id": 7}, ("7", "explicit", "7")),
    ({"uid": "u", "traj_uid": "r"}, ("u", "explicit", "u")),
    ({"task_id": 3}, (None, "task", "3")),
    ({"task_id": 3.0}, (None, "task", "3")),
    ({"example_id": 0}, (None, "task", "0")),
    ({"instance_id": "a__b-1"}, (None, "task", "a__b-1")),
    ({"prompt_id": "p"}, (None, "task", "p")),
    ({"metadata": {"task_id": "nested"}}, (None, "task", "nested")),
    ({"metadata": '{"task_id": "in text"}'}, (None, "task", "in text")),
    ({"task_id": True, "instance_id": "i"}, (None, "task", "i")),
]


@pytest.mark.parametrize("fields, expected", GROUPS)
def test_the_ladder_of_group_keys(read, fields, expected):
    (rollout,), _ = read(OpenAIMessages(), [row(**fields)])
    assert (rollout.group_id, rollout.group_source, rollout.task_id) == expected


@pytest.mark.parametrize("fields", [{}, {"id": 5}, {"uid": "x"}, {"task_id": None}, {"task_id": {"a": 1}}])
def test_without_a_key_the_first_prompt_is_the_task(read, fields):
    rows = [row(**fields), row(messages=talk(answer="lost"), **fields), row(messages=talk("other"), **fields)]
    a, b, c = read(OpenAIMessages(), rows)[0]
    assert a.task_id == b.task_id != c.task_id
    assert {r.group_source for r in (a, b, c)} == {"initial_hash"}


def test_policies_and_versions_are_not_compared(read):
    rows = [row(task_id="t", model=m, global_step=s) for m in ("a", "b") for s in (1, 2)]
    rollouts, _ = read(OpenAIMessages(), rows)
    assert len({r.group_id for r in rollouts}) == 4
    assert {r.task_id for r in rollouts} == {"t"}
    assert [(r.policy, r.policy_version) for r in rollouts][-1] == ("b", "2")


def test_equal_rollout_ids_of_two_models_stay_apart(read):
    rollouts, _ = read(OpenAIMessages(), [row(rollout_id="r0", model="a"), row(rollout_id="r0", model="b")])
    assert [r.rollout_id for r in rollouts] == ["a/r0", "b/r0"]


def test_trials_that_say_different_things_stay_apart_and_copies_are_one(read):
    rows = [row(task_id="t", trial=0), row(task_id="t", trial=0), row(task_id="t", trial=0, messages=talk(answer="x"))]
    a, copy, b = read(OpenAIMessages(), rows)[0]
    assert a.rollout_id == copy.rollout_id != b.rollout_id
    assert a.rollout_id.startswith("t/0/")


OUTCOMES = [
    ({"reward": 0.25}, (0.25, "terminal", None, None)),
    ({"score": "0.25"}, (0.25, "terminal", None, None)),
    ({"reward": True}, (1.0, "terminal", None, None)),
    ({"reward": [0.5, 0.25, 0]}, (0.75, "sum_of_steps", None, None)),
    ({"reward": {"total": 2.0, "format": 1.0}}, (2.0, "terminal", None, None)),
    ({"reward": {"exact_match": 1.0}}, (1.0, "terminal", None, None)),
    ({"success": True}, (1.0, "terminal", True, 0.0)),
    ({"resolved": False}, (0.0, "terminal", False, 0.0)),
    ({"is_correct": "False"}, (0.0, "terminal", False, 0.0)),
    ({"correct": 0}, (0.0, "terminal", False, 0.0)),
    ({"reward": 0.5, "success": "true"}, (0.5, "terminal", True, None)),
    ({"metadata": {"reward": 0.5}}, (0.5, "terminal", None, None)),
    ({}, (None, "missing", None, None)),
]


@pytest.mark.parametrize("fields, expected", OUTCOMES)
def test_outcomes(read, fields, expected):
    (rollout,), report = read(OpenAIMessages(), [row(**fields)])
    assert (rollout.outcome, rollout.outcome_kind, rollout.success, rollout.outcome_min) == expected
    assert not report.warnings


@pytest.mark.parametrize(
    "value", [None, float("nan"), float("inf"), "good", [], [None], ["a"], {"a": 1.0, "b": 0.0}, {"total": None}, {}]
)
def test_outcomes_that_are_none_are_unscored_and_told(read, value):
    (rollout,), report = read(OpenAIMessages(), [row(reward=value)])
    assert (rollout.outcome, rollout.outcome_kind) == (None, "missing")
    assert report.warnings == {"outcome is null, NaN or no number: unscored": 1}


@pytest.mark.parametrize(
    "fields", [{"reward": None, "success": True}, {"success": None}, {"metadata": {"reward": None}}]
)
def test_a_null_is_no_zero_whatever_the_flag_says(read, fields):
    (rollout,), report = read(OpenAIMessages(), [row(**fields)])
    assert (rollout.outcome, rollout.success) == (None, fields.get("success"))
    assert report.warnings == {"outcome is null, NaN or no number: unscored": 1}


@pytest.mark.parametrize("error", [{"error": "sandbox died"}, {"error": {"type": "X"}}, {"exception": "Boom"}])
def test_error_rows_are_no_failures(read, error):
    (rollout,), report = read(OpenAIMessages(), [row(reward=0.0, success=False, **error)])
    assert (rollout.outcome, rollout.success, rollout.terminal_status) == (None, None, "error_infra")
    assert report.warnings == {"ended by an error: unscored": 1}


@pytest.mark.parametrize("error", [None, "", "None", False, [], {}])
def test_no_error_is_no_error(read, error):
    (rollout,), _ = read(OpenAIMessages(), [row(reward=0.0, error=error)])
    assert (rollout.outcome, rollout.terminal_status) == (0.0, "unknown")


@pytest.mark.parametrize(
    "fields, status",
    [
        ({"finish_reason": "stop"}, "done"),
        ({"finish_reason": "length"}, "truncated_tokens"),
        ({"stop_reason": "max_turns"}, "truncated_steps"),
        ({"status": "Completed"}, "done"),
        ({"status": "completed", "truncated": True}, "truncated_steps"),
        ({"is_truncated": True}, "truncated_tokens"),
        ({"termination_reason": "agent error"}, "error_agent"),
        ({"status": 3}, "unknown"),
    ],
)
def test_how_it_ended(read, fields, status):
    (rollout,), _ = read(OpenAIMessages(), [row(**fields)])
    assert rollout.terminal_status == status


def test_an_instruction_counts_only_if_the_agent_saw_it(read):
    seen, hidden = read(OpenAIMessages(), [row(instruction="find it"), row(instruction="be a rude customer")])[0]
    assert (seen.instruction, hidden.instruction) == ("find it", None)


def test_mixed_schemas_and_unusable_rows_are_counted_with_their_place(read):
    rows = [row(reward=1), {"conversation": talk(), "score": 0}, {"note": "no messages"}, 5, row(messages=[{"x": 1}])]
    rollouts, report = read(OpenAIMessages(), rows)
    assert [r.outcome for r in rollouts] == [1.0, 0.0]
    assert report.skipped == {"record without messages": 3}
    assert report.places["record without messages"][0].startswith("log.jsonl:3")


def test_indented_objects_in_a_jsonl_file(read):
    data = "\n".join(json.dumps(row(task_id=i, reward=i), indent=2) for i in range(2)).encode()
    rollouts, _ = read(OpenAIMessages(), data)
    assert [r.task_id for r in rollouts] == ["0", "1"]


def test_halves_of_surrogate_pairs_become_text_that_can_be_stored(read):
    data = json.dumps(row(reward=1)).replace("found", "\\ud83d broken").encode()
    (rollout,), _ = read(OpenAIMessages(), data)
    assert rollout.steps[0].action_text == "\ufffd broken"
    json.dumps(rollout.steps[0].messages).encode("utf-8")


def test_huge_values_are_kept_whole(read):
    text = "x" * 1_000_000
    (rollout,), _ = read(
        OpenAIMessages(), [row(messages=[*talk(), {"role": "user", "content": text}], task_id="t" * 600)]
    )
    assert rollout.final_observation == text
    assert len(rollout.task_id) == 16


def test_nesting_beyond_the_limit_is_skipped(read):
    deep = '{"a":' * 990 + "1" + "}" * 990
    content = json.dumps(row(reward=1)).replace('"found"', deep).encode()
    rollouts, report = read(OpenAIMessages(), json.dumps(row()).encode() + b"\n" + content)
    assert len(rollouts) + sum(report.skipped.values()) == 2


def parquet(path: Path, rows: list[dict[str, Any]]) -> tuple[list[Any], Report]:
    pq.write_table(pa.Table.from_pylist(rows), path)
    report, log = Report(path.name), LogFile(path, path.name)
    assert OpenAIMessages().detect(log.head())
    return list(OpenAIMessages().read(log, report)), report


def test_parquet_columns_do_not_fill_arguments_with_nulls(tmp_path: Path):
    def asks(name: str, **arguments: Any) -> list[dict[str, Any]]:
        call = {"id": "c", "function": {"name": name, "arguments": arguments}}
        return [*talk()[:2], {"role": "assistant", "content": None, "tool_calls": [call]}]

    rows = [{"messages": asks("f", a=1), "reward": 1.0}, {"messages": asks("g", b="x"), "reward": float("nan")}]
    (first, second), report = parquet(tmp_path / "log.parquet", rows)
    assert first.steps[0].action_text == '[{"arguments":{"a":1},"name":"f"}]'
    assert second.steps[0].action_text == '[{"arguments":{"b":"x"},"name":"g"}]'
    assert (first.outcome, second.outcome) == (1.0, None)
    assert report.warnings == {"outcome is null, NaN or no number: unscored": 1}


def test_parquet_and_json_lines_give_the_same_rollouts(read, tmp_path: Path):
    rows = [row(task_id=i, trial=0, reward=float(i)) for i in range(3)]
    from_lines, _ = read(OpenAIMessages(), rows)
    from_parquet, _ = parquet(tmp_path / "log.parquet", rows)
    assert [r.rollout_id for r in from_lines] == [r.rollout_id for r in from_parquet]
    assert [r.steps for r in from_lines] == [r.steps for r in from_parquet]
