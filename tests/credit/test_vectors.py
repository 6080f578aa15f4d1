"""The worked numbers: six small logs and what each estimator makes of every step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mcgpo_data.credit import StepBatch, estimate, from_columns

TOLERANCE = 1e-9
SCENARIOS = (
    "s1_mixed",
    "s2_all_fail",
    "s3_all_success",
    "s4_singleton_and_isolation",
    "s5_lucky_singleton",
    "x_crosscheck",
)
ROW = {"invalid_penalty": 0.1, "penalty_place": "row"}
VERL = {"episode_stats": "rows", "singleton": "raw", **ROW}


class Scenario:
    """One log with its worked numbers."""

    def __init__(self, entry: dict[str, Any]) -> None:
        rows = [(r, t, step) for r in entry["inputs"] for t, step in enumerate(r["steps"])]
        self.names = [f"{r['id']}:{t}" for r, t, _ in rows]
        self.tasks = [r["task"] for r, _, _ in rows]
        self.states = [step["state"] for _, _, step in rows]
        self.actions = [step["action"] if step.get("valid", True) else "INVALID" for _, _, step in rows]
        self.outputs: dict[str, Any] = entry["outputs"]
        self.batch: StepBatch = from_columns(
            self.tasks,
            [r["id"] for r, _, _ in rows],
            [t for _, t, _ in rows],
            state=self.states,
            action=[step["action"] for _, _, step in rows],
            next_state=[step["next"] for _, _, step in rows],
            success=[r["success"] for r, _, _ in rows],
            valid=[step.get("valid", True) for _, _, step in rows],
        )

    def expect(self, column: np.ndarray, wanted: dict[str, float]) -> None:
        assert set(wanted) == set(self.names)
        np.testing.assert_allclose(column, [wanted[name] for name in self.names], rtol=0, atol=TOLERANCE)

    def expect_per_state(self, column: np.ndarray, wanted: dict[str, dict[str, float]]) -> None:
        got = dict(zip(zip(self.tasks, self.states, strict=True), column, strict=True))
        for (task, state), value in got.items():
            assert abs(wanted[task][state] - value) <= TOLERANCE


@pytest.fixture(params=SCENARIOS)
def scenario(request: pytest.FixtureRequest, shared: Path) -> Scenario:
    entries = json.loads((shared / "vectors" / "credit.json").read_text())
    return Scenario(next(entry for entry in entries if entry["name"] == request.param))


def test_every_worked_number_is_looked_at(shared: Path) -> None:
    entries = json.loads((shared / "vectors" / "credit.json").read_text())
    assert tuple(entry["name"] for entry in entries) == SCENARIOS
    for entry in entries:
        assert set(entry["outputs"]) == {
            "crbc_beta0.98",
            "ecpo_calibrated_kappa2_tau4_omega1",
            "ecpo_raw_kappa2_tau4_omega1",
            "g2po",
            "gagpo_inferred_gamma0.95_lambda0.95",
            "gigpo",
            "graphgpo",
            "grpo",
            "hgpo_K2_alpha1",
        }


@pytest.mark.parametrize(
    "key, estimator, options",
    [
        ("cross_rows", "grpo", VERL),
        ("once_std", "grpo", {}),
        ("once_pop", "grpo", {"std": "population"}),
        ("once_mean", "drgrpo", {}),
        ("once_mean", "grpo", {"std": "none"}),
        ("once_std_trajpenalty", "grpo", {"invalid_penalty": 0.1, "penalty_place": "reward"}),
        ("rloo", "rloo", {"singleton": "raw"}),
    ],
)
def test_episode_terms(scenario: Scenario, key: str, estimator: str, options: dict[str, Any]) -> None:
    columns = estimate(scenario.batch, estimator, **options).columns
    scenario.expect(columns["advantage"], scenario.outputs["grpo"][key])
    scenario.expect(columns["episode_advantage"], scenario.outputs["grpo"][key])
    assert not columns["step_advantage"].any()


@pytest.mark.parametrize(
    "key, column, options",
    [
        ("returns_gamma0_95", "return", {}),
        ("step_mean", "step_advantage", {"step_std": "none", **ROW}),
        ("step_mean_std", "step_advantage", ROW),
        ("step_mean_std_nopenalty", "step_advantage", {}),
        ("joint_paper", "advantage", {}),
        ("joint_verl_agent", "advantage", VERL),
    ],
)
def test_gigpo(scenario: Scenario, key: str, column: str, options: dict[str, Any]) -> None:
    columns = estimate(scenario.batch, "gigpo", **options).columns
    scenario.expect(columns[column], scenario.outputs["gigpo"][key])


@pytest.mark.parametrize("omega", [0.1, 0.2, 0.8])
def test_graphgpo(scenario: Scenario, omega: float) -> None:
    wanted = scenario.outputs["graphgpo"][f"omega{omega}"]
    plain = estimate(scenario.batch, "graphgpo", omega=omega).columns
    scenario.expect(plain["value"], wanted["raw"])
    scenario.expect(plain["step_advantage"], wanted["step"])
    scenario.expect(plain["advantage"], wanted["joint_paper"])
    scenario.expect_per_state(plain["distance"], scenario.outputs["graphgpo"]["distances"])
    official = estimate(scenario.batch, "graphgpo", omega=omega, **VERL).columns
    scenario.expect(official["step_advantage"], wanted["step_with_penalty"])
    scenario.expect(official["advantage"], wanted["joint_official"])
    scenario.expect(
        official["value"] - 0.1 * ~scenario.batch.as_given(scenario.batch.valid), wanted["raw_with_penalty"]
    )


@pytest.mark.parametrize("sigma", ["raw", "calibrated"])
def test_ecpo(scenario: Scenario, sigma: str) -> None:
    wanted = scenario.outputs[f"ecpo_{sigma}_kappa2_tau4_omega1"]
    columns = estimate(scenario.batch, "ecpo", sigma=sigma).columns
    scenario.expect(columns["step_advantage"], wanted["step"])
    scenario.expect(columns["advantage"], wanted["total"])
    for row, (task, state, action) in enumerate(zip(scenario.tasks, scenario.states, scenario.actions, strict=True)):
        anchor = wanted["anchors"][f"{task}|{state}"]
        numbers = anchor["actions"][action]
        assert columns["anchor_size"][row] == anchor["n"]
        assert columns["action_size"][row] == numbers["n"]
        for column, number in {
            "anchor_mean": anchor["mu"],
            "gate": anchor["rho"],
            "action_mean": numbers["mean"],
            "shrunken_mean": numbers["calibrated"],
        }.items():
            assert abs(columns[column][row] - number) <= TOLERANCE
        assert abs(columns["step_advantage"][row] - anchor["rho"] * numbers["A_act"]) <= TOLERANCE


def test_hgpo(scenario: Scenario) -> None:
    columns = estimate(scenario.batch, "hgpo", **ROW).columns
    scenario.expect(columns["advantage"], scenario.outputs["hgpo_K2_alpha1"])


def test_g2po(scenario: Scenario) -> None:
    columns = estimate(scenario.batch, "g2po", **ROW).columns
    scenario.expect(columns["step_advantage"], scenario.outputs["g2po"]["step"])
    scenario.expect_per_state(columns["state_value"], scenario.outputs["g2po"]["state_value"])


def test_gagpo(scenario: Scenario) -> None:
    wanted = scenario.outputs["gagpo_inferred_gamma0.95_lambda0.95"]
    columns = estimate(scenario.batch, "gagpo").columns
    scenario.expect(columns["gae"], wanted["raw"])
    scenario.expect(columns["advantage"], wanted["normalised"])


def test_crbc(scenario: Scenario) -> None:
    wanted = scenario.outputs["crbc_beta0.98"]
    columns = estimate(scenario.batch, "crbc").columns
    scenario.expect(columns["step_advantage"], wanted["step"])
    scenario.expect_per_state(columns["state_value"], wanted["V"])
