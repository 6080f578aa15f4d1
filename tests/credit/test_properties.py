"""What holds for every log: order, isolation, names, scales, and that no number is ever missing."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcgpo_data.credit import ESTIMATORS, estimate

from .logs import Log, drawn, few, random_logs

ALL = pytest.mark.parametrize("estimator", ESTIMATORS)
PENALTY = {"invalid_penalty": 0.1}


def columns_of(rows: Log, estimator: str, **options: Any) -> dict[str, np.ndarray]:
    return estimate(rows.batch(), estimator, **{**PENALTY, **options}).columns


@ALL
@given(rows=random_logs, seed=st.integers(0, 2**32))
@few
def test_the_order_of_rows_changes_nothing_to_the_last_bit(estimator: str, rows: Log, seed: int) -> None:
    order = list(range(len(rows)))
    random.Random(seed).shuffle(order)
    straight, shuffled = columns_of(rows, estimator), columns_of(rows.taken(order), estimator)
    for name, column in straight.items():
        np.testing.assert_array_equal(column[order], shuffled[name], err_msg=name)


@ALL
@given(rows=random_logs)
@few
def test_other_groups_change_nothing_to_the_last_bit(estimator: str, rows: Log) -> None:
    together = columns_of(rows, estimator)
    for group in set(rows.group):
        here = [row for row in range(len(rows)) if rows.group[row] == group]
        alone = columns_of(rows.taken(here), estimator)
        for name, column in together.items():
            np.testing.assert_array_equal(column[here], alone[name], err_msg=name)


@ALL
@given(rows=random_logs, seed=st.integers(0, 2**32))
@few
def test_names_of_states_actions_and_rollouts_do_not_matter(estimator: str, rows: Log, seed: int) -> None:
    rng = random.Random(seed)

    def renamed(*columns: list[Any]) -> list[list[str]]:
        values = sorted({value for column in columns for value in column})
        names = dict(zip(values, rng.sample(range(10_000), len(values)), strict=True))
        return [[f"name {names[value]}" for value in column] for column in columns]

    other = rows.taken(range(len(rows)))
    other.state, other.next_state = renamed(rows.state, rows.next_state)
    (other.action,), (other.rollout,), (other.group,) = (
        renamed(rows.action),
        renamed(rows.rollout),
        renamed(rows.group),
    )
    plain, under_other_names = columns_of(rows, estimator), columns_of(other, estimator)
    for name, column in plain.items():
        np.testing.assert_allclose(column, under_other_names[name], rtol=0, atol=1e-9, err_msg=name)


@ALL
@given(
    rows=random_logs,
    scores=st.lists(st.one_of(st.floats(-1e100, 1e100), st.sampled_from([0.0, 1e-300, np.nan])), min_size=1),
    stats=st.sampled_from(["rows", "rollouts"]),
    std=st.sampled_from(["sample", "population", "none"]),
    singleton=st.sampled_from(["zero", "raw"]),
    place=st.sampled_from(["row", "reward"]),
)
@few
def test_no_number_is_ever_missing(
    estimator: str, rows: Log, scores: list[float], stats: str, std: str, singleton: str, place: str
) -> None:
    options = {"episode_stats": stats, "std": std, "singleton": singleton, "penalty_place": place, **PENALTY}
    score = [scores[rollout % len(scores)] for rollout in rows.rollout]
    with np.errstate(all="raise", under="ignore"):
        columns = estimate(rows.batch(score=score), estimator, **options).columns
    for name, column in columns.items():
        assert np.isfinite(column).all(), name


@ALL
@given(rows=random_logs, seed=st.integers(0, 2**32))
@few
def test_unscored_rollouts_count_as_if_they_were_not_there(estimator: str, rows: Log, seed: int) -> None:
    rng = random.Random(seed)
    lost = {rollout: rng.random() < 0.4 for rollout in set(rows.rollout)}
    success = [None if lost[r] else won for r, won in zip(rows.rollout, rows.success, strict=True)]
    columns = estimate(rows.batch(success=success), estimator, **PENALTY).columns
    here = [row for row in range(len(rows)) if not lost[rows.rollout[row]]]
    rest = [row for row in range(len(rows)) if lost[rows.rollout[row]]]
    without = columns_of(rows.taken(here), estimator) if here else {}
    for name, column in columns.items():
        if here:
            np.testing.assert_array_equal(column[here], without[name], err_msg=name)
        assert name == "valid" or not column[rest].any()


@pytest.mark.parametrize("estimator", ["grpo", "drgrpo", "rloo"])
@given(rows=random_logs, shift=st.integers(-100, 100))
@few
def test_episode_terms_do_not_depend_on_where_zero_is(estimator: str, rows: Log, shift: int) -> None:
    scores = [float(r % 7) for r in rows.rollout]
    base = estimate(rows.batch(score=scores), estimator).columns["advantage"]
    moved = estimate(rows.batch(score=[score + shift for score in scores]), estimator).columns["advantage"]
    np.testing.assert_allclose(moved, base, atol=1e-9)


@pytest.mark.parametrize("estimator", ["grpo", "gigpo", "ecpo", "hgpo", "gagpo"])
@given(rows=random_logs, scale=st.sampled_from([0.5, 3.0, 100.0]))
@example(rows=drawn(936, 1, 3, 7, 2), scale=3.0)  # returns equal to their mean but for rounding
@few
def test_standardised_terms_do_not_depend_on_the_scale(estimator: str, rows: Log, scale: float) -> None:
    scores = [float(r % 7) for r in rows.rollout]
    options = {"eps": 1e-12}
    base = estimate(rows.batch(score=scores), estimator, **options).columns["advantage"]
    scaled = estimate(rows.batch(score=[scale * score for score in scores]), estimator, **options).columns["advantage"]
    np.testing.assert_allclose(scaled, base, atol=1e-6)


@pytest.mark.parametrize("estimator", ["drgrpo", "rloo", "gigpo", "gagpo"])
@given(rows=random_logs)
@few
def test_undivided_terms_grow_with_the_scale(estimator: str, rows: Log) -> None:
    scores = [float(r % 7) for r in rows.rollout]
    options = {} if estimator in ("drgrpo", "rloo") else {"std": "none", "step_std": "none"}
    base = estimate(rows.batch(score=scores), estimator, **options).columns["advantage"]
    scaled = estimate(rows.batch(score=[4 * score for score in scores]), estimator, **options).columns["advantage"]
    np.testing.assert_allclose(scaled, 4 * base, atol=1e-9)


@pytest.mark.parametrize("estimator", ["gigpo", "graphgpo"])
@given(rows=random_logs)
@few
def test_the_step_terms_of_a_state_cancel(estimator: str, rows: Log) -> None:
    step = columns_of(rows, estimator)["step_advantage"]
    for place in set(zip(rows.group, rows.state, strict=True)):
        here = [row for row in range(len(rows)) if (rows.group[row], rows.state[row]) == place]
        assert abs(step[here].sum()) < 1e-9


@pytest.mark.parametrize("stats", ["rows", "rollouts"])
@given(rows=random_logs)
@few
def test_the_episode_terms_of_a_group_cancel_in_the_unit_that_is_counted(stats: str, rows: Log) -> None:
    term = estimate(rows.batch(), "grpo", episode_stats=stats).columns["episode_advantage"]
    counted = [row for row in range(len(rows)) if stats == "rows" or rows.step[row] == 0]
    for group in set(rows.group):
        assert abs(sum(term[row] for row in counted if rows.group[row] == group)) < 1e-9


@given(rows=random_logs)
@few
def test_without_penalty_graphgpo_prefers_what_leads_nearer(rows: Log) -> None:
    columns = estimate(rows.batch(), "graphgpo", omega=0.5).columns
    for a in range(len(rows)):
        for b in range(a):
            if (rows.group[a], rows.state[a]) == (rows.group[b], rows.state[b]):
                nearer = columns["next_distance"][a] < columns["next_distance"][b]
                assert (columns["step_advantage"][a] > columns["step_advantage"][b]) == nearer or not nearer


@given(rows=random_logs)
@few
def test_a_distance_is_one_more_than_the_least_next_distance(rows: Log) -> None:
    columns = estimate(rows.batch(), "graphgpo").columns
    for place in set(zip(rows.group, rows.state, strict=True)):
        here = [row for row in range(len(rows)) if (rows.group[row], rows.state[row]) == place]
        best = min(here, key=lambda row: columns["next_distance"][row])
        if columns["reachable"][best]:
            assert columns["distance"][best] == columns["next_distance"][best] + 1
        else:
            assert columns["distance"][best] == columns["next_distance"][best]


@ALL
@given(rows=random_logs)
@few
def test_the_advantage_is_the_weighted_sum_of_its_terms(estimator: str, rows: Log) -> None:
    options = (
        {"episode_weight": 0.25}
        if estimator in ("grpo", "drgrpo", "rloo")
        else {"episode_weight": 0.25, "step_weight": 3}
    )
    columns = columns_of(rows, estimator, **options)
    wanted = 0.25 * columns["episode_advantage"] + options.get("step_weight", 0) * columns["step_advantage"]
    np.testing.assert_allclose(columns["advantage"], wanted, atol=1e-12)
