"""Estimators side by side."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from mcgpo_data.credit.compare import PairRows, agreement, compare, invalid_effect, signal, signal_counts, with_pairs
from mcgpo_data.credit.table import credit_store
from mcgpo_data.errors import UsageError

from .logs import drawn, few, log
from .stores import decisions_of, rollouts_of


def table(step: list[float], group: list[str] | None = None, **more: Any) -> pa.Table:
    """A table as `credit_store` makes them, with these step advantages; the episode term is 0."""
    n = len(step)
    columns = {
        "group_id": pa.array(group or ["g"] * n, pa.string()),
        "rollout_id": pa.array([f"r{i}" for i in range(n)], pa.string()),
        "step_index": pa.array([0] * n, pa.int32()),
        "step_advantage": pa.array(step, pa.float64()),
        "advantage": pa.array(step, pa.float64()),
        "scored": pa.array([True] * n, pa.bool_()),
        "valid": pa.array([True] * n, pa.bool_()),
        "anchor_size": pa.array([2] * n, pa.int64()),
    }
    return pa.table({**columns, **more})


def signal_of(table: pa.Table) -> dict[str, Any]:
    return signal(signal_counts(table))


def test_signal_counts_steps_and_groups_that_say_something() -> None:
    found = signal_of(table([0.5, 0.0, 1e-12, 0.0], ["a", "a", "b", "b"], anchor_size=[2, 2, 1, 3]))
    assert found == {
        "steps": 4,
        "groups": 2,
        "with_step_signal": 0.25,
        "alone": 0.25,
        "collapsed": 0.5,
        "collapsed_steps": 0.5,
    }


def test_an_episode_term_keeps_a_group_from_collapsing() -> None:
    found = signal_of(table([0.0, 0.0], advantage=[1.0, -1.0]))
    assert (found["collapsed"], found["collapsed_steps"]) == (0.0, 1.0)


def test_unscored_steps_are_not_counted() -> None:
    found = signal_of(table([0.5, 0.0, 0.0], ["a", "a", "b"], scored=[True, True, False]))
    assert (found["steps"], found["groups"], found["with_step_signal"]) == (2, 1, 0.5)


def test_nothing_to_count_is_none_and_not_a_number() -> None:
    empty = table([])
    assert signal_of(empty)["with_step_signal"] is None
    assert agreement(empty, empty) == {"both": None, "same_sign": None, "pearson": None, "spearman": None}
    assert agreement(table([1.0, 1.0]), table([1.0, 2.0]))["pearson"] is None
    assert invalid_effect(empty, empty)["mean_invalid"] is None


def test_signs_are_compared_where_both_speak() -> None:
    found = agreement(table([1.0, -1.0, 2.0, 0.0]), table([0.5, 1.0, 0.0, 3.0]))
    assert (found["both"], found["same_sign"]) == (0.5, 0.5)


values = st.lists(st.tuples(st.sampled_from([-2.0, -1.0, 0.0, 0.5, 7.0]), st.floats(-5, 5)), min_size=3, max_size=20)


@few
@given(values)
@example([(-2.0, 2.841), (-2.0, 2.841), (-1.0, 2.841)])  # the mean of three times 2.841 is another number
def test_correlations_are_those_of_scipy(pairs: list[tuple[float, float]]) -> None:
    a, b = [pair[0] for pair in pairs], [round(pair[1], 3) for pair in pairs]
    found = agreement(table(a), table(b))
    if len(set(a)) < 2 or len(set(b)) < 2:
        assert found["pearson"] is found["spearman"] is None
    else:
        assert found["pearson"] == pytest.approx(stats.pearsonr(a, b).statistic, abs=1e-9)
        assert found["spearman"] == pytest.approx(stats.spearmanr(a, b).statistic, abs=1e-9)


def test_tables_of_different_steps_are_refused() -> None:
    with pytest.raises(UsageError, match="not of the same steps"):
        agreement(table([1.0, 2.0]), table([1.0]))


def pairs_of(*rows: tuple[str, str, float]) -> pa.Table:
    return pa.table(
        {
            "chosen_rollout_id": pa.array([chosen for chosen, _, _ in rows], pa.string()),
            "chosen_step": pa.array([0] * len(rows), pa.int32()),
            "rejected_rollout_id": pa.array([rejected for _, rejected, _ in rows], pa.string()),
            "rejected_step": pa.array([0] * len(rows), pa.int32()),
            "weight": pa.array([weight for _, _, weight in rows], pa.float64()),
        }
    )


def test_a_pair_agrees_when_the_chosen_step_has_the_larger_advantage() -> None:
    credit = table([3.0, 1.0, 1.0, 0.0], scored=[True, True, True, False])
    pairs = pairs_of(("r0", "r1", 0.5), ("r1", "r0", 0.25), ("r1", "r2", 0.25), ("r0", "r3", 1.0), ("r0", "lost", 1.0))
    found = with_pairs(credit, PairRows.of(credit, pairs))
    assert found == {"pairs": 3, "agree": 1 / 3, "tied": 1 / 3, "agree_weighted": 0.5}


def test_without_pairs_there_is_nothing_to_agree_on() -> None:
    credit = table([1.0])
    found = with_pairs(credit, PairRows.of(credit, pairs_of()))
    assert found == {"pairs": 0, "agree": None, "tied": None, "agree_weighted": None}


def test_what_a_penalty_does_beyond_the_invalid_steps() -> None:
    rows = log("S-a->A -", "S-b->B -", "S-!c->S -", group="failed") + log("S-a->A +", "S-b->B -", group="mixed")
    tables = [
        credit_store(decisions_of(rows), rollouts_of(rows), "gigpo", {"invalid_penalty": penalty})
        for penalty in (0, 0.1)
    ]
    found = invalid_effect(*tables)
    assert found["invalid"] == 0.2
    assert found["mean_invalid"] == 0.0
    assert found["mean_invalid_penalised"] < -1
    assert (found["valid_moved"], found["valid_flipped"], found["groups_woken"]) == (0.5, 0.0, 0.5)


def test_a_sign_that_a_penalty_turns_is_counted() -> None:
    before, after = table([-1.0, 1.0, 2.0], valid=[True, False, True]), table([1.0, -1.0, 2.0])
    assert invalid_effect(before, after)["valid_flipped"] == 0.5


def leaves(found: Any) -> Iterator[Any]:
    for value in found.values():
        yield from leaves(value) if isinstance(value, dict) else [value]


def test_counts_of_parts_add_up_to_those_of_the_whole() -> None:
    rows = drawn(3, groups=5)
    whole = credit_store(decisions_of(rows), rollouts_of(rows), "gigpo")
    groups = sorted(set(whole["group_id"].to_pylist()))
    parts = [whole.filter(pc.equal(whole["group_id"], group)) for group in groups]
    assert sum((signal_counts(part) for part in parts), Counter()) == +signal_counts(whole)


def test_everything_at_once_is_plain_data() -> None:
    rows = drawn(3, groups=5)
    tables = {
        name: credit_store(decisions_of(rows), rollouts_of(rows), name) for name in ("grpo", "gigpo", "graphgpo")
    }
    step = tables["grpo"].select(["rollout_id", "step_index"]).to_pylist()
    pairs = pairs_of(*[(step[i]["rollout_id"], step[i + 1]["rollout_id"], 1.0) for i in range(3)])
    penalties = {name: (table, table) for name, table in tables.items()}
    found = compare(tables, PairRows.of(tables["grpo"], pairs), penalties)
    assert list(found["agreement"]) == ["grpo/gigpo", "grpo/graphgpo", "gigpo/graphgpo"]
    assert found["signal"]["grpo"]["with_step_signal"] == 0.0
    assert set(found["with_pairs"]) == set(tables)
    assert set(found["invalid"]) == set(tables)
    numbers = list(leaves(found))
    assert all(value is None or (isinstance(value, int | float) and math.isfinite(value)) for value in numbers)
    assert compare(tables).keys() == {"signal", "agreement"}
