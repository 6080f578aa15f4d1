"""Running state over rollouts without a loop: helpers on a frame sorted by (rollout_id, step_index).

A family's `apply` works on a narrow frame of its own, with one integer `run` per rollout to window over, and hands its
results back as columns of the frame it was given. Row t of a working frame holds the observation before action t, so
that the observation of row t is the answer to the action of row t - 1: `before` gives that action.
"""

from __future__ import annotations

import hashlib
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


def first() -> pl.Expr:
    """Whether this is the first row of its rollout."""
    return (pl.col(RUN) != pl.col(RUN).shift(1)).fill_null(True)


def carried(column: pl.Expr, run: str = RUN) -> pl.Expr:
    """The last value so far that is not null, in the same `run` (a column whose equal values are adjacent).

    A fill over the whole frame, kept where it began in the same run: several times faster than a window per run.
    """
    began = pl.when(column.is_not_null()).then(pl.col(run)).forward_fill()
    return pl.when(began == pl.col(run)).then(column.forward_fill())


def carried_within(column: pl.Expr, key: str) -> pl.Expr:
    """The last value so far that is not null, among the rows of the same rollout with the same `key`."""
    return column.forward_fill().over(RUN, key)


def ever(condition: pl.Expr) -> pl.Expr:
    """Whether `condition` held on this row or an earlier one of the rollout."""
    return carried(pl.when(condition).then(pl.lit(True))).fill_null(False)


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


def trail(work: pl.DataFrame, text: str, name: str, *, ordered: bool) -> pl.DataFrame:
    """Adds what went before: `{name}` and `{name}_count` of the values of `text` on earlier rows of the rollout.

    Args:
        work: a working frame.
        text: string column; nulls are left out.
        name: name of the new int64 columns.
        ordered: True: the key of the list of values so far; False: of the set of them.

    The key is a sum of 48 bits of sha256 of each value (with its position, for lists), so that it runs along without a
    loop over rollouts; Python hashes each distinct value once.
    """
    position = pl.col(text).cum_count().over(RUN)
    if ordered:
        counted, label = pl.col(text).is_not_null(), pl.format("{} {}", position, text)
    else:
        counted, label = pl.col(text).cum_count().over(RUN, text) == 1, pl.col(text)
    work = work.with_columns(pl.when(counted).then(label).alias("label"))
    distinct = work["label"].unique().drop_nulls()
    keys = [int.from_bytes(hashlib.sha256(value.encode()).digest()[:6], "big") for value in distinct]
    table = pl.DataFrame({"label": distinct, "key": pl.Series(keys, dtype=pl.Int64)})
    work = work.join(table, on="label", how="left", maintain_order="left")
    return work.with_columns(
        before(pl.col("key").fill_null(0).cum_sum().over(RUN)).fill_null(0).alias(name),
        before(pl.col("key").is_not_null().cum_sum().over(RUN)).fill_null(0).cast(pl.Int64).alias(f"{name}_count"),
    ).drop("label", "key")
