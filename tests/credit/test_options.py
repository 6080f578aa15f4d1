"""Options, presets, and what importing costs."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mcgpo_data.credit import ESTIMATORS, PRESETS, estimate, resolve
from mcgpo_data.errors import UsageError

from .logs import drawn, log
from .test_vectors import Scenario

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_module_says_formula_source_departures_and_cost(estimator: str) -> None:
    header = import_module(f"mcgpo_data.credit.{estimator}").__doc__ or ""
    assert "\n    A" in header
    for word in ("Source:", "Departures:", "Edge cases:", "Cost:"):
        assert f"\n{word}" in header


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_option_has_help_and_passes_its_own_check(estimator: str) -> None:
    options = resolve(estimator)
    for f in dataclasses.fields(options):
        assert f.metadata["help"].endswith(".")
        if f.metadata["choices"]:
            assert getattr(options, f.name) in f.metadata["choices"]


def test_texts_from_a_command_line_are_read() -> None:
    options = resolve("hgpo", options={"history": "4", "alpha": "0.5", "base_group": "true", "step_std": "none"})
    assert (options.history, options.alpha, options.base_group, options.step_std) == (4, 0.5, True, "none")


@pytest.mark.parametrize(
    "estimator, options, words",
    [
        ("grop", {}, "'grop' is no estimator. Did you mean grpo?"),
        ("grpo", {"gamma": 0.9}, "'gamma' is no option of this estimator. Known: episode_stats"),
        ("graphgpo", {"omgea": 0.9}, "Did you mean omega?"),
        ("graphgpo", {"omega": 1.5}, "omega is 1.5; it must be float from 0 to 1"),
        ("graphgpo", {"omega": "nan"}, "omega is 'nan'"),
        ("graphgpo", {"omega": True}, "omega is True"),
        ("graphgpo", {"value": "best"}, "choose one of code, paper, progress"),
        ("hgpo", {"history": 1.5}, "history is 1.5; it must be int from 0 to 64"),
        ("hgpo", {"base_group": "maybe"}, "it must be true or false"),
        ("grpo", {"eps": 0}, "eps is 0"),
        ("ecpo", {"tau": None}, "tau is None"),
    ],
)
def test_options_that_cannot_be_are_refused_by_name(estimator: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve(estimator, options=options)
    assert words in str(caught.value)


def test_an_unknown_preset_and_one_without_the_estimator_are_refused() -> None:
    with pytest.raises(UsageError, match="Did you mean verl-agent:webshop"):
        resolve("gigpo", "verl-agent:web-shop")
    with pytest.raises(UsageError, match="no such run was published"):
        resolve("crbc", "verl-agent:webshop")


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_makes_options_that_single_ones_override(preset: str) -> None:
    for estimator in PRESETS[preset]:
        assert resolve(estimator, preset).episode_stats == "rows"
        assert resolve(estimator, preset, {"episode_stats": "rollouts"}).episode_stats == "rollouts"


@pytest.mark.parametrize(
    "preset, omega, gigpo_step",
    [
        ("verl-agent:alfworld", "omega0.1", "step_mean_std"),
        ("verl-agent:webshop", "omega0.2", "step_mean"),
        ("verl-agent:sokoban", "omega0.8", "step_mean"),
    ],
)
def test_presets_give_what_the_reference_code_gives(shared: Path, preset: str, omega: str, gigpo_step: str) -> None:
    for entry in json.loads((shared / "vectors" / "credit.json").read_text()):
        scenario = Scenario(entry)
        graph = estimate(scenario.batch, "graphgpo", preset=preset).columns
        scenario.expect(graph["advantage"], scenario.outputs["graphgpo"][omega]["joint_official"])
        gigpo = estimate(scenario.batch, "gigpo", preset=preset).columns
        scenario.expect(gigpo["step_advantage"], scenario.outputs["gigpo"][gigpo_step])
        grpo = estimate(scenario.batch, "grpo", preset=preset).columns
        scenario.expect(grpo["advantage"], scenario.outputs["grpo"]["cross_rows"])
        if preset == "verl-agent:alfworld":
            scenario.expect(gigpo["advantage"], scenario.outputs["gigpo"]["joint_verl_agent"])
            hgpo = estimate(scenario.batch, "hgpo", preset=preset).columns
            scenario.expect(hgpo["advantage"], scenario.outputs["hgpo_K2_alpha1"])
            g2po = estimate(scenario.batch, "g2po", preset=preset).columns
            scenario.expect(g2po["step_advantage"], scenario.outputs["g2po"]["step"])


def test_the_default_is_the_textbook() -> None:
    batch = log("S-a->A-b->end +", "S-!c->S -").batch()
    columns = estimate(batch, "gigpo").columns
    np.testing.assert_allclose(columns["episode_advantage"], np.array([1, 1, -1]) / np.sqrt(2), atol=1e-6)


def test_a_table_becomes_arrow_with_its_explanations() -> None:
    table = estimate(drawn(1).batch(), "graphgpo").to_arrow()
    assert table.column_names[:5] == ["episode_advantage", "step_advantage", "advantage", "scored", "valid"]
    assert {"group_size", "anchor_size", "distance", "next_distance", "reachable", "value"} <= set(table.column_names)


@pytest.mark.parametrize("estimator", ["grpo", "gigpo", "graphgpo"])
def test_a_trainer_loads_numpy_alone(estimator: str) -> None:
    code = (
        "import sys, numpy as np\n"
        "from mcgpo_data.credit import estimate, from_columns\n"
        "n = np.arange(8)\n"
        f"estimate(from_columns(n // 4, n // 2, n % 2, state=n % 3, success=n // 2 % 2 == 0), {estimator!r})\n"
        "loaded = {'scipy', 'pyarrow', 'polars', 'duckdb'} & {name.partition('.')[0] for name in sys.modules}\n"
        "sys.exit(f'loaded {loaded}' if loaded else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
