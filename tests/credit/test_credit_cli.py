"""`mcgpo credit`: advantages in a build, and estimators compared on it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from mcgpo_data.build import run as build_run
from mcgpo_data.build.run import BuildOptions, build_preferences
from mcgpo_data.cli import cli, run
from mcgpo_data.config import BuildConfig
from mcgpo_data.credit import ESTIMATORS, PRESETS, store
from mcgpo_data.credit.compare import PairRows, compare, invalid_effect, signal, signal_counts
from mcgpo_data.credit.store import CreditOptions, advantages_schema, credit_build
from mcgpo_data.credit.table import credit_store
from mcgpo_data.errors import IntegrityError, OutputError, ResourceError
from mcgpo_data.inspect.credit_report import compare_build
from mcgpo_data.jsonschema import manifest_schema, table_schema
from mcgpo_data.schema import ADVANTAGES
from mcgpo_data.store import open_store

DEMO = Path(__file__).resolve().parents[2] / "pipelines" / "demo" / "demo_rollouts.jsonl.gz"
NAMES = ["grpo", "gigpo", "graphgpo", "ecpo"]
Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Call `mcgpo credit ARGS...`: (exit code, stdout, stderr)."""

    def _call(*args: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["mcgpo", "credit", "--workers", "1", *map(str, args)])
        code = run(cli, "mcgpo")
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return _call


def built(out: Path, *logs: Path, steps: int = build_run.BUCKET_STEPS, text: int = build_run.PART_TEXT_BYTES) -> Path:
    """A build, in buckets of this size."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build_run, "BUCKET_STEPS", steps)
        patch.setattr(build_run, "PART_TEXT_BYTES", text)
        build_preferences(logs or [DEMO], out, BuildConfig(), BuildOptions(workers=1))
    return out


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo log in four buckets, for tests that write nothing."""
    return built(tmp_path_factory.mktemp("demo") / "out", steps=1500)


@pytest.fixture
def demo(kept: Path, tmp_path: Path) -> Path:
    """The same, to write into."""
    return Path(shutil.copytree(kept, tmp_path / "out"))


def content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def direct(out: Path, estimator: str, **options: Any) -> pa.Table:
    """The table by one call over the whole build, sorted as one."""
    opened = open_store(out)
    return credit_store(opened.read("decisions"), opened.read("rollouts"), estimator, options)


def by_ids(table: pa.Table) -> pa.Table:
    return table.sort_by([(name, "ascending") for name in ("group_id", "rollout_id", "step_index")])


def test_a_table_of_advantages_is_added_and_nothing_else_changes(call: Call, demo: Path) -> None:
    before, old = content(demo), open_store(demo).manifest
    code, out, err = call(demo, "--estimator", "graphgpo")
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == f"advantages of 5,533 steps in {demo / 'advantages_graphgpo'}"
    after, new = content(demo), open_store(demo).manifest
    added = {name for name in after if name.startswith("advantages_graphgpo/")}
    assert len(added) == len(open_store(demo).files("decisions")) > 1
    assert {name: data for name, data in after.items() if name not in added | {"manifest.json"}} == {
        name: data for name, data in before.items() if name != "manifest.json"
    }
    changed = {name for name in new if new[name] != old.get(name)}
    assert changed == {"tables", "credit", "content_id"}
    assert new["credit"]["of"] == old["content_id"]
    open_store(demo).verify()
    assert list(jsonschema.Draft202012Validator(manifest_schema()).iter_errors(new)) == []
    assert [p.name for p in demo.parent.iterdir()] == [demo.name]


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_the_table_holds_what_one_call_over_the_whole_build_gives(demo: Path, estimator: str) -> None:
    credit_build(demo, estimator, how=CreditOptions(workers=1))
    table = open_store(demo).read(f"advantages_{estimator}")
    wanted = direct(demo, estimator)
    assert by_ids(table).equals(wanted.cast(table.schema))
    assert table.schema.equals(advantages_schema(estimator), check_metadata=True)
    checker = jsonschema.Draft202012Validator(table_schema("advantages"))
    assert all(checker.is_valid(row) for row in table.slice(0, 50).to_pylist())


