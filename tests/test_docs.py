"""Documentation that holds data: it must be what it says."""

from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mcgpo_data.build.from_decisions import build_from_decisions
from mcgpo_data.build.run import BuildOptions
from mcgpo_data.cli import build_prefs, cli, run
from mcgpo_data.config import BuildConfig
from mcgpo_data.inspect.load import load_pairs
from mcgpo_data.inspect.validate import validate_files, validation_lines
from mcgpo_data.readers import native, native_rows
from mcgpo_data.readers.base import Report
from mcgpo_data.readers.logfile import LogFile
from mcgpo_data.readers.mapping import load_mapping

ROOT = Path(__file__).resolve().parent.parent
FORMATS = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")


def example() -> list[dict[str, Any]]:
    (block,) = re.findall(r"```jsonl\n(.*?)```", FORMATS, re.DOTALL)
    return [json.loads(line) for line in block.splitlines()]


def documented() -> list[tuple[list[str], bool]]:
    """Rows of the table of the native format: names of one field, and whether it is required."""
    rows = [line.split("|")[1:3] for line in FORMATS.splitlines() if line.startswith("| `")]
    return [(re.findall(r"`(\w+)`", names), "required" in kind) for names, kind in rows]


def demo() -> list[dict[str, Any]]:
    with gzip.open(ROOT / "pipelines" / "demo" / "demo_rollouts.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def test_the_table_of_the_native_format_lists_the_keys_that_are_read() -> None:
    listed = [name for names, _ in documented() for name in names]
    assert sorted(listed) == sorted(field.name for field in msgspec.structs.fields(native_rows.FullRow))


@pytest.mark.parametrize("records", [example(), demo()], ids=["example", "demo"])
def test_native_logs_use_documented_keys_and_all_required_ones(records: list[dict[str, Any]]) -> None:
    listed = {name for names, _ in documented() for name in names}
    for record in records:
        assert record.keys() <= listed
        assert all(record.keys() & set(names) for names, required in documented() if required)


@pytest.mark.parametrize("missing", [names for names, required in documented() if required], ids=lambda n: n[0])
def test_a_required_key_is_required(tmp_path: Path, missing: list[str]) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps({k: v for k, v in r.items() if k not in missing}) + "\n" for r in example()))
    report = Report()
    assert list(native.NativeReader().read(LogFile(path), report)) == []
    assert sum(report.skipped.values()) == len(example())


def test_the_example_is_read_without_loss(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in example()))
    log, report = LogFile(path), Report()
    assert native.NativeReader().detect(log.head())
    pieces = list(native.NativeReader().read(log, report))
    steps = [f"{piece.rollout_id}{piece.first_step}" for piece in pieces]
    assert steps == ["a0", "a1", "b0", "b1", "c0", "c1", "d0", "d1", "d2"]
    status = {piece.rollout_id: piece.terminal_status for piece in pieces}
    assert status == {"a": "done", "b": "truncated_steps", "c": "truncated_steps", "d": "done"}
    assert not report.skipped
    assert not report.warnings


def test_the_example_is_four_rollouts_with_both_outcomes() -> None:
    last = {record["rollout_id"]: record for record in example()}
    assert {name: record["success"] for name, record in last.items()} == {"a": True, "b": False, "c": False, "d": True}


WORKED = {"formats.md": "desk.jsonl", "mapping.md": "runs-v7.jsonl"}


@pytest.mark.parametrize("page", WORKED)
def test_a_worked_example_gives_what_its_page_says(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    blocks = {kind: re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL) for kind in ("jsonl", "yaml", "bash")}
    monkeypatch.chdir(tmp_path)
    Path(WORKED[page]).write_text(blocks["jsonl"][0])
    if blocks["yaml"]:
        Path("key-finder.yaml").write_text(blocks["yaml"][0])
    (shown,) = [block for block in blocks["bash"] if WORKED[page] in block]
    for line in shown.splitlines():
        command, _, says = (part.strip() for part in line.partition("#"))
        words = command.split()
        monkeypatch.setattr(sys, "argv", words)
        assert run({"mcgpo": cli, "mcgpo-build-prefs": build_prefs}[words[0]], words[0]) == 0
        pairs = re.fullmatch(r"(\d+) pairs: (.*) > (.*)", says)
        out = capsys.readouterr().out
        if pairs is None:
            assert says in out
            assert "mapping:" not in out
            continue
        table = load_pairs(Path("prefs"))
        assert len(table) == int(pairs[1]) > 0
        assert set(table["chosen_action"]) == {pairs[2]}
        assert set(table["rejected_action"]) == {pairs[3]}


def test_the_warning_on_the_page_of_mappings_is_that_of_the_tool(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "mapping.md").read_text(encoding="utf-8")
    (jsonl,), yaml = (re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL) for kind in ("jsonl", "yaml"))
    (tmp_path / "runs-v7.jsonl").write_text(jsonl)
    (tmp_path / "m.yaml").write_text(yaml[0].replace("observation: seen", "observation: sen"))
    found = validate_files([str(tmp_path / "runs-v7.jsonl")], mapping=load_mapping(tmp_path / "m.yaml"))
    (said,) = re.findall(r"^warning .*", page, re.MULTILINE)
    assert said in [line.strip() for line in validation_lines(found)]


def test_the_pipelines_page_tells_the_size_of_the_demo() -> None:
    page = (ROOT / "pipelines" / "README.md").read_text(encoding="utf-8")
    assert f"{len(demo()):,} steps" in page


@pytest.mark.parametrize("page", sorted(ROOT.glob("*.md")) + sorted(ROOT.glob("[dps]*/*.md")), ids=lambda p: p.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} -> {target}"


def test_the_example_of_a_decisions_table_gives_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs" / "decisions.md").read_text(encoding="utf-8"), re.DOTALL
    )
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    options = BuildOptions(workers=1)
    manifest = build_from_decisions(tmp_path / "decisions.parquet", tmp_path / "out", BuildConfig(), options)
    assert manifest["funnel"]["pairs"] > 0
