"""Notebooks as they are stored: no output, public names only. `make notebooks` executes them."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

import mcgpo_data
from mcgpo_data.inspect import plots

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "notebooks").glob("*.ipynb"))
PUBLIC = {"mcgpo_data": set(mcgpo_data.__all__), "mcgpo_data.inspect": {"plots"}}


def cells(path: Path, kind: str) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == kind]


def code(path: Path) -> ast.Module:
    lines = [line for cell in cells(path, "code") for line in [*cell["source"], "\n"]]
    return ast.parse("".join("\n" if line.startswith("%") else line for line in lines))


def test_the_first_three_notebooks_are_there() -> None:
    assert [path.stem for path in NOTEBOOKS][:3] == ["01_first_pairs", "02_inspect_pairs", "03_weights_and_folds"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_stored_without_output(path: Path) -> None:
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells(path, "code"))


@pytest.mark.parametrize("path", NOTEBOOKS[:3], ids=lambda path: path.stem)
def test_notebooks_use_public_names_only(path: Path) -> None:
    used = 0
    for node in ast.walk(code(path)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mcgpo"):
            names = {alias.name for alias in node.names}
            used += len(names)
            assert names <= PUBLIC[node.module or ""]
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "plots":
            assert node.attr in plots.__all__
    assert used > 3