def test_every_column_of_the_schema_is_one_that_some_estimator_explains_itself_by() -> None:
    names = [f.name for estimator in ESTIMATORS for f in advantages_schema(estimator)]
    assert set(names) == set(ADVANTAGES.names)
    required = {f.name for f in ADVANTAGES if not f.nullable}
    assert required == set.intersection(*(set(advantages_schema(estimator).names) for estimator in ESTIMATORS))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_columns_have_the_types_of_the_schema_before_they_are_written(kept: Path, estimator: str) -> None:
    table = direct(kept, estimator)
    assert [(f.name, f.type) for f in table.schema] == [(f.name, f.type) for f in advantages_schema(estimator)]


def test_the_number_of_workers_changes_no_byte(demo: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(demo, tmp_path / "other"))
    made = [credit_build(out, "ecpo", how=CreditOptions(workers=workers)) for out, workers in ((demo, 1), (other, 2))]
    assert made[0]["content_id"] == made[1]["content_id"]
    files = [{k: v for k, v in content(out).items() if k != "manifest.json"} for out in (demo, other)]
    assert files[0] == files[1]


def test_the_order_in_which_estimators_are_added_does_not_matter(demo: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(demo, tmp_path / "other"))
    for out, names in ((demo, ("grpo", "gigpo")), (other, ("gigpo", "grpo"))):
        for name in names:
            manifest = credit_build(out, name, how=CreditOptions(workers=1))
        assert set(manifest["credit"]["estimators"]) == {"grpo", "gigpo"}
        assert manifest["credit"]["of"] != manifest["content_id"]
    first, second = open_store(demo).manifest, open_store(other).manifest
    assert first["content_id"] == second["content_id"]
    assert first["credit"]["of"] == second["credit"]["of"]


def test_a_table_that_is_there_is_replaced_on_request_alone(call: Call, demo: Path) -> None:
    assert call(demo, "--estimator", "gigpo", "-q")[0] == 0
    before = content(demo)
    code, out, err = call(demo, "--estimator", "gigpo", "--option", "gamma=0.5")
    assert (code, out) == (5, "")
    assert "--overwrite" in err
    assert content(demo) == before
    assert call(demo, "--estimator", "gigpo", "--option", "gamma=0.5", "--overwrite", "-q")[0] == 0
    opened = open_store(demo)
    assert opened.manifest["credit"]["estimators"]["gigpo"]["options"]["gamma"] == 0.5
    assert by_ids(opened.read("advantages_gigpo"))["return"].equals(direct(demo, "gigpo", gamma=0.5)["return"])
    opened.verify()


@pytest.mark.parametrize("stage", ["write_part", "finish", "signal_counts"])
@pytest.mark.parametrize("error", [ResourceError("disk full"), KeyboardInterrupt()])
def test_a_run_that_fails_on_the_way_leaves_the_build_as_it_was(
    demo: Path, monkeypatch: pytest.MonkeyPatch, stage: str, error: BaseException
) -> None:
    before = content(demo)
    seen = []

    def fail(*args: Any) -> Any:
        seen.append(args)
        if len(seen) == (1 if stage == "finish" else 2):  # some parts are there
            raise error
        return original(*args)

    original = getattr(store, stage)
    monkeypatch.setattr(store, stage, fail)
    with pytest.raises(type(error)):
        credit_build(demo, "gigpo", how=CreditOptions(workers=1))
    assert content(demo) == before
    assert [p.name for p in demo.parent.iterdir()] == [demo.name]


