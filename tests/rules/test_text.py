"""Normalisers: what moves is removed, what is content stays."""

from __future__ import annotations

import polars as pl
import pytest

from mcgpo_data.rules.text import folded, said, steady


def one(text: str | None) -> str | None:
    return pl.select(steady(pl.lit(text, pl.String))).item()


@pytest.mark.parametrize(
    "earlier,later",
    [
        ("You are now at step 7 and see a door", "You are now at step 12 and see a door"),
        ("You have 3 steps left and 2 chances to go", "You have 1 step left and 1 chance to go"),
        ("Remaining steps: 4. A door.", "Remaining steps: 3. A door."),
        ("Turn 3/10\nA door", "Turn 4/10\nA door"),
        ("Step 3 of 30", "Step 14 of 30"),
        ("done 2024-05-06T10:11:12.123Z", "done 2024-05-06T10:11:13Z"),
        ("[10:11:12] ok", "[23:59:59] ok"),
        ("wrote /tmp/tmpab12cd34", "wrote /tmp/tmpzz98yx76"),
        ("see /tmp/pytest-of-me/pytest-3/x.txt", "see /tmp/pytest-of-me/pytest-4/x.txt"),
        ("started, pid 4123", "started, pid 99"),
        ("<object at 0x7f3a2b1c4d50>", "<object at 0x7f3a2b1c9990>"),
        ("3 passed in 0.32s", "3 passed in 0.41s"),
        ("a  door\n\n here ", "a door here"),
    ],
)
def test_moving_text_does_not_distinguish_states(earlier: str, later: str) -> None:
    assert one(earlier) == one(later)


@pytest.mark.parametrize(
    "text",
    [
        "Step 2: preheat the oven",
        "Price: $142.52",
        "flight HAT069 on 2024-05-20",
        "colour 0xff",
        "/tmp/notes.txt",
        "You have 2 apples",
        "drawer 10",
        "room 3 of the house",
    ],
)
def test_content_stays(text: str) -> None:
    assert one(text) == text


def test_null_stays_null_and_empty_stays_empty() -> None:
    assert one(None) is None
    assert one("") == ""
    assert pl.select(said(folded(pl.lit(" \n ")))).item() is None


def test_text_beyond_ascii_is_folded_too() -> None:
    assert one("caf\u00e9\u00a0 \u3000ouvert \u00fcber step 3/4") == "caf\u00e9 ouvert \u00fcber ~"
