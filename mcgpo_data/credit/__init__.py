"""Advantages of logged steps without a critic: ten estimators over the same columns, pure functions of whole groups.

    batch = from_columns(group, rollout, step, state=..., action=..., success=...)
    table = estimate(batch, "graphgpo", preset="verl-agent:alfworld")
    table.columns["advantage"]                      # one value per step, in the order of the columns given

`docs/credit.md` has an overview. Importing this needs NumPy alone; an estimator loads what else it needs when it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mcgpo_data.credit.batch import StepBatch
from mcgpo_data.credit.columns import from_columns
from mcgpo_data.credit.options import Options, make_options, nearest
from mcgpo_data.credit.presets import PRESETS
from mcgpo_data.credit.terms import Columns
from mcgpo_data.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

ESTIMATORS: Final[Mapping[str, str]] = {
    "grpo": "Options",
    "drgrpo": "DrGrpoOptions",
    "rloo": "Options",
    "gigpo": "ReturnOptions",
    "graphgpo": "GraphGpoOptions",
    "ecpo": "EcpoOptions",
    "hgpo": "HgpoOptions",
    "g2po": "G2poOptions",
    "gagpo": "GagpoOptions",
    "crbc": "CrbcOptions",
}
"""Name of each estimator, of its module and of its function -> name of its options class."""


@dataclass(frozen=True)
class CreditTable:
    """Advantages of the steps of a batch.

    Attributes:
        estimator: what was computed.
        options: with which options.
        columns: one array per column, in the row order that the batch was made from: `episode_advantage`,
            `step_advantage`, `advantage` (float64, finite; 0 for rollouts without an outcome), `scored`, `valid`
            (bool), then what explains them.
    """

    estimator: str
    options: Options
    columns: Columns

    def to_arrow(self) -> pa.Table:
        """The columns as an Arrow table."""
        import pyarrow as pa

        return pa.table(self.columns)


def resolve(estimator: str, preset: str | None = None, options: Mapping[str, Any] | None = None) -> Options:
    """Options of an estimator: its defaults, then the preset, then single options.

    Raises:
        UsageError: an unknown estimator, preset or option, or a bad value.
    """
    if estimator not in ESTIMATORS:
        raise nearest("estimator", estimator, ESTIMATORS)
    values: dict[str, Any] = {}
    if preset is not None:
        if preset not in PRESETS:
            raise nearest("preset", preset, PRESETS)
        if estimator not in PRESETS[preset]:
            known = ", ".join(PRESETS[preset])
            raise UsageError(f"Preset {preset} has no {estimator}: no such run was published. It has: {known}.")
        values.update(PRESETS[preset][estimator])
    kind: type[Options] = getattr(_module(estimator), ESTIMATORS[estimator])
    return make_options(kind, {**values, **(options or {})})


def estimate(batch: StepBatch, estimator: str, *, preset: str | None = None, **options: Any) -> CreditTable:
    """Advantages of all steps of a batch of whole groups.

    Args:
        batch: steps of whole groups.
        estimator: a name in `ESTIMATORS`.
        preset: a name in `PRESETS`; None: the textbook form.
        options: single options of the estimator, above those of the preset.

    Raises:
        UsageError: an unknown name, a bad value, or states or actions that the estimator needs and the batch lacks.

    Example:
        >>> estimate(from_columns([0, 0], [0, 1], [0, 0], success=[True, False]), "drgrpo").columns["advantage"]
        array([ 5., -5.])
    """
    chosen = resolve(estimator, preset, options)
    run: Callable[[StepBatch, Options], Columns] = getattr(_module(estimator), estimator)
    known, rows = batch.known()
    columns = run(known, chosen)
    if rows is not None:
        columns = {name: _spread(column, rows, len(batch)) for name, column in columns.items()}
    lead = {name: columns.pop(name) for name in ("episode_advantage", "step_advantage", "advantage")}
    columns = {**lead, "scored": np.repeat(batch.scored, batch.length), "valid": batch.valid, **columns}
    return CreditTable(estimator, chosen, {name: batch.as_given(column) for name, column in columns.items()})


def _module(estimator: str) -> Any:
    return import_module(f"mcgpo_data.credit.{estimator}")


def _spread(values: Any, rows: Any, size: int) -> Any:
    """A column of the scored rows, with 0 at the others."""
    out = np.zeros(size, values.dtype)
    out[rows] = values
    return out


__all__ = ["ESTIMATORS", "PRESETS", "CreditTable", "StepBatch", "estimate", "from_columns", "resolve"]
