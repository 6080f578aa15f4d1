"""tau-bench and tau2-bench logs."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from mcgpo_data.readers.base import Report
from mcgpo_data.readers.logfile import LogFile
from mcgpo_data.readers.tau import Tau2Bench, TauBench

TASK = {"user_id": "mia", "instruction": "You want a refund.", "actions": []}


def tau_row(
    task_id: int = 0, trial: int = 0, reward: Any = 1.0, end: str = "###STOP###", said: str = "hello"
) -> dict[str, Any]:
    return {
        "task_id": task_id,
        "trial": trial,
        "reward": reward,
        "info": {"task": TASK, "user_cost": 0.1},
        "traj": [
            {"role": "system", "content": "policy"},
            {"role": "user", "content": said},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "c", "type": "function", "function": {"name": "get", "arguments": '{"id": "mia"}'}}
                ],
            },
            {"role": "tool", "tool_call_id": "c", "name": "get", "content": "{}"},
            {"role": "assistant", "content": "Refunded."},
            {"role": "user", "content": end},
        ],
    }


ERROR_ROW = {
    "task_id": 0,
    "trial": 1,
    "reward": 0.0,
    "info": {"error": "RateLimitError", "traceback": "..."},
    "traj": [],
}


def test_a_row_is_a_rollout_on_the_scale_of_the_benchmark(read):
    (rollout,), report = read(TauBench(), [tau_row()])
    assert (rollout.outcome, rollout.outcome_min, rollout.outcome_max) == (1.0, 0.0, 1.0)
    assert (rollout.success, rollout.outcome_kind, rollout.terminal_status) == (True, "terminal", "done")
    assert [step.observation for step in rollout.steps] == ["hello", "{}"]
    assert rollout.final_observation == "###STOP###"
    assert rollout.instruction is None, "the agent never saw the instruction of the simulated user"
    assert rollout.metadata["info"]["user_cost"] == 0.1
    assert not report.skipped
    assert not report.warnings


@pytest.mark.parametrize("packing", ["array", "lines"])
def test_an_array_and_lines_are_read_alike(read, packing):
    rows = [tau_row(trial=t, said=f"hello {t}") for t in range(3)]
    data = json.dumps(rows).encode() if packing == "array" else b"\n".join(json.dumps(r).encode() for r in rows)
    rollouts, _ = read(TauBench(), data)
    assert len({r.rollout_id for r in rollouts}) == 3
    assert len({r.task_id for r in rollouts}) == 1


def test_a_harness_error_is_unscored_and_no_failure(read):
    (good, bad), report = read(TauBench(), [tau_row(), ERROR_ROW])
    assert good.outcome == 1.0
    assert (bad.steps, bad.outcome, bad.success, bad.outcome_kind) == ([], None, None, "missing")
    assert bad.terminal_status == "error_infra"
    assert report.warnings == {"ended by an error: unscored": 1}


def test_reading_twice_gives_equal_ids_and_other_content_other_ids(read):
    first, _ = read(TauBench(), [tau_row()], "a.jsonl")
    again, _ = read(TauBench(), [tau_row()], "elsewhere/b.jsonl")
    other, _ = read(TauBench(), [tau_row(said="good day")], "c.jsonl")
    assert first[0].rollout_id == again[0].rollout_id != other[0].rollout_id
    assert first[0].task_id == other[0].task_id


def test_equal_numbers_of_two_domains_are_two_tasks(read):
    retail = tau_row() | {"info": {"task": TASK | {"instruction": "You want shoes."}}}
    rollouts, _ = read(TauBench(), [tau_row(), retail])
    assert len({r.task_id for r in rollouts}) == 2


def test_a_run_without_a_stop_was_cut_by_the_step_limit(read):
    (rollout,), _ = read(TauBench(), [tau_row(end="and then?", reward=0.0)])
    assert (rollout.terminal_status, rollout.outcome, rollout.success) == ("truncated_steps", 0.0, False)


def test_a_transfer_to_a_human_ends_the_episode(read):
    row = tau_row()
    name = "transfer_to_human_agents"
    row["traj"] = [
        *row["traj"][:2],
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "t", "function": {"name": name, "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "t", "content": "Transfer successful"},
    ]
    (rollout,), _ = read(TauBench(), [row])
    assert rollout.terminal_status == "done"


@pytest.mark.parametrize("reward", ["null", "NaN", "Infinity", "1e999", '"high"'])
def test_a_reward_that_is_no_number_is_unscored(read, reward):
    data = json.dumps(tau_row(reward="?")).replace('"?"', reward).encode()
    (rollout,), report = read(TauBench(), data)
    assert (rollout.outcome, rollout.success, rollout.outcome_kind) == (None, None, "missing")
    assert report.warnings == {"outcome is null, NaN or no number: unscored": 1}


def test_a_crash_while_rewriting_the_array_keeps_the_whole_rows(read):
    data = json.dumps([tau_row(trial=t) for t in range(3)], indent=1).encode()
    rollouts, report = read(TauBench(), data[:-300])
    assert len(rollouts) == 2
    assert report.skipped == {"truncated JSON document": 1}


def test_a_cut_last_line_is_counted(read):
    lines = "\n".join(json.dumps(tau_row(trial=t)) for t in range(3))
    rollouts, report = read(TauBench(), lines[:-40].encode())
    assert len(rollouts) == 2
    assert report.skipped == {"truncated last line": 1}
    assert report.places["truncated last line"][0].startswith("log.jsonl:3")


@pytest.mark.parametrize(
    "broken, reason",
    [
        ({"traj": "text"}, "messages are not a list"),
        ({"traj": []}, "no decision in the messages"),
        ({"traj": [{"role": "user", "content": "hi"}]}, "no decision in the messages"),
        ({"traj": [{"content": "hi"}]}, "a message has no role"),
        ({"task_id": None}, "record without task_id"),
    ],
)
def test_rows_that_cannot_be_used_are_counted_with_their_place(read, broken, reason):
    rollouts, report = read(TauBench(), [tau_row(), tau_row(trial=1) | broken])
    assert len(rollouts) == 1
    assert report.skipped == {reason: 1}
    assert report.places[reason][0].startswith("log.jsonl:2")


def simulation(identity: str = "s0", reason: str = "user_stop", reward: Any = 1.0) -> dict[str, Any]:
    return {
        "id": identity,
        "task_id": "12",
        "trial": 0,
        "termination_reason": reason,
        "reward_info": None if reward is None else {"reward": reward, "db_check": {"db_match": True}},
        "messages": [
            {"role": "assistant", "content": "Hi! How can I help you today?", "tool_calls": None, "turn_idx": 0},
            {"role": "user", "content": "No signal.", "turn_idx": 1},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "a1", "name": "get_line", "arguments": {"id": 7}, "requestor": "assistant"}],
            },
            {"role": "tool", "id": "a1", "content": "active", "requestor": "assistant", "error": False},
            {"role": "assistant", "content": "Please reboot.", "tool_calls": None},
            {
                "role": "user",
                "content": None,
                "tool_calls": [{"id": "u1", "name": "reboot", "arguments": {}, "requestor": "user"}],
            },
            {"role": "tool", "id": "u1", "content": "rebooted", "requestor": "user", "error": False},
            {"role": "user", "content": "Works now.", "tool_calls": None},
            {"role": "assistant", "content": "Great.", "tool_calls": None},
        ],
    }


INFO = {"agent_info": {"llm": "gpt-x"}, "environment_info": {"domain_name": "telecom", "policy": "be kind"}}


def run(*simulations: Any) -> bytes:
    return json.dumps(
        {"timestamp": "t", "info": INFO, "tasks": [{"id": "12"}], "simulations": list(simulations)}
    ).encode()


def test_a_tau2_run_gives_one_rollout_per_simulation(read):
    rollouts, report = read(Tau2Bench(), run(simulation("s0"), simulation("s1", reward=0.0)))
    assert [r.rollout_id for r in rollouts] == ["s0", "s1"]
    assert [(r.task_id, r.policy, r.group_source) for r in rollouts] == [("telecom/12", "gpt-x", "task")] * 2
    assert len({r.group_id for r in rollouts}) == 1
    assert [(r.outcome, r.success) for r in rollouts] == [(1.0, True), (0.0, False)]
    assert report.records == 2


def test_the_greeting_and_the_tools_of_the_user_are_no_decisions(read):
    (rollout,), _ = read(Tau2Bench(), run(simulation()))
    assert [step.action_text for step in rollout.steps] == [
        '[{"arguments":{"id":7},"name":"get_line"}]',
        "Please reboot.",
        "Great.",
    ]
    assert [step.observation for step in rollout.steps] == ["No signal.", "active", "Works now."]


@pytest.mark.parametrize(
    "reason, status, outcome",
    [
        ("user_stop", "done", 1.0),
        ("agent_stop", "done", 1.0),
        ("max_steps", "truncated_steps", 1.0),
        ("timeout", "truncated_steps", 1.0),
        ("context_window_exceeded", "truncated_tokens", 1.0),
        ("too_many_errors", "error_agent", 1.0),
        ("agent_error", "error_agent", 1.0),
        ("user_error", "error_infra", None),
        ("unexpected_error", "error_infra", None),
        ("infrastructure_error", "error_infra", None),
        ("something new", "unknown", 1.0),
    ],
)
def test_termination_reasons(read, reason, status, outcome):
    (rollout,), _ = read(Tau2Bench(), run(simulation(reason=reason)))
    assert (rollout.terminal_status, rollout.outcome) == (status, outcome)


def test_a_simulation_without_reward_is_unscored(read):
    (rollout,), report = read(Tau2Bench(), run(simulation(reward=None)))
    assert rollout.outcome is None
    assert report.warnings["outcome is null, NaN or no number: unscored"] == 1


def test_a_simulation_that_broke_before_its_start_is_kept_without_steps(read):
    broken = simulation("s1", reason="infrastructure_error", reward=None) | {"messages": []}
    rollouts, report = read(Tau2Bench(), run(simulation(), broken))
    assert [len(r.steps) for r in rollouts] == [3, 0]
    assert report.warnings["ended by an error: unscored"] == 1


def test_ticks_of_voice_runs_are_counted_as_not_read(read):
    voice = simulation("s1") | {"messages": None, "ticks": [{"tick_id": 0}]}
    rollouts, report = read(Tau2Bench(), run(simulation(), voice))
    assert len(rollouts) == 1
    assert report.skipped == {"full-duplex ticks are not read": 1}


def test_a_run_stored_as_folder(read, tmp_path: Path):
    index = {"info": INFO, "tasks": [{"id": "12"}], "simulation_index": [{"id": "s0"}], "simulations": []}
    nothing, report = read(Tau2Bench(), json.dumps(index).encode(), "results.json")
    assert nothing == []
    assert list(report.skipped) == ["index without simulations: give the files in simulations/ too"]
    (whole,), _ = read(Tau2Bench(), run(simulation()), "whole.json")
    (single,), _ = read(Tau2Bench(), json.dumps(simulation(), indent=2).encode(), "simulations/s0.json")
    assert (single.rollout_id, single.task_id, single.policy) == (whole.rollout_id, whole.task_id, whole.policy)


def test_a_single_simulation_without_its_index_is_read_too(tmp_path: Path):
    path = tmp_path / "lonely" / "simulations" / "s0.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(simulation(), indent=2))
    (rollout,) = Tau2Bench().read(LogFile(path), Report())
    assert (rollout.task_id, rollout.policy) == ("12", None)


def test_copies_without_ids_get_ids_from_their_content(read):
    bare = {key: value for key, value in simulation().items() if key != "id"}
    other = copy.deepcopy(bare)
    other["messages"][-1]["content"] = "Bye."
    rollouts, _ = read(Tau2Bench(), run(bare, other))
    assert len({r.rollout_id for r in rollouts}) == 2


def test_the_published_airline_run(shared: Path):
    report = Report()
    log = LogFile(shared / "data" / "tau_bench" / "gpt-4o-airline.json.zst")
    assert TauBench().detect(log.head())
    rollouts = list(TauBench().read(log, report))
    assert len(rollouts) == len({r.rollout_id for r in rollouts}) == 200
    assert len({r.task_id for r in rollouts}) == 50
    assert sum(len(r.steps) for r in rollouts) == 2454
    assert sum(r.success is True for r in rollouts) == 84
    assert not report.skipped
    calls = [s for r in rollouts for s in r.steps if s.action_kind == "tool_call"]
    assert all(json.loads(s.action_text or "")[0]["name"] for s in calls)
    assert sum(s.messages[-1]["content"] is None for s in calls) == 1074
