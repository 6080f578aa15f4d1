"""verl dumps, verl-agent step rows and trajectories, Agent-R1."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mcgpo_data.readers.base import Report, Rollout
from mcgpo_data.readers.logfile import LogFile
from mcgpo_data.readers.role_text import prompt_messages, response_messages
from mcgpo_data.readers.verl import READERS, VerlReader
from mcgpo_data.readers.verl_prompt import parse_prompt
from mcgpo_data.readers.verl_rows import StepRowReader
from mcgpo_data.readers.verl_step import action_of_response

from .step_rows import ROOM, rows

AGENT_R1, TRAJECTORIES, STEP_ROWS, VERL = READERS

PROMPT = "system\nYou are helpful.\nuser\n2+2?\nassistant\n"
CALL = '<tool_call>\n{"name": "calc", "arguments": {"x": "2+2"}}\n</tool_call>'


def row(output: str = "4", **more: Any) -> dict[str, Any]:
    return {"input": PROMPT, "output": output, "gts": "4", "score": 1.0, "step": 3} | more


def shape(messages: list[dict[str, Any]]) -> list[tuple[str, str | None]]:
    return [(m["role"], m["content"]) for m in messages]


# --- text without special tokens ---------------------------------------------------------------------------------


def test_a_decoded_prompt_is_split_at_its_bare_role_lines():
    assert shape(prompt_messages(PROMPT)) == [("system", "You are helpful."), ("user", "2+2?")]


def test_what_a_template_writes_in_front_of_the_response_is_no_turn():
    assert shape(prompt_messages("user\nhi\nassistant\n<think>\n\n</think>\n\n")) == [("user", "hi")]


def test_chatml_markers_are_taken_off():
    text = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    assert shape(prompt_messages(text)) == [("user", "hi")]


@pytest.mark.parametrize("text", ["What is a\nuser\nin this text?", "", "Answer me"])
def test_text_that_shows_no_roles_stays_one_message(text):
    assert shape(prompt_messages(text)) == [("user", text)]


def test_a_role_line_where_no_role_may_follow_is_content():
    text = "user\nName the table:\nuser\nassistant\n"
    assert shape(prompt_messages(text)) == [("user", "Name the table:\nuser")]


def test_the_turns_of_a_response_are_found():
    text = f"Let me see\n{CALL}\n\ntool\n4\n\nassistant\nIt is 4."
    assert shape(response_messages(text)) == [
        ("assistant", f"Let me see\n{CALL}"),
        ("tool", "4"),
        ("assistant", "It is 4."),
    ]


def test_tool_results_in_user_turns_are_found():
    text = f"{CALL}\nuser\n<tool_response>\n4\n</tool_response>\nassistant\nIt is 4."
    assert [role for role, _ in shape(response_messages(text))] == ["assistant", "user", "assistant"]


def test_a_line_user_that_nobody_answers_is_content():
    assert shape(response_messages("Tables:\nuser\norders")) == [("assistant", "Tables:\nuser\norders")]


# --- verl rows ---------------------------------------------------------------------------------------------------


def test_the_group_of_a_v1_row_is_its_uid_less_rollout_and_output(read):
    rollouts, report = read(VERL, [row(uid="12_0_0"), row("5", uid="12_1_0", score=0.0), row(uid="3_0_0", input="x")])
    assert [r.group_source for r in rollouts] == ["explicit"] * 3
    assert rollouts[0].group_id == rollouts[1].group_id != rollouts[2].group_id
    assert rollouts[0].group_id.startswith("12@3#")
    assert [r.outcome for r in rollouts] == [1.0, 0.0, 1.0]
    assert {r.policy_version for r in rollouts} == {"3"}
    assert report.skipped == {}


def test_the_same_sample_number_at_another_step_is_another_group(read):
    a, b = read(VERL, [row(uid="0_0_0"), row(uid="0_0_0", step=4)])[0]
    assert a.group_id != b.group_id
    assert a.rollout_id != b.rollout_id
    assert a.task_id == b.task_id


def test_rows_without_ids_are_grouped_by_prompt_and_step(read):
    rollouts, _ = read(VERL, [row(), row("5"), row(input="other"), row(step=4)])
    assert [r.group_source for r in rollouts] == ["initial_hash"] * 4
    assert [r.rollout_id for r in rollouts] == [None] * 4
    assert len({r.group_id for r in rollouts[:2]}) == 1
    assert len({r.group_id for r in rollouts}) == 3


def test_a_uid_of_another_form_names_the_group(read):
    a, b = read(VERL, [row(uid="prompt-a"), row("5", uid="prompt-a")])[0]
    assert a.group_id == b.group_id
    assert a.group_source == "explicit"
    assert a.rollout_id is None


def test_a_request_id_names_the_rollout(read):
    a, b = read(VERL, [row(request_id="r1"), row(request_id="r2")])[0]
    assert a.rollout_id != b.rollout_id
    assert a.group_id == b.group_id


def test_a_response_of_several_turns_is_several_decisions(read):
    (rollout,), _ = read(VERL, [row(f"{CALL}\n\ntool\n4\n\nassistant\nIt is 4.", acc=1.0)])
    assert [s.action_kind for s in rollout.steps] == ["tool_call", "message"]
    assert rollout.steps[1].observation == "4"
    assert rollout.order_trusted
    assert rollout.metadata == {"gts": "4", "acc": 1.0}


def test_assistant_turns_in_the_prompt_are_no_decisions(read):
    shown = "user\nhi\nassistant\nhello\nuser\n2+2?\nassistant\n"
    (rollout,), _ = read(VERL, [row(input=shown)])
    assert [s.action_text for s in rollout.steps] == ["4"]


def test_bare_nan_and_null_scores_are_unscored_with_a_warning(read):
    lines = json.dumps(row(score=float("nan"))) + "\n" + json.dumps(row("5", score=None)) + "\n"
    rollouts, report = read(VERL, lines.encode())
    assert [(r.outcome, r.outcome_kind) for r in rollouts] == [(None, "missing")] * 2
    assert sum(report.warnings.values()) == 2


def test_a_partial_last_line_is_counted(read):
    data = json.dumps(row()) + "\n" + json.dumps(row("5"))[:40]
    rollouts, report = read(VERL, data.encode())
    assert len(rollouts) == 1
    assert report.skipped == {"truncated last line": 1}


def test_rows_without_text_are_skipped(read):
    rollouts, report = read(VERL, [row(), row(output=None), {"input": "x"}])
    assert len(rollouts) == 1
    assert report.skipped == {"row without input and output": 2}


def test_reading_twice_gives_the_same_ids(tmp_path: Path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{folder}.jsonl").write_text(json.dumps(row(uid="1_0_0")) + "\n")
    ids = [
        [(r.rollout_id, r.group_id, r.task_id) for r in VerlReader().read(LogFile(path), Report())]
        for path in sorted(tmp_path.glob("*/*.jsonl"))
    ]
    assert ids[0] == ids[1]


# --- prompts of verl-agent ---------------------------------------------------------------------------------------

WEBSHOP = (
    "\nYou are an expert autonomous agent operating in the WebShop e-commerce environment.\n"
    "Your task is to: Find me shoes, and price lower than 50.00 dollars.\n"
    "Prior to this step, you have already taken 1 step(s). Below are the most recent 1 observations and the "
    "corresponding actions you took: [Observation 1: ''Search'', Action 1: 'search[women's shoes]']\n"
    "You are now at step 2 and your current observation is: 'Back to Search' [SEP] 'Page 1' [SEP] 'B0'.\n"
    "Your admissible actions of the current situation are: \n[\n'click[back to search]',\n'click[women's shoe]',\n"
    "'click[b0]',\n].\n\nNow it's your turn to take one action for the current step."
)


def test_a_webshop_prompt_is_read():
    found = parse_prompt(WEBSHOP)
    assert found is not None
    assert found.step == 2
    assert found.task == "Find me shoes, and price lower than 50.00 dollars"
    assert found.observation == "'Back to Search' [SEP] 'Page 1' [SEP] 'B0'"
    assert found.history == ((1, "'Search'", "search[women's shoes]"),)
    assert found.admissible == ("click[back to search]", "click[women's shoe]", "click[b0]")


def test_line_ends_may_have_become_spaces():
    found, flat = parse_prompt(WEBSHOP), parse_prompt(WEBSHOP.replace("\n", " "))
    assert found == flat


def test_a_first_prompt_without_a_number_is_step_one():
    text = (
        "You are an expert agent operating in the ALFRED Embodied Environment.\n"
        "Your current observation is: You are in a room.\n\nYour task is to: put a pen on the desk.\n"
        "Your admissible actions of the current situation are: ['go to desk 1' 'look'\n \"take kid's pen 1\"].\n\n"
        "Now it's your turn to take an action."
    )
    found = parse_prompt(text)
    assert found is not None
    assert (found.step, found.task) == (1, "put a pen on the desk")
    assert found.observation.endswith("Your task is to: put a pen on the desk.")
    assert found.admissible == ("go to desk 1", "look", "take kid's pen 1")


def test_prompts_that_only_count_the_steps_taken_have_a_number():
    found = parse_prompt("Your question: Who?\nPrior to this step, you have already taken 2 step(s). History: ..")
    assert found is not None
    assert (found.step, found.task, found.observation) == (3, "Who?", "")


def test_other_prompts_are_not_taken_for_step_prompts():
    assert parse_prompt("What is your current view?") is None


@pytest.mark.parametrize(
    "response, expected",
    [
        ("<think>a</think><action>go</action>", ("go", "env_command")),
        ("<think>a</think><action>go</action> or <action>look</action>", ("look", "env_command")),
        ("<think>only thoughts</think>", (None, "invalid")),
        ("<think>a</think><action>never closed", (None, "invalid")),
        ("<think>a</think><search> who </search>", ("search[who]", "env_command")),
        ("<think><search>no</search></think><answer>me</answer>", ("answer[me]", "env_command")),
    ],
)
def test_actions_of_tagged_responses(response, expected):
    assert action_of_response(response) == expected


# --- verl-agent step rows ----------------------------------------------------------------------------------------

WIN = [("desk", "go to desk 1"), ("pen", "take pen 1")]
LOSS = [("shelf", "go to shelf 1"), ("hm", "go to shelf 1"), ("give up", "look")]


def done(rollouts: list[Rollout]) -> Counter[tuple[Any, ...]]:
    """What each rollout did, with its outcome."""
    return Counter((tuple(s.action_text for s in r.steps), r.outcome) for r in rollouts)


def test_rows_with_ids_are_put_in_the_order_of_their_prompts(read):
    log = rows("a pen", WIN, 10.0, traj_uid="t1", uid="g") + rows("a pen", LOSS, 0.0, traj_uid="t2", uid="g")
    random.Random(1).shuffle(log)
    rollouts, report = read(STEP_ROWS, log)
    assert done(rollouts) == {(tuple(a for _, a in WIN), 10.0): 1, (tuple(a for _, a in LOSS), 0.0): 1}
    assert {(r.group_id, r.group_source, r.order_trusted) for r in rollouts} == {("g", "explicit", True)}
    assert {(r.success, r.outcome_min, r.outcome_max) for r in rollouts} == {(True, 0.0, 10.0), (False, 0.0, 10.0)}
    assert report.skipped == {}


def test_the_episode_reward_on_each_row_is_an_outcome_and_no_reward(read):
    (rollout,), _ = read(STEP_ROWS, rows("a pen", LOSS, 10.0, traj_uid="t"))
    assert rollout.outcome == 10.0
    assert [s.reward for s in rollout.steps] == [None] * 3


@pytest.mark.parametrize("reward, folded", [(10.0, 9.9), (0.0, -0.1)])
def test_a_folded_penalty_marks_its_step_invalid_and_leaves_the_outcome(read, reward, folded):
    log = rows("a pen", LOSS, reward, traj_uid="t")
    log[1]["score"] = folded
    (rollout,), _ = read(STEP_ROWS, log)
    assert rollout.outcome == reward
    assert [s.action_valid for s in rollout.steps] == [None, False, None]


def test_a_rollout_of_invalid_actions_only_is_a_plain_loss_where_the_dump_shows_the_scale(read):
    log = rows("a pen", LOSS, -0.1, traj_uid="t1") + rows("a pen", WIN, 10.0, traj_uid="t2")
    rollouts, _ = read(STEP_ROWS, log)
    assert [r.outcome for r in rollouts] == [0.0, 10.0]


def test_graded_scores_are_left_as_they_are(read):
    log = rows("a pen", LOSS, 0.45, traj_uid="t1") + rows("a pen", WIN, 10.0, traj_uid="t2")
    rollouts, _ = read(STEP_ROWS, log)
    assert [(r.outcome, r.success, r.outcome_max) for r in rollouts] == [(0.45, None, None), (10.0, None, None)]


def test_copies_of_rows_are_padding(read):
    log = rows("a pen", WIN, 10.0, traj_uid="t")
    (rollout,), report = read(STEP_ROWS, [*log, log[1], log[0]])
    assert len(rollout.steps) == 2
    assert report.skipped == {"identical row of one trajectory dropped as padding": 2}


def test_observation_and_offered_actions_come_from_the_prompt(read):
    (rollout,), _ = read(STEP_ROWS, rows("a pen", WIN, 10.0, traj_uid="t", is_action_valid=True))
    first, second = rollout.steps
    assert first.observation == ROOM.format(task="a pen")
    assert second.observation == "On the desk 1, you see a pen 1."
    assert second.admissible_actions == ["go to desk 1", "go to shelf 1", "take pen 1"]
    assert (second.observation_source, second.action_valid, second.prompt_from) == ("logged_pre", True, None)
    assert second.messages[-1]["content"] == "<think>pen</think><action>take pen 1</action>"
    assert rollout.instruction == "a pen"


def test_a_rollout_without_its_first_row_stays_in_its_group_and_task(read):
    whole = [rows("a pen", turns, 0.0, traj_uid=f"t{i}", uid="g") for i, turns in enumerate([WIN, LOSS, LOSS])]
    rollouts, _ = read(STEP_ROWS, [*whole[0], *whole[1], *whole[2][1:]])
    assert [len(r.steps) for r in rollouts] == [2, 3, 2]
    assert len({(r.task_id, r.group_id) for r in rollouts}) == 1


def test_rows_with_ids_but_without_step_numbers_are_not_trusted_in_order(read):
    log = [{"input": f"see {i}", "output": "<action>a</action>", "score": 1.0, "step": 1, "traj_uid": "t" * 16}
           for i in range(2)]  # fmt: skip
    (rollout,), report = read(STEP_ROWS, log)
    assert not rollout.order_trusted
    assert "no step number in the prompts: order not trusted" in report.warnings


def test_nameless_rows_are_threaded_to_rollouts(read):
    log = rows("a pen", WIN, 10.0) + rows("a pen", LOSS, 0.0) + rows("a cup", LOSS, 0.0)
    random.Random(2).shuffle(log)
    rollouts, report = read(STEP_ROWS, log)
    lost = (tuple(a for _, a in LOSS), 0.0)
    assert done(rollouts) == {(tuple(a for _, a in WIN), 10.0): 1, lost: 2}
    assert report.skipped == {}
    assert {r.group_source for r in rollouts} == {"initial_hash"}
    assert len({r.group_id for r in rollouts}) == 2
    assert all(r.order_trusted and r.rollout_id is None for r in rollouts)


def test_rollouts_that_did_the_same_so_far_are_interchangeable(read):
    """Both went to the desk with other thoughts: who took the pen cannot be known, and does not matter."""
    other = [("let me try the desk", "go to desk 1"), ("now", "look")]
    rollouts, report = read(STEP_ROWS, rows("a pen", WIN, 0.0) + rows("a pen", other, 0.0))
    assert done(rollouts) == {(("go to desk 1", "take pen 1"), 0.0): 1, (("go to desk 1", "look"), 0.0): 1}
    assert report.skipped == {}
    assert len({s.messages[-1]["content"] for r in rollouts for s in r.steps}) == 4


def test_equal_rows_of_several_rollouts_are_passed_by_each(read):
    log = rows("a pen", WIN, 0.0) + rows("a pen", [WIN[0], ("wait", "look")], 0.0)
    assert log[0] == log[2]
    rollouts, report = read(STEP_ROWS, log)
    assert done(rollouts) == {(("go to desk 1", "take pen 1"), 0.0): 1, (("go to desk 1", "look"), 0.0): 1}
    assert report.skipped == {}


def test_copies_that_no_later_row_asks_for_are_padding(read):
    log = rows("a pen", WIN, 10.0)
    rollouts, report = read(STEP_ROWS, [*log, log[0], log[1]])
    assert len(rollouts) == 1
    assert sum(report.skipped.values()) == 2
    assert set(report.skipped) == {"copy of a row dropped as padding"}


def test_a_rollout_whose_row_is_missing_is_skipped_from_there_on(read):
    log = rows("a pen", LOSS, 0.0)
    rollouts, report = read(STEP_ROWS, [log[0], log[2]])
    assert [len(r.steps) for r in rollouts] == [1]
    assert report.skipped == {"step row without trajectory id: no or no single rollout fits": 1}


def test_rows_that_fit_rollouts_with_different_pasts_are_skipped(read):
    """With one step of history, what led to the shelf is not seen any more."""
    long = [("a", "go to desk 1"), ("b", "go to shelf 1"), ("c", "go to shelf 1"), ("d", "look")]
    also = [("a", "look"), ("b", "go to shelf 1"), ("c", "go to shelf 1"), ("e", "take pen 1")]
    log = rows("a pen", long, 0.0, window=1) + rows("a pen", also, 0.0, window=1)
    _, report = read(STEP_ROWS, log)
    assert report.skipped["step row without trajectory id: no or no single rollout fits"] == 2


def test_rows_without_ids_and_without_numbers_are_skipped_and_counted(read):
    numbered = rows("a pen", WIN, 10.0)
    bare = [{**numbered[0], "input": "What now?"}] * 3
    rollouts, report = read(STEP_ROWS, numbered + bare)
    assert len(rollouts) == 1
    assert report.skipped == {"step row without trajectory id and without step number": 3}


def test_every_row_is_used_or_counted(read):
    rng = random.Random(4)
    moves = ["go to desk 1", "go to shelf 1", "take pen 1", "look"]
    log = [
        r
        for task in ("a pen", "a cup")
        for _ in range(8)
        for r in rows(task, [(str(rng.random()), rng.choice(moves)) for _ in range(rng.randint(1, 6))], 0.0)
    ]
    padded = log + rng.choices(log, k=10)
    rng.shuffle(padded)
    rollouts, report = read(STEP_ROWS, padded)
    assert sum(len(r.steps) for r in rollouts) + sum(report.skipped.values()) == report.records == len(padded)


def test_reading_shuffled_nameless_rows_gives_the_same_rollouts(read):
    log = rows("a pen", WIN, 10.0) + rows("a pen", LOSS, 0.0) + rows("a pen", LOSS[:1] + WIN, 0.0)
    once = read(STEP_ROWS, log, "a.jsonl")[0]
    again = read(STEP_ROWS, log[::-1], "b.jsonl")[0]
    texts = [{tuple(s.messages[-1]["content"] for s in r.steps) for r in found} for found in (once, again)]
    assert texts[0] == texts[1]


# --- trajectories ------------------------------------------------------------------------------------------------


def web_step(observation: str, action: str, **more: Any) -> dict[str, Any]:
    text = f"<think>red shoes price < 40.00</think><action>{action}</action>"
    return {"observation": observation, "action": text, "step_reward": 0.0, **more}


def web_file(**more: Any) -> dict[str, Any]:
    steps = [web_step("'Search'", "search[shoes]", step=0), web_step("'Page 1'", "click[b0]", step=1, entropy=0.5)]
    trajectories = [
        {"traj_id": "0" * 20 + str(i), "n_steps": 2, "success": won, "episode_reward": 10.0 * won, "steps": steps}
        for i, won in enumerate([True, True, False, False])
    ]
    return {"global_step": 80, "n_trajectories": 4, "trajectories": trajectories} | more


def test_a_verl_agent_trajectory_file(read):
    data = json.dumps(web_file(), indent=1).encode()
    rollouts, report = read(TRAJECTORIES, data, "observe.json")
    assert [r.success for r in rollouts] == [True, True, False, False]
    assert {(r.outcome_min, r.outcome_max, r.policy_version) for r in rollouts} == {(0.0, 10.0, "80")}
    assert {(r.group_source, r.order_trusted) for r in rollouts} == {("text_cluster", False)}
    assert [s.action_text for s in rollouts[0].steps] == ["search[shoes]", "click[b0]"]
    assert rollouts[0].steps[1].observation == "'Page 1'"
    assert rollouts[0].steps[1].metadata == {"step": 1, "entropy": 0.5}
    assert report.records == 4


def test_identical_steps_of_a_trajectory_are_padding(read):
    file = web_file()
    file["trajectories"][0]["steps"] = [*file["trajectories"][0]["steps"], web_step("'Search'", "search[shoes]")]
    rollouts, report = read(TRAJECTORIES, [file])
    assert [len(r.steps) for r in rollouts] == [2, 2, 2, 2]
    assert report.warnings["identical row of one trajectory dropped as padding"] == 1


def test_a_response_without_the_tag_is_invalid_among_tagged_ones(read):
    file = web_file()
    file["trajectories"][0]["steps"].append({"observation": "x", "action": "<think>hm</think> I click"})
    rollouts, _ = read(TRAJECTORIES, [file])
    assert [(s.action_kind, s.action_valid) for s in rollouts[0].steps][-1] == ("invalid", False)


def test_bare_commands_are_actions_where_no_step_has_a_tag(read):
    steps = [{"observation": "a", "action": "go north"}, {"observation": "b", "action": "take lamp"}]
    record = {"traj_uid": "t" * 20, "task": "find the lamp", "outcome": "success", "steps": steps}
    (rollout,), _ = read(TRAJECTORIES, [record])
    assert [s.action_text for s in rollout.steps] == ["go north", "take lamp"]
    assert (rollout.success, rollout.outcome, rollout.instruction) == (True, 1.0, "find the lamp")


@pytest.mark.parametrize(
    "outcome, expected",
    [(True, (1.0, True)), ("failure", (0.0, False)), (0.25, (0.25, None)), ("1.0", (1.0, None))],
)
def test_outcomes_in_many_spellings(read, outcome, expected):
    record = {"traj_uid": "t" * 20, "task": "x", "outcome": outcome, "steps": [web_step("a", "b")]}
    (rollout,), _ = read(TRAJECTORIES, [record])
    assert (rollout.outcome, rollout.success) == expected


def test_step_rewards_are_summed_only_where_nothing_else_is_said(read):
    steps = [web_step("a", "b"), web_step("c", "d") | {"step_reward": 1.5}]
    (rollout,), _ = read(TRAJECTORIES, [{"traj_id": "t" * 20, "steps": steps}])
    assert (rollout.outcome, rollout.outcome_kind) == (1.5, "sum_of_steps")


def test_a_missing_outcome_is_unscored_and_not_zero(read):
    steps = [{"observation": "a", "action": "b"}]
    (rollout,), report = read(TRAJECTORIES, [{"traj_id": "t" * 20, "episode_reward": None, "steps": steps}])
    assert (rollout.outcome, rollout.outcome_kind, rollout.success) == (None, "missing", None)
    assert report.warnings["outcome is null, NaN or no number: unscored"] == 1


def test_trajectories_of_one_task_text_are_one_group_with_a_warning(read):
    records = [
        {"traj_uid": f"{i}" * 20, "task": t, "outcome": i % 2, "steps": [web_step("a", "b")]}
        for i, t in enumerate(["x", "x", "y"])
    ]
    rollouts, report = read(TRAJECTORIES, records)
    assert rollouts[0].group_id == rollouts[1].group_id != rollouts[2].group_id
    assert report.warnings["grouped by the task text alone: the first observation is not known"] == 3


def test_prompts_that_count_the_steps_make_the_order_trusted(read):
    steps = [{"input": r["input"], "output": r["output"]} for r in rows("a pen", LOSS, 0.0)]
    shown = [{"prompt": s["input"], "response": s["output"]} for s in steps[::-1]]
    (rollout,), _ = read(TRAJECTORIES, [{"traj_uid": "t" * 20, "uid": "g", "score": 0.0, "steps": shown}])
    assert rollout.order_trusted
    assert [s.action_text for s in rollout.steps] == [a for _, a in LOSS]
    assert (rollout.group_id, rollout.group_source) == ("g", "explicit")


def test_short_trajectory_ids_are_made_unique_over_files(read):
    one, two = ({"traj_id": 0, "score": 1.0, "task": t, "steps": [web_step(t, "b")]} for t in "xy")
    a, b = read(TRAJECTORIES, [one, two])[0]
    assert a.rollout_id != b.rollout_id


def test_agent_r1_steps_are_in_the_order_of_their_index(read):
    steps = [
        {
            "step_index": 1,
            "input": "user\nq\nassistant\nlook\nuser\nseen\nassistant\n",
            "output": "<action>b</action>",
        },
        {"step_index": 0, "input": "user\nq\nassistant\n", "output": "<action>a</action>"},
    ]
    record = {
        "trajectory_uid": "u" * 32, "input": "user\nq", "output": "..", "gts": "g", "score": 0.5, "step": 7,
        "num_steps": 3, "steps": steps,
    }  # fmt: skip
    (rollout,), report = read(AGENT_R1, [record])
    assert [s.action_text for s in rollout.steps] == ["a", "b"]
    assert [s.observation for s in rollout.steps] == ["q", "seen"]
    assert (rollout.order_trusted, rollout.outcome, rollout.policy_version) == (True, 0.5, "7")
    assert rollout.group_source == "initial_hash"
    assert report.warnings["number of steps is not the declared one"] == 1


def test_each_layout_is_claimed_by_one_reader(tmp_path: Path):
    logs = {
        "verl": row(),
        "verl_agent": rows("a pen", WIN, 10.0)[0],
        "verl_agent_trajectories": web_file(),
        "agent_r1": {"trajectory_uid": "u", "input": "", "score": 1, "steps": [{"input": "a", "output": "b"}]},
    }
    for name, record in logs.items():
        path = tmp_path / f"{name}.jsonl"
        path.write_text(json.dumps(record) + "\n")
        assert [r.name for r in READERS if r.detect(LogFile(path).head())] == [name]


# --- real logs ---------------------------------------------------------------------------------------------------


def test_the_webshop_checkpoints_split_into_four_tasks_of_eight(shared: Path):
    """Four tasks x eight rollouts in each of eight dumps that name neither; 21 padded rows; 14 of 32 groups mixed."""
    found: list[Rollout] = []
    padding = 0
    for path in sorted((shared / "data" / "verl_agent_webshop").glob("*.zst")):
        log, report = LogFile(path, path.name), Report(path.name)
        assert TRAJECTORIES.detect(log.head())
        rollouts = list(TRAJECTORIES.read(log, report))
        assert sorted(Counter(r.group_id for r in rollouts).values()) == [8, 8, 8, 8]
        padding += report.warnings.get("identical row of one trajectory dropped as padding", 0)
        found += rollouts
    groups = {r.group_id: {q.success for q in found if q.group_id == r.group_id} for r in found}
    assert (len(found), len(groups), padding) == (256, 32, 21)
    assert sum(len(outcomes) == 2 for outcomes in groups.values()) == 14
    assert sum(bool(r.success) for r in found) == 123
    assert Counter(s.action_kind for r in found for s in r.steps) == {"env_command": 2049, "invalid": 2}
    assert informative(found) == 32


def informative(rollouts: list[Rollout]) -> int:
    """Contexts (group, observation) in which two valid actions differ in mean outcome, first visits only."""
    seen: dict[Any, dict[str, list[bool]]] = {}
    for rollout in rollouts:
        visited = set()
        for step in rollout.steps:
            context = (rollout.group_id, step.observation)
            if step.action_text is not None and context not in visited:
                visited.add(context)
                seen.setdefault(context, {}).setdefault(step.action_text.lower(), []).append(bool(rollout.success))
    means = [{sum(o) / len(o) for o in actions.values()} for actions in seen.values()]
    return sum(len(m) > 1 for m in means)


def test_step_rows_are_named_so_in_the_tables():
    assert StepRowReader.name == "verl_agent"
