"""Options of the estimators: what all share, what those with a step signal share, and how they are read from text.

The defaults are the textbook forms; `presets.py` holds what published runs used.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, TypeVar

from mcgpo_data.errors import UsageError

STDS: Final = ("sample", "population", "none")

OptionsT = TypeVar("OptionsT", bound="Options")


def option(
    default: Any, help: str, choices: tuple[str, ...] = (), low: float = -math.inf, high: float = math.inf
) -> Any:
    """A field with its help, and its allowed words or range."""
    return field(default=default, metadata={"help": help, "choices": choices, "low": low, "high": high})


@dataclass(frozen=True, kw_only=True)
class Options:
    """What every estimator takes.

    Raises:
        UsageError: a value of the wrong kind or outside its range; the message names option, value and remedy.
    """

    episode_stats: str = option(
        "rollouts", "What counts once in the group's mean: a rollout, or each of its rows.", ("rollouts", "rows")
    )
    std: str = option("sample", "Divide the episode term by this standard deviation of the group.", STDS)
    eps: float = option(1e-6, "Added to standard deviations; TRL uses 1e-4.", low=1e-12, high=1.0)
    singleton: str = option(
        "zero", "Episode term of a group with one rollout (or row): 0, or its score.", ("zero", "raw")
    )
    invalid_penalty: float = option(0.0, "Subtracted for an invalid action.", low=0.0, high=1e6)
    penalty_place: str = option(
        "row", "Where: from the row's episode score and step value, or from its reward.", ("row", "reward")
    )
    episode_weight: float = option(1.0, "Factor of the episode term in `advantage`.", low=-1e6, high=1e6)

    def __post_init__(self) -> None:
        for f in fields(self):
            object.__setattr__(self, f.name, _checked(f.name, getattr(self, f.name), str(f.type), f.metadata))


@dataclass(frozen=True, kw_only=True)
class StepOptions(Options):
    """What every estimator with a step signal takes."""

    step_std: str = option("sample", "Divide the step term by this standard deviation.", STDS)
    step_weight: float = option(1.0, "Factor of the step term in `advantage`: omega.", low=-1e6, high=1e6)


@dataclass(frozen=True, kw_only=True)
class ReturnOptions(StepOptions):
    """What estimators take that discount."""

    gamma: float = option(0.95, "Discount per step.", low=0.0, high=1.0)


def _checked(name: str, value: Any, kind: str, meta: Mapping[str, Any]) -> Any:
    choices = meta["choices"]
    if choices:
        if value not in choices:
            raise UsageError(f"{name} is {value!r}; choose one of {', '.join(choices)}.")
        return value
    try:
        if kind == "bool":
            return {True: True, False: False, "true": True, "false": False}[value]
        number = float(value) if kind == "float" else int(value)
        if isinstance(value, bool) or number != float(value) or not meta["low"] <= number <= meta["high"]:
            raise ValueError
    except (TypeError, ValueError, OverflowError, KeyError):
        wanted = "true or false" if kind == "bool" else f"{kind} from {meta['low']:g} to {meta['high']:g}"
        raise UsageError(f"{name} is {value!r}; it must be {wanted}.") from None
    return number


def nearest(what: str, name: str, known: Iterable[str]) -> UsageError:
    """The error for a name that is not known, with the closest one that is."""
    names = list(known)
    near = difflib.get_close_matches(name, names, 1)
    hint = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(names)}."
    return UsageError(f"{name!r} is no {what}. {hint}")


def options_from_texts(texts: Iterable[str]) -> dict[str, str]:
    """Names and values from texts `name=value`.

    Raises:
        UsageError: a text without `=`, or a name that is there twice.
    """
    values: dict[str, str] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign:
            raise UsageError(f"option {text!r} has no value; write name=value, as in gamma=0.9.")
        if name in values:
            raise UsageError(f"option {name} is there twice; give it once.")
        values[name] = value
    return values


def make_options(kind: type[OptionsT], values: Mapping[str, Any]) -> OptionsT:
    """Options from names and values, which may be texts from a command line.

    Raises:
        UsageError: an unknown name (the nearest known one is named) or a bad value.
    """
    known = [f.name for f in fields(kind)]
    for name in values:
        if name not in known:
            raise nearest("option of this estimator", name, known)
    return kind(**values)
