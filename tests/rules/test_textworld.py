"""TextWorld rules."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from mcgpo_data.rules.textworld import TextWorldRules

Frame = Callable[..., pl.DataFrame]
RULES = TextWorldRules()


def test_room_things_and_points_follow_the_game(frame: Frame) -> None:
    out = RULES.apply(
        frame(
            [
                ("-= Kitchen =-\nYou see a table. On the table is a red apple.", "take the red apple from table"),
                ("You pick up the red apple from the table.\n\nYour score has just gone up by one point.", "go north"),
                ("You can't go that way.", "go south"),
                ("-= Garden =-\nA bench.", "put red apple on bench"),
                ("You put the red apple on the bench.", "take knife"),
                ("You take the knife from the bench.", "wait"),
                ("*** You lost! ***", None),
            ]
        )
    )
    assert out["state_1"].to_list() == [
        "in kitchen with nothing",
        "in kitchen with red apple",
        "in kitchen with red apple",
        "in garden with red apple",
        "in garden with nothing",
        "in garden with knife",
        "in garden with knife",
    ]
    assert out["progress"].to_list() == ["points=0", *["points=1"] * 5, "points=1 lost"]
    assert out["state_0"][1] == out["state_0"][2]
    assert out["valid"].to_list() == [None, False, None, None, None, None, None]


def test_commands_lose_articles_and_coarse_ones_keep_verb_and_direction(frame: Frame) -> None:
    out = RULES.apply(frame([("-= Kitchen =-", "Take the red apple"), ("-= Kitchen =-", "go north")]))
    assert out["action_0"].to_list() == ["take red apple", "go north"]
    assert out["action_1"].to_list() == ["take", "go north"]
