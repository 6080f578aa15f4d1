"""The main job on published logs: every folder builds, and the counts are those measured before by other means."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from mcgpo_data.cli import cli, run


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, shared: Path) -> Any:
    """Build a folder (or files) of real logs: (exit code, manifest)."""

    def _build(pattern: str, *args: str) -> tuple[int, dict[str, Any]]:
        logs = sorted(map(str, (shared / "data").glob(pattern)))
        arguments = ["mcgpo", "build-prefs", *logs, "-o", str(tmp_path / "out"), "--overwrite", "--json", "-q", *args]
        monkeypatch.setattr(sys, "argv", arguments)
        code = run(cli, "mcgpo")
        return code, json.loads(capsys.readouterr().out)

    return _build


@pytest.mark.parametrize(
    "folder, rollouts, tasks, rules, code",
    [
        ("env_alfworld/rollouts*", 864, 36, "alfworld", 0),
        ("env_webshop/rollouts*", 4_800, 200, "webshop", 0),
        ("intercode", 5_168, 1_034, "sql", 0),
        ("knowagent/*ALFWorld*", 1_020, 510, "alfworld", 4),
        ("knowagent/*Hotpot*", 1_000, 500, "search", 4),
        ("tau_bench", 200, 50, "tools", 0),
        ("verl_agent_webshop", 256, 32, "webshop", 0),
        ("verifiers", 36, 7, None, 4),
    ],
)
def test_every_folder_of_real_logs_builds(
    build: Any, folder: str, rollouts: int, tasks: int, rules: str | None, code: int
) -> None:
    found_code, manifest = build(folder)
    counts = manifest["funnel"]["counts"]
    assert (found_code, counts["rollouts"], counts["tasks"]) == (code, rollouts, tasks)
    if rules is not None:
        assert manifest["config"]["rules"] == rules
    assert (counts["pairs"] > 0) == (code == 0)


def test_more_folds_give_more_pairs_of_the_same_log(build: Any) -> None:
    pairs = [
        build("env_alfworld/rollouts*", "--folds", str(folds), "--form", "thin")[1]["funnel"]["pairs"]
        for folds in (2, 4)
    ]
    assert 0 < pairs[0] < pairs[1]


def informative(manifest: dict[str, Any], rule: str) -> int:
    return int(manifest["funnel"]["rules"][rule]["informative_contexts"])


def test_verl_agent_webshop_has_32_inferred_groups_and_32_informative_contexts(build: Any) -> None:
    _, manifest = build("verl_agent_webshop")
    counts = manifest["funnel"]["counts"]
    assert counts["groups"] == 32
    assert counts["group_source:text_cluster"] == 256
    assert counts["untrusted_order"] == 256
    assert informative(manifest, "exact") == 32


def test_history_is_refused_where_the_order_is_not_trusted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, shared: Path
) -> None:
    logs = str(shared / "data" / "verl_agent_webshop")
    monkeypatch.setattr(
        sys, "argv", ["mcgpo", "build-prefs", logs, "-o", str(tmp_path / "o"), "--representation", "history"]
    )
    assert run(cli, "mcgpo") == 2
    assert "not trusted" in capsys.readouterr().err


def test_tau_bench_matches_nothing_by_history_and_39_contexts_by_last_observation(build: Any) -> None:
    code, manifest = build("tau_bench", "--representation", "history")
    assert code == 4
    assert informative(manifest, "exact") == 0
    _, manifest = build("tau_bench")
    assert informative(manifest, "coarse") == 39


def test_two_rollouts_per_task_give_no_pair_and_the_funnel_says_why(build: Any) -> None:
    code, manifest = build("knowagent/*ALFWorld*")
    assert code == 4
    assert manifest["funnel"]["counts"]["groups_mixed"] == 120
    policies, advice = manifest["funnel"]["advice"]
    assert "several policies" in policies
    for words in ("fewer than 4 rollouts", "K = 2", "--scope task", "more rollouts"):
        assert words in advice


def test_neighbour_files_are_left_out_with_a_reason(build: Any) -> None:
    _, manifest = build("verifiers")
    why = {Path(entry["path"]).name: entry["why"] for entry in manifest["ignored_inputs"]}
    assert "no known log format" in why["NOTES.md"]
    assert any("Git-LFS pointer" in reason for reason in why.values())
