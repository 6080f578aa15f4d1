"""docs/credit.md says what there is."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from mcgpo_data.credit import ESTIMATORS, PRESETS, resolve

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "credit.md").read_text(encoding="utf-8")


def rows(section: str) -> list[list[str]]:
    """Cells of the first table of a section, without its head."""
    text = PAGE.split(f"## {section}\n")[1].split("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_page_lists_the_estimators_and_what_they_need() -> None:
    assert [row[0].strip("`") for row in rows("Estimators")] == list(ESTIMATORS)


def test_the_page_lists_every_option_with_its_defaults() -> None:
    defaults: dict[str, dict[str, str]] = {}
    for estimator in ESTIMATORS:
        for f in dataclasses.fields(resolve(estimator)):
            defaults.setdefault(f.name, {})[estimator] = str(f.default)
    told = {row[0].strip("`"): re.findall(r"`([^`]+)`", row[1]) for row in rows("Options")}
    assert told.keys() == defaults.keys()
    for name, (usual, *exception) in told.items():
        others = dict(zip(exception[::2], exception[1::2], strict=True)) if exception else {}
        for estimator, default in defaults[name].items():
            assert others.get(f"{estimator}", usual) == default, (name, estimator)


def test_the_page_lists_the_presets() -> None:
    assert [row[0].strip("`") for row in rows("Presets")] == list(PRESETS)
    for name, _, omega, _ in rows("Presets"):
        assert float(omega) == PRESETS[name.strip("`")]["graphgpo"]["omega"]
