"""What the estimators read: the steps of whole groups of rollouts as NumPy columns in one canonical order.

Rows are sorted by (group, rollout, step), whatever order they were given in, and every sum runs in that order
inside its group: results depend neither on the order of the rows nor on which other groups are in the batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from mcgpo_data.credit.keys import Bools, Floats, Ints, Pairs
from mcgpo_data.errors import UsageError


@dataclass(frozen=True)
class StepBatch:
    """N steps of M rollouts of G groups; made by `from_columns`.

    Attributes:
        group_of: group of each rollout, ascending, shape (M,), 0..G-1.
        start: first row of each rollout, shape (M,).
        score: episode score of each rollout, on the scale of the rewards, shape (M,); 0 where unscored.
        success: whether the rollout solved its task, shape (M,).
        scored: whether its outcome is known, shape (M,). Unscored rollouts are no evidence and get no advantage.
        truncated: whether a limit cut it, shape (M,).
        final_state: code of the state after the last action, shape (M,); -1 unknown.
        reward: reward of each step, shape (N,).
        valid: whether the action of the step was valid, shape (N,).
        states: code of the state before each action, shape (N,); None where no states were given.
        actions: code of each action, shape (N,); None where no actions were given.
        order: row of the input that became each row, shape (N,); None where the input was in order.
    """

    group_of: Ints
    start: Ints
    score: Floats
    success: Bools
    scored: Bools
    truncated: Bools
    final_state: Ints
    reward: Floats
    valid: Bools
    states: Ints | None
    actions: Ints | None
    order: Ints | None

    def __len__(self) -> int:
        return len(self.reward)

    @property
    def groups(self) -> int:
        """Number of groups G."""
        return int(self.group_of[-1]) + 1 if len(self.group_of) else 0

    @cached_property
    def length(self) -> Ints:
        """Number of steps of each rollout, shape (M,)."""
        return np.diff(self.start, append=len(self))

    @cached_property
    def last(self) -> Ints:
        """Last row of each rollout, shape (M,)."""
        return self.start + self.length - 1

    @cached_property
    def rollout(self) -> Ints:
        """Rollout of each row, shape (N,)."""
        return np.repeat(np.arange(len(self.start)), self.length)

    @cached_property
    def group(self) -> Ints:
        """Group of each row, shape (N,)."""
        return np.repeat(self.group_of, self.length)

    @cached_property
    def group_size(self) -> Ints:
        """Number of rollouts of each group, shape (G,)."""
        return np.bincount(self.group_of, minlength=self.groups)

    @cached_property
    def anchors(self) -> Pairs:
        """(group, state) of each row: the steps that were taken in one state of one task.

        Raises:
            UsageError: the batch has no states.
        """
        if self.states is None:
            raise UsageError("This estimator compares steps taken in equal states; give the states of the steps.")
        return Pairs.of(self.group, self.states)

    @cached_property
    def choices(self) -> Pairs:
        """(anchor, action) of each row. Invalid actions are one class of their own, never merged with valid ones.

        Raises:
            UsageError: the batch has no states or no actions.
        """
        if self.actions is None:
            raise UsageError("This estimator compares actions; give the actions of the steps.")
        return Pairs.of(self.anchors.codes, np.where(self.valid, self.actions + 1, 0))

    @cached_property
    def _waves(self) -> list[tuple[int, Ints]]:
        """For k = 0, 1, ...: how many rollouts are longer than k, and their rows at distance k from the end."""
        longest = np.argsort(-self.length, kind="stable")
        ends, lengths = self.last[longest], -self.length[longest]
        counts = np.searchsorted(lengths, -np.arange(1, int(self.length.max(initial=0)) + 1), side="right")
        return [(int(count), ends[:count] - k) for k, count in enumerate(counts)]

    def backward(self, values: Floats, factor: float) -> Floats:
        """y_t = values_t + factor * y_{t+1} within each rollout; y after the last step is 0.

        Cost: O(N) in as many array operations as the longest rollout has steps.
        """
        out = np.empty(len(self))
        carried = np.zeros(len(self.start))
        for count, rows in self._waves:
            carried = values[rows] + factor * carried[:count]
            out[rows] = carried
        return out

    def known(self) -> tuple[StepBatch, Ints | None]:
        """(the scored rollouts alone, their rows here; None where all are scored)."""
        if self.scored.all():
            return self, None
        keep = self.scored
        rows = np.flatnonzero(np.repeat(keep, self.length))
        group_of = np.cumsum(np.diff(self.group_of[keep], prepend=-1) != 0) - 1
        ends = np.cumsum(self.length[keep])
        return StepBatch(
            group_of=group_of,
            start=ends - self.length[keep],
            score=self.score[keep],
            success=self.success[keep],
            scored=self.scored[keep],
            truncated=self.truncated[keep],
            final_state=self.final_state[keep],
            reward=self.reward[rows],
            valid=self.valid[rows],
            states=None if self.states is None else self.states[rows],
            actions=None if self.actions is None else self.actions[rows],
            order=None,
        ), rows

    def as_given(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A column of this batch in the order of the rows that it was made from."""
        if self.order is None:
            return values
        out = np.empty_like(values)
        out[self.order] = values
        return out
