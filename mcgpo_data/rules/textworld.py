"""TextWorld games (cooking, treasure hunts, coin collecting) and parser games like them.

exact state: room, things carried, points so far, last observation that was no refusal. coarse state: room and things
carried.

Progress: `points=N`, as the game announced them; `lost` when it said so.

exact action: the command in lower case, without articles. coarse action: its verb, for `go` with the direction.

A command that the game does not understand, or that it says cannot be done, is invalid and leaves the state as it was.
Things carried are folded in a Python loop over the steps at which something is taken or let go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from mcgpo_data.rules.frame import RUN, after, carried, known, share, working
from mcgpo_data.rules.text import lowered, said

MAX_CARRIED: Final = 64
ROOM: Final = r"-= ([a-z][a-z0-9' -]*?) =-"
TAKEN: Final = (
    r"(?-u:\b)you (?:pick up|take|grab) (?:the |an? )?([^;]+?)(?: (?:from|off|out of) (?:the |an? )?.+?)?[.!]"
)
LEFT: Final = (
    r"(?-u:\b)you (?:drop|eat|drink|discard) (?:the |an? )?([^;]+?)(?: (?:on|in|into|onto|to) (?:the |an? )?.+?)?[.!]"
)
PLACED: Final = r"(?-u:\b)you (?:put|insert|place) (?:the |an? )?([^;]+?) (?:on|in|into|onto) (?:the |an? )?.+?[.!]"
POINTS: Final = r"your score has just gone up by (\w+) points?"
NUMBERS: Final = {"one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "ten": "10"}
REFUSED: Final = (
    r"^(?:that's not (?:a verb i recogni[sz]e|something)|i (?:don't|do not|didn't) understand|you can't (?:see|go|do)"
    r"|you need to|you must|i beg your pardon|no known action|unknown action|.{0,4}verb error|what do you want"
    r"|you haven't got|you (?:already|don't) have|sorry, )"
)
LOOKS_LIKE: Final = (
    rf"{ROOM}|your score has just gone up|you (?:pick up|take|drop) the |there is an? .* exit|obvious exits"
)


class TextWorldRules:
    """Room, things carried, and points."""

    name = "textworld"
    rules: tuple[str, ...] = ("exact", "coarse")

    def detect(self, steps: pl.DataFrame) -> bool:
        """At least three observations in ten are sentences of such games."""
        return share(lowered(pl.col("observation")).str.contains(LOOKS_LIKE), steps) >= 0.3

    def apply(self, steps: pl.DataFrame) -> pl.DataFrame:
        """Adds the columns of `rules/base.py` for both rules, `valid` and `observation_key`."""
        command = lowered(pl.col("action_text")).str.replace_all(r"(?-u:\b)(?:the|an?) ", "").str.strip_chars(" .")
        work = working(
            steps,
            lowered(pl.col("observation")).alias("seen"),
            said(command).alias("command"),
        )
        seen = pl.col("seen")
        gained = seen.str.extract(POINTS, 1).replace(NUMBERS).cast(pl.Int64, strict=False)
        work = work.with_columns(
            seen.str.contains(REFUSED).fill_null(False).alias("refused"),
            carried(seen.str.extract(ROOM, 1)).fill_null("somewhere").alias("room"),
            seen.str.extract(TAKEN, 1).alias("taken"),
            pl.coalesce(seen.str.extract(LEFT, 1), seen.str.extract(PLACED, 1)).alias("left"),
            gained.fill_null(0).cum_sum().over(RUN).alias("points"),
            carried(pl.when(seen.str.contains(r"\*\*\* you lost")).then(pl.lit(" lost"))).fill_null("").alias("lost"),
        )
        work = work.with_columns(carried(pl.when(~pl.col("refused")).then("seen")).fill_null("").alias("last_seen"))
        work = _carry(work)
        room = pl.format("in {} with {}", "room", "things")
        exact = pl.format("{}; points {}; sees {}", room, "points", "last_seen")
        verb = pl.col("command").str.extract(r"^((?:go )?\S+)", 1)
        return steps.with_columns(
            work.select(
                known("seen", exact).alias("state_0"),
                known("seen", room).alias("state_1"),
                pl.col("command").alias("action_0"),
                verb.fill_null(pl.col("command")).alias("action_1"),
                pl.format("points={}{}", "points", "lost").alias("progress"),
                pl.when(after(pl.col("refused"))).then(False).alias("valid"),
                pl.col("seen").alias("observation_key"),
            )
        )


def _carry(work: pl.DataFrame) -> pl.DataFrame:
    """Adds `things`: what is carried, in alphabetical order."""
    work = work.with_row_index("row")
    events = work.filter((pl.col("taken").is_not_null() | pl.col("left").is_not_null()) & ~pl.col("refused"))
    folded = pl.DataFrame(
        list(_fold(events.select("row", RUN, "taken", "left"))),
        schema={"row": pl.UInt32, "things": pl.String},
        orient="row",
    )
    work = work.join(folded, on="row", how="left", maintain_order="left")
    return work.with_columns(carried(pl.col("things")).fill_null("nothing"))


def _fold(events: pl.DataFrame) -> Iterator[tuple[int, str]]:
    current, things = None, set[str]()
    for row, run, taken, left in events.iter_rows():
        if run != current:
            current, things = run, set()
        if left is not None:
            things.discard(left)
        if taken is not None and len(things) < MAX_CARRIED:
            things.add(taken)
        yield row, ", ".join(sorted(things)) or "nothing"
