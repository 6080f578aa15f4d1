"""Documentation that holds data: it must be what it says."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
FORMATS = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")


def example() -> list[dict[str, Any]]:
    (block,) = re.findall(r"```jsonl\n(.*?)```", FORMATS, re.DOTALL)
    return [json.loads(line) for line in block.splitlines()]


def documented() -> dict[str, bool]:
    """Key of the native format: whether it is required."""
    rows = [line.split("|")[1:3] for line in FORMATS.splitlines() if line.startswith("| `")]
    return {key: "required" in kind for keys, kind in rows for key in re.findall(r"`(\w+)`", keys)}


def demo() -> list[dict[str, Any]]:
    with gzip.open(ROOT / "pipelines" / "demo" / "demo_rollouts.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.parametrize("records", [example(), demo()], ids=["example", "demo"])
def test_native_logs_use_documented_keys_and_all_required_ones(records: list[dict[str, Any]]) -> None:
    keys = documented()
    for record in records:
        assert record.keys() <= keys.keys()
        assert {key for key, required in keys.items() if required} <= record.keys()


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
