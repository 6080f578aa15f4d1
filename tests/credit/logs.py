"""Small logs for tests: written by hand as text, or drawn at random."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from mcgpo_data.credit import StepBatch, from_columns


@dataclass
class Log:
    """Columns of a log, in the order of its rows."""

    group: list[Any] = field(default_factory=list)
    rollout: list[Any] = field(default_factory=list)
    step: list[int] = field(default_factory=list)
    state: list[Any] = field(default_factory=list)
    action: list[Any] = field(default_factory=list)
    next_state: list[Any] = field(default_factory=list)
    success: list[Any] = field(default_factory=list)
    valid: list[bool] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.step)

    def batch(self, **changed: Any) -> StepBatch:
        columns = {**vars(self), **changed}
        return from_columns(columns.pop("group"), columns.pop("rollout"), columns.pop("step"), **columns)

    def taken(self, rows: Any) -> Log:
        """These rows in this order."""
        return Log(**{name: [column[row] for row in rows] for name, column in vars(self).items()})

    def __add__(self, other: Log) -> Log:
        return Log(**{name: column + getattr(other, name) for name, column in vars(self).items()})


def log(*rollouts: str, group: str = "g") -> Log:
    """A log from lines like `S-a->A-!b->A-c->end +`: states, actions (! invalid), the state at the end, + success."""
    out = Log()
    for number, line in enumerate(rollouts):
        path, _, sign = line.rpartition(" ")
        first, *moves = path.split("->")
        state, action = first.split("-")
        for t, move in enumerate(moves):
            after, _, following = move.partition("-")
            out.group.append(group)
            out.rollout.append(f"{group}{number}")
            out.step.append(t)
            out.state.append(state)
            out.action.append(action.removeprefix("!"))
            out.next_state.append(after)
            out.success.append(sign == "+")
            out.valid.append(not action.startswith("!"))
            state, action = after, following
    return out


def drawn(seed: int, groups: int = 3, rollouts: int = 5, longest: int = 7, states: int = 4, actions: int = 3) -> Log:
    """A random log; some actions are invalid and change nothing, some rollouts end in states that others visit."""
    rng = np.random.default_rng(seed)
    out = Log()
    for g in range(groups):
        for r in range(int(rng.integers(1, rollouts + 1))):
            won = bool(rng.random() < 0.4)
            state = int(rng.integers(states))
            for t in range(int(rng.integers(1, longest + 1))):
                valid = bool(rng.random() < 0.85)
                after = int(rng.integers(states + 2)) if valid else state
                out.group.append(g)
                out.rollout.append(100 * g + r)
                out.step.append(t)
                out.state.append(state)
                out.action.append(int(rng.integers(actions)))
                out.next_state.append(after)
                out.success.append(won)
                out.valid.append(valid)
                state = after
    return out


few = settings(max_examples=40, deadline=None)
random_logs = st.builds(
    drawn, st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 6), st.integers(1, 9), st.integers(1, 6)
)
