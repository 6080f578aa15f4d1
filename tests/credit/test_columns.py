"""From columns to a batch: every kind of column, every default, every refusal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mcgpo_data.credit import StepBatch, estimate, from_columns
from mcgpo_data.errors import DataError, UsageError

from .logs import drawn, log

LINE = {"group": [0, 0, 0], "rollout": [0, 0, 1], "step": [0, 1, 0]}


def made(**columns: Any) -> StepBatch:
    values = {**LINE, "success": [True, True, False], **columns}
    return from_columns(values.pop("group"), values.pop("rollout"), values.pop("step"), **values)


def test_lists_arrays_and_arrow_columns_give_the_same() -> None:
    rows = drawn(5)
    wanted = estimate(rows.batch(), "ecpo").columns["advantage"]
    names = ("group", "rollout", "step", "state", "action", "next_state", "success", "valid")
    for convert in (np.asarray, pa.array, lambda values: pa.chunked_array([values[:3], values[3:]]), tuple):
        changed = {name: convert(getattr(rows, name)) for name in names}
        np.testing.assert_array_equal(estimate(rows.batch(**changed), "ecpo").columns["advantage"], wanted)


def test_strings_and_all_64_bits_are_good_keys() -> None:
    rows = log("S-a->A-b->end +", "S-c->A-b->X -")
    wanted = estimate(rows.batch(), "gigpo").columns["advantage"]
    keys = {"S": -(2**63), "A": 2**63 - 1, "end": 0, "X": -1}
    states = {"state": [keys[s] for s in rows.state], "next_state": [keys[s] for s in rows.next_state]}
    for convert in (np.asarray, list):
        changed = {name: convert(values) for name, values in states.items()}
        np.testing.assert_array_equal(estimate(rows.batch(**changed), "gigpo").columns["advantage"], wanted)


def test_shuffled_rows_of_every_kind_of_column_find_their_place() -> None:
    rows = drawn(8)
    order = np.random.default_rng(0).permutation(len(rows)).tolist()
    wanted = estimate(rows.batch(), "crbc").columns["advantage"][order]
    mixed = rows.taken(order)
    for convert in (list, np.asarray, pa.array):
        batch = mixed.batch(state=convert(mixed.state), action=convert(mixed.action), next_state=None)
        assert batch.order is not None
        np.testing.assert_array_equal(
            estimate(batch, "crbc").columns["advantage"],
            estimate(rows.batch(next_state=None), "crbc").columns["advantage"][order],
        )
    np.testing.assert_array_equal(estimate(mixed.batch(), "crbc").columns["advantage"], wanted)


def test_an_unknown_state_equals_no_other() -> None:
    for state in (["S", None, None], np.ma.masked_array([1, 0, 0], [False, True, True])):
        columns = estimate(made(group=[0, 0, 0], rollout=[0, 1, 2], step=[0, 0, 0], state=state), "gigpo").columns
        assert columns["anchor_size"].tolist() == [1, 1, 1]


def test_an_unknown_final_state_leads_nowhere() -> None:
    batch = made(state=["S", "A", "S"], next_state=["A", None, None])
    assert estimate(batch, "graphgpo").columns["next_distance"].tolist() == [1, 0, 3]


def test_an_unknown_final_state_is_not_taken_for_a_state_of_the_group_before() -> None:
    rows = log("S-a->A-b->end +", group="a") + log("S-a->end +", "S-b->X -", group="b")
    after = [*rows.next_state[:-1], None]
    assert estimate(rows.batch(next_state=after), "graphgpo").columns["next_distance"].tolist() == [1, 0, 0, 2]


def test_a_score_is_ten_for_success_at_the_last_step() -> None:
    batch = made()
    assert batch.score.tolist() == [10.0, 0.0]
    assert batch.reward.tolist() == [0.0, 10.0, 0.0]
    assert made(success_reward=1.0).score.tolist() == [1.0, 0.0]


def test_rewards_alone_give_score_and_success() -> None:
    batch = made(success=None, reward=[1.0, 0.5, -1.0])
    assert batch.score.tolist() == [1.5, -1.0]
    assert batch.success.tolist() == [True, False]


def test_a_score_alone_gives_reward_and_success() -> None:
    batch = made(success=None, score=[0.5, 0.5, 0.0])
    assert batch.reward.tolist() == [0.0, 0.5, 0.0]
    assert batch.success.tolist() == [True, False]


def test_success_given_apart_is_not_read_off_the_score() -> None:
    batch = made(score=[0.5, 0.5, 0.25], success=[True, True, False])
    assert batch.success.tolist() == [True, False]


@pytest.mark.parametrize(
    "columns",
    [
        {"success": [None, None, False]},
        {"success": [float("nan"), float("nan"), 0.0]},
        {"score": [np.nan, np.nan, 1.0]},
        {"reward": [0.0, None, 1.0]},
    ],
)
def test_an_unknown_outcome_or_reward_makes_its_rollout_unscored(columns: dict[str, Any]) -> None:
    batch = made(**columns)
    assert batch.scored.tolist() == [False, True]
    table = estimate(batch, "grpo", singleton="raw").columns
    assert table["scored"].tolist() == [False, False, True]
    assert table["advantage"][:2].tolist() == [0.0, 0.0]


def test_an_action_not_known_to_be_invalid_is_valid() -> None:
    assert made(valid=[None, False, True]).valid.tolist() == [True, False, True]


def test_no_rows_give_no_rows() -> None:
    empty = from_columns([], [], [], state=[], action=[], success=[])
    for estimator in ("grpo", "gigpo", "graphgpo", "ecpo", "hgpo", "g2po", "gagpo", "crbc"):
        assert len(estimate(empty, estimator).columns["advantage"]) == 0


@pytest.mark.parametrize(
    "columns, error, words",
    [
        ({"step": [0, 2, 0]}, DataError, "step 0 is followed by step 2"),
        ({"step": [0, 0, 0]}, DataError, "every step once"),
        ({"group": [0, 1, 0]}, DataError, "rollout 0 is in two groups"),
        ({"rollout": ["a", None, "b"]}, DataError, "rollout: row 1 has none"),
        ({"rollout": [0.5, 0.5, 1.5]}, DataError, "rollout: must be integers or strings"),
        ({"step": [0, 1]}, UsageError, "3, 3 and 2 rows"),
        ({"step": [0, 1, 0.5]}, DataError, "step: must be integers"),
        ({"step": [0, None, 0]}, DataError, "step: must be integers"),
        ({"step": [0, 2**40, 0]}, DataError, "step: must be integers of 32 bits"),
        ({"success": [True, False, False]}, DataError, "success differs between the steps"),
        ({"score": [1.0, 2.0, 0.0]}, DataError, "score differs between the steps"),
        ({"reward": [np.inf, 0.0, 0.0]}, DataError, "reward: numbers must be finite"),
        ({"score": [1e101, 1e101, 0.0]}, DataError, "score: numbers must be finite"),
        ({"score": ["high", "high", "low"]}, DataError, "score: must be numbers"),
        ({"success": None}, UsageError, "No outcome"),
        ({"state": ["S", "A"]}, UsageError, "state has 2 rows, step has 3"),
        ({"state": ["S", "A", "S"], "next_state": ["B", "x", "y"]}, DataError, "1 steps do not lead to the state"),
    ],
)
def test_what_cannot_be_meant_is_refused(columns: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        made(**columns)


@pytest.mark.parametrize("estimator", ["gigpo", "graphgpo", "ecpo", "hgpo", "g2po", "gagpo", "crbc"])
def test_estimators_with_a_step_term_ask_for_states(estimator: str) -> None:
    with pytest.raises(UsageError, match="give the states"):
        estimate(made(), estimator)


@pytest.mark.parametrize("estimator", ["ecpo", "crbc"])
def test_estimators_that_compare_actions_ask_for_them(estimator: str) -> None:
    with pytest.raises(UsageError, match="give the actions"):
        estimate(made(state=["S", "A", "S"]), estimator)
