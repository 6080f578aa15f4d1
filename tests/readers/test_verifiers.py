"""verifiers results and traces."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from mcgpo_data.errors import UsageError
from mcgpo_data.readers.base import Report
from mcgpo_data.readers.logfile import LogFile
from mcgpo_data.readers.verifiers import VerifiersResults
from mcgpo_data.readers.verifiers_traces import VerifiersTraces

PROMPT = [{"role": "system", "content": "Use python."}, {"role": "user", "content": "1+1?"}]
CALL = {"id": "c1", "type": "function", "function": {"name": "python", "arguments": '{"code": "1+1"}'}}
COMPLETION = [
    {"role": "assistant", "content": "", "tool_calls": [json.dumps(CALL)]},
    {"role": "tool", "content": "2", "tool_calls": None},
    {"role": "assistant", "content": "two", "tool_calls": None},
]


def old_row(reward: Any = 1.0, ms: float = 5.0) -> dict[str, Any]:
    return {
        "id": 0,
        "prompt": PROMPT,
        "completion": COMPLETION,
        "task": "default",
        "generation_ms": ms,
        "total_ms": ms,
        "info": {},
        "answer": "2",
        "reward": reward,
    }


def new_row(**more: Any) -> dict[str, Any]:
    row = {
        "example_id": 0,
        "prompt": PROMPT,
        "completion": COMPLETION,
        "reward": 1.0,
        "metrics": {"correct": 1.0},
        "correct": 1.0,
        "timing": {"total_ms": 5.0},
        "is_completed": True,
        "is_truncated": False,
        "stop_condition": "no_tools_called",
        "error": None,
    }
    return row | more


@pytest.mark.parametrize("row", [old_row(), new_row()], ids=["old", "new"])
def test_both_schemas_with_calls_as_json_strings(read, row):
    (rollout,), report = read(VerifiersResults(), [row])
    assert [s.action_text for s in rollout.steps] == ['[{"arguments":{"code":"1+1"},"name":"python"}]', "two"]
    assert [s.observation for s in rollout.steps] == ["1+1?", "2"]
    assert (rollout.outcome, rollout.outcome_min, rollout.outcome_kind) == (1.0, None, "terminal")
    assert not report.skipped


def test_both_schemas_in_one_file_are_the_same_task(read):
    rollouts, _ = read(VerifiersResults(), [old_row(), new_row()])
    assert len({r.task_id for r in rollouts}) == 1
    assert len({r.rollout_id for r in rollouts}) == 2


def test_rollouts_that_differ_in_time_alone_are_two_and_copies_are_one(read):
    rollouts, _ = read(VerifiersResults(), [old_row(ms=1.0), old_row(ms=2.0), old_row(ms=1.0)])
    assert [r.rollout_id == rollouts[0].rollout_id for r in rollouts] == [True, False, True]


def test_model_and_environment_come_from_the_metadata_beside_it(read, tmp_path: Path):
    (tmp_path / "metadata.json").write_text(json.dumps({"env_id": "math", "model": "m-1", "rollouts_per_example": 2}))
    (rollout,), _ = read(VerifiersResults(), [new_row()], "results.jsonl")
    assert (rollout.policy, rollout.task_id) == ("m-1", "math/0")
    assert rollout.group_id == "math/0|m-1|"


def test_equal_numbers_of_two_environments_are_two_tasks(read):
    other = new_row(prompt=[{"role": "user", "content": "Guess the word."}])
    rollouts, _ = read(VerifiersResults(), [new_row(), other])
    assert len({r.task_id for r in rollouts}) == 2


@pytest.mark.parametrize(
    "fields, status",
    [
        ({"error": {"error": "SandboxError", "error_chain_str": "x"}}, "error_infra"),
        ({"error": "ModelError: 500"}, "error_infra"),
        ({"error": {"error": "ToolParseError"}}, "error_agent"),
        ({"error": {"error": "OverlongPromptError"}, "is_truncated": True}, "truncated_tokens"),
        ({"error": "x", "completion": None, "prompt": None}, "error_infra"),
    ],
)
def test_error_rows_are_no_failures(read, fields, status):
    (good, bad), report = read(VerifiersResults(), [new_row(), new_row(reward=0.0) | fields])
    assert good.outcome == 1.0
    assert (bad.outcome, bad.outcome_kind, bad.terminal_status) == (None, "missing", status)
    assert report.warnings["ended by an error: unscored"] == 1


@pytest.mark.parametrize(
    "fields, status",
    [
        ({"stop_condition": "max_turns_reached"}, "truncated_steps"),
        ({"stop_condition": "prompt_too_long", "is_truncated": True}, "truncated_tokens"),
        ({"stop_condition": "no_tools_called", "is_truncated": True}, "truncated_tokens"),
        ({"stop_condition": None}, "done"),
        ({"stop_condition": None, "is_completed": False}, "unknown"),
    ],
)
def test_stop_conditions(read, fields, status):
    (rollout,), _ = read(VerifiersResults(), [new_row(**fields)])
    assert (rollout.terminal_status, rollout.outcome) == (status, 1.0)


def test_few_shot_turns_of_the_prompt_are_no_decisions(read):
    shots = [{"role": "user", "content": "0+0?"}, {"role": "assistant", "content": "zero"}, PROMPT[1]]
    (rollout,), _ = read(VerifiersResults(), [new_row(prompt=shots)])
    assert [s.action_text for s in rollout.steps][-1] == "two"
    assert len(rollout.steps) == 2
    assert rollout.steps[0].observation == "1+1?"


def test_text_prompts_of_completion_environments(read):
    (rollout,), _ = read(VerifiersResults(), [new_row(prompt="1+1=", completion="2")])
    assert (rollout.steps[0].observation, rollout.steps[0].action_text) == ("1+1=", "2")


def tokens(start: int, count: int) -> dict[str, Any]:
    ids = list(range(start, start + count))
    return {"prompt_ids": [1, 2], "completion_ids": ids, "completion_logprobs": [-0.5] * count}


def test_token_ids_of_the_trajectory_go_to_their_steps(read):
    trajectory = [
        {"prompt": PROMPT, "completion": COMPLETION[:1], "tokens": tokens(10, 2), "reward": None},
        {"prompt": [*PROMPT, *COMPLETION[:2]], "completion": COMPLETION[2:], "tokens": tokens(20, 3), "reward": 0.5},
    ]
    (rollout,), _ = read(VerifiersResults(), [new_row(trajectory=trajectory)])
    assert [s.response_token_ids for s in rollout.steps] == [[10, 11], [20, 21, 22]]
    assert [s.response_logprobs for s in rollout.steps] == [[-0.5] * 2, [-0.5] * 3]
    assert [s.reward for s in rollout.steps] == [None, 0.5]
    assert rollout.steps[0].prompt_token_ids == [1, 2]


def test_bad_token_ids_are_left_out(read):
    entry = {"prompt": PROMPT, "completion": COMPLETION[2:]}
    bad = [{"prompt_ids": [-1], "completion_ids": [2**40], "completion_logprobs": [0.0]},
           {"prompt_ids": "x", "completion_ids": [1, 2], "completion_logprobs": [None, 0.0]}]  # fmt: skip
    rows = [new_row(completion=COMPLETION[2:], trajectory=[entry | {"tokens": t}]) for t in bad]
    first, second = read(VerifiersResults(), rows)[0]
    assert (first.steps[0].prompt_token_ids, first.steps[0].response_token_ids) == (None, None)
    assert (second.steps[0].response_token_ids, second.steps[0].response_logprobs) == ([1, 2], None)


def test_prompts_that_do_not_continue_each_other_are_taken_from_the_trajectory(read):
    summary = [{"role": "user", "content": "Summary: looked at 1+1."}]
    trajectory = [
        {"prompt": PROMPT, "completion": COMPLETION[:1], "tokens": None},
        {"prompt": [*PROMPT, *COMPLETION[:2]], "completion": [{"role": "assistant", "content": "long"}]},
        {"prompt": summary, "completion": COMPLETION[2:], "tokens": tokens(5, 1)},
    ]
    (rollout,), _ = read(VerifiersResults(), [new_row(trajectory=trajectory)])
    assert [s.prompt_from for s in rollout.steps] == [None, None, None]
    assert [m["content"] for m in rollout.steps[2].messages] == ["Summary: looked at 1+1.", "two"]
    assert [s.observation for s in rollout.steps] == ["1+1?", "2", "Summary: looked at 1+1."]
    assert rollout.steps[2].response_token_ids == [5]


def test_a_trajectory_that_does_not_fit_is_left_out_and_counted(read):
    (rollout,), report = read(VerifiersResults(), [new_row(trajectory=[{"prompt": 3, "completion": 4}])])
    assert len(rollout.steps) == 2
    assert report.warnings["trajectory does not fit the completion: token ids left out"] == 1


def test_a_placeholder_row_is_skipped_with_its_place(read):
    data = json.dumps(new_row()).encode() + b"\n<PLACEHOLDER ROW>\n" + json.dumps(old_row()).encode() + b"\n"
    rollouts, report = read(VerifiersResults(), data)
    assert len(rollouts) == 2
    assert report.skipped == {"malformed JSON": 1}
    assert report.places["malformed JSON"][0].startswith("log.jsonl:2")


def test_a_bare_nan_reward_is_unscored(read):
    (rollout,), report = read(VerifiersResults(), json.dumps(new_row(reward=float("nan"))).encode())
    assert rollout.outcome is None
    assert report.warnings["outcome is null, NaN or no number: unscored"] == 1


def node(
    parent: int | None, role: str, content: str, *, sampled: bool = False, ids: list[int] | None = None
) -> dict[str, Any]:
    made: dict[str, Any] = {"message": {"role": role, "content": content}, "sampled": sampled}
    if parent is not None:
        made["parent"] = parent  # a root has none: nulls are dropped
    if ids is not None:
        made |= {"token_ids": ids, "mask": [False] + [sampled] * (len(ids) - 1)}
        made["logprobs"] = [-1.0] * sum(made["mask"])
    return made


def trace(nodes: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {
        "id": "t1",
        "task": {"type": "T", "data": {"q": 1}, "key": "k1", "hash": "h1"},
        "agent": {"name": "agent", "trainable": True, "config": {"model": "m-2"}},
        "nodes": nodes,
        "calls": [],
        "rewards": {"main": {"score": 0.5, "weight": 2.0}, "format": {"score": 1.0, "weight": 0.25}},
        "is_completed": True,
        "ok": True,
        "stop_condition": "agent_completed",
        "errors": [],
    } | more


def episode(*traces: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "id": "e1",
        "env": {"id": "gsm8k"},
        "task": {"type": "T", "data": {"q": 1}, "key": "k1", "hash": "h1"},
        "group": {"id": "g1"},
        "run": {"type": "train", "id": "r1", "work": {"type": "train", "step": 3, "policy": {"start": 3, "end": 4}}},
        "ok": True,
        "errors": [],
        "traces": list(traces),
    } | more


LINE = [
    node(None, "user", "q", ids=[1, 2]),
    node(0, "assistant", "a1", sampled=True, ids=[3, 4, 5]),
    node(1, "user", "more", ids=[6]),
    node(2, "assistant", "a2", sampled=True, ids=[7, 8]),
    node(3, "user", "bye", ids=[9]),
]


def test_an_episode_is_one_rollout_per_trace(read):
    (rollout,), report = read(VerifiersTraces(), [episode(trace(LINE))])
    assert (rollout.rollout_id, rollout.task_id) == ("e1/t1", "gsm8k/k1")
    assert (rollout.group_id, rollout.group_source) == ("g1", "explicit")
    assert (rollout.policy, rollout.policy_version) == ("m-2", "3-4")
    assert (rollout.outcome, rollout.terminal_status) == (1.25, "done")
    assert [s.action_text for s in rollout.steps] == ["a1", "a2"]
    assert [s.observation for s in rollout.steps] == ["q", "more"]
    assert [s.prompt_from for s in rollout.steps] == [0, 0]
    assert [m["content"] for m in rollout.steps[1].messages] == ["more", "a2"]
    assert rollout.final_observation == "bye"
    assert not report.skipped


def test_token_ids_along_the_path(read):
    (rollout,), _ = read(VerifiersTraces(), [episode(trace(LINE))])
    assert [s.prompt_token_ids for s in rollout.steps] == [[1, 2, 3], [1, 2, 3, 4, 5, 6, 7]]
    assert [s.response_token_ids for s in rollout.steps] == [[4, 5], [8]]
    assert [s.response_logprobs for s in rollout.steps] == [[-1.0, -1.0], [-1.0]]


def test_assistant_nodes_that_were_not_sampled_are_context(read):
    nodes = [node(None, "user", "q"), node(0, "assistant", "primer"), node(1, "assistant", "a", sampled=True)]
    (rollout,), _ = read(VerifiersTraces(), [episode(trace(nodes))])
    assert [s.action_text for s in rollout.steps] == ["a"]
    assert [m["content"] for m in rollout.steps[0].messages] == ["q", "primer", "a"]


def test_compaction_starts_a_segment_with_its_own_prompt(read):
    nodes = [
        node(None, "system", "s"),
        node(0, "user", "q"),
        node(1, "assistant", "a1", sampled=True),
        node(0, "user", "summary so far"),
        node(3, "assistant", "a2", sampled=True),
        node(4, "user", "next"),
        node(5, "assistant", "a3", sampled=True),
    ]
    (rollout,), _ = read(VerifiersTraces(), [episode(trace(nodes))])
    assert [s.prompt_from for s in rollout.steps] == [0, 1, 1]
    assert [[m["content"] for m in s.messages] for s in rollout.steps] == [
        ["s", "q", "a1"],
        ["s", "summary so far", "a2"],
        ["next", "a3"],
    ]
    assert rollout.order_trusted, "nothing was undone"


def test_a_retry_takes_every_decision_once_and_its_order_is_not_trusted(read):
    nodes = [*LINE[:4], node(2, "assistant", "a2 again", sampled=True)]
    (rollout,), _ = read(VerifiersTraces(), [episode(trace(nodes))])
    assert [s.action_text for s in rollout.steps] == ["a1", "a2", "a2 again"]
    assert [m["content"] for m in rollout.steps[2].messages] == ["q", "a1", "more", "a2 again"]
    assert (rollout.steps[2].prompt_from, rollout.steps[2].observation) == (2, "more")
    assert not rollout.order_trusted


def test_tool_results_follow_the_calls_of_the_node_before(read):
    def make(name: str) -> dict[str, Any]:
        return {"id": name, "name": name, "arguments": "{}"}

    nodes = [
        node(None, "user", "q"),
        {"parent": 0, "sampled": True, "message": {"role": "assistant", "tool_calls": [make("x"), make("y")]}},
        {"parent": 1, "message": {"role": "tool", "tool_call_id": "y", "content": "from y"}},
        {"parent": 2, "message": {"role": "tool", "tool_call_id": "x", "content": "from x"}},
        node(3, "assistant", "end", sampled=True),
    ]
    (rollout,), _ = read(VerifiersTraces(), [episode(trace(nodes))])
    assert rollout.steps[1].observation == "from x\n\nfrom y"
    assert [m["role"] for m in rollout.steps[1].messages] == ["tool", "tool", "assistant"]


@pytest.mark.parametrize("rewards", [{}, None, {"a": None}, {"a": {"score": 1.0}, "b": None}, {"a": {"score": "x"}}])
def test_rewards_that_were_not_computed_leave_the_trace_unscored(read, rewards):
    (rollout,), report = read(VerifiersTraces(), [episode(trace(LINE, rewards=rewards))])
    assert rollout.outcome is None
    assert report.warnings == {"rewards are missing or null: unscored": 1}


def test_a_failed_trace_is_unscored_and_a_repeated_attempt_is_not(read):
    failed = trace(LINE, id="t2", ok=False, stop_condition="error", errors=[{"type": "SandboxError", "message": "x"}])
    repeated = trace(LINE, id="t3", errors=[{"type": "SandboxError", "message": "first attempt"}])
    bad, good = read(VerifiersTraces(), [episode(failed, id="e2"), episode(repeated, id="e3")])[0]
    assert (bad.outcome, bad.terminal_status) == (None, "error_infra")
    assert good.outcome == 1.25


def test_judges_are_left_out_and_agents_are_groups_of_their_own(read):
    judge = trace(LINE, id="t2", agent={"name": "judge", "trainable": False})
    other = trace(LINE, id="t3", agent={"name": "critic", "trainable": True})
    rollouts, report = read(VerifiersTraces(), [episode(trace(LINE), judge, other)])
    assert [r.group_id for r in rollouts] == ["g1|agent", "g1|critic"]
    assert report.skipped == {"trace of an agent that is not trained": 1}


def test_all_and_effective_give_the_same_rollouts(read):
    rows = [episode(trace(LINE))]
    (a,), _ = read(VerifiersTraces(), rows, "all/traces.jsonl")
    (b,), _ = read(VerifiersTraces(), rows, "effective/traces.jsonl")
    assert a == b


def test_tasks_without_key_are_told_apart_by_what_they_say(read):
    rows = [trace(LINE, id=str(i), task={"idx": i, "question": "q"}) for i in (0, 1, 1)]
    rollouts, _ = read(VerifiersTraces(), rows)
    assert [r.task_id == rollouts[1].task_id for r in rollouts] == [False, True, True]


def test_bare_traces_are_read_too(read):
    (rollout,), _ = read(VerifiersTraces(), [trace(LINE)])
    assert (rollout.rollout_id, rollout.task_id, rollout.group_id) == ("t1", "k1", "k1|m-2|")


@pytest.mark.parametrize(
    "broken, reason",
    [
        ({"traces": []}, "episode without traces"),
        ({"traces": [None]}, "trace without nodes"),
        ({"traces": [trace([{"parent": None}])]}, "a node has no message"),
        ({"traces": [trace([node(0, "user", "q")])]}, "a node's parent does not come before it"),
        ({"traces": [trace([node(None, "user", "q")])]}, "no decision in the messages"),
    ],
)
def test_broken_trees_are_skipped_and_counted(read, broken, reason):
    rollouts, report = read(VerifiersTraces(), [episode(trace(LINE)), episode(id="e2") | broken])
    assert len(rollouts) == 1
    assert report.skipped == {reason: 1}


def test_long_chains_are_read(read):
    roles = ("user", "assistant")
    nodes = [node(i - 1 if i else None, roles[i % 2], str(i), sampled=i % 2 == 1) for i in range(800)]
    (rollout,), _ = read(VerifiersTraces(), [episode(trace(nodes))])
    assert len(rollout.steps) == 400
    assert sum(len(s.messages) for s in rollout.steps) == 800


REAL = {"arc_agi_3": (3, 255, 1), "math_python": (30, 76, 5), "mcp_env": (3, 6, 1)}


@pytest.mark.parametrize("env", REAL)
def test_published_evaluations(shared: Path, env: str):
    rollouts, tasks = [], set()
    for path in sorted((shared / "data" / "verifiers").glob(f"{env}*results.jsonl.zst")):
        report = Report()
        log = LogFile(path)
        assert VerifiersResults().detect(log.head())
        rollouts += list(VerifiersResults().read(log, report))
        assert not report.skipped
    tasks = {r.task_id for r in rollouts}
    assert (len({r.rollout_id for r in rollouts}), sum(len(r.steps) for r in rollouts), len(tasks)) == REAL[env]
    assert all(r.policy for r in rollouts)
    assert not any(s.action_kind == "invalid" for r in rollouts for s in r.steps)


def test_a_git_lfs_pointer_is_named(shared: Path):
    (path,) = (shared / "data" / "verifiers").glob("wordle*results.jsonl.zst")
    with pytest.raises(UsageError, match="Git-LFS pointer"):
        LogFile(path).head()


def test_metadata_is_no_rollout_log(shared: Path):
    for path in (shared / "data" / "verifiers").glob("*metadata.json"):
        assert not VerifiersResults().detect(LogFile(path).head())
        assert not VerifiersTraces().detect(LogFile(path).head())


def test_rows_are_not_changed_by_reading(read):
    row = episode(trace(LINE))
    before = copy.deepcopy(row)
    read(VerifiersTraces(), [row])
    assert row == before
