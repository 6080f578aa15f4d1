"""Puts step rows that carry no trajectory id together to rollouts, where that is certain.

The prompt of step n+1 repeats the observations and actions of the steps before it. So its rollout is one whose row of
step n has the task, the observation and the action that the prompt shows, an agreeing history and the same score.
Rollouts that did literally the same so far and have one score are interchangeable: whichever of them continues, the
sequences of observations, actions and outcomes are the same. Where rollouts with *different* pasts fit, or none, the
row is skipped, and so are the rows that build on it.

A row may be there several times: because rollouts said the same, or as padding. As many rollouts may pass through it
as there are copies; copies that no later row asks for are padding.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from mcgpo_data.readers.base import Report, Step
from mcgpo_data.readers.messages import digest
from mcgpo_data.readers.verl_prompt import Prompt

PENALTY = 0.1 + 1e-6  # taken off the score of one row for an invalid action, with room for 32-bit rounding
LAST_CHARACTERS = 30  # of a response without a tag: what verl-agent hands to the environment as its action


@dataclass(slots=True)
class Row:
    """One step, read."""

    place: int
    record: dict[str, Any]
    step: Step
    prompt: Prompt | None
    score: float | None

    @property
    def text(self) -> tuple[str, str]:
        """What makes a copy a copy."""
        return str(self.record.get("input")), str(self.record.get("output"))

    @property
    def shown_as(self) -> str:
        """How this action stands in the history of later prompts."""
        said = self.step.action_text or str(self.record.get("output")).strip()[-LAST_CHARACTERS:]
        return said.strip().lower()


@dataclass(slots=True, eq=False)
class _Thread:
    """A rollout being put together."""

    row: Row
    prompt: Prompt
    copies: int
    before: _Thread | None = None
    used: int = 0  # copies that later rows asked for
    past: tuple[tuple[str, str], ...] = field(default=())  # (observation, action as shown) of all steps

    @property
    def score(self) -> float | None:
        """Highest score so far: that without a penalty."""
        scores = [s for s in (self.row.score, self.before.score if self.before else None) if s is not None]
        return max(scores, default=None)


def thread_rows(rows: Iterable[Row], report: Report) -> list[list[Row]]:
    """Rows of each rollout of one global step, in time order; rows that fit nowhere are told to `report`."""
    by_step: dict[int, list[tuple[Row, Prompt]]] = defaultdict(list)
    for row in rows:
        if row.prompt is None:
            report.skip("step row without trajectory id and without step number", row.place)
        else:
            by_step[row.prompt.step].append((row, row.prompt))
    threads: list[_Thread] = []
    current: list[_Thread] = []
    lost = 0
    for step in sorted(by_step):
        before = current if current and len(current[0].past) == step - 1 else []
        current = _advance(_with_copies(by_step[step]), step, before)
        for thread in current:
            if thread.before is None and step > 1:
                reason = "step row without trajectory id: no or no single rollout fits"
                report.skip(reason, thread.row.place, count=thread.copies)
                lost += thread.copies
        current = [thread for thread in current if thread.before is not None or step == 1]
        threads += current
    found = [_rows_of(thread) for thread in threads if not thread.used]
    padding = sum(map(len, by_step.values())) - sum(map(len, found)) - lost
    if padding:
        report.skip("copy of a row dropped as padding", count=padding)
    return found


def _advance(fresh: list[_Thread], step: int, before: list[_Thread]) -> list[_Thread]:
    """The threads of this step: each row takes one place of what it continues, its copies those that are left over."""
    places: dict[tuple[str | None, str], list[_Thread]] = defaultdict(list)
    for thread in before:
        places[thread.prompt.task, thread.past[-1][0]].append(thread)
    for thread in fresh:
        shown = {number: (observation, action.lower()) for number, observation, action in thread.prompt.history}
        observation = shown.get(step - 1, ("", ""))[0]
        thread.before = _parent(thread, shown, places.get((thread.prompt.task, observation), []))
        if thread.before is not None:
            thread.before.used += 1
    for thread in fresh:
        parent = thread.before
        if parent is not None:
            more = min(thread.copies - 1, parent.copies - parent.used)
            parent.used, thread.copies = parent.used + more, 1 + more
        thread.past = (*(parent.past if parent else ()), (thread.row.step.observation or "", thread.row.shown_as))
    return fresh


def _with_copies(rows: list[tuple[Row, Prompt]]) -> list[_Thread]:
    """One thread per different text and score, in an order that is that of their content."""
    kinds: dict[str, list[tuple[Row, Prompt]]] = defaultdict(list)
    for row, prompt in rows:
        kinds[digest(row.text, row.score)].append((row, prompt))
    return [_Thread(*kinds[key][0], len(kinds[key])) for key in sorted(kinds)]


def _parent(row: _Thread, shown: dict[int, tuple[str, str]], threads: list[_Thread]) -> _Thread | None:
    """The thread that `row` continues; None if none fits, or some that differ in what happened."""
    fitting = [thread for thread in threads if shown and _agrees(shown, thread.past)]
    same = [thread for thread in fitting if thread.score == row.row.score]
    fitting = same or [thread for thread in fitting if _nearly(thread.score, row.row.score)]
    if len({(thread.past, thread.score) for thread in fitting}) != 1:
        return None
    return next((thread for thread in fitting if thread.used < thread.copies), None)


def _agrees(shown: dict[int, tuple[str, str]], past: tuple[tuple[str, str], ...]) -> bool:
    return len(past) in shown and all(
        0 < number <= len(past) and past[number - 1] == pair for number, pair in shown.items()
    )


def _nearly(score: float | None, other: float | None) -> bool:
    return score is not None and other is not None and abs(score - other) <= PENALTY


def _rows_of(thread: _Thread) -> list[Row]:
    rows: list[Row] = []
    at: _Thread | None = thread
    while at is not None:
        rows.append(at.row)
        at = at.before
    return rows[::-1]
