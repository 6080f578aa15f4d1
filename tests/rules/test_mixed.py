"""Several task families in one build."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from mcgpo_data.build.run import BuildOptions, build_preferences
from mcgpo_data.config import BuildConfig
from mcgpo_data.errors import UsageError
from mcgpo_data.inspect.load import load_pairs
from mcgpo_data.rules.base import INPUT_COLUMNS
from mcgpo_data.rules.registry import REGISTRY, detect_rules, load_rules

TYPES = {"string": pl.String, "int32": pl.Int32, "bool": pl.Boolean, "list of strings": pl.List(pl.String)}
SCHEMA = {
    name: next(kind for start, kind in TYPES.items() if meaning.startswith(start))
    for name, meaning in INPUT_COLUMNS.items()
}


def kitchen(task: str, rollout: str) -> list[dict[str, Any]]:
    texts = [
        (
            "You are in the middle of a room. You see a fridge 1.\nYour task is to: put some apple in fridge.",
            "go to fridge 1",
        ),
        ("You arrive at fridge 1. The fridge 1 is closed.", "open fridge 1"),
    ]
    return rows(task, rollout, texts, ["go to fridge 1", "look", "inventory"])


def query(task: str, rollout: str) -> list[dict[str, Any]]:
    texts = [("How many heads are there?", "SHOW TABLES"), ("[('head',)]", "SELECT count(*) FROM head")]
    return rows(task, rollout, texts, None)


def rows(task: str, rollout: str, texts: list[tuple[str, str]], offered: list[str] | None) -> list[dict[str, Any]]:
    return [
        {
            "task_id": task,
            "rollout_id": rollout,
            "step_index": i,
            "is_final": False,
            "instruction": None,
            "observation": observation,
            "action_text": action,
            "action_kind": "env_command",
            "action_valid": None,
            "admissible_actions": offered,
        }
        for i, (observation, action) in enumerate(texts)
    ]


def frame(*parts: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame([row for part in parts for row in part], schema=SCHEMA)


def test_each_task_goes_through_its_own_family() -> None:
    steps = frame(kitchen("a", "a1"), query("b", "b1"), kitchen("c", "c1"), query("d", "d1"))
    mixed = detect_rules(steps)
    assert mixed.name == "alfworld+sql"
    applied = mixed.apply(steps)
    for name, tasks in (("alfworld", ["a", "c"]), ("sql", ["b", "d"])):
        alone = REGISTRY[name].apply(steps.filter(pl.col("task_id").is_in(tasks)))
        columns = [c for c in alone.columns if c.startswith(("state_", "action_0", "progress"))]
        assert_frame_equal(applied.filter(pl.col("task_id").is_in(tasks)).select(columns), alone.select(columns))
    assert applied["rollout_id"].to_list() == steps["rollout_id"].to_list()


def test_a_rule_that_a_family_lacks_has_no_state_there() -> None:
    mixed = load_rules("generic+alfworld")
    assert mixed.rules == ("exact", "coarse")
    applied = load_rules("alfworld+generic").apply(frame(kitchen("a", "a1"), query("b", "b1")))
    assert applied.filter(pl.col("task_id") == "b")["state_1"].null_count() == 2
    assert applied.filter(pl.col("task_id") == "a")["state_1"].null_count() == 0


def test_one_odd_task_in_many_does_not_make_a_mix() -> None:
    parts = [kitchen(f"t{i}", f"r{i}") for i in range(40)]
    assert detect_rules(frame(*parts, query("odd", "odd1"))).name == "alfworld"


def test_an_unknown_part_of_a_mix_is_an_error() -> None:
    with pytest.raises(UsageError, match="no such rules"):
        load_rules("alfworld+sqll")


def test_logs_of_two_families_give_the_pairs_that_each_gives_alone(tmp_path: Path) -> None:
    logs = {}
    for name, make in (("k", kitchen), ("q", query)):
        lines = []
        for i in range(16):
            for step in make(f"{name}0", f"{name}{i}"):
                action = step["action_text"] if step["step_index"] == 0 and i % 2 else f"look {i}"
                first = "inventory" if name == "k" else "SELECT 1"
                action = first if step["step_index"] == 0 and i % 2 == 0 else action
                lines.append(
                    {
                        "task_id": step["task_id"],
                        "rollout_id": step["rollout_id"],
                        "step": step["step_index"],
                        "observation": step["observation"],
                        "action": action,
                        "admissible_actions": step["admissible_actions"],
                        "success": i % 2 == 1,
                    }
                )
        logs[name] = tmp_path / f"{name}.jsonl"
        logs[name].write_text("".join(json.dumps(line) + "\n" for line in lines))

    outputs = iter(range(9))

    def pairs(*names: str) -> set[tuple[str, str]]:
        out = tmp_path / f"out{next(outputs)}"
        build_preferences([logs[n] for n in names], out, BuildConfig(form="thin"), BuildOptions(workers=1))
        return {(p["chosen_rollout_id"], p["rejected_rollout_id"]) for p in load_pairs(out).to_dicts()}

    assert pairs("k")
    assert pairs("k", "q") == pairs("k") | pairs("q")
