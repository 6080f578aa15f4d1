"""What each estimator makes of groups and states that say little, or nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mcgpo_data.credit import ESTIMATORS, estimate

from .logs import drawn, log

EPISODE = ("grpo", "drgrpo", "rloo")
STEP = tuple(name for name in ESTIMATORS if name not in EPISODE)
PENALTY = {"invalid_penalty": 0.1}
VERL = {"episode_stats": "rows", "singleton": "raw", **PENALTY}


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_group_of_failures_gives_no_advantage_without_penalty(estimator: str) -> None:
    batch = log("S-a->A-x->S -", "S-!bad->S-b->B -", "S-b->B-y->A -").batch()
    assert not estimate(batch, estimator).columns["advantage"].any()


@pytest.mark.parametrize("estimator", ["grpo", "gigpo", "graphgpo", "g2po", "hgpo"])
def test_a_penalty_wakes_a_group_of_failures(estimator: str) -> None:
    batch = log("S-a->A-x->S -", "S-!bad->S-b->B -", "S-b->B-y->A -").batch()
    advantage = estimate(batch, estimator, **VERL).columns["advantage"]
    assert advantage[2] < 0  # the invalid step
    assert advantage[0] > 0  # another step of its state


@pytest.mark.parametrize("std", ["sample", "population", "none"])
def test_a_penalty_costs_one_deviation_at_most_where_deviations_do_not_know_of_it(std: str) -> None:
    batch = log("S-a->A -", "S-!bad->S-b->B -", group="failed") + log("S-a->A +", "S-!b->B -", group="mixed")
    episode = estimate(batch.batch(), "grpo", std=std, **PENALTY).columns["episode_advantage"]
    plain = estimate(batch.batch(), "grpo", std=std).columns["episode_advantage"]
    unit = {"sample": 50**0.5, "population": 5.0, "none": 1.0}[std]
    np.testing.assert_allclose(plain - episode, [0, 0.1 if std == "none" else 1, 0, 0, 0.1 / unit], atol=1e-5)


def test_with_rewards_as_its_place_a_penalty_leaves_the_graph_untouched() -> None:
    batch = log("S-a->A-x->S -", "S-!bad->S-b->B -").batch()
    columns = estimate(batch, "graphgpo", penalty_place="reward", **PENALTY).columns
    assert not columns["step_advantage"].any()
    assert columns["episode_advantage"].any()


def test_with_rewards_as_its_place_a_penalty_is_carried_back_to_earlier_steps() -> None:
    batch = log("S-a->A-!bad->A -", "S-a->A-b->B -").batch()
    earned = estimate(batch, "gigpo", penalty_place="reward", **PENALTY).columns["return"]
    np.testing.assert_allclose(earned, [-0.095, -0.1, 0, 0], atol=1e-12)


@pytest.mark.parametrize("estimator", ["grpo", "drgrpo", "rloo", "gigpo", "graphgpo", "ecpo", "hgpo", "crbc"])
def test_a_group_of_successes_has_an_episode_term_of_exactly_zero(estimator: str) -> None:
    batch = log("S-f->end +", "S-b->B-f->end +", "S-c->C-b->B-f->end +").batch()
    assert not estimate(batch, estimator).columns["episode_advantage"].any()


@pytest.mark.parametrize("estimator", ["gigpo", "graphgpo", "ecpo", "hgpo", "crbc"])
def test_a_state_with_one_step_has_a_step_term_of_zero(estimator: str) -> None:
    batch = log("S-a->A-b->B +", "T-a->C-b->D -").batch()
    assert not estimate(batch, estimator).columns["step_advantage"].any()


def test_a_lone_rollout_has_no_episode_term_unless_its_score_is_asked_for() -> None:
    batch = log("S-a->A-b->end +").batch()
    for estimator in EPISODE:
        assert not estimate(batch, estimator).columns["advantage"].any()
    assert estimate(batch, "rloo", singleton="raw").columns["advantage"].tolist() == [10.0, 10.0]
    assert estimate(batch, "drgrpo", singleton="raw").columns["advantage"].tolist() == [10.0, 10.0]
    np.testing.assert_allclose(estimate(batch, "grpo", singleton="raw").columns["advantage"], 10.0, atol=1e-4)


def test_counted_by_rows_a_lone_rollout_of_two_steps_is_no_singleton() -> None:
    batch = log("S-a->A-b->end +").batch()
    assert not estimate(batch, "grpo", episode_stats="rows", singleton="raw").columns["advantage"].any()


def test_counted_by_rows_a_long_rollout_moves_the_mean() -> None:
    batch = log("S-a->A-b->B-c->end +", "S-a->A -").batch()
    assert estimate(batch, "drgrpo", episode_stats="rows").columns["group_mean"].tolist() == [7.5] * 4
    assert estimate(batch, "drgrpo", episode_stats="rollouts").columns["group_mean"].tolist() == [5.0] * 4


@pytest.mark.parametrize("estimator", STEP)
def test_equal_values_have_no_variance_in_floating_point_either(estimator: str) -> None:
    """The return of the first step, 0.95^3 x 10, six times, summed and divided by six, is not that return."""
    line, first = "S-a->A-b->B-c->C-d->end +", 0.95 * (0.95 * (0.95 * 10))
    assert first + first + first + first + first + first != 6 * first
    columns = estimate(log(*[line] * 6).batch(), estimator).columns
    if estimator == "g2po":  # its second term compares steps of different states
        assert not columns["anchor_term"].any()
    else:
        assert not columns["step_advantage"].any()


def test_a_loop_never_shortens_a_distance_and_ranks_below_a_step_ahead() -> None:
    batch = log("S-a->S-a->S-b->A-c->end +", "S-b->A-a->A -").batch()
    columns = estimate(batch, "graphgpo").columns
    assert columns["distance"].tolist() == [2, 2, 2, 1, 2, 1]
    assert columns["next_distance"].tolist() == [2, 2, 1, 0, 1, 1]
    step = columns["step_advantage"]
    assert step[0] == step[1] < 0 < step[2] == step[4]


def test_a_rollout_that_loops_counts_once_per_visit() -> None:
    columns = estimate(log("S-a->S-a->S-b->end +", "S-b->X -").batch(), "gigpo").columns
    assert columns["anchor_size"].tolist() == [4, 4, 4, 4]


def test_states_from_which_nobody_succeeded_are_one_step_beyond_the_farthest() -> None:
    batch = log("S-a->A-b->B-c->end +", "S-x->D-y->E -").batch()
    columns = estimate(batch, "graphgpo").columns
    assert columns["distance"].tolist() == [3, 2, 1, 3, 4]
    assert columns["next_distance"].tolist() == [2, 1, 0, 4, 4]
    assert columns["reachable"].tolist() == [True, True, True, False, False]


def test_a_failed_rollout_may_end_in_a_state_on_the_way_to_success() -> None:
    batch = log("S-a->A-b->end +", "S-c->T-d->A -").batch()
    assert estimate(batch, "graphgpo").columns["next_distance"].tolist() == [1, 0, 2, 1]


def test_what_is_seen_after_success_is_no_state() -> None:
    """The last step of a solved rollout leads to success, even where the screen looks like an old one."""
    batch = log("S-a->A-b->S +", "S-c->X -").batch()
    assert estimate(batch, "graphgpo").columns["distance"].tolist() == [2, 1, 2]


def test_without_states_after_the_last_step_every_failure_ends_apart() -> None:
    rows = log("S-a->A-b->end +", "S-c->T-d->A -")
    assert estimate(rows.batch(next_state=None), "graphgpo").columns["next_distance"].tolist() == [1, 0, 3, 3]


def test_an_invalid_action_that_changes_nothing_is_a_loop() -> None:
    batch = log("S-!bad->S-a->A-b->end +", "S-a->A -").batch()
    columns = estimate(batch, "graphgpo").columns
    assert columns["next_distance"][0] == columns["distance"][0] == 2


def test_one_invalid_action_sets_the_scale_of_a_state_at_small_omega() -> None:
    """d(next) = 2, 3 and an invalid loop at d = 3: the valid but useless action changes sign."""
    batch = log("S-a->A-x->B-y->end +", "S-b->T-c->A -", "S-!bad->S -").batch()
    first = [0, 3, 5]
    plain = estimate(batch, "graphgpo", omega=0.1).columns["step_advantage"][first]
    loud = estimate(batch, "graphgpo", omega=0.1, **PENALTY).columns["step_advantage"][first]
    assert plain[1] < 0 < loud[1]


def test_the_paper_form_is_the_code_form_times_omega() -> None:
    batch = drawn(3).batch()
    code, paper = (estimate(batch, "graphgpo", value=form, step_std="none").columns for form in ("code", "paper"))
    np.testing.assert_allclose(paper["step_advantage"], 0.1 * code["step_advantage"], atol=1e-12)


def test_the_progress_form_measures_from_the_own_state() -> None:
    batch = log("S-a->A-b->end +", "S-c->S-a->A -").batch()
    assert estimate(batch, "graphgpo", value="progress", omega=0.5).columns["value"].tolist() == [10, 10, 5, 10]


def lucky(rare: str, common: list[str]) -> Any:
    lines = [f"S-common->X{i}-go->Z {sign}" for i, sign in enumerate(common)]
    return log(*lines, f"S-rare->Y-go->Z {rare}").batch()


def test_ecpo_keeps_its_shrinkage_where_a_state_has_two_actions() -> None:
    """One lucky try of a rare action is worth a third of its excess; standardised again, the most n values allow."""
    batch = lucky("+", ["+", "+", "-", "-", "-"])
    raw = estimate(batch, "ecpo", gate=False).columns["step_advantage"][-2]
    unshrunken = estimate(batch, "ecpo", gate=False, kappa=0).columns["step_advantage"][-2]
    assert raw == pytest.approx(unshrunken / 3, abs=1e-6)
    calibrated = estimate(batch, "ecpo", gate=False, sigma="calibrated").columns["step_advantage"][-2]
    assert calibrated == pytest.approx(5 / np.sqrt(6), abs=1e-4)  # (n-1)/sqrt(n): counts alone, whatever kappa is
    stronger = estimate(batch, "ecpo", gate=False, sigma="calibrated", kappa=50).columns["step_advantage"][-2]
    assert stronger == pytest.approx(calibrated, abs=1e-4)
    assert estimate(batch, "ecpo", gate=False, kappa=50).columns["step_advantage"][-2] < raw / 10


def test_ecpo_trusts_an_action_more_the_more_often_it_was_taken() -> None:
    def lift(tries: int) -> float:
        lines = [f"S-good->A{i}-go->Z +" for i in range(tries)] + [f"S-bad->B{i}-go->Z -" for i in range(tries)]
        return float(estimate(log(*lines).batch(), "ecpo", gate=False, step_std="none").columns["step_advantage"][0])

    assert [round(lift(n) / lift(1), 6) for n in (2, 3, 4)] == [1.5, 1.8, 2.0]  # 1/3, 1/2, 3/5, 2/3


def test_ecpo_opens_its_gate_with_support_and_with_what_actions_explain() -> None:
    columns = estimate(log("S-a->A +", "S-b->B -").batch(), "ecpo").columns
    assert columns["gate"][0] == pytest.approx(np.tanh(0.5), abs=1e-6)  # no variance within actions
    mixed = estimate(log("S-a->A +", "S-a->B -", "S-b->A +", "S-b->B -").batch(), "ecpo").columns
    assert not mixed["gate"].any()  # no variance between them


@pytest.mark.parametrize("estimator", ["ecpo", "crbc"])
def test_a_state_with_one_action_has_nothing_to_compare(estimator: str) -> None:
    assert not estimate(log("S-a->A +", "S-a->B -").batch(), estimator).columns["step_advantage"].any()


@pytest.mark.parametrize("estimator", ["ecpo", "crbc"])
def test_invalid_actions_are_one_class_whatever_they_said(estimator: str) -> None:
    rows = log("S-!a->S-c->A +", "S-!b->S-c->A -", "S-a->A +", "S-b->B -")
    step = estimate(rows.batch(), estimator).columns["step_advantage"]
    assert step[0] == step[2]
    assert step[4] != step[0]
    renamed = log("S-!x->S-c->A +", "S-!y->S-c->A -", "S-a->A +", "S-b->B -")
    np.testing.assert_array_equal(estimate(renamed.batch(), estimator).columns["step_advantage"], step)


def test_hgpo_levels_grow_with_the_history_that_others_share() -> None:
    batch = log("S-a->A-b->B-c->X +", "S-a->A-b->B-c->Y -", "T-a->B-c->Y -").batch()
    assert estimate(batch, "hgpo").columns["levels"].tolist() == [1, 2, 3, 1, 2, 3, 0, 1]


def test_hgpo_takes_the_episode_term_in_as_a_level() -> None:
    batch = log("S-a->A +", "S-b->B -").batch()
    columns = estimate(batch, "hgpo", base_group=True).columns
    np.testing.assert_allclose(columns["episode_advantage"], np.array([1, -1]) / np.sqrt(2) / 3, atol=1e-5)
    np.testing.assert_allclose(columns["step_advantage"], np.array([1, -1]) * 2 / 3, atol=1e-5)


def test_g2po_of_a_task_with_one_step_is_zero_and_finite() -> None:
    columns = estimate(log("S-a->end +").batch(), "g2po").columns
    assert not columns["group_term"].any()
    assert np.isfinite(columns["advantage"]).all()


def test_gagpo_values_the_last_state_of_a_cut_rollout_only_when_asked() -> None:
    rows = log("S-a->A-b->end +", "T-c->A -")
    cut = [False, False, True]
    plain = estimate(rows.batch(truncated=cut), "gagpo").columns["delta"]
    looked = estimate(rows.batch(truncated=cut), "gagpo", bootstrap=True).columns["delta"]
    ended = estimate(rows.batch(), "gagpo", bootstrap=True).columns["delta"]
    assert plain[2] == ended[2] == 0.0
    assert looked[2] == pytest.approx(9.5)


def test_crbc_counts_a_cut_rollout_as_a_failure() -> None:
    columns = estimate(log("S-a->end +", "S-b->S -").batch(), "crbc").columns
    assert columns["state_value"].tolist() == pytest.approx([0.49, 0.49])  # the failed loop leads to failure, not to S


def test_crbc_closes_a_cycle() -> None:
    """V = 0.98 (1/3 + V/3 + 0/3): one success, one step that comes back, one failure."""
    columns = estimate(log("S-b->S-a->end +", "S-c->X -").batch(), "crbc").columns
    assert columns["state_value"][0] == pytest.approx(0.98 / 3 / (1 - 0.98 / 3), abs=1e-10)
