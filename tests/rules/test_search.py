"""Rules for question answering with search."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pytest

from mcgpo_data.rules.search import SearchRules, canonical_call

Frame = Callable[..., pl.DataFrame]
QUESTION = "Who wrote the red book of Mars?"


@pytest.mark.parametrize(
    "text,call",
    [
        ("Search[Red  Book]", "search[red book]"),
        ("<search> red book </search>", "search[red book]"),
        ("I think so. <answer>Mia</answer>", "finish[mia]"),
        ("Finish[Mia].", "finish[mia]"),
        ("answer[Mia]", "finish[mia]"),
        ("search('red book')", "search[red book]"),
        ("Lookup[Mars]", "lookup[mars]"),
        ("just words", "just words"),
    ],
)
def test_both_notations_give_one_form(text: str, call: str) -> None:
    assert pl.select(canonical_call(pl.lit(text))).item() == call


def test_states_follow_the_queries(frame: Frame) -> None:
    one = [(QUESTION, "search[red book]"), ("It is red.", "search[mars]"), ("A planet.", "finish[x]")]
    other = [(QUESTION, "search[mars]"), ("A planet.", "search[red book]"), ("A planet.", "finish[x]")]
    out = SearchRules().apply(frame(one, other, instruction=QUESTION))
    assert out["state_0"][2] != out["state_0"][5]
    assert out["state_1"][2] == out["state_1"][5] == "who wrote the red book of mars?; after 2 calls (search)"


def test_coarse_actions_tell_new_words_from_those_of_the_question(frame: Frame) -> None:
    out = SearchRules().apply(
        frame([(QUESTION, "search[the red book]"), ("Mia of Venus.", "search[mia]"), ("x", "finish[mia]")])
    )
    assert out["action_1"].to_list() == ["search known", "search new", "finish"]


def test_progress_tells_coverage_news_and_repetition(frame: Frame) -> None:
    out = SearchRules().apply(
        frame(
            [
                (QUESTION, "search[book]"),
                ("A book that is red.", "search[book]"),
                ("A book that is red.", "search[mars]"),
                ("Mia wrote about Mars.", "finish[mia]"),
            ],
            instruction=QUESTION,
        )
    )
    assert out["progress"].to_list() == ["words=none", "words=half new", "words=half again", "words=full new"]
