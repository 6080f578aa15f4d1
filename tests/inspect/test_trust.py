"""The two checks of orientation that need no truth."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from mcgpo_data import BuildConfig, Store, load_pairs
from mcgpo_data.inspect.report.trust import CLASS, Share, classes, fold_agreement, own_outcomes


def pair(chosen: str = "a", rejected: str = "b", folds: tuple[int, int] = (0, 0), **rest: Any) -> dict[str, Any]:
    return {
        "group_id": "g",
        "rule": 0,
        "context": "c",
        "chosen_action": chosen,
        "rejected_action": rejected,
        "chosen_fold": folds[0],
        "rejected_fold": folds[1],
        "chosen_support": 2,
        "rejected_support": 2,
        "chosen_outcome": 1.0,
        "rejected_outcome": 0.0,
        "class_weight": 0.5,
    } | rest


def table(*pairs: dict[str, Any]) -> pl.DataFrame:
    kinds = {"rule": pl.Int16, "chosen_fold": pl.Int16, "rejected_fold": pl.Int16}
    return pl.DataFrame(list(pairs), schema_overrides=kinds)


def overall(pairs: pl.DataFrame, **options: Any) -> tuple[int, int]:
    shares = fold_agreement(pairs, BuildConfig(**options))
    assert shares is not None
    return shares[0].hits, shares[0].total


def test_two_folds_that_choose_the_same_action_agree() -> None:
    assert overall(table(pair(), pair(folds=(1, 1)))) == (1, 1)


def test_two_folds_that_choose_opposite_actions_disagree() -> None:
    assert overall(table(pair(), pair("b", "a", folds=(1, 1)))) == (0, 1)


@pytest.mark.parametrize("other", [{"context": "d"}, {"group_id": "h"}, {"rule": 1}, {"rejected": "e"}])
def test_other_contexts_groups_rules_and_actions_are_not_compared(other: dict[str, Any]) -> None:
    assert overall(table(pair(), pair(folds=(1, 1), **other))) == (0, 0)


def test_pairs_of_one_class_count_once() -> None:
    assert overall(table(pair(), pair(), pair(), pair(folds=(1, 1)), pair(folds=(1, 1)))) == (1, 1)


def test_with_three_folds_only_judgements_without_a_common_fold_are_compared() -> None:
    shared = table(pair(folds=(0, 0)), pair(folds=(1, 1)))  # judged by {1, 2} and {0, 2}
    apart = table(pair(folds=(0, 0)), pair(folds=(1, 2)))  # judged by {1, 2} and {0}
    mirrored = table(pair(folds=(0, 1)), pair(folds=(1, 0)))  # both judged by {2}
    assert [overall(t, folds=3) for t in (shared, apart, mirrored)] == [(0, 0), (1, 1), (0, 0)]


@pytest.mark.parametrize("options", [{"folds": 5}, {"orientation": "all-folds"}])
def test_where_all_judgements_share_a_fold_there_is_nothing_to_measure(options: dict[str, Any]) -> None:
    assert fold_agreement(table(pair()), BuildConfig(**options)) is None


def test_agreement_is_listed_by_the_weaker_support_of_both() -> None:
    rows = [
        pair(context=f"c{i}", folds=(f, f), chosen_support=1 if f else 9, rejected_support=9)
        for i in range(6)
        for f in (0, 1)
    ]
    shares = fold_agreement(table(*rows), BuildConfig())
    assert shares is not None
    assert [(s.name, s.hits, s.total) for s in shares] == [("all", 6, 6), ("1", 6, 6)]


def test_own_outcomes_count_only_where_the_two_rollouts_ended_differently() -> None:
    rows = table(
        pair(),
        pair(context="d", chosen_outcome=0.0, rejected_outcome=1.0),
        pair(context="e", chosen_outcome=1.0, rejected_outcome=1.0),
        pair(context="f", chosen_outcome=None),
    )
    found = own_outcomes(rows, BuildConfig())
    assert found is not None
    assert (found[0][0].hits, found[0][0].total) == (1, 2)
    assert found[1]["right"].to_list() == [True, False]


def test_own_outcomes_are_no_test_where_they_were_used() -> None:
    assert own_outcomes(table(pair()), BuildConfig(orientation="same-fold")) is None


def test_a_share_of_nothing_is_unknown() -> None:
    assert (Share("all", 0, 0).share, Share("all", 0, 0).interval) == (None, (0.0, 1.0))


def test_both_checks_of_the_demo_lie_clearly_above_chance(demo: Store) -> None:
    pairs = load_pairs(demo)
    folds, own = fold_agreement(pairs, BuildConfig()), own_outcomes(pairs, BuildConfig())
    assert folds is not None
    assert own is not None
    assert folds[0].interval[0] > 0.5
    assert own[0][0].interval[0] > 0.5


def test_agreement_of_the_demo_is_that_of_a_plain_count(demo: Store) -> None:
    winners: dict[tuple[Any, ...], dict[int, str]] = {}
    for p in classes(load_pairs(demo)).select(CLASS).iter_rows(named=True):
        key = (p["group_id"], p["rule"], p["context"], frozenset((p["chosen_action"], p["rejected_action"])))
        winners.setdefault(key, {})[p["chosen_fold"]] = p["chosen_action"]
    twice = [found for found in winners.values() if len(found) == 2]
    shares = fold_agreement(load_pairs(demo), BuildConfig())
    assert shares is not None
    assert shares[0].total == len(twice)
    assert shares[0].hits == sum(len(set(found.values())) == 1 for found in twice)
