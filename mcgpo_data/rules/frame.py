"""Running state over rollouts without a loop: helpers on a frame sorted by (rollout_id, step_index).

A family's `apply` works on a narrow frame of its own, with one integer `run` per rollout to window over, and hands its
results back as columns of the frame it was given. Row t of a working frame holds the observation before action t, so
that the observation of row t is the answer to the action of row t - 1: `before` gives that action.
"""

from __future__ import annotations

from typing import Final

import polars as pl

RUN: Final = "run"


def working(steps: pl.DataFrame, *columns: pl.Expr) -> pl.DataFrame:
    """A frame with the given columns and `run`: int, equal within a rollout, increasing."""
    return steps.select(pl.col("rollout_id").rle_id().alias(RUN), *columns)


def before(column: pl.Expr) -> pl.Expr:
    """The value one row earlier in the same rollout; null on its first row."""
    return pl.when(pl.col(RUN) == pl.col(RUN).shift(1)).then(column.shift(1))


def after(column: pl.Expr) -> pl.Expr:
    """The value one row later in the same rollout; null on its last row. Only `valid` may look ahead."""
    return pl.when(pl.col(RUN) == pl.col(RUN).shift(-1)).then(column.shift(-1))


def carried(column: pl.Expr, *within: str) -> pl.Expr:
    """The last value so far that is not null, in the same rollout (and the same values of `within`)."""
    return column.forward_fill().over(RUN, *within)


def ever(condition: pl.Expr, *within: str) -> pl.Expr:
    """Whether `condition` held on this row or an earlier one of the rollout (and of `within`)."""
    return condition.fill_null(False).cum_max().over(RUN, *within)


def names(flags: dict[str, pl.Expr]) -> pl.Expr:
    """Names of the flags that are true, in order, joined by commas: how rubric progress is written."""
    return pl.concat_str(
        [pl.when(flag).then(pl.lit(name)) for name, flag in flags.items()], separator=",", ignore_nulls=True
    )


def known(observation: str, state: pl.Expr) -> pl.Expr:
    """`state` where the observation is logged, null elsewhere: an unseen state equals no other."""
    return pl.when(pl.col(observation).is_not_null()).then(state)


def share(condition: pl.Expr, steps: pl.DataFrame) -> float:
    """Share of rows for which `condition` holds, among those for which it is not null; 0 without any."""
    found = steps.select(condition.mean()).item()
    return float(found) if found is not None else 0.0
