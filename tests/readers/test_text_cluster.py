"""Groups found from words alone."""

from __future__ import annotations

import random

import pytest

from mcgpo_data.readers import text_cluster
from mcgpo_data.readers.text_cluster import cluster, profile

TASKS = {
    "shoes": "black leather shoes size 9 under 40.00 dollars",
    "lamp": "brass floor lamp with linen shade under 75.50 dollars",
    "tea": "organic green tea bags pack of 100 under 20 dollars",
    "rug": "blue wool rug machine washable under 130 dollars",
}
FILLER = "I should look at the first result and click next page back search maybe buy now option list item"


def rollouts(task: str, count: int, rng: random.Random) -> list[dict[str, float]]:
    """Profiles of rollouts that mention their task in each thought, among words that all tasks share."""
    return [
        profile(f"{TASKS[task]} {' '.join(rng.choices(FILLER.split(), k=8))}" for _ in range(rng.randint(2, 9)))
        for _ in range(count)
    ]


def parts(labels: list[int]) -> set[frozenset[int]]:
    return {frozenset(i for i, other in enumerate(labels) if other == label) for label in labels}


def mixed(sizes: dict[str, int], seed: int = 0) -> tuple[list[dict[str, float]], set[frozenset[int]]]:
    rng = random.Random(seed)
    items = [(task, p) for task, count in sizes.items() for p in rollouts(task, count, rng)]
    rng.shuffle(items)
    truth = {frozenset(i for i, (task, _) in enumerate(items) if task == name) for name in sizes}
    return [p for _, p in items], truth


def test_a_profile_holds_the_share_of_steps_and_takes_numbers_as_numbers():
    assert profile(["Buy 40.00", "buy 040 Now"]) == {"buy": 1.0, "40": 1.0, "now": 0.5}
    assert profile([]) == {}


@pytest.mark.parametrize("seed", range(5))
def test_groups_of_equal_size_are_found(seed):
    texts, truth = mixed(dict.fromkeys(TASKS, 4), seed)
    assert parts(cluster(texts)) == truth


def test_groups_of_unequal_size_are_found():
    texts, truth = mixed({"shoes": 3, "lamp": 7, "tea": 5})
    assert parts(cluster(texts)) == truth


def test_rollouts_of_one_task_are_not_torn_apart():
    texts, truth = mixed({"rug": 7})
    assert parts(cluster(texts)) == truth


def test_the_order_of_the_texts_does_not_matter():
    texts, _ = mixed({"shoes": 4, "lamp": 6, "tea": 5})
    once = parts(cluster(texts))
    order = list(range(len(texts)))
    random.Random(3).shuffle(order)
    again = parts(cluster([texts[i] for i in order]))
    assert {frozenset(order[i] for i in part) for part in again} == once


def test_a_label_is_the_first_member():
    texts, _ = mixed(dict.fromkeys(TASKS, 4))
    labels = cluster(texts)
    assert all(labels[label] == label <= i for i, label in enumerate(labels))


@pytest.mark.parametrize("count", [0, 1, 2])
def test_too_few_texts_to_compare_stay_apart(count):
    assert cluster([{"word": 1.0}] * count) == list(range(count))


def test_texts_without_words_in_common_are_told_apart():
    assert len(set(cluster([{f"w{i}": 1.0} for i in range(4)]))) > 1


def test_empty_and_identical_texts_do_not_break_it():
    assert parts(cluster([{}, {}, {"a": 1.0}, {"a": 1.0}])) == {frozenset({0, 1}), frozenset({2, 3})}


def test_more_texts_than_can_be_compared_are_refused(monkeypatch):
    monkeypatch.setattr(text_cluster, "MAX_TEXTS", 3)
    with pytest.raises(ValueError, match="4 texts are too many"):
        cluster([{"a": 1.0}] * 4)


def test_the_tree_is_that_of_average_linkage():
    """Heights agree with an independent implementation."""
    hierarchy = pytest.importorskip("scipy.cluster.hierarchy")
    texts, _ = mixed({"shoes": 3, "lamp": 7, "tea": 5}, 9)
    distance = 1.0 - text_cluster._cosines(texts)
    heights = [height for height, _, _ in text_cluster._merges(distance)]
    upper = [distance[i, j] for i in range(len(texts)) for j in range(i + 1, len(texts))]
    assert heights == pytest.approx(hierarchy.linkage(upper, "average")[:, 2])
