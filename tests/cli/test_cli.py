"""The command line: results on stdout, the rest on stderr, one exit code per kind of end."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest

from mcgpo_data.cli import build_prefs, cli, run

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "pipelines" / "demo" / "demo_rollouts.jsonl.gz"


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Call `mcgpo ARGS...`: (exit code, stdout, stderr)."""

    def _call(*args: object, command: Any = cli) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["mcgpo", *map(str, args)])
        code = run(command, "mcgpo")
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return _call


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build of the demo log."""
    out = tmp_path_factory.mktemp("demo") / "out"
    subprocess.run([sys.executable, "-m", "mcgpo_data", "build-prefs", DEMO, "-o", out, "-q"], check=True)
    return out


def rollout(name: str, action: str, outcome: float | None) -> list[dict[str, Any]]:
    """Two steps; the second makes the action sequence unique, so that rollouts spread over both folds."""
    shared = {"task_id": "t", "rollout_id": name, "outcome": outcome}
    return [
        {**shared, "step": 0, "observation": "a door", "action": action},
        {**shared, "step": 1, "observation": f"room {name}", "action": f"sit on chair {name}"},
    ]


def write_log(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_build_prints_the_funnel_and_where_the_pairs_are(call: Any, tmp_path: Path) -> None:
    code, out, err = call("build-prefs", DEMO, "-o", tmp_path / "o")
    assert code == 0
    assert "pairs in 23 of 24 tasks" in out
    assert out.rstrip().endswith(f"pairs in {tmp_path / 'o' / 'preferences'}")
    assert "next: mcgpo show" in err


def test_the_short_command_is_build_prefs(call: Any, tmp_path: Path) -> None:
    code, out, _ = call(DEMO, "-o", tmp_path / "o", "-q", command=build_prefs)
    assert code == 0
    assert out.count("\n") == 1


def test_json_is_the_manifest_without_the_files(call: Any, tmp_path: Path) -> None:
    code, out, _ = call("build-prefs", DEMO, "-o", tmp_path / "o", "--json", "-q", "--folds", "3")
    assert code == 0
    found = json.loads(out)
    assert found["config"]["folds"] == 3
    assert found["funnel"]["pairs"] == pq.read_table(tmp_path / "o" / "preferences").num_rows


def test_options_come_from_yaml_and_the_command_line_wins(call: Any, tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text("folds: 4\nmin-support: 2\n")
    code, out, _ = call(
        "build-prefs", DEMO, "-o", tmp_path / "o", "--config", tmp_path / "b.yaml", "--folds", "2", "--json", "-q"
    )
    assert code == 0
    config = json.loads(out)["config"]
    assert (config["folds"], config["min_support"]) == (2, 2)


@pytest.mark.parametrize(
    "args, words",
    [
        (["build-prefs", "-o", "o"], "no input"),
        (["build-prefs", "nowhere", "-o", "o"], "no such file"),
        (["build-prefs", DEMO, "-o", "o", "--folds", "1"], "--folds is 1"),
        (["build-prefs", DEMO, "-o", "o", "--weight", "heavy"], "choose one of support_margin"),
        (["build-prefs", DEMO, "-o", "o", "--outcome-range", "5"], "two numbers"),
        (["build-prefs", DEMO, "-o", "o", "--rules", "alfwrld"], "Did you mean alfworld"),
        (["build-prefs", DEMO, "-o", "o", "--format", "verll"], "Did you mean verl"),
        (["build-prefs", DEMO, "-o", "o", "--config", "no.yaml"], "no.yaml"),
        (["build-prefs", DEMO, "-o", "o", "--max-bad-fraction", "2"], "from 0 to 1"),
        (["build-prefs", DEMO, "-o", "o", "--fold", "3"], "--folds"),
        (["explain", "nowhere", "00"], "is not a build"),
        (["show", "nowhere"], "is not a build"),
        (["schema", "prefs"], "Did you mean preferences"),
        (["bild-prefs"], "build-prefs"),
    ],
)
def test_wrong_usage_exits_2_and_says_what_would_be_right(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: list[Any], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = call(*args)
    assert code == 2
    assert words in err
    assert out == ""
    assert not list(tmp_path.iterdir())


def test_an_unknown_key_of_a_yaml_file_is_named_with_the_nearest_one(call: Any, tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text("fold: 4\n")
    code, _, err = call("build-prefs", DEMO, "-o", tmp_path / "o", "--config", tmp_path / "b.yaml")
    assert code == 2
    assert "Did you mean folds?" in err


def test_too_much_bad_data_exits_3_with_places_and_writes_nothing(call: Any, tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", [row for i in range(16) for row in rollout(f"r{i}", "ab"[i % 2], i % 2)])
    log.write_text(log.read_text() + "{broken\n" * 6 + json.dumps(rollout("r99", "a", 1)[0]) + "\n")
    code, _, err = call("build-prefs", log, "-o", tmp_path / "o")
    assert code == 3
    assert f"{log}:33" in err
    assert not (tmp_path / "o").exists()
    code, _, _ = call("build-prefs", log, "-o", tmp_path / "o", "--max-bad-fraction", "0.5")
    assert code == 0


def test_no_pairs_exits_4_says_why_and_keeps_the_build(call: Any, tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", rollout("r0", "a", 1) + rollout("r1", "b", 0))
    code, out, err = call("build-prefs", log, "-o", tmp_path / "o")
    assert code == 4
    assert "fewer than 4 rollouts" in out
    assert "more rollouts per task" in out
    assert "no preference pair" in err
    assert call("show", tmp_path / "o")[0] == 0


def test_an_existing_output_exits_5_and_is_kept(call: Any, tmp_path: Path, demo: Path) -> None:
    before = (demo / "manifest.json").read_bytes()
    code, _, err = call("build-prefs", DEMO, "-o", demo)
    assert code == 5
    assert "--overwrite" in err
    assert (demo / "manifest.json").read_bytes() == before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    code, _, _ = call("build-prefs", DEMO, "-o", tmp_path / "mine", "--overwrite")
    assert code == 5
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "years of work"


def test_plan_gives_the_pairs_of_the_build_and_writes_nothing(call: Any, tmp_path: Path, demo: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / DEMO.name).write_bytes(DEMO.read_bytes())
    code, out, _ = call("plan", tmp_path / "logs", "--json", "-q")
    assert code == 0
    assert json.loads(out)["funnel"]["pairs"] == json.loads((demo / "manifest.json").read_text())["funnel"]["pairs"]
    assert [p.name for p in tmp_path.rglob("*")] == ["logs", DEMO.name]


def test_validate_names_formats_and_places(call: Any, tmp_path: Path) -> None:
    write_log(tmp_path / "good.jsonl", [row for i in range(15) for row in rollout(f"r{i}", "a", 1)])
    with open(tmp_path / "good.jsonl", "a", encoding="utf-8") as stream:
        stream.write('{"task_id": "t", "rollout_')
    (tmp_path / "notes.md").write_text("# notes\n")
    code, out, _ = call("validate", tmp_path)
    assert code == 0
    assert "good.jsonl: native, 31 records: 30 steps, 15 rollouts, 15 graded" in out
    assert "1 x truncated last line\n             at 31: " in out
    assert out.count("good.jsonl") == 1
    assert "notes.md: not a log" in out


def test_explain_shows_the_evidence_that_the_weight_is_made_of(call: Any, demo: Path) -> None:
    pair = pl.read_parquet(demo / "preferences" / "*.parquet").sort("weight", "pair_id").row(-1, named=True)
    code, out, _ = call("explain", demo, pair["pair_id"][:10], "--json")
    assert code == 0
    found = json.loads(out)
    evidence = [t for t in found["testimony"] if t["role"] == "evidence"]
    for side in ("chosen", "rejected"):
        outcomes = [t["outcome"] for t in evidence if t["side"] == side]
        assert len(outcomes) == pair[f"{side}_support"]
        assert sum(outcomes) / len(outcomes) == pytest.approx(pair[f"{side}_mean"])
    assert {t["fold"] for t in evidence}.isdisjoint({pair["chosen_fold"], pair["rejected_fold"]})
    assert {name: value for name, value, _ in found["factors"]}["weight"] == pair["weight"]
    code, out, _ = call("explain", demo, pair["pair_id"])
    assert code == 0
    assert "harmonic mean" in out
    assert call("explain", demo, "zz")[0] == 2


def test_show_filters_sorts_and_pages(call: Any, demo: Path) -> None:
    pairs = pl.read_parquet(demo / "preferences" / "*.parquet")
    task = pairs["task_id"][0]
    code, out, _ = call("show", demo, "--task", task, "--sort", "delta", "--limit", "2", "--offset", "1", "--json")
    assert code == 0
    wanted = pairs.filter(pl.col("task_id") == task).sort("delta", "pair_id", descending=[True, False]).slice(1, 2)
    assert [p["pair_id"] for p in json.loads(out)["pairs"]] == wanted["pair_id"].to_list()


def test_log_text_cannot_steer_the_terminal(call: Any, tmp_path: Path) -> None:
    evil = "go\x1b[31m \u202eleft\nnow"
    rows = [row for i in range(16) for row in rollout(f"r{i}", [evil, "stay"][i % 2], i % 2)]
    log = write_log(tmp_path / "log.jsonl", rows)
    assert call("build-prefs", log, "-o", tmp_path / "o", "-q")[0] == 0
    for args in (["show", tmp_path / "o"], ["show", tmp_path / "o", "--explain", "1"]):
        _, out, _ = call(*args)
        assert "\x1b" not in out
        assert "\u202e" not in out


def test_schema_lists_columns_with_their_meaning(call: Any) -> None:
    code, out, _ = call("schema", "preferences")
    assert code == 0
    assert "chosen_estimate" in out
    code, out, _ = call("schema", "--json")
    assert set(json.loads(out)) >= {"rollouts", "steps", "decisions", "preferences"}


@pytest.mark.parametrize("name", ["build-prefs", "plan", "validate", "explain", "show", "schema"])
def test_every_help_has_three_examples_and_loads_nothing_heavy(name: str) -> None:
    code = (
        "import sys; sys.argv = ['mcgpo', sys.argv[1], '--help']\n"
        "from mcgpo_data.cli import cli, run\n"
        "run(cli, 'mcgpo'); print(sorted({'duckdb', 'polars', 'pyarrow', 'numpy'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code, name], capture_output=True, text=True, check=True).stdout
    examples = found.split("Examples:")[1]
    assert examples.count("\n    mcgpo") >= 3
    assert found.splitlines()[-1] == "[]"


def test_a_reader_that_goes_away_is_no_error(demo: Path) -> None:
    command = f"{sys.executable} -m mcgpo_data show {demo} --limit 800 | head -n 1; echo ${{PIPESTATUS[0]}}"
    found = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines()[-1] == "0"
    assert found.stderr == ""


def test_packed_logs_give_the_same_pairs(call: Any, tmp_path: Path, demo: Path) -> None:
    plain = tmp_path / "plain.jsonl"
    plain.write_bytes(gzip.decompress(DEMO.read_bytes()))
    code, out, _ = call("build-prefs", plain, "-o", tmp_path / "o", "-q", "--json")
    assert code == 0
    assert json.loads(out)["content_id"] == json.loads((demo / "manifest.json").read_text())["content_id"]
