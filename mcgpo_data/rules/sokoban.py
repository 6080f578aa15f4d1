"""Sokoban as a text grid.

exact state: the board. coarse state: the board with the player at the first cell of the region that it can walk in, so
that positions that differ by free walking are one.

exact action: `up`, `down`, `left`, `right` (with or without "move", "go" or "push"; other text as it is, in lower
case). coarse action: what the move does: `push (row,column) direction`, `walk`, or `bump` (into a wall or a blocked
box: a valid move that changes nothing).

Progress: `home=A/B` boxes on targets, `dead=N` boxes in corners that are no targets, `pushes=` least pushes left, in
buckets (0, 1-2, 3-5, 6-10, more, never).

Boards are parsed in Python, each distinct one once. An observation without a board is compared as text.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from mcgpo_data.rules.frame import share, working
from mcgpo_data.rules.sokoban_board import FAR, MOVES, Board, dead_boxes, effect, parse_board, push_distance, reach
from mcgpo_data.rules.text import lowered, said, steady

BUCKETS: Final = ((0, "0"), (2, "1-2"), (5, "3-5"), (10, "6-10"), (FAR - 1, "more"))


class SokobanRules:
    """Boards, and what moves do to them."""

    name = "sokoban"
    rules: tuple[str, ...] = ("exact", "coarse")

    def detect(self, steps: pl.DataFrame) -> bool:
        """At least half of the observations hold a board with walls, a player and a box."""
        board = pl.col("observation").str.contains(r"(?m)^\s*(?:# ?){3,}\s*$") & pl.col("observation").str.contains(
            "[X$√*]"
        )
        return share(board & pl.col("observation").str.contains("[P@S+]"), steps) >= 0.5

    def apply(self, steps: pl.DataFrame) -> pl.DataFrame:
        """Adds the columns of `rules/base.py` for both rules, and `observation_key`."""
        move = lowered(pl.col("action_text")).str.replace(r"^(?:move|go|push) ", "").str.strip_chars(" .!\"'")
        work = working(
            steps, pl.col("observation"), steady(pl.col("observation")).alias("seen"), said(move).alias("move")
        ).with_row_index("row")
        distinct = work["observation"].unique().drop_nulls()
        boards = {text: board for text in distinct if (board := parse_board(text)) is not None}
        described = pl.DataFrame(
            [(text, *_describe(board)) for text, board in boards.items()],
            schema=dict.fromkeys(("observation", "board", "region", "progress"), pl.String),
            orient="row",
        )
        moves = work.select("observation", "move").filter(pl.col("move").is_in(list(MOVES))).unique()
        effects = pl.DataFrame(
            [(text, move, effect(boards[text], move)) for text, move in moves.iter_rows() if text in boards],
            schema=dict.fromkeys(("observation", "move", "effect"), pl.String),
            orient="row",
        )
        work = work.join(described, on="observation", how="left", maintain_order="left")
        work = work.join(effects, on=["observation", "move"], how="left", maintain_order="left")
        return steps.with_columns(
            work.select(
                pl.coalesce("board", "seen").alias("state_0"),
                pl.coalesce("region", "seen").alias("state_1"),
                pl.col("move").alias("action_0"),
                pl.coalesce("effect", "move").alias("action_1"),
                pl.col("progress").fill_null(""),
                pl.coalesce("board", "seen").alias("observation_key"),
            )
        )


def _describe(board: Board) -> tuple[str, str, str]:
    home, pushes = len(board.boxes & board.targets), push_distance(board)
    bucket = next((name for limit, name in BUCKETS if pushes <= limit), "never")
    return (
        board.text(),
        board.text(player=reach(board)),
        f"home={home}/{len(board.boxes)},dead={dead_boxes(board)},pushes={bucket}",
    )
