"""What must hold of the method, from log to pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcgpo_data.build.reference import assign_folds
from mcgpo_data.build.run import BuildOptions, build_preferences
from mcgpo_data.config import BuildConfig
from mcgpo_data.store import Store, open_store

from .logs import Row, build, make_rows, pairs_of, write_log
from .test_oracle import reference_rows

SEEDS = (71, 72, 73)
DECISIONS = ("chosen_rollout_id", "chosen_step", "rejected_rollout_id", "rejected_step")
OWN_OUTCOMES = ("chosen_outcome", "rejected_outcome")


def made(tmp_path: Path, rows: list[Row], name: str = "out", **options: Any) -> Store:
    return build(write_log(tmp_path / f"{name}.jsonl", rows), tmp_path / name, form="thin", **options)


def keyed(pairs: list[Row], *without: str) -> dict[tuple[Any, ...], Row]:
    """Pairs by their decisions, less some columns."""
    return {
        (p["rule_name"], *(p[k] for k in DECISIONS)): {k: v for k, v in p.items() if k not in without} for p in pairs
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_outcomes_of_a_fold_change_no_pair_inside_it(tmp_path: Path, seed: int) -> None:
    rows = make_rows(seed=seed, rollouts=16)
    store = made(tmp_path, rows)
    fold = {r: f for (_, r), f in assign_folds(reference_rows(store, BuildConfig()), 0, 2).items()}
    assert {p["chosen_rollout_id"]: p["chosen_fold"] for p in pairs_of(store)}.items() <= fold.items()
    for changed in (0, 1):
        other = [
            {**r, "success": not r["success"]} if r.get("done") and fold[r["rollout_id"]] == changed else r
            for r in rows
        ]
        found = made(tmp_path, other, f"flipped-{changed}")
        inside, outside = (
            [
                keyed([p for p in pairs_of(s) if (p["chosen_fold"] == changed) == wanted], *OWN_OUTCOMES)
                for s in (store, found)
            ]
            for wanted in (True, False)
        )
        assert inside[0] == inside[1] != {}
        assert outside[0] != outside[1]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("last", [0, 1, 2])
def test_what_comes_later_changes_no_key_of_an_earlier_step(tmp_path: Path, seed: int, last: int) -> None:
    rows = make_rows(seed=seed, final_observation="the end")
    whole = made(tmp_path, rows).read("decisions").to_pylist()
    cut = made(tmp_path, [r for r in rows if r["step"] <= last], "cut").read("decisions").to_pylist()
    assert len(cut) < len(whole)
    assert cut == [d for d in whole if d["step_index"] <= last]


RULES = """
import polars as pl

class Exact:
    name = "mine"
    rules = ("exact",)

    def detect(self, steps):
        return False

    def apply(self, steps):
        return steps.with_columns(
            pl.col("observation").alias("state_0"), pl.col("action_text").alias("action_0"), progress=pl.lit("")
        )

class Both(Exact):
    rules = ("exact", "coarse")

    def apply(self, steps):
        return super().apply(steps).with_columns(
            pl.lit("anywhere").alias("state_1"), pl.col("action_text").alias("action_1")
        )
