"""Contexts that published logs yield: the counts found by an independent analysis of the same files."""

from __future__ import annotations

import hashlib
from pathlib import Path

import polars as pl
import pytest

from mcgpo_data.readers import find_reader
from mcgpo_data.readers.base import Report
from mcgpo_data.readers.logfile import LogFile
from mcgpo_data.rules.registry import detect_rules

from .conftest import SCHEMA


def steps_of(paths: list[Path]) -> pl.DataFrame:
    """Steps of all rollouts, each alone where the order is unknown; `attempt` is the rollout, `outcome` its result."""
    rows = []
    for path in paths:
        log = LogFile(path)
        reader = find_reader(log)
        assert reader is not None
        for number, rollout in enumerate(reader.read(log, Report(path=str(path)))):
            attempt = f"{path.name}:{number:05d}"
            shared = {
                "task_id": rollout.group_id or rollout.task_id,
                "instruction": rollout.instruction,
                "outcome": rollout.outcome,
                "attempt": attempt,
            }
            shown = [
                (s.observation, s.action_text, s.action_kind, s.action_valid, s.admissible_actions)
                for s in rollout.steps
            ]
            if rollout.final_observation is not None and rollout.order_trusted:
                shown.append((rollout.final_observation, None, "lost", None, None))
            for step, (observation, action, kind, valid, offered) in enumerate(shown):
                rows.append(
                    {
                        **shared,
                        "rollout_id": attempt if rollout.order_trusted else f"{attempt}:{step:03d}",
                        "step_index": step,
                        "is_final": step == len(rollout.steps),
                        "observation": observation,
                        "action_text": action,
                        "action_kind": kind,
                        "action_valid": valid,
                        "admissible_actions": offered,
                    }
                )
    return pl.DataFrame(rows, schema={**SCHEMA, "outcome": pl.Float64, "attempt": pl.String})


def informative(out: pl.DataFrame, context: pl.Expr) -> int:
    """Contexts, first visit of each rollout only, in which two actions have different mean outcomes."""
    visits = out.with_columns(context.alias("context")).filter(~pl.col("is_final"), pl.col("action_0").is_not_null())
    first = visits.unique(["task_id", "context", "attempt"], keep="first", maintain_order=True)
    means = first.group_by("task_id", "context", "action_0").agg(pl.col("outcome").mean())
    counts = means.group_by("task_id", "context").agg(pl.len(), pl.col("outcome").n_unique())
    return counts.filter(pl.col("len") >= 2, pl.col("outcome") >= 2).height


def history(out: pl.DataFrame) -> pl.Series:
    """Digest of all observations and actions up to each observation."""
    digests, current, sofar = [], None, ""
    for attempt, seen, action in out.select("attempt", "observation_key", "action_0").iter_rows():
        sofar = sofar if attempt == current else ""
        current = attempt
        sofar = hashlib.sha256(f"{sofar}|{seen}".encode()).hexdigest()
        digests.append(sofar)
        sofar = hashlib.sha256(f"{sofar}>{action}".encode()).hexdigest()
    return pl.Series("history", digests)


def test_alfworld_rollouts_of_knowagent(shared: Path) -> None:
    steps = steps_of(sorted((shared / "data/knowagent").glob("KnowAgentALFWorld*.zst")))
    rules = detect_rules(steps.head(500))
    assert rules.name == "alfworld"
    out = rules.apply(steps)
    held = pl.col("state_0").str.extract(r" with ([a-z]+(?: \d+)?)", 1)
    assert informative(out, pl.col("observation_key")) == 317
    assert informative(out, pl.format("{} {}", held, "observation_key")) == 231
    assert informative(out.with_columns(history(out)), pl.col("history")) == 119


def test_webshop_rollouts_of_verl_agent(shared: Path) -> None:
    steps = steps_of(sorted((shared / "data/verl_agent_webshop").glob("*.zst")))
    rules = detect_rules(steps.head(500))
    assert rules.name == "webshop"
    out = rules.apply(steps)
    assert informative(out, pl.col("observation_key")) == 32
    assert informative(out, pl.col("state_0")) == 32


@pytest.mark.parametrize(
    "pattern,name",
    [
        ("knowagent/KnowAgentHotpotQA*_D0*.zst", "search"),
        ("intercode/ic_sql_plan_solve*.zst", "sql"),
        ("tau_bench/*.zst", "tools"),
    ],
)
def test_families_are_detected(shared: Path, pattern: str, name: str) -> None:
    steps = steps_of(sorted((shared / "data").glob(pattern)))
    assert detect_rules(steps.head(500)).name == name
