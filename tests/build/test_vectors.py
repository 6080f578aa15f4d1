"""Worked worlds: both builders give their folds and pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcgpo_data.build.reference import assign_folds
from mcgpo_data.config import build_config

from .harness import BUILDERS, Row, load_vectors

WORLDS = (
    "kitchen",
    "loops_and_unscored",
    "many_rollouts",
    "four_folds",
    "posterior_weight",
    "uniform_margin",
    "same_fold_ablation",
    "min_support_2_seed_7",
)
OPTIONS = {"K": "folds", "cap": "max_pairs_per_class"}
NAMES = {"n_chosen": "chosen_support", "n_rejected": "rejected_support"}
NUMBERS = {"p_chosen": "chosen_estimate", "p_rejected": "rejected_estimate"}


def world_of(shared: Path, name: str) -> dict[str, Any]:
    (world,) = [world for world in load_vectors(shared) if world["name"] == name]
    return world


def rows_of(world: dict[str, Any]) -> list[Row]:
    return [
        {
            "group_id": rollout["group_id"],
            "rollout_id": rollout["rollout_id"],
            "step": t,
            "rule": rule,
            "context": context,
            "action": action,
            "valid": step["valid"],
            "outcome": rollout["outcome"],
        }
        for rollout in world["rollouts"]
        for t, step in enumerate(rollout["steps"])
        for rule, (context, action) in enumerate(step["rules"])
    ]


def test_every_worked_world_is_tested(shared: Path) -> None:
    assert [world["name"] for world in load_vectors(shared)] == list(WORLDS)


@pytest.mark.parametrize("name", WORLDS)
def test_folds_are_the_worked_ones(shared: Path, name: str) -> None:
    world = world_of(shared, name)
    config = build_config({OPTIONS.get(k, k): v for k, v in world["options"].items()})
    found = assign_folds(rows_of(world), config.seed, config.folds)
    assert {rollout: fold for (_, rollout), fold in found.items()} == world["folds"]


@pytest.mark.parametrize("builder", BUILDERS)
@pytest.mark.parametrize("name", WORLDS)
def test_pairs_are_the_worked_ones_in_keys_order_and_numbers(shared: Path, name: str, builder: str) -> None:
    world = world_of(shared, name)
    config = build_config({OPTIONS.get(k, k): v for k, v in world["options"].items()})
    found = BUILDERS[builder](rows_of(world), config)
    for pair in found:
        for side in ("chosen", "rejected"):
            pair[side] = f"{pair[f'{side}_rollout_id']}:{pair[f'{side}_step']}"
    exact = [k for k in world["pairs"][0] if not isinstance(world["pairs"][0][k], float)]
    assert [[p[NAMES.get(k, k)] for k in exact] for p in found] == [[p[k] for k in exact] for p in world["pairs"]]
    for ours, worked in zip(found, world["pairs"], strict=True):
        for k in ("p_chosen", "p_rejected", "delta", "support", "class_weight", "weight"):
            assert ours[NUMBERS.get(k, k)] == pytest.approx(worked[k], rel=0, abs=1e-12), k
