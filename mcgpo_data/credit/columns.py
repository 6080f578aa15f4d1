"""From columns in any order to a `StepBatch`, with every check that the estimators rely on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from mcgpo_data.credit.batch import StepBatch
from mcgpo_data.credit.keys import Bools, Floats, Ints, apart, opaque, ranked
from mcgpo_data.errors import DataError, UsageError

LARGEST: Final = 1e100  # squares of larger numbers, summed over a batch, could leave the range of float64
SUCCESS_REWARD: Final = 10.0  # reward of a solved task in the reference code


def from_columns(
    group: Any,
    rollout: Any,
    step: Any,
    *,
    state: Any = None,
    action: Any = None,
    next_state: Any = None,
    reward: Any = None,
    score: Any = None,
    success: Any = None,
    valid: Any = None,
    truncated: Any = None,
    success_reward: float = SUCCESS_REWARD,
) -> StepBatch:
    """A batch of whole groups from one value per step. At least one of `reward`, `score` and `success` is needed.

    Args:
        group: id of the group, integer or string.
        rollout: id of the rollout, integer or string; a rollout belongs to one group.
        step: position in the rollout; consecutive integers, rows in any order.
        state: key of the state before the action, integer or string; missing (null, masked) where unknown.
        action: key of the action, integer or string.
        next_state: key of the state after the action; used at the last step of each rollout, checked at the others.
        reward: immediate reward; NaN: not logged, its rollout is unscored. Default: `score` at the last step, else 0.
        score: episode score, equal on all rows of a rollout; NaN: unscored. Default: the sum of the rewards; without
            `reward`, `success_reward` where it succeeded, else 0.
        success: whether the rollout solved its task, equal on all its rows; NaN: unscored. Default: score > 0.
        valid: whether the action was valid; missing counts as valid. Default: all were.
        truncated: whether a limit cut the rollout here. Default: nowhere.
        success_reward: score of a solved task where none is given.

    Raises:
        UsageError: columns of different lengths, or no outcome at all.
        DataError: a missing id, a step that is missing or there twice, a rollout in two groups, values that differ
            within a rollout, numbers that are not finite, or a next state that is not the state of the next step.

    Example:
        >>> batch = from_columns([0, 0], ["a", "b"], [0, 0], success=[True, False])
    """
    groups, order, start = _sorted(group, rollout, step)
    given = _Given(order, start, len(groups))
    if reward is None and score is None and success is None:
        raise UsageError("No outcome: give success, score or reward.")
    score_of, won, earned = _outcomes(given, reward, score, success, success_reward)
    scored = ~(np.isnan(score_of) | np.isnan(won) | given.any(np.isnan(earned)))
    states, final = _states(given, state, next_state)
    return StepBatch(
        group_of=groups[start],
        start=start,
        score=np.where(scored, score_of, 0.0),
        success=scored & (won != 0),
        scored=scored,
        truncated=given.any(given.flags(truncated, "truncated", missing=False)),
        final_state=final,
        reward=np.where(np.isnan(earned), 0.0, earned),
        valid=given.flags(valid, "valid", missing=True),
        states=states,
        actions=None if action is None else apart(opaque(given.rows(action, "action"), name="action")[0]),
        order=order,
    )


@dataclass(frozen=True)
class _Given:
    """How given columns are brought into canonical order and checked."""

    order: Ints | None
    start: Ints
    n: int

    @property
    def lengths(self) -> Ints:
        return np.diff(self.start, append=self.n)

    @property
    def rollout(self) -> Ints:
        return np.repeat(np.arange(len(self.start)), self.lengths)

    def rows(self, values: Any, name: str) -> Any:
        if len(values) != self.n:
            raise UsageError(f"{name} has {len(values)} rows, step has {self.n}; give one value per step.")
        if self.order is None:
            return values
        if isinstance(values, list | tuple):
            return [values[row] for row in self.order.tolist()]
        return values[self.order] if isinstance(values, np.ndarray) else values.take(self.order)

    def numbers(self, values: Any, name: str) -> Floats:
        """As float64, NaN where missing."""
        try:
            array = np.asarray(self.rows(values, name), np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"{name}: must be numbers, or missing ({error}).") from error
        if not (np.isnan(array) | (np.abs(array) <= LARGEST)).all():
            raise DataError(f"{name}: numbers must be finite and at most {LARGEST:g} in size.")
        return array

    def per_rollout(self, values: Any, name: str) -> Floats:
        array = self.numbers(values, name)
        first = array[self.start]
        if not np.array_equal(array, first[self.rollout], equal_nan=True):
            raise DataError(f"{name} differs between the steps of a rollout; it is one number per rollout.")
        return first

    def flags(self, values: Any, name: str, *, missing: bool) -> Bools:
        if values is None:
            return np.full(self.n, missing)
        array = self.numbers(values, name)
        return np.where(np.isnan(array), missing, array != 0)

    def any(self, flags: Bools) -> Bools:
        """Whether a flag is set at some step of each rollout."""
        return np.bincount(self.rollout, flags, len(self.start)) > 0


def _outcomes(
    given: _Given, reward: Any, score: Any, success: Any, success_reward: float
) -> tuple[Floats, Floats, Floats]:
    """(score of each rollout, 1 where it succeeded, reward of each step); NaN where unknown."""
    earned = None if reward is None else given.numbers(reward, "reward")
    won = None if success is None else given.per_rollout(success, "success")
    if score is not None:
        total = given.per_rollout(score, "score")
    elif earned is not None:
        total = np.bincount(given.rollout, earned, len(given.start)).astype(np.float64)
    else:
        total = success_reward * np.asarray(won, np.float64)
    if won is None:
        won = np.where(np.isnan(total), np.nan, total > 0)
    if earned is None:
        earned = np.zeros(given.n)
        earned[given.start + given.lengths - 1] = total
    return total, won, earned


def _sorted(group: Any, rollout: Any, step: Any) -> tuple[Ints, Ints | None, Ints]:
    """(group code per row, the order that sorts the rows or None, first row of each rollout)."""
    (groups, _), (rollouts, ids) = ranked(group, "group"), ranked(rollout, "rollout")
    steps = _steps(step)
    if not len(groups) == len(rollouts) == len(steps):
        raise UsageError(f"group, rollout and step have {len(groups)}, {len(rollouts)} and {len(steps)} rows.")
    home = np.zeros(len(ids), np.int64)
    home[rollouts] = groups
    if (home[rollouts] != groups).any():
        raise DataError(f"rollout {ids[rollouts[np.argmax(home[rollouts] != groups)]]!r} is in two groups.")
    rank = np.empty(len(ids), np.int64)  # position of each rollout among all, by (group, rollout)
    rank[np.argsort(home, kind="stable")] = np.arange(len(ids))
    place = rank[rollouts]
    low = int(steps.min(initial=0))
    keys = place * (int(steps.max(initial=0)) - low + 1) + (steps - low)
    order = None if (keys[1:] > keys[:-1]).all() else np.argsort(keys)
    if order is not None:
        groups, rollouts, steps, place = groups[order], rollouts[order], steps[order], place[order]
    start = np.flatnonzero(np.diff(place, prepend=-1))
    jump = np.flatnonzero((np.diff(steps) != 1) & (np.diff(place) == 0))
    if len(jump):
        row = int(jump[0])
        raise DataError(
            f"rollout {ids[rollouts[row]]!r}: step {steps[row]} is followed by step {steps[row + 1]}; "
            "give every step once, numbered without gaps."
        )
    return groups, order, start


def _steps(step: Any) -> Ints:
    given = np.asarray(step)
    try:
        with np.errstate(invalid="ignore"):
            steps = given.astype(np.int64)
    except (TypeError, ValueError) as error:
        raise DataError(f"step: must be integers ({error}).") from error
    if (steps != given).any() or steps.min(initial=0) < -(2**31) or steps.max(initial=0) >= 2**31:
        raise DataError("step: must be integers of 32 bits.")
    return steps


def _states(given: _Given, state: Any, next_state: Any) -> tuple[Ints | None, Ints]:
    """(code of the state before each step, code of the state after the last step of each rollout or -1)."""
    last = given.start + given.lengths - 1
    if state is None:
        return None, np.full(len(last), -1)
    if next_state is None:
        return apart(opaque(given.rows(state, "state"), name="state")[0]), np.full(len(last), -1)
    states, after = opaque(given.rows(state, "state"), given.rows(next_state, "next_state"), name="state")
    both = (after[:-1] >= 0) & (states[1:] >= 0)
    both[last[:-1]] = False
    broken = np.flatnonzero(both & (after[:-1] != states[1:]))
    if len(broken):
        raise DataError(
            f"next_state: {len(broken)} steps do not lead to the state of the step after them; "
            "compare the states that were logged before and after each action."
        )
    return apart(states), after[last]