def test_a_build_that_changes_meanwhile_is_not_overwritten(demo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def meanwhile(*args: Any) -> Any:
        command = [sys.executable, "-m", "mcgpo_data", "credit", demo, "--estimator", "grpo", "-q"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    monkeypatch.setattr(store, "_check_scored", meanwhile)
    with pytest.raises(OutputError, match="changed by another program"):
        credit_build(demo, "gigpo", how=CreditOptions(workers=1))
    assert set(open_store(demo).manifest["credit"]["estimators"]) == {"grpo"}


def test_a_build_that_a_killed_run_had_moved_away_is_found_again(call: Call, demo: Path) -> None:
    before = content(demo)
    demo.rename(demo.parent / f".{demo.name}.99999.old")
    assert call(demo, "--estimator", "grpo", "-q")[0] == 0
    assert before.keys() <= content(demo).keys()
    assert [p.name for p in demo.parent.iterdir()] == [demo.name]


def test_a_file_that_was_damaged_before_still_shows_as_damaged(demo: Path) -> None:
    path = open_store(demo).files("preferences")[0]
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    credit_build(demo, "grpo", how=CreditOptions(workers=1))
    with pytest.raises(IntegrityError, match="differs from its checksum"):
        open_store(demo).verify()


def test_a_damaged_table_of_decisions_is_said_to_be_so(call: Call, demo: Path) -> None:
    path = open_store(demo).files("decisions")[0]
    path.write_bytes(path.read_bytes()[:2000])
    for args in (["--estimator", "grpo"], ["--compare", "grpo,gigpo"]):
        code, _, err = call(demo, *args)
        assert code == 3
        assert str(path) in err


def test_a_build_can_be_named_from_inside(call: Call, demo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(demo)
    assert call(".", "--estimator", "grpo", "-q")[0] == 0
    assert "advantages_grpo" in open_store(demo).manifest["tables"]


def test_pairs_made_again_come_without_advantages(demo: Path, tmp_path: Path) -> None:
    manifest = credit_build(demo, "grpo", how=CreditOptions(workers=1))
    again = build_preferences([demo], tmp_path / "again", BuildConfig(weight="support"), BuildOptions(workers=1))
    assert "credit" not in again
    assert "advantages_grpo" not in again["tables"]
    assert again["rebuilt_from"] == manifest["content_id"]


def test_json_tells_options_counts_and_content(call: Call, demo: Path) -> None:
    code, out, _ = call(demo, "--estimator", "gigpo", "--preset", "verl-agent:webshop", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["preset"] == "verl-agent:webshop"
    assert (found["options"]["step_std"], found["options"]["invalid_penalty"]) == ("none", 0.1)
    assert found["content_id"] == open_store(demo).manifest["content_id"]
    table = open_store(demo).read("advantages_gigpo")
    assert {**found["counts"], **signal_counts(table)} == found["counts"]
    assert found["counts"]["rollouts"] == 384


@pytest.mark.parametrize(
    "args, words",
    [
        (["--estimator", "graphpo"], "Did you mean graphgpo?"),
        (["--estimator", "gigpo", "--option", "gama=0.9"], "Did you mean gamma?"),
        (["--estimator", "gigpo", "--option", "gamma"], "name=value"),
        (["--estimator", "gigpo", "--option", "gamma=1", "--option", "gamma=2"], "twice"),
        (["--estimator", "gigpo", "--option", "gamma=high"], "gamma is 'high'"),
        (["--estimator", "gigpo", "--preset", "verl-agent:alfword"], "Did you mean verl-agent:alfworld?"),
        (["--estimator", "ecpo", "--preset", "verl-agent:alfworld"], "no such run was published"),
        (["--estimator", "gigpo", "--rule", "coarse"], "'coarse' is no rule of this build. Known: exact, 0."),
        (["--estimator", "gigpo", "--rule", "exakt"], "Did you mean exact?"),
        (["--estimator", "gigpo", "--rewards", "log"], "choose one of outcome, logged"),
        (["--estimator", "gigpo", "--plot", "x.svg"], "--compare"),
        ([], "--estimator"),
        (["--estimator", "gigpo", "--compare", "gigpo,grpo"], "--compare"),
        (["--compare", "gigpo"], "two or more"),
        (["--compare", "gigpo,gigpo"], "two or more"),
        (["--compare", "gigpo,graphpo"], "Did you mean graphgpo?"),
        (["--compare", "gigpo,grpo", "--option", "gama=0.9"], "Did you mean gamma?"),
        (["--compare", "gigpo,grpo", "--preset", "verl-agent"], "no preset"),
    ],
)
def test_wrong_usage_exits_2_and_says_what_would_be_right(call: Call, kept: Path, args: list[str], words: str) -> None:
    before = content(kept)
    code, out, err = call(kept, *args)
    assert (code, out) == (2, "")
    assert words in err
    assert content(kept) == before


def test_what_is_no_build_is_said_to_be_none(call: Call, tmp_path: Path) -> None:
    code, _, err = call(tmp_path, "--estimator", "grpo")
    assert code == 2
    assert "is not a build" in err


def small_log(path: Path, **facts: Any) -> Path:
    """Five rollouts of two steps in one state; three take `a`, and succeed."""
    rows = [
        {
            "task_id": "t", "rollout_id": f"r{i}", "step": step, "observation": f"state {step}",
            "action": "ab"[i % 2] + str(step), "reward": float(step * (i % 2 == 0)), "success": i % 2 == 0, **facts,
        }
        for i in range(5) for step in range(2)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("how", [["--estimator", "gigpo"], ["--compare", "grpo,gigpo"]])
def test_without_outcomes_there_is_nothing_to_compare_with(call: Call, tmp_path: Path, how: list[str]) -> None:
    out = built(tmp_path / "out", small_log(tmp_path / "log.jsonl", success=None, reward=None))
    before = content(out)
    code, _, err = call(out, *how)
    assert code == 3
    assert "no rollout" in err
    assert "outcome" in err
    assert content(out) == before


def test_logged_rewards_take_the_place_of_the_outcome(call: Call, tmp_path: Path) -> None:
    out = built(tmp_path / "out", small_log(tmp_path / "log.jsonl"))
    assert call(out, "--estimator", "gigpo", "--rewards", "logged", "-q")[0] == 0
    table = open_store(out).read("advantages_gigpo")
    assert table["return"].to_pylist() == [0.95, 1.0, 0.0, 0.0] * 2 + [0.95, 1.0]
    assert open_store(out).manifest["credit"]["estimators"]["gigpo"]["rewards"] == "logged"


def test_logged_rewards_are_found_in_whichever_file_they_are(tmp_path: Path) -> None:
    out = built(tmp_path / "out", steps=1500, text=200_000)
    assert len(open_store(out).files("steps")) > len(open_store(out).files("decisions"))
    credit_build(out, "gigpo", how=CreditOptions(workers=1, rewards="logged"))
    opened = open_store(out)
    wanted = credit_store(
        opened.read("decisions"), opened.read("rollouts"), "gigpo",
        rewards=opened.read("steps", ["rollout_id", "step_index", "reward"]),
    )  # fmt: skip
    assert pc.all(wanted["scored"]).as_py()
    assert by_ids(opened.read("advantages_gigpo"))["advantage"].equals(wanted["advantage"])


def test_rewards_that_were_not_logged_are_asked_for_in_vain(call: Call, tmp_path: Path) -> None:
    out = built(tmp_path / "out", small_log(tmp_path / "log.jsonl", reward=None))
    code, _, err = call(out, "--estimator", "gigpo", "--rewards", "logged")
    assert code == 3
    assert "--rewards outcome" in err


def test_progress_can_be_part_of_the_state(demo: Path) -> None:
    opened = open_store(demo)
    credit_build(demo, "gigpo", how=CreditOptions(workers=1, with_progress=True))
    keys = ("state_key", "progress_key")
    wanted = credit_store(opened.read("decisions"), opened.read("rollouts"), "gigpo", keys=keys)
    assert by_ids(open_store(demo).read("advantages_gigpo"))["advantage"].equals(wanted["advantage"])
    assert open_store(demo).manifest["credit"]["estimators"]["gigpo"]["keys"] == list(keys)


def test_a_comparison_has_the_numbers_of_direct_calls_and_writes_nothing(kept: Path) -> None:
    before = content(kept)
    found = compare_build(kept, NAMES, options={"gamma": 0.9}, how=CreditOptions(workers=1))
    given = {name: {"gamma": 0.9} if name in ("gigpo", "ecpo") else {} for name in NAMES}
    tables = {name: direct(kept, name, **given[name]) for name in NAMES}
    fined = {name: direct(kept, name, **given[name], invalid_penalty=0.1) for name in NAMES}
    pairs = PairRows.of(tables["grpo"], open_store(kept).read("preferences"))
    wanted = compare(tables, pairs, {name: (tables[name], fined[name]) for name in NAMES})
    np.testing.assert_allclose(leaves({part: found[part] for part in wanted}), leaves(wanted), rtol=0, atol=1e-9)
    assert found["signal"]["gigpo"] == signal(signal_counts(tables["gigpo"]))
    assert found["with_pairs"]["ecpo"]["step_advantage"]["pairs"] == open_store(kept).read("preferences").num_rows
    assert content(kept) == before


def leaves(found: Any) -> list[float]:
    """All numbers in order; -99 where there is none."""
    if isinstance(found, dict):
        return [number for key in sorted(found) for number in leaves(found[key])]
    return [-99.0 if found is None else float(found)]


def test_a_comparison_under_a_preset_penalises_and_measures_what_the_penalty_does(kept: Path) -> None:
    found = compare_build(kept, ["gigpo", "ecpo"], preset="verl-agent:alfworld", how=CreditOptions(workers=1))
    assert found["preset"] == {"gigpo": "verl-agent:alfworld", "ecpo": None}
    options = {"episode_stats": "rows", "singleton": "raw"}
    without, fined = (direct(kept, "gigpo", **options, invalid_penalty=penalty) for penalty in (0.0, 0.1))
    assert found["signal"]["gigpo"] == signal(signal_counts(fined))
    for name, number in invalid_effect(without, fined).items():
        assert found["invalid"]["gigpo"][name] == pytest.approx(number, abs=1e-9)


def test_workers_change_no_number_of_a_comparison(kept: Path) -> None:
    one, two = (compare_build(kept, NAMES[1:], how=CreditOptions(workers=workers)) for workers in (1, 2))
    assert one == two


def test_a_comparison_is_printed_as_text_or_json(call: Call, kept: Path) -> None:
    code, out, _ = call(kept, "--compare", ",".join(NAMES))
    assert code == 0
    for words in ("5,533 scored steps of 24 groups", "with the 822 pairs", "gigpo / ecpo, step term", "penalty 0.1"):
        assert words in out
    code, out, _ = call(kept, "--compare", ",".join(NAMES), "--json")
    assert code == 0
    assert json.loads(out)["signal"]["grpo"]["with_step_signal"] == 0.0


def test_a_build_without_pairs_can_be_compared(call: Call, tmp_path: Path) -> None:
    rows = [{"task_id": "t", "rollout_id": f"r{i}", "step": 0, "observation": "o", "action": "ab"[i], "success": not i}
            for i in range(2)]  # fmt: skip
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = built(tmp_path / "out", tmp_path / "log.jsonl")
    code, text, _ = call(out, "--compare", "grpo,gigpo")
    assert code == 0
    assert "with the 0 pairs" in text
    assert "no step is invalid" in text


def test_the_plot_is_svg_and_the_same_every_time(call: Call, kept: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for name in ("a.svg", "b.svg"):
        assert call(kept, "--compare", ",".join(NAMES), "--plot", tmp_path / name)[0] == 0
    drawn = (tmp_path / "a.svg").read_bytes()
    assert drawn == (tmp_path / "b.svg").read_bytes()
    assert ElementTree.fromstring(drawn).tag.endswith("svg")
    for words in (b"graphgpo", b"groups without any signal", b"Agreement with 822 pairs"):
        assert words in drawn


def test_a_plot_without_matplotlib_says_what_to_install_after_the_numbers(
    call: Call, kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    code, out, err = call(kept, "--compare", "grpo,gigpo", "--plot", tmp_path / "a.svg")
    assert code == 2
    assert "mcgpo[notebook]" in err
    assert "grpo / gigpo" in out
    assert not (tmp_path / "a.svg").exists()


def test_the_help_names_all_estimators_and_presets_and_loads_nothing_heavy() -> None:
    code = (
        "import sys; sys.argv = ['mcgpo', 'credit', '--help']\n"
        "from mcgpo_data.cli import cli, run\n"
        "run(cli, 'mcgpo'); print(sorted({'duckdb', 'polars', 'pyarrow', 'numpy'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    words = set(found.replace(",", " ").replace(".", " ").split())
    assert set(ESTIMATORS) <= words
    assert set(PRESETS) <= words
    assert found.split("Examples:")[1].count("\n    mcgpo credit") == 3
    assert found.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    "folder, rollouts, steps",
    [("tau_bench", 200, 2_400), ("intercode", 5_168, 25_000)],
)
def test_real_logs_get_finite_advantages(shared: Path, tmp_path: Path, folder: str, rollouts: int, steps: int) -> None:
    out = built(tmp_path / "out", shared / "data" / folder)
    for estimator in ("graphgpo", "crbc"):
        manifest = credit_build(out, estimator, how=CreditOptions(workers=1))
        counts = manifest["credit"]["estimators"][estimator]["counts"]
        assert counts["rollouts"] == rollouts
        table = open_store(out).read(f"advantages_{estimator}")
        assert table.num_rows == counts["all_steps"] == open_store(out).read("steps", ["step_index"]).num_rows
        for name in table.column_names:
            if pa.types.is_floating(table[name].type):
                assert np.isfinite(table[name].to_numpy()).all(), name
        assert 0 < counts["with_step_signal"] < counts["steps"]


def test_real_logs_without_an_order_of_steps_have_an_episode_term_alone(
    call: Call, shared: Path, tmp_path: Path
) -> None:
    out = built(tmp_path / "out", shared / "data" / "verl_agent_webshop")
    code, _, err = call(out, "--estimator", "gigpo")
    assert code == 3
    assert "256 have steps whose order is not trusted" in err
    assert "grpo, drgrpo, rloo" in err
    assert call(out, "--estimator", "grpo", "-q")[0] == 0
