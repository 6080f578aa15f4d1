"""Rules from a user's Python file: loaded by path, checked, and never answered with a traceback."""

from __future__ import annotations

import importlib.util
import inspect
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl

from mcgpo_data.errors import McgpoError, UsageError
from mcgpo_data.rules.base import TaskRules


def load_python(path: Path, name: str) -> CheckedRules:
    """The object `name` of a Python file, or what calling it returns if it is a class.

    Raises:
        UsageError: no such file or object, an error while the file runs (with its place), or no rules.
    """
    where = f"{path}:{name}"
    module = _run(path)
    found = getattr(module, name, None)
    if found is None:
        own = [n for n, v in vars(module).items() if getattr(v, "__module__", None) == module.__name__ and callable(v)]
        raise UsageError(f"--rules {where}: {path} has no {name!r}. It has: {', '.join(own) or 'nothing'}.")
    if inspect.isclass(found):
        try:
            found = found()
        except Exception as error:
            raise UsageError(f"--rules {where}: {name}() failed: {located(error, path)}") from error
    return CheckedRules(found, path, where)


class CheckedRules:
    """A user's rules whose results are checked, and whose errors are told with the line of the user's file.

    Args:
        rules: the user's object.
        path: its file.
        where: how the user named it.

    Raises:
        UsageError: the object lacks what rules have; the message says what.
    """

    def __init__(self, rules: Any, path: Path, where: str) -> None:
        given = getattr(rules, "rules", None)
        names = tuple(given) if isinstance(given, tuple | list) else ()
        wrong = {
            "`name` must be a string": not isinstance(getattr(rules, "name", None), str),
            '`rules` must be a tuple of different names, finest first, such as ("exact", "coarse")': (
                not names or not all(isinstance(n, str) and n for n in names) or len(set(names)) < len(names)
            ),
            "`detect(steps)` is missing": not callable(getattr(rules, "detect", None)),
            "`apply(steps)` is missing": not callable(getattr(rules, "apply", None)),
        }
        if any(wrong.values()):
            problems = "; ".join(problem for problem, found in wrong.items() if found)
            raise UsageError(f"--rules {where} is no set of rules: {problems}. See docs/rules.md.")
        self.name: str = rules.name
        self.rules: tuple[str, ...] = names
        self._inner: TaskRules = rules
        self._path, self._where = path, where

    def detect(self, steps: pl.DataFrame) -> bool:
        """What the user's `detect` says."""
        try:
            return bool(self._inner.detect(steps))
        except Exception as error:
            raise UsageError(f"--rules {self._where}: detect failed: {located(error, self._path)}") from error

    def apply(self, steps: pl.DataFrame) -> pl.DataFrame:
        """What the user's `apply` returns, once rows and columns are as `rules/base.py` says.

        Raises:
            UsageError: `apply` raised an error, or returned something else.
        """
        try:
            out = self._inner.apply(steps)
        except McgpoError:
            raise
        except Exception as error:
            raise UsageError(f"--rules {self._where}: apply failed: {located(error, self._path)}") from error
        problem = self._problem(steps, out)
        if problem:
            raise UsageError(f"--rules {self._where}: apply must return {problem}. See docs/rules.md.")
        return out

    def _problem(self, steps: pl.DataFrame, out: object) -> str | None:
        if not isinstance(out, pl.DataFrame):
            return f"a Polars frame; it returned {type(out).__name__}"
        keys = ["rollout_id", "step_index"]
        if not set(keys) <= set(out.columns) or not out.select(keys).equals(steps.select(keys)):
            return f"the rows it was given, in their order; it was given {steps.height} and returned {out.height}"
        wanted = dict.fromkeys(
            [f"{what}_{r}" for r in range(len(self.rules)) for what in ("state", "action")] + ["progress"], pl.String
        )
        missing = [column for column in wanted if column not in out.columns]
        if missing:
            return f"the column(s) {', '.join(missing)}"
        optional = dict.fromkeys([*(f"progress_{r}" for r in range(len(self.rules))), "observation_key"], pl.String)
        for column, kind in {**wanted, **optional, "valid": pl.Boolean}.items():
            if column in out.columns and out.schema[column] != kind:
                return f"`{column}` as {kind}; it is {out.schema[column]}"
        return None


def _run(path: Path) -> ModuleType:
    if not path.is_file():
        raise UsageError(f"--rules: there is no file {path}.")
    spec = importlib.util.spec_from_file_location(f"mcgpo_rules_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise UsageError(f"--rules: {path} cannot be loaded as Python.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[spec.name]
        raise UsageError(f"--rules: {path} failed: {located(error, path)}") from error
    return module


def located(error: BaseException, path: Path) -> str:
    """`file.py:12: ValueError: text`, with the last line of `path` that the error passed, else the last line."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}: {error.msg}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename) == path.resolve() or frame.filename == str(path)]
    last = (own or frames)[-1:]
    place = "".join(f"{frame.filename}:{frame.lineno}: " for frame in last)
    return f"{place}{type(error).__name__}: {error}"
