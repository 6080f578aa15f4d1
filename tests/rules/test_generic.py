"""The fallback rules."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from mcgpo_data.rules.generic import GenericRules

Frame = Callable[..., pl.DataFrame]


def test_the_observation_is_the_state_and_the_action_keeps_its_case(frame: Frame) -> None:
    out = GenericRules().apply(frame([("A  door.\n(Turn 1/9)", "Open  Door"), (None, None)]))
    assert out["state_0"].to_list() == ["A door. (~)", None]
    assert out["observation_key"].to_list() == out["state_0"].to_list()
    assert out["action_0"].to_list() == ["Open Door", None]
    assert out["progress"].to_list() == ["", ""]


def test_an_action_of_blanks_is_none(frame: Frame) -> None:
    assert GenericRules().apply(frame([("A door.", " \t")]))["action_0"].to_list() == [None]
