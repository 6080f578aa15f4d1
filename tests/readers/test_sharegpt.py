"""AgentGym, AgentInstruct and ETO logs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcgpo_data.readers.sharegpt import ShareGPT

OK = "OK. I'll follow your instructions and try my best to solve the task."


def gym(item_id: Any = "webshop_3", said: str = "Thought: x\n\nAction:\nsearch[shoes]", **more: Any) -> dict[str, Any]:
    turns = [
        {"from": "human", "loss": None, "value": "You are web shopping."},
        {"from": "gpt", "loss": False, "value": OK},
        {"from": "human", "loss": None, "value": "Instruction: shoes [SEP] Search"},
        {"from": "gpt", "loss": True, "value": said},
        {"from": "human", "loss": None, "value": "Results"},
    ]
    return {"item_id": item_id, "conversations": turns} | more


def test_an_inference_row(read):
    (rollout,), report = read(ShareGPT(), [gym(reward=0.5, success=0)])
    assert [(s.observation, s.action_text) for s in rollout.steps] == [
        ("Instruction: shoes [SEP] Search", "search[shoes]")
    ]
    assert [m["content"] for m in rollout.steps[0].messages[:2]] == ["You are web shopping.", OK]
    assert (rollout.task_id, rollout.group_source) == ("webshop_3", "task")
    assert (rollout.outcome, rollout.success, rollout.outcome_min) == (0.5, False, None)
    assert rollout.final_observation == "Results"
    assert not report.skipped


def test_expert_rows_are_unscored(read):
    (rollout,), report = read(ShareGPT(), [gym()])
    assert (rollout.outcome, rollout.success, rollout.outcome_kind) == (None, None, "missing")
    assert not {reason for reason in report.warnings if "unscored" in reason}


def test_rows_repeated_by_the_sampler_count_once_and_are_told(read):
    rows = [gym(reward=1.0), gym(reward=1.0), gym(reward=1.0, said="Action: click[x]"), gym("webshop_4", reward=1.0)]
    rollouts, report = read(ShareGPT(), rows)
    assert len({r.rollout_id for r in rollouts}) == len(rollouts) == 3
    assert report.skipped == {"row repeated by batch padding": 1}
    assert report.places["row repeated by batch padding"] == ["log.jsonl:2"]


def test_rank_files_are_arrays_and_ids_do_not_depend_on_the_file(read):
    rank = [gym(3, reward=0.0), gym(3, reward=1.0, said="Action: click[buy now]")]
    first, _ = read(ShareGPT(), json.dumps(rank, indent=1).encode(), "step1/0.json")
    again, _ = read(ShareGPT(), json.dumps(rank, indent=1).encode(), "step1/1.json")
    assert [r.rollout_id for r in first] == [r.rollout_id for r in again]
    assert len({r.task_id for r in first}) == 1


def test_bare_item_numbers_of_two_environments_are_two_tasks(read):
    other = gym(3)
    other["conversations"][0]["value"] = "You are in a kitchen."
    rollouts, _ = read(ShareGPT(), [gym(3), other])
    assert len({r.task_id for r in rollouts}) == 2


def test_role_and_content_spelling(read):
    turns = [
        {"role": "user", "content": "rules"},
        {"role": "assistant", "content": OK},
        {"role": "user", "content": "start"},
        {"role": "assistant", "content": "Action: look"},
    ]
    (rollout,), _ = read(ShareGPT(), [{"item_id": "x_1", "conversations": turns, "reward": 1.0}])
    assert [s.action_text for s in rollout.steps] == ["look"]


@pytest.mark.parametrize("own", [{}, {"error": "connection reset"}])
def test_a_harness_error_is_unscored(read, own):
    bad = {"item_id": "webshop_5", "conversations": [{"error": "connection reset"}], "reward": 0.0, "success": 0} | own
    (_, rollout), report = read(ShareGPT(), [gym(reward=1.0), bad])
    assert (rollout.steps, rollout.outcome, rollout.success) == ([], None, None)
    assert rollout.terminal_status == "error_infra"
    assert report.warnings["ended by an error: unscored"] == 1


def test_a_task_list_holds_no_rollouts(read):
    rollouts, report = read(ShareGPT(), [{"item_id": "a_1", "conversations": None}])
    assert rollouts == []
    assert report.skipped == {"task list entry: no conversation": 1}


def test_a_system_prompt_beside_the_turns_belongs_to_the_prompt(read):
    (rollout,), _ = read(ShareGPT(), [gym(system="be kind")])
    assert rollout.steps[0].messages[0]["content"] == "be kind"
    assert rollout.steps[0].messages[0]["role"] == "system"


def test_agent_instruct(read):
    row = gym() | {"id": "alfworld_0"}
    del row["item_id"]
    (rollout,), _ = read(ShareGPT(), [row])
    assert (rollout.task_id, rollout.outcome) == ("alfworld_0", None)


ICL = "Be an agent.\n---\nHere is an example.\n\nYou see a cabinet.\nThought: a\nAction: go to cabinet 1\n---\n\n"
TASK = "You see a desk 1.\nYour task is to: put a pen in desk."


def eto(conversations: list[dict[str, Any]], **meta: Any) -> bytes:
    base = {"steps": 1, "reward": 1.0, "finished": True, "success": True, "terminate_reason": "success", "error": None}
    return json.dumps({"meta": base | meta, "conversations": conversations}, indent=4).encode()


def say(who: str, text: str) -> dict[str, Any]:
    return {"from": who, "value": text}


FIRST = [
    say("human", f"{ICL}Now, it's your turn and here is the task.\n{TASK}"),
    say("gpt", "Thought: t\nAction: go to desk 1"),
    say("human", "Observation: On the desk 1, you see a pen 1."),
]


def test_examples_in_the_first_message_stay_in_the_prompt_but_not_in_the_observation(read):
    (rollout,), _ = read(ShareGPT(), eto(FIRST), "3.json")
    (step,) = rollout.steps
    assert (step.observation, rollout.instruction) == (TASK, TASK)
    assert step.messages[0]["content"].startswith("Be an agent.")
    assert (step.action_text, rollout.outcome, rollout.success) == ("go to desk 1", 1.0, True)
    assert rollout.terminal_status == "done"


def test_examples_as_turns_are_context_by_the_number_of_steps(read):
    turns = [
        say("human", "Be an agent."),
        say("gpt", "OK"),
        say("human", "You see a cabinet."),
        say("gpt", "Thought: a\nAction: go to cabinet 1"),
        say("human", TASK),
        say("gpt", "Thought: t\nAction: go to desk 1"),
        say("human", "Observation: a pen"),
        say("gpt", "Thought: t\nAction: take pen 1"),
    ]
    (rollout,), report = read(ShareGPT(), eto(turns, steps=2))
    assert [s.action_text for s in rollout.steps] == ["go to desk 1", "take pen 1"]
    assert rollout.steps[0].observation == TASK
    assert len(rollout.steps[0].messages) == 6
    assert report.warnings == {"scripted or demonstrated assistant message is no decision": 2}


def test_the_first_prompt_names_the_task_where_nothing_else_does(read):
    other = [say("human", FIRST[0]["value"].replace("pen", "cup")), *FIRST[1:]]
    a, b, c = (read(ShareGPT(), eto(turns), f"{i}.json")[0][0] for i, turns in enumerate([FIRST, FIRST, other]))
    assert a.task_id == b.task_id != c.task_id
    assert a.group_source == "initial_hash"


def test_the_game_file_of_alfworld_is_the_task_and_no_error(read):
    game = "/data/json_2.1.1/train/pick_and_place-Pen-None-Desk-3/trial_T2019/game.tw-pddl"
    (rollout,), _ = read(ShareGPT(), eto(FIRST, error=game))
    assert rollout.task_id == "pick_and_place-Pen-None-Desk-3/trial_T2019"
    assert (rollout.outcome, rollout.group_source) == (1.0, "task")


def test_finished_is_not_solved(read):
    (rollout,), report = read(ShareGPT(), eto(FIRST, reward=0.25))
    assert (rollout.outcome, rollout.success) == (0.25, None)
    assert sum("success left open" in reason for reason in report.warnings) == 1


@pytest.mark.parametrize(
    "reason, status", [("max_steps", "truncated_steps"), ("exceeding maximum input length", "truncated_tokens")]
)
def test_limits(read, reason, status):
    (rollout,), report = read(ShareGPT(), eto(FIRST, reward=None, success=False, terminate_reason=reason))
    assert (rollout.terminal_status, rollout.success) == (status, False)
    assert rollout.outcome is None, "a reward that is null is no zero"
    assert report.warnings == {"outcome is null, NaN or no number: unscored": 1}


@pytest.mark.parametrize(
    "turns, reason",
    [
        ("text", "messages are not a list"),
        ([{"value": "x"}], "a message has no role"),
        ([say("human", "x")], "no decision in the messages"),
        ([3], "a message is not an object"),
    ],
)
def test_rows_that_cannot_be_used_are_counted(read, turns, reason):
    rollouts, report = read(ShareGPT(), [gym(), gym("webshop_9") | {"conversations": turns}])
    assert len(rollouts) == 1
    assert report.skipped == {reason: 1}
