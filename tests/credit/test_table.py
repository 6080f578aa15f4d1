"""Advantages of a build's tables."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from mcgpo_data.credit import ESTIMATORS, estimate
from mcgpo_data.credit.table import credit_store
from mcgpo_data.errors import DataError, UsageError

from .logs import Log, drawn, log
from .stores import decisions_of, rollouts_of

IDS = ["group_id", "rollout_id", "step_index"]


def sorted_rows(rows: Log) -> list[int]:
    return sorted(range(len(rows)), key=lambda i: (str(rows.group[i]), str(rows.rollout[i]), rows.step[i]))


def rewards_of(last: float, second: float | None, first: float) -> pa.Table:
    """Rewards of rollouts g0 (two steps) and g1 (one), not in order."""
    steps = pa.array([0, 1, 0], pa.int32())
    return pa.table({"rollout_id": ["g1", "g0", "g0"], "step_index": steps, "reward": [last, second, first]})


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_the_tables_of_a_build_give_what_its_columns_give(estimator: str) -> None:
    rows = drawn(11, groups=12, rollouts=4)  # groups 10 and 11 come before group 2 as text
    options = {"invalid_penalty": 0.1, "episode_weight": 0.5}
    table = credit_store(decisions_of(rows, seed=1), rollouts_of(rows), estimator, options)
    order = sorted_rows(rows)
    assert table["step_index"].to_pylist() == [rows.step[i] for i in order]
    assert table["rollout_id"].to_pylist() == [str(rows.rollout[i]) for i in order]
    columns = estimate(rows.batch(), estimator, **options).columns
    assert table.column_names == [*IDS, *columns]
    for name, column in columns.items():
        np.testing.assert_allclose(table[name].to_numpy(), column[order], rtol=0, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_row_order_and_buckets_change_no_byte(estimator: str) -> None:
    rows = drawn(4, groups=6)
    decisions, rollouts = decisions_of(rows), rollouts_of(rows)
    whole = credit_store(decisions, rollouts, estimator)
    assert whole.equals(
        credit_store(decisions_of(rows, seed=9), rollouts.take(list(range(rollouts.num_rows))[::-1]), estimator)
    )
    parts = []
    for group in sorted({str(g) for g in rows.group}):
        here = [i for i in range(len(rows)) if str(rows.group[i]) == group]
        parts.append(credit_store(decisions_of(rows.taken(here)), rollouts_of(rows.taken(here)), estimator))
    assert whole.equals(pa.concat_tables(parts))


def test_a_preset_and_single_options_reach_the_estimator() -> None:
    rows = drawn(2)
    table = credit_store(
        decisions_of(rows), rollouts_of(rows), "gigpo", {"step_std": "none"}, preset="verl-agent:alfworld"
    )
    wanted = estimate(rows.batch(), "gigpo", preset="verl-agent:alfworld", step_std="none").columns["advantage"]
    np.testing.assert_allclose(table["advantage"].to_numpy(), wanted, atol=1e-9)


def test_another_rule_gives_other_states_and_actions() -> None:
    rows = log("S-a->A-b->end +", "S-c->A-b->X -")
    exact = credit_store(decisions_of(rows), rollouts_of(rows), "gigpo")
    coarse = credit_store(decisions_of(rows), rollouts_of(rows), "gigpo", rule=1)
    assert exact["anchor_size"].to_pylist() == [2, 2, 2, 2]
    assert coarse["anchor_size"].to_pylist() == [4, 4, 4, 4]


def test_the_final_state_counts_under_the_exact_rule_alone() -> None:
    """Its key is of the exact rule: under another it would equal nothing, or worse."""
    rows = log("S-a->A-b->end +", "S-c->T-d->A -")
    exact = credit_store(decisions_of(rows), rollouts_of(rows), "graphgpo")
    assert exact["next_distance"].to_pylist() == [1, 0, 2, 1]
    with_progress = credit_store(decisions_of(rows), rollouts_of(rows), "graphgpo", keys=("state_key", "progress_key"))
    assert with_progress["next_distance"].to_pylist() == [1, 0, 3, 3]


def test_progress_can_be_part_of_the_state() -> None:
    rows = log("S-a->S-b->end +", "S-c->X -")
    table = credit_store(decisions_of(rows), rollouts_of(rows), "gigpo", keys=("state_key", "progress_key"))
    assert table["anchor_size"].to_pylist() == [2, 1, 2]


def test_an_unknown_state_equals_no_other_and_is_no_fault_of_the_action() -> None:
    rows = log("S-a->A-b->end +", "S-c->A-b->X -")
    rows.state[1] = rows.state[3] = None
    table = credit_store(decisions_of(rows), rollouts_of(rows), "gigpo", {"invalid_penalty": 0.1})
    assert table["anchor_size"].to_pylist() == [2, 1, 2, 1]
    assert table["valid"].to_pylist() == [True] * 4


def test_graded_outcomes_are_scores_and_success_is_the_flag() -> None:
    rows = log("S-a->end +", "S-b->X -", "S-c->Y -", "S-d->Z -")
    rollouts = rollouts_of(rows, evidence_outcome=[1.0, 0.6, None, 1.0], success=[True, False, False, None])
    table = credit_store(decisions_of(rows), rollouts, "graphgpo", {"std": "none"})
    assert table["scored"].to_pylist() == [True, True, False, True]
    np.testing.assert_allclose(table["group_mean"].to_numpy()[:2], 26 / 3)
    assert table["next_distance"].to_pylist() == [0, 2, 0, 0]  # the third is not scored: all its columns are 0


def test_where_the_order_of_steps_is_not_trusted_only_the_episode_term_counts() -> None:
    rows = log("S-a->end +", "S-b->X -", "S-c->Y -")
    rollouts = rollouts_of(rows, order_trusted=[True, True, False])
    assert credit_store(decisions_of(rows), rollouts, "grpo")["scored"].to_pylist() == [True, True, True]
    assert credit_store(decisions_of(rows), rollouts, "gigpo")["scored"].to_pylist() == [True, True, False]


def test_logged_rewards_take_the_place_of_the_score() -> None:
    rows = log("S-a->A-b->end +", "S-c->X -")
    steps = rewards_of(-1.0, 3.0, 1.0)
    table = credit_store(decisions_of(rows), rollouts_of(rows), "gigpo", {"gamma": 0.5, "std": "none"}, rewards=steps)
    assert table["return"].to_pylist() == [2.5, 3.0, -1.0]
    assert table["group_mean"].to_pylist() == [1.5] * 3


def test_a_rollout_without_one_of_its_rewards_is_unscored() -> None:
    rows = log("S-a->A-b->end +", "S-c->X -")
    steps = rewards_of(-1.0, None, 1.0)
    for rewards in (steps, steps.slice(0, 2).filter(pa.array([True, False]))):
        table = credit_store(decisions_of(rows), rollouts_of(rows), "gigpo", rewards=rewards)
        assert table["scored"].to_pylist() == [False, False, True]


def test_a_rollout_that_a_limit_cut_can_be_given_the_value_of_its_last_state() -> None:
    rows = log("S-a->A-b->end +", "S-a->A -", "S-c->A -")
    rollouts = rollouts_of(rows, terminal_status=["done", "truncated_steps", "done"])
    plain, valued = (
        credit_store(decisions_of(rows), rollouts, "gagpo", {"bootstrap": bootstrap}) for bootstrap in (False, True)
    )
    raised = np.array(valued["delta"]) - np.array(plain["delta"])
    np.testing.assert_allclose(raised, [0, 0, 0.95 * 10, 0], atol=1e-9)


def test_the_text_of_states_may_be_left_out() -> None:
    rows = drawn(6)
    whole = credit_store(decisions_of(rows), rollouts_of(rows), "graphgpo")
    thin = credit_store(decisions_of(rows).drop_columns(["state_summary"]), rollouts_of(rows), "graphgpo")
    assert whole.equals(thin)


def test_what_does_not_fit_together_is_refused() -> None:
    rows = drawn(6)
    with pytest.raises(DataError, match="no decision under rule 2; the last rule of the table is 1"):
        credit_store(decisions_of(rows), rollouts_of(rows), "grpo", rule=2)
    with pytest.raises(DataError, match="has decisions but is not among the rollouts"):
        credit_store(decisions_of(rows), rollouts_of(rows).slice(1), "grpo")
    with pytest.raises(UsageError, match="no estimator"):
        credit_store(decisions_of(rows), rollouts_of(rows), "mcgpo")


def test_no_decisions_give_no_rows() -> None:
    rows = drawn(6)
    table = credit_store(decisions_of(rows).slice(0, 0), rollouts_of(rows), "graphgpo")
    assert table.num_rows == 0
    assert table.column_names[:4] == [*IDS, "episode_advantage"]
