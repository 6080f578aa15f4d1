"""Whole rollouts of one file, put together from the pieces that a reader gives, and what a build will say of them."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

from mcgpo_data.readers.base import Report, Rollout


@dataclass(slots=True)
class _Attempt:
    """One rollout. Its step numbers are `first` to `after` (exclusive), and the `others`."""

    row: int
    first: int
    after: int
    others: set[int] = field(default_factory=set)
    outcome: float | None = None
    outcome_row: int = 0
    outcome_step: int = -1
    success: bool | None = None
    low: float | None = None
    high: float | None = None

    def number(self, index: int) -> bool:
        """Take in a step number; False where it was there already."""
        if self.first <= index < self.after or index in self.others:
            return False
        self.others.add(index)
        while self.after in self.others:
            self.others.remove(self.after)
            self.after += 1
        return True

    def missing(self) -> int | None:
        """The first step number that is not there; numbers may begin with 0 or 1."""
        numbers = self.others | {self.first}
        if min(numbers) > 1:
            return 0
        return next((n for n in range(min(numbers), max(numbers)) if not self._has(n)), None)

    def _has(self, index: int) -> bool:
        return self.first <= index < self.after or index in self.others


class Attempts:
    """All rollouts of one file."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.facts: Counter[str] = Counter(steps=0, rollouts=0, graded=0)
        self._named: dict[str, _Attempt] = {}

    def add(self, rollout: Rollout) -> None:
        """Take in a rollout, or a piece of one."""
        name, start, end = rollout.rollout_id, rollout.first_step, rollout.first_step + len(rollout.steps)
        self.facts["steps"] += len(rollout.steps)
        attempt = None if name is None else self._named.get(name)
        if attempt is None:
            attempt = _Attempt(rollout.row, start, end)
            self.facts["rollouts"] += 1
            self.facts[f"group_source {rollout.group_source}"] += 1
            self.facts["order not trusted"] += not rollout.order_trusted
            if name is not None:
                self._named[name] = attempt
        else:
            for index in range(start, end):
                if not attempt.number(index):
                    self.report.warn(
                        "step number twice in one rollout: a build takes equal steps once and stops at different ones",
                        rollout.row,
                        f"step {index} of {name}",
                    )
        if rollout.outcome is not None and start >= attempt.outcome_step:
            attempt.outcome, attempt.outcome_row, attempt.outcome_step = rollout.outcome, rollout.row, start
        attempt.success = attempt.success if rollout.success is None else rollout.success
        attempt.low = attempt.low if rollout.outcome_min is None else rollout.outcome_min
        attempt.high = attempt.high if rollout.outcome_max is None else rollout.outcome_max
        if name is None:
            self._close(attempt, None)

    def close(self) -> None:
        """Tell what only whole rollouts show."""
        for name, attempt in self._named.items():
            self._close(attempt, name)
        if self.facts["rollouts"] and not self.facts["graded"]:
            self.report.warn(
                "no graded outcome in this file: name it with a mapping (in native logs: `success` or `outcome`)",
                count=self.facts["rollouts"],
            )

    def _close(self, attempt: _Attempt, name: str | None) -> None:
        self.facts["graded"] += attempt.outcome is not None or attempt.success is not None
        gap = attempt.missing()
        if gap is not None:
            self.report.warn(
                "rollout with missing steps: not trusted in order", attempt.row, f"no step {gap} of {name}"
            )
        if attempt.outcome is None or attempt.success is not None:
            return
        low = 0.0 if attempt.low is None else attempt.low
        high = 1.0 if attempt.high is None else attempt.high
        if not (low < high and math.isfinite(high - low)):
            self.report.warn(
                "declared scale of the outcome is not LOW < HIGH", attempt.outcome_row, f"{low:g}, {high:g}"
            )
        elif not low <= attempt.outcome <= high:
            declared = attempt.low is not None or attempt.high is not None
            self.report.warn(
                "outcome outside its declared scale: a build stops, unless --outcome-range LOW,HIGH overrules it"
                if declared
                else "outcome outside [0, 1] and no scale declared: a build needs --outcome-range LOW,HIGH",
                attempt.outcome_row,
                f"{attempt.outcome:g}",
            )
