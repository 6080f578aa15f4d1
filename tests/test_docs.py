"""Documentation that holds data: it must be what it says."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mcgpo_data.build.from_decisions import build_from_decisions
from mcgpo_data.build.run import BuildOptions
from mcgpo_data.config import BuildConfig
from mcgpo_data.readers import native
from mcgpo_data.readers.base import Report
from mcgpo_data.readers.logfile import LogFile

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
    assert sorted(listed) == sorted(field.name for field in msgspec.structs.fields(native._Row))


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
    assert [(piece.rollout_id, piece.first_step) for piece in pieces] == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    assert [piece.terminal_status for piece in pieces][1::2] == ["done", "truncated_steps"]
    assert not report.skipped
    assert not report.warnings


def test_the_example_is_two_whole_rollouts_with_both_outcomes() -> None:
    last = {record["rollout_id"]: record for record in example()}
    assert {name: record["success"] for name, record in last.items()} == {"a": True, "b": False}
    assert [record["step"] for record in example()] == [0, 1, 0, 1]


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
