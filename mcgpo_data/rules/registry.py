"""Which rules there are, which fit a sample of steps, and users' own from a file."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Final

import polars as pl

from mcgpo_data.errors import UsageError
from mcgpo_data.rules.alfworld import AlfworldRules
from mcgpo_data.rules.base import TaskRules
from mcgpo_data.rules.custom import load_python
from mcgpo_data.rules.declarative import load_declarative
from mcgpo_data.rules.generic import GenericRules
from mcgpo_data.rules.mixed import SEPARATOR, MixedRules, families_of
from mcgpo_data.rules.search import SearchRules
from mcgpo_data.rules.shell import ShellRules
from mcgpo_data.rules.sokoban import SokobanRules
from mcgpo_data.rules.sql import SqlRules
from mcgpo_data.rules.textworld import TextWorldRules
from mcgpo_data.rules.tools import ToolRules
from mcgpo_data.rules.webshop import WebshopRules

GENERIC: Final[TaskRules] = GenericRules()
REGISTRY: Final[dict[str, TaskRules]] = {
    rules.name: rules
    for rules in (
        AlfworldRules(),
        WebshopRules(),
        SokobanRules(),
        ToolRules(),
        SearchRules(),
        SqlRules(),
        ShellRules(),
        TextWorldRules(),
        GENERIC,
    )
}
"""Rules by name, in the order in which detection asks them; `generic` takes what no other wants."""


def detect_rules(sample: pl.DataFrame) -> TaskRules:
    """The rules of `REGISTRY` that know steps like these; several families together where the tasks are of several.

    Args:
        sample: some whole tasks, as `TaskRules.apply` takes them.
    """
    families = families_of(sample, list(REGISTRY.values()), GENERIC)
    return families[0] if len(families) == 1 else MixedRules(families, GENERIC)


def load_rules(spec: str) -> TaskRules:
    """Rules by name, from a YAML file, or from a Python file.

    Args:
        spec: a name of `REGISTRY`, or several joined by `+`; `path.yaml` (see `declarative`); or `path.py:Name`, where
            Name is a class that can be made without arguments, or an object. The Python file is run: name only files
            that you trust.

    Raises:
        UsageError: no such name, file or object, an error in the file (with its place), or an object that is no rules.
    """
    if spec in REGISTRY:
        return REGISTRY[spec]
    names = spec.split(SEPARATOR)
    if all(name in REGISTRY for name in names):
        return MixedRules([REGISTRY[name] for name in names], GENERIC)
    path, colon, name = spec.rpartition(":")
    if colon and path.endswith(".py"):
        return load_python(Path(path), name)
    if spec.endswith((".yaml", ".yml")):
        return load_declarative(Path(spec))
    if spec.endswith(".py"):
        raise UsageError(f"--rules {spec}: say which object of the file, as in {spec}:MyRules.")
    near = difflib.get_close_matches(spec, REGISTRY, 1)
    hint = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(REGISTRY)}; or path.yaml, or path.py:Name."
    raise UsageError(f"--rules {spec}: no such rules. {hint}")
