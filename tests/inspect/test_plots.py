"""Figures and the numbers behind them."""

from __future__ import annotations

import sys

import numpy as np
import polars as pl
import pytest

from mcgpo_data import Store, load_pairs
from mcgpo_data.errors import UsageError
from mcgpo_data.inspect import plots
from mcgpo_data.inspect.canvas import label, shade, svg
from mcgpo_data.inspect.tree import group_tree, make_tree

pytest.importorskip("matplotlib")


def test_rollouts_share_a_path_until_they_part() -> None:
    tree = make_tree([(["a", "b"], 1.0), (["a", "c"], 0.0), (["a"], None), (["d"], 0.0)])
    a = tree.children["a"]
    assert (tree.rollouts, tree.graded, tree.mean) == (4, 3, pytest.approx(1 / 3))
    assert (a.rollouts, a.graded, a.mean, a.ended) == (3, 2, 0.5, 1)
    assert [name for name, _ in a.ordered()] == ["b", "c"]
    assert [name for name, _ in tree.ordered()] == ["a", "d"]


def test_a_branch_without_a_grade_has_no_mean_and_comes_last() -> None:
    tree = make_tree([(["a"], None), (["b"], 0.0)])
    assert tree.children["a"].mean is None
    assert [name for name, _ in tree.ordered()] == ["b", "a"]


def test_the_tree_of_a_task_holds_all_its_rollouts(demo: Store) -> None:
    tree = group_tree(demo, "courier-02")
    assert tree.rollouts == sum(child.rollouts for child in tree.children.values()) == 16
    assert "(invalid)" in tree.children


def test_an_unknown_task_is_named_with_known_ones(demo: Store) -> None:
    with pytest.raises(UsageError, match=r"no task 'x'; there are courier-00"):
        group_tree(demo, "x")


def test_wilson_intervals_hold_known_numbers() -> None:
    low, high = plots.wilson([8, 0, 5], [10, 5, 5])  # Wilson (1927), e.g. 8 of 10: 0.490 to 0.943
    assert low == pytest.approx([0.4902, 0.0, 0.5655], abs=1e-4)
    assert high == pytest.approx([0.9433, 0.4345, 1.0], abs=1e-4)


def test_deciles_go_from_light_to_heavy_and_count_everything_once() -> None:
    rng = np.random.default_rng(0)
    weight = rng.random(203)
    table = plots.deciles(weight, rng.random(203) < weight)
    assert table["count"].sum() == 203
    assert table["weight"].is_sorted()
    assert table["right"][0] < 0.3 < 0.7 < table["right"][9]
    assert ((table["low"] <= table["right"]) & (table["right"] <= table["high"])).all()


def test_too_few_comparisons_for_deciles_are_an_error_in_words() -> None:
    with pytest.raises(UsageError, match="9 comparisons do not fill 10 bins"):
        plots.deciles(np.ones(9), np.ones(9, bool))


def test_figures_are_the_same_bytes_every_time(demo: Store) -> None:
    pairs = load_pairs(demo)
    makers = [
        lambda: plots.prefix_tree(demo, "courier-02"),
        lambda: plots.funnel_bars(demo),
        lambda: plots.weight_histogram(pairs),
        lambda: plots.support_histogram(pairs),
        lambda: plots.calibration(pairs["weight"], pairs["chosen_outcome"] > 0),
        lambda: plots.evidence_against_truth(pairs["delta"], pairs["delta"] - 0.1, pairs["weight"]),
    ]
    first = [svg(make()) for make in makers]
    assert first == [svg(make()) for make in makers]
    assert all(text.startswith("<svg") and text.rstrip().endswith("</svg>") for text in first)


def test_histograms_of_no_pairs_are_empty_figures(demo: Store) -> None:
    none = load_pairs(demo).clear()
    for figure in (plots.weight_histogram(none), plots.support_histogram(none)):
        assert "<svg" in svg(figure)


def test_more_support_than_the_last_bar_shows_is_in_the_last_bar() -> None:
    pairs = pl.DataFrame({"chosen_support": [1, 99, 40], "rejected_support": [5, 12, 50]})
    assert ">12+<" in svg(plots.support_histogram(pairs))


def test_log_text_in_figures_is_inert_and_drawable() -> None:
    assert label("a\u202eb\x1b[0m\n<b>日本$x^2$", 30) == "a b [0m <b>□□$x^2$"


def test_outcomes_go_from_red_to_blue_and_unscored_is_grey() -> None:
    assert shade(0.0)[0] > shade(0.0)[2]
    assert shade(1.0)[2] > shade(1.0)[0]
    assert max(shade(None)) - min(shade(None)) < 0.1


def test_without_matplotlib_the_error_says_what_to_install(demo: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UsageError, match=r"pip install 'mcgpo\[notebook\]'"):
        plots.weight_histogram(load_pairs(demo))
