"""Which rules there are, which fit a sample of steps, and users' own from a file."""

from __future__ import annotations

import difflib
import importlib.util
import inspect
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import polars as pl

from mcgpo_data.errors import UsageError
from mcgpo_data.rules.alfworld import AlfworldRules
from mcgpo_data.rules.base import TaskRules
from mcgpo_data.rules.generic import GenericRules
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
    """The first rules of `REGISTRY` that know steps like these.

    Args:
        sample: some whole rollouts, as `TaskRules.apply` takes them.
    """
    return next((rules for rules in REGISTRY.values() if rules.detect(sample)), GENERIC)


def load_rules(spec: str) -> TaskRules:
    """Rules by name, from a YAML file, or from a Python file.

    Args:
        spec: a name of `REGISTRY`; `path.yaml` (see `declarative`); or `path.py:Name`, where Name is a class that can
            be made without arguments, or an object. The Python file is run: name only files that you trust.

    Raises:
        UsageError: no such name, file or object, an error in the file (with its place), or an object that is no rules.
    """
    if spec in REGISTRY:
        return REGISTRY[spec]
    path, colon, name = spec.rpartition(":")
    if colon and path.endswith(".py"):
        return _from_python(Path(path), name)
    if spec.endswith(".py"):
        raise UsageError(f"--rules {spec}: say which object of the file, as in {spec}:MyRules.")
    near = difflib.get_close_matches(spec, REGISTRY, 1)
    hint = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(REGISTRY)}; or path.yaml, or path.py:Name."
    raise UsageError(f"--rules {spec}: no such rules. {hint}")


def _from_python(path: Path, name: str) -> TaskRules:
    module = _run(path)
    found = getattr(module, name, None)
    if found is None:
        own = [n for n, v in vars(module).items() if getattr(v, "__module__", None) == module.__name__ and callable(v)]
        raise UsageError(f"--rules {path}:{name}: {path} has no {name!r}. It has: {', '.join(own) or 'nothing'}.")
    if inspect.isclass(found):
        try:
            found = found()
        except Exception as error:
            raise UsageError(f"--rules {path}:{name}: {name}() failed: {located(error, path)}") from error
    return checked_rules(found, f"{path}:{name}")


def _run(path: Path) -> ModuleType:
    if not path.is_file():
        raise UsageError(f"--rules: there is no file {path}.")
    loader = importlib.util.spec_from_file_location(f"mcgpo_rules_{path.stem}", path)
    if loader is None or loader.loader is None:
        raise UsageError(f"--rules: {path} cannot be loaded as Python.")
    module = importlib.util.module_from_spec(loader)
    sys.modules[loader.name] = module  # dataclasses look their module up
    try:
        loader.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[loader.name]
        raise UsageError(f"--rules: {path} failed: {located(error, path)}") from error
    return module


def located(error: BaseException, path: Path | None = None) -> str:
    """`file.py:12: ValueError: text`, with the deepest line in `path` (or at all) that the error passed through."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}: {error.msg}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if path is not None and Path(f.filename) == path] or frames[-1:]
    place = f"{own[-1].filename}:{own[-1].lineno}: " if own else ""
    return f"{place}{type(error).__name__}: {error}"


def checked_rules(found: Any, where: str) -> TaskRules:
    """`found`, if it has what rules have.

    Raises:
        UsageError: something is missing or of the wrong kind; the message says what.
    """
    names = getattr(found, "rules", None)
    problems = [
        problem
        for problem, bad in {
            "`name` must be a string": not isinstance(getattr(found, "name", None), str),
            '`rules` must be a tuple of different names, finest first, such as ("exact", "coarse")': not (
                isinstance(names, tuple | list)
                and names
                and all(isinstance(n, str) and n for n in names)
                and len(set(names)) == len(names)
            ),
            "`detect(steps)` is missing": not callable(getattr(found, "detect", None)),
            "`apply(steps)` is missing": not callable(getattr(found, "apply", None)),
        }.items()
        if bad
    ]
    if problems:
        raise UsageError(f"--rules {where} is no set of rules: {'; '.join(problems)}. See docs/rules.md.")
    rules: TaskRules = found
    return rules
