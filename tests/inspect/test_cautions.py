"""Every caution appears when it should, and a sound build gets none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mcgpo_data import BuildConfig, Store
from mcgpo_data.inspect.report.cautions import cautions
from mcgpo_data.inspect.report.content import Content, make_content
from mcgpo_data.inspect.report.spread import Concentration
from mcgpo_data.inspect.report.trust import Share


@pytest.fixture(scope="module")
def sound(demo: Store) -> Content:
    """The demo, with everything better that there is to say about it."""
    found = make_content(demo)
    counts = {k: v for k, v in found.counts.items() if not k.startswith("terminal_status:truncated")}
    return replace(found, counts=counts, single_support=0.3, longer=0.5)


def texts(found: Content) -> list[str]:
    return [c.text for c in cautions(found)]


def test_a_sound_build_gets_none(sound: Content) -> None:
    assert texts(sound) == []


def test_the_demo_rests_on_single_rollouts_and_on_cut_ones(demo: Store) -> None:
    single, cut = texts(make_content(demo))
    assert "rests on a single rollout" in single
    assert "cut by a limit" in cut


LOUD = Concentration("task", 5, 1.2, 0.9, 1.0, "t")


@pytest.mark.parametrize(
    "changes, serious, words",
    [
        ({"pairs": None}, True, "There are no pairs."),
        ({"config": BuildConfig(orientation="same-fold")}, True, "luck passes for skill"),
        ({"single_support": 0.8}, False, "80% of the weight rests on a single rollout"),
        ({"folds_agree": [Share("all", 52, 100)]}, False, "Folds: in 52 of 100"),
        ({"own": [Share("all", 40, 100)]}, True, "Own outcomes: in 40 of 100"),
        ({"rules": [{"rule": 0, "weight_share": 0.2}, {"rule": 1, "weight_share": 0.8}]}, False, "80% of the weight"),
        ({"concentration": [LOUD]}, False, "One task holds 90% of the weight."),
        ({"longer": 0.8}, False, "the chosen response is the longer one in 80%"),
        ({"longer": 0.1}, False, "the rejected response is the longer one in 90%"),
        ({"advice": ["Do this."]}, False, "Do this."),
        ({"input_losses": [{"kind": "skipped", "count": 7}]}, False, "7 of 5,533 records could not be used"),
    ],
)
def test_each_caution_appears_alone(sound: Content, changes: dict[str, Any], serious: bool, words: str) -> None:
    if "pairs" in changes:
        changes = {"pairs": sound.pairs.clear()}
    if words.startswith("Folds"):
        serious = True  # 100 comparisons should have told
    (found,) = cautions(replace(sound, **changes))
    assert words in found.text
    assert found.serious == serious


@pytest.mark.parametrize(
    "counts, serious, words",
    [
        ({"graded_rollouts": 300}, False, "22% of the rollouts have no grade"),
        ({"graded_rollouts": 100}, True, "74% of the rollouts have no grade"),
        ({"untrusted_order": 12}, False, "In 12 of 384 rollouts the order of the steps"),
        ({"terminal_status:truncated_tokens": 200}, False, "52% of the rollouts were cut"),
        ({"group_source:text_cluster": 9}, False, "9 rollouts were put into groups by the likeness of their texts"),
        ({"tasks_with_pairs": 3}, False, "21 of 24 tasks give no pair"),
        ({"groups_mixed": 4}, False, "In 20 of 24 groups all outcomes are equal"),
    ],
)
def test_each_caution_about_the_log_appears_alone(
    sound: Content, counts: dict[str, int], serious: bool, words: str
) -> None:
    (found,) = cautions(replace(sound, counts=sound.counts | counts))
    assert words in found.text
    assert found.serious == serious


def test_few_pairs_are_said_first_and_shares_of_a_handful_are_not_judged(sound: Content) -> None:
    few = replace(sound, pairs=sound.pairs.head(3), concentration=[LOUD], single_support=0.9)
    first, second = cautions(few)
    assert (first.text, first.serious) == ("Only 3 pairs: enough to look at, few to train on.", True)
    assert "single rollout" in second.text


def test_checks_with_a_handful_of_comparisons_are_not_judged(sound: Content) -> None:
    assert texts(replace(sound, own=[Share("all", 1, 19)], folds_agree=[Share("all", 1, 2)])) == []


def test_cautions_hold_no_text_of_the_log(sound: Content) -> None:
    hostile = replace(LOUD, largest="<script>")
    assert "<" not in "".join(texts(replace(sound, concentration=[hostile])))