"""


@pytest.mark.parametrize("folds", [2, 3])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_coarse_rule_adds_pairs_and_changes_none_of_the_exact_one(tmp_path: Path, seed: int, folds: int) -> None:
    log = write_log(tmp_path / "log.jsonl", make_rows(seed=seed, rollouts=16))
    (tmp_path / "mine.py").write_text(RULES)
    found = {}
    for name in ("Exact", "Both"):
        options = BuildOptions(workers=1, rules=f"{tmp_path / 'mine.py'}:{name}")
        build_preferences([log], tmp_path / name, BuildConfig(form="thin", folds=folds), options)
        found[name] = pairs_of(open_store(tmp_path / name))
    exact = [p for p in found["Both"] if p["rule"] == 0]
    coarse = [p for p in found["Both"] if p["rule"] == 1]
    assert exact == found["Exact"] != []
    assert coarse
    steps = {
        (r["rollout_id"], r["step_index"]): r for r in open_store(tmp_path / "Exact").read("decisions").to_pylist()
    }
    sides = (("chosen_action", "chosen_fold"), ("rejected_action", "rejected_fold"))
    compared = {(p["group_id"], p["state_summary"], frozenset((p[a], p[f]) for a, f in sides)) for p in exact}
    for p in coarse:
        chosen, rejected = (steps[p[f"{side}_rollout_id"], p[f"{side}_step"]] for side in ("chosen", "rejected"))
        taken = frozenset({(chosen["action"], p["chosen_fold"]), (rejected["action"], p["rejected_fold"])})
        same = chosen["state_summary"] == rejected["state_summary"]
        assert not same or (p["group_id"], chosen["state_summary"], taken) not in compared


@pytest.mark.parametrize("seed", SEEDS)
def test_other_names_of_states_and_actions_change_names_only(tmp_path: Path, seed: int) -> None:
    rows = make_rows(seed=seed, rollouts=16)
    renamed = [{**r, "observation": f"sala {ord(r['observation'][-1])}", "action": f"vai {r['action']}"} for r in rows]
    names = ("pair_id", "context", "state_summary", "chosen_action", "rejected_action")
    one, other = pairs_of(made(tmp_path, rows)), pairs_of(made(tmp_path, renamed, "renamed"))
    assert keyed(one, *names) == keyed(other, *names) != {}


@pytest.mark.parametrize("representation", ["state", "history", "state+progress"])
def test_a_group_with_one_outcome_gives_no_pair(tmp_path: Path, representation: str) -> None:
    for value in (True, False):
        rows = [{**r, "success": value} if r.get("done") else r for r in make_rows(seed=1)]
        store = made(tmp_path, rows, f"{value}", representation=representation)
        assert pairs_of(store) == []
        assert "all outcomes are equal" in " ".join(store.manifest["funnel"]["advice"])


def test_three_rollouts_give_no_pair_and_the_funnel_says_why(tmp_path: Path) -> None:
    store = made(tmp_path, make_rows(seed=1, rollouts=3, tasks=20, states=1, actions=2))
    assert pairs_of(store) == []
    assert "fewer than 4 rollouts" in store.manifest["funnel"]["advice"][0]


@pytest.mark.parametrize("scope", ["group", "task"])
def test_no_pair_joins_two_groups_or_two_steps_of_one_rollout(tmp_path: Path, scope: str) -> None:
    rows = make_rows(seed=8, rollouts=20, states=1)
    for r in rows:
        r["group_id"] = f"{r['task_id']}-{hash_bit(r['rollout_id'])}"
    store = made(tmp_path, rows, scope=scope)
    group = {r["rollout_id"]: r["group_id" if scope == "group" else "task_id"] for r in rows}
    assert pairs_of(store)
    for p in pairs_of(store):
        assert group[p["chosen_rollout_id"]] == group[p["rejected_rollout_id"]] == p["group_id"]
        assert p["chosen_rollout_id"] != p["rejected_rollout_id"]
    crossing = [p for p in pairs_of(store) if hash_bit(p["chosen_rollout_id"]) != hash_bit(p["rejected_rollout_id"])]
    assert bool(crossing) == (scope == "task")


def hash_bit(rollout: str) -> int:
    return int(rollout.rsplit("r", 1)[1]) % 2


@pytest.mark.parametrize("weight", ["support_margin", "support", "uniform", "posterior"])
def test_pairs_of_a_class_share_its_weight(tmp_path: Path, weight: str) -> None:
    classes: dict[tuple[Any, ...], list[Row]] = {}
    names = ("group_id", "rule", "context", "chosen_action", "rejected_action", "chosen_fold", "rejected_fold")
    for p in pairs_of(made(tmp_path, make_rows(seed=9, rollouts=20, states=1), weight=weight)):
        classes.setdefault(tuple(p[n] for n in names), []).append(p)
        assert 0 < p["class_weight"] <= 1
        assert p["delta"] > 0
        assert p["chosen_estimate"] - p["rejected_estimate"] == pytest.approx(p["delta"], abs=1e-12)
    assert max(map(len, classes.values())) > 1
    for pairs in classes.values():
        assert len(pairs) == pairs[0]["class_pairs"] <= 4
        assert sum(p["weight"] for p in pairs) == pytest.approx(pairs[0]["class_weight"], abs=1e-12)
