"""Options of a build: one frozen dataclass, checked when made, read from YAML and overridden from the command line.

Defaults are those of the method; `help` of each field is what `--help` prints.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from mcgpo_data.errors import UsageError

WEIGHTS: Final = ("support_margin", "support", "uniform", "posterior")
ORIENTATIONS: Final = ("opposite-fold", "same-fold", "all-folds")
REPRESENTATIONS: Final = ("state+progress", "state", "progress", "history")
SCOPES: Final = ("group", "task")
OUTCOMES: Final = ("auto", "success", "score", "return")
TRUNCATED: Final = ("graded", "unscored")
FORMS: Final = ("full", "thin")


class OptionError(UsageError):
    """A value that an option cannot have. `where` is how messages call the option: as on the command line, or by the
    file and key it came from.
    """

    def __init__(self, option: str, fault: str, where: str | None = None) -> None:
        super().__init__(option, fault, where)
        self.option, self.fault = option, fault
        self.where = where or f"--{option.replace('_', '-')}"

    def __str__(self) -> str:
        return f"{self.where} {self.fault}"


def _option(default: Any, help: str, choices: tuple[str, ...] = ()) -> Any:
    return field(default=default, metadata={"help": help, "choices": choices})


@dataclass(frozen=True)
class BuildConfig:
    """How contexts are matched, evidence is counted and pairs are formed.

    Raises:
        UsageError: a value outside its range; the message names the option, the value and the remedy.
    """

    seed: int = _option(0, "Seed of folds and of the order of decisions.")
    folds: int = _option(2, "Number of folds K. A pair is oriented by the folds that hold neither of its sides.")
    kappa: float = _option(1.0, "Pseudo-count that shrinks an action's mean towards its context's mean.")
    support_prior: float = _option(2.0, "k in h/(h+k): how much evidence counts as half trusted.")
    margin: float = _option(0.0, "Smallest difference of estimates that still gives a pair.")
    min_support: int = _option(1, "Evidence rollouts that each action needs.")
    discount: float = _option(0.5, "Weight factor per rule: exact 1, next DISCOUNT, next DISCOUNT^2 ...")
    max_pairs_per_class: int = _option(4, "Pairs kept of one comparison class; they share its weight.")
    max_decisions_per_side: int = _option(32, "Decisions of one side of a class that may enter pairs.")
    weight: str = _option("support_margin", "What a class weighs.", WEIGHTS)
    orientation: str = _option(
        "opposite-fold", "Whose outcomes say which action is better. Others leak.", ORIENTATIONS
    )
    representation: str = _option("state+progress", "What makes two contexts equal.", REPRESENTATIONS)
    scope: str = _option("group", "Match inside a group, or across all groups of a task.", SCOPES)
    outcome: str = _option(
        "auto", "Outcome that counts: success, score, return; auto = success, else score.", OUTCOMES
    )
    outcome_range: tuple[float, float] | None = _option(None, "Scale LOW,HIGH of the outcome, mapped to [0, 1].")
    truncated: str = _option("graded", "Rollouts cut by a limit: graded as logged, or unscored.", TRUNCATED)
    form: str = _option("full", "full: pairs carry their text. thin: ids, keys and numbers only.", FORMS)

    def __post_init__(self) -> None:
        checks = [
            ("folds", 2 <= self.folds <= 64, "an integer from 2 to 64"),
            ("kappa", 0 <= self.kappa < math.inf, "a number >= 0"),
            ("support_prior", 0 <= self.support_prior < math.inf, "a number >= 0"),
            ("margin", 0 <= self.margin < 1, "a number in [0, 1)"),
            ("min_support", self.min_support >= 1, "an integer >= 1"),
            ("discount", 0 < self.discount <= 1, "a number in (0, 1]"),
            ("max_pairs_per_class", 1 <= self.max_pairs_per_class <= 2**31, "an integer >= 1"),
            ("max_decisions_per_side", 1 <= self.max_decisions_per_side <= 4096, "an integer from 1 to 4096"),
        ]
        for name, good, wanted in checks:
            if not good:
                raise OptionError(name, f"is {getattr(self, name)!r}; it must be {wanted}.")
        for f in fields(self):
            choices = f.metadata["choices"]
            if choices and getattr(self, f.name) not in choices:
                raise OptionError(f.name, f"is {getattr(self, f.name)!r}; choose one of {', '.join(choices)}.")
        if self.outcome_range is not None:
            low, high = self.outcome_range
            if not (math.isfinite(low) and math.isfinite(high) and low < high):
                raise OptionError(
                    "outcome_range", f"is {low},{high}; it must be two finite numbers LOW,HIGH with LOW < HIGH."
                )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as written into manifests and YAML files."""
        values = dataclasses.asdict(self)
        if self.outcome_range is not None:
            values["outcome_range"] = list(self.outcome_range)
        return values


def _coerce(name: str, kind: str, value: Any) -> Any:
    try:
        if kind.startswith("int"):
            if isinstance(value, bool) or int(value) != float(value):
                raise ValueError
            return int(value)
        if kind.startswith("float"):
            if isinstance(value, bool):
                raise ValueError
            return float(value)
        if kind.startswith("tuple"):
            if value is None:
                return None
            parts = value.split(",") if isinstance(value, str) else list(value)
            low, high = (float(part) for part in parts)
            return (low, high)
        if not isinstance(value, str):
            raise ValueError
        return value
    except (TypeError, ValueError, OverflowError):
        wanted = {"i": "an integer", "f": "a number", "t": "two numbers LOW,HIGH", "s": "a word"}[kind[0]]
        raise OptionError(name, f"is {value!r}; it must be {wanted}.") from None


def build_config(overrides: dict[str, Any] | None = None, file: str | Path | None = None) -> BuildConfig:
    """Options from a YAML file, then from `overrides` (None values are ignored).

    Raises:
        UsageError: unreadable file, unknown key (the nearest known one is named), or a value of the wrong kind.
    """
    kinds = {f.name: str(f.type) for f in fields(BuildConfig)}
    given = {k: v for k, v in (overrides or {}).items() if v is not None}
    written = {} if file is None else _read_yaml(Path(file), kinds)
    values = {name: value for name, (_, value) in written.items()} | given
    try:
        return BuildConfig(**{k: _coerce(k, kinds[k], v) for k, v in values.items()})
    except OptionError as error:
        if error.option in given or error.option not in written:
            raise
        raise OptionError(error.option, error.fault, f"{file}: {written[error.option][0]}") from None


def _read_yaml(path: Path, known: dict[str, str]) -> dict[str, tuple[str, Any]]:
    """Key as written and value of each option in a file, by the name of the option."""
    import yaml

    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file.") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}).") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"{path}: cannot be read as YAML: {error}") from error
    if loaded is None:
        return {}
    if not isinstance(loaded, dict):
        raise UsageError(f"{path}: must hold options as `name: value` lines.")
    values = {str(key).replace("-", "_"): (str(key), value) for key, value in loaded.items()}
    for key in values:
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            hint = f" Did you mean {near[0]}?" if near else f" Known: {', '.join(known)}."
            raise UsageError(f"{path}: unknown option {key!r}.{hint}")
    return values
