"""The examples of docs/rules.md run as they stand, and its table names every family."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from mcgpo_data.rules.registry import REGISTRY, load_rules

Frame = Callable[..., pl.DataFrame]
TEXT = (Path(__file__).parents[2] / "docs" / "rules.md").read_text(encoding="utf-8")
STEPS = [
    ("Lab: You stand in room A.", "Go north"),
    ("Lab: The robot picks up the beaker.", "Go south"),
    ("Lab: The robot does not understand.", None),
]


def example(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)
    return str(found)


@pytest.mark.parametrize("language,suffix", [("python", "py:LabRules"), ("yaml", "yaml")])
def test_both_examples_give_the_same_contexts(tmp_path: Path, frame: Frame, language: str, suffix: str) -> None:
    (tmp_path / f"lab.{suffix.split(':')[0]}").write_text(example(language), encoding="utf-8")
    rules = load_rules(f"{tmp_path}/lab.{suffix}")
    out = rules.apply(frame(STEPS))
    assert rules.detect(out)
    assert rules.rules == ("exact", "coarse")
    assert [state.removeprefix("room=") for state in out["state_1"]] == ["A", "A", "A"]
    assert out["state_0"].n_unique() == 3
    assert out["action_1"].to_list() == ["go", "go", None]
    assert out["progress"].to_list() == ["", "beaker", "beaker"]


def test_the_python_example_is_short() -> None:
    assert len(example("python").splitlines()) <= 30


def test_the_table_names_every_family() -> None:
    assert re.findall(r"^\| `(\w+)` \|", TEXT, re.MULTILINE) == list(REGISTRY)
