"""From columns in any order to a `StepBatch`, with every check that the estimators rely on."""

from __future__ import annotations

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
        reward: immediate reward. Default: `score` at the last step of the rollout, else 0.
        score: episode score, equal on all rows of a rollout; NaN: unscored. Default: `success_reward` where it
            succeeded, else 0; without `success`, the sum of the rewards.
        success: whether the rollout solved its task, equal on all its rows; NaN: unscored. Default: score > 0.
        valid: whether the action was valid. Default: all were.
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
    n = len(groups)

    def rows(values: Any, name: str) -> Any:
        if len(values) != n:
            raise UsageError(f"{name} has {len(values)} rows, step has {n}; give one value per step.")
        return values if order is None else _taken(values, order)

    def numbers(values: Any, name: str) -> Floats:
        array = np.asarray(rows(values, name), np.float64)
        if not (np.abs(array[~np.isnan(array)]) <= LARGEST).all():
            raise DataError(f"{name}: numbers must be finite and at most {LARGEST:g} in size.")
        return array

    def per_rollout(values: Any, name: str) -> Floats:
        array = numbers(values, name)
        first = array[start]
        if not np.array_equal(array, np.repeat(first, lengths), equal_nan=True):
            raise DataError(f"{name} differs between the steps of a rollout; it is one number per rollout.")
        return first

    if reward is None and score is None and success is None:
        raise UsageError("No outcome: give success, score or reward.")
    lengths = np.diff(start, append=n)
    won = None if success is None else per_rollout(success, "success")
    earned = None if reward is None else numbers(reward, "reward")
    if earned is not None and np.isnan(earned).any():
        raise DataError("reward: a step has none; leave the column out, or give 0 where nothing was earned.")
    if score is not None:
        total = per_rollout(score, "score")
    elif won is not None:
        total = success_reward * won
    else:
        total = np.bincount(np.repeat(np.arange(len(start)), lengths), earned, len(start)).astype(np.float64)
    won = np.where(np.isnan(total), np.nan, total > 0) if won is None else won
    scored = ~(np.isnan(total) | np.isnan(won))
    total = np.where(scored, total, 0.0)
    if earned is None:
        earned = np.zeros(n, np.float64)
        earned[start + lengths - 1] = total
    states, final = _states(rows, state, next_state, start + lengths - 1)
    return StepBatch(
        group_of=groups[start],
        start=start,
        score=total,
        success=scored & (won != 0),
        scored=scored,
        truncated=_any_of(truncated, rows, start, n),
        final_state=final,
        reward=earned,
        valid=np.ones(n, bool) if valid is None else np.asarray(rows(valid, "valid"), bool),
        states=states,
        actions=None if action is None else apart(opaque(rows(action, "action"), name="action")[0]),
        order=order,
    )


def _taken(values: Any, order: Ints) -> Any:
    if isinstance(values, np.ndarray) or not hasattr(values, "take"):
        return np.asanyarray(values, object if isinstance(values, list | tuple) else None)[order]
    return values.take(order)


def _any_of(flags: Any, rows: Any, start: Ints, n: int) -> Bools:
    if flags is None or not n:
        return np.zeros(len(start), bool)
    return np.logical_or.reduceat(np.asarray(rows(flags, "truncated"), bool), start)


def _sorted(group: Any, rollout: Any, step: Any) -> tuple[Ints, Ints | None, Ints]:
    """(group code per row, the order that sorts the rows or None, first row of each rollout)."""
    (groups, _), (rollouts, ids) = ranked(group, "group"), ranked(rollout, "rollout")
    steps = np.asarray(step).astype(np.int64)
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


def _states(rows: Any, state: Any, next_state: Any, last: Ints) -> tuple[Ints | None, Ints]:
    """(code of the state before each step, code of the state after the last step of each rollout or -1)."""
    if state is None:
        return None, np.full(len(last), -1)
    if next_state is None:
        return apart(opaque(rows(state, "state"), name="state")[0]), np.full(len(last), -1)
    states, after = opaque(rows(state, "state"), rows(next_state, "next_state"), name="state")
    both = (after[:-1] >= 0) & (states[1:] >= 0)
    both[last[:-1]] = False
    broken = np.flatnonzero(both & (after[:-1] != states[1:]))
    if len(broken):
        raise DataError(
            f"next_state: {len(broken)} steps do not lead to the state of the step after them; "
            "compare the states that were logged before and after each action."
        )
    return apart(states), after[last]
