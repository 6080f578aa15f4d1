"""Every estimator against its formulas in plain Python, on random logs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given

from mcgpo_data.credit import estimate

from . import plain
from .logs import Log, few, log, random_logs


def by_group(rows: Log, penalty: float) -> list[tuple[list[int], plain.Rollouts]]:
    """(rows, rollouts of dicts) of each group, in the order of the log."""
    out = []
    for _, members in itertools.groupby(range(len(rows)), key=lambda row: rows.group[row]):
        here = list(members)
        rollouts: plain.Rollouts = []
        for row in here:
            if rows.step[row] == 0:
                rollouts.append([])
            rollouts[-1].append(
                {
                    "state": rows.state[row],
                    "after": rows.next_state[row],
                    "action": rows.action[row] if rows.valid[row] else "INVALID",
                    "won": rows.success[row],
                    "penalty": 0.0 if rows.valid[row] else penalty,
                }
            )
        out.append((here, rollouts))
    return out


@pytest.mark.parametrize("penalty", [0.0, 0.1])
@pytest.mark.parametrize("estimator", plain.ESTIMATORS)
@given(rows=random_logs)
@few
def test_the_step_term_is_that_of_the_plain_formula(estimator: str, penalty: float, rows: Log) -> None:
    got = estimate(rows.batch(), estimator, invalid_penalty=penalty).columns["step_advantage"]
    for here, rollouts in by_group(rows, penalty):
        np.testing.assert_allclose(got[here], plain.ESTIMATORS[estimator](rollouts), rtol=0, atol=1e-8)


@given(rows=random_logs)
@few
def test_distances_are_those_of_an_exhaustive_search(rows: Log) -> None:
    columns = estimate(rows.batch(), "graphgpo").columns
    for here, rollouts in by_group(rows, 0.0):
        distance = plain.distance_to_success(rollouts)
        assert [distance[rows.state[row]] for row in here] == columns["distance"][here].tolist()


@pytest.mark.parametrize(
    "std, wanted",
    [
        ("sample", [1.0, 1.0, -1.0, 0.0]),
        ("population", [1.5**0.5, 1.5**0.5, -(1.5**0.5), 0.0]),
        ("none", [5, 5, -5, 0]),
    ],
)
def test_grpo_divides_by_the_deviation_asked_for(std: str, wanted: list[float]) -> None:
    rows = log("S-a->S-a->x +", "S-a->x -", "S-a->x -").batch(success=None, score=[10.0, 10.0, 0.0, 5.0])
    np.testing.assert_allclose(estimate(rows, "grpo", std=std).columns["advantage"], wanted, atol=1e-5)
