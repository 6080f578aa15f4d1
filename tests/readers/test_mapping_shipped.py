"""The layouts that come with the package, on small records and on real logs."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mcgpo_data.readers import find_reader
from mcgpo_data.readers.base import Report, Rollout
from mcgpo_data.readers.logfile import LogFile
from mcgpo_data.readers.mapping import READERS

INTERCODE = {
    "environment": "ic_sql",
    "dataset": "d.json",
    "task_id": 0,
    "query": "How many?",
    "turn_history": {
        "actions": ["SELECT 1", "I think so", "SELECT 2"],
        "observations": ["[(1,)]", "No SQL code was found in your last response.", "x" * 2**20],
        "rewards": [0.0, 0, 1.0],
        "valid_action": [True, False, True],
    },
    "summary": {"max_reward": 1.0},
}


def detected(tmp_path: Path, name: str, document: Any) -> tuple[list[Rollout], Report, str]:
    path = tmp_path / name
    path.write_text(json.dumps(document) + "\n")
    log, report = LogFile(path, name), Report(name)
    reader = find_reader(log)
    assert reader is not None
    return list(reader.read(log, report)), report, reader.name


def test_intercode_is_recognised_and_its_huge_observation_survives(tmp_path: Path):
    for document in ({"0": INTERCODE}, {"meta": {}, "logs": {"0": INTERCODE}}):
        (rollout,), report, name = detected(tmp_path, "ic_sql_multiturn_gpt-4_10_turns.json", document)
        assert name == "intercode"
        assert (rollout.task_id, rollout.rollout_id, rollout.policy) == ("d.json|How many?", "d.json|0|gpt-4", "gpt-4")
        assert rollout.steps[0].observation == "How many?"
        assert [s.action_valid for s in rollout.steps] == [True, False, True]
        assert len(rollout.final_observation or "") == 2**20
        assert (rollout.outcome, rollout.success, rollout.outcome_min, rollout.outcome_max) == (1.0, True, 0.0, 1.0)
        assert report.skipped == {}


def test_the_best_turn_is_the_outcome_of_intercode_not_the_last(tmp_path: Path):
    record = INTERCODE | {"turn_history": INTERCODE["turn_history"] | {"rewards": [1.0, 0, 0.5]}}  # type: ignore[operator]
    (rollout,), _, _ = detected(tmp_path, "x.json", {"0": record})
    assert rollout.outcome == 1.0
    assert rollout.rollout_id is None  # the name of the file tells no policy


def test_knowagent_alfworld_is_recognised(tmp_path: Path):
    text = (
        "You are in a room.\nYour task is to: put a pen on the desk.\n> Think: first\n> ActionPath: Start\n"
        "> go to desk 1\nNothing happens.\n> take pen 1\nYou pick up the pen 1.\n"
    )
    record = {"name": "game", "result": 0, "traj": text}
    (rollout,), _, name = detected(tmp_path, "KnowAgentALFWorld_llama-2-13b_D1.jsonl", record)
    assert name == "knowagent-alfworld"
    assert (rollout.task_id, rollout.policy, rollout.policy_version) == ("game", "llama-2-13b", "D1")
    assert rollout.rollout_id == "game|D1"
    assert rollout.instruction == "put a pen on the desk."
    assert [s.action_text for s in rollout.steps] == ["go to desk 1", "take pen 1"]
    assert [s.action_valid for s in rollout.steps] == [False, True]
    assert rollout.steps[0].messages[-1]["content"] == "> Think: first\n> ActionPath: Start\n> go to desk 1"
    assert (rollout.outcome, rollout.success, rollout.terminal_status) == (0.0, False, "truncated_steps")


@pytest.mark.parametrize("true, false, one", [(True, False, 1), ("True", "False", "1.0")])
def test_knowagent_hotpotqa_is_recognised_with_strings_for_values(tmp_path: Path, true, false, one):
    text = (
        "Use the graph.\nQuestion: old?\nActionPath 1: Start\nAction 1: Search[x]\n(END OF EXAMPLES)\n"
        "Question: new?\nActionPath 1: Start\nThought 1: hm\nAction 1: Search[y]\nObservation 1: It is z.\n"
        "ActionPath 2: Start->Search[y]\nThought 2: so\nAction 2: Finish[z]\nObservation 2: Answer is CORRECT"
    )
    record = {"question": "new?", "answer": "z", "correct": true, "reward": one, "halted": false, "error": false}
    (rollout,), _, name = detected(tmp_path, "log.jsonl", record | {"prompt": text})
    assert name == "knowagent-hotpotqa"
    assert (rollout.outcome, rollout.success, rollout.terminal_status) == (1.0, True, "done")
    assert [(s.observation, s.action_text) for s in rollout.steps] == [
        ("new?", "Search[y]"),
        ("It is z.", "Finish[z]"),
    ]
    assert rollout.final_observation == "Answer is CORRECT"


def real(shared: Path, pattern: str) -> tuple[list[Rollout], Counter[str]]:
    """Rollouts of all files, and what was skipped."""
    found: list[Rollout] = []
    skipped: Counter[str] = Counter()
    for path in sorted((shared / "data").glob(pattern)):
        log, report = LogFile(path, path.name), Report(path.name)
        reader = find_reader(log)
        assert reader in READERS
        found += reader.read(log, report)
        skipped.update(report.skipped)
    assert len({r.rollout_id for r in found}) == len(found)
    return found, skipped


def mixed_tasks(rollouts: list[Rollout]) -> int:
    outcomes: dict[str, set[bool | None]] = {}
    for rollout in rollouts:
        outcomes.setdefault(rollout.task_id, set()).add(rollout.success)
    return sum(len(found) > 1 for found in outcomes.values())


def informative(rollouts: list[Rollout]) -> int:
    """Contexts (task, all that was seen and done so far) in which two actions differ in mean outcome."""
    seen: dict[Any, dict[str, list[float]]] = {}
    for rollout in rollouts:
        history: tuple[str | None, ...] = (rollout.task_id,)
        for step in rollout.steps:
            history = (*history, (step.observation or "").lower())
            action = " ".join((step.action_text or "").lower().split())
            seen.setdefault(history, {}).setdefault(action, []).append(rollout.outcome or 0.0)
            history = (*history, action)
    return sum(len({sum(o) / len(o) for o in actions.values()}) > 1 for actions in seen.values())


@pytest.mark.parametrize(
    "pattern, tasks, mixed, steps, success, contexts",
    [
        ("knowagent/*ALFWorld*.zst", 510, 120, 17.598, 0.310, 119),
        ("knowagent/*HotpotQA*.zst", 500, 96, 3.757, 0.272, 131),
    ],
)
def test_the_knowagent_logs(shared: Path, pattern, tasks, mixed, steps, success, contexts):
    rollouts, skipped = real(shared, pattern)
    assert Counter(r.task_id for r in rollouts) == dict.fromkeys({r.task_id for r in rollouts}, 2)
    assert (len(rollouts), mixed_tasks(rollouts), dict(skipped)) == (2 * tasks, mixed, {})
    assert sum(len(r.steps) for r in rollouts) / len(rollouts) == pytest.approx(steps, abs=1e-3)
    assert sum(bool(r.success) for r in rollouts) / len(rollouts) == pytest.approx(success, abs=1e-3)
    assert informative(rollouts) == contexts


def test_the_intercode_logs(shared: Path):
    rollouts, skipped = real(shared, "intercode/*.zst")
    assert {r.policy for r in rollouts} == {"gpt-3.5", "gpt-4", "starchat", "text-davinci-003", "plan_solve"}
    assert (len(rollouts), len({r.task_id for r in rollouts}), mixed_tasks(rollouts)) == (5168, 1034, 787)
    assert dict(skipped) == {"record without steps": 1}
    assert sum(len(r.steps) for r in rollouts) / len(rollouts) == pytest.approx(7.028, abs=1e-3)
    assert informative(rollouts) == 1088
