"""Rows of a native log, decoded and taken column by column: what each field of a row means for the tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import attrgetter
from typing import Annotated, Any

import msgspec

from mcgpo_data.readers.base import Report

_Token = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]
Columns = dict[str, Sequence[Any]]
"""Name of a staged column -> one value per row. `messages` holds lists of `_Message`; columns left out are null."""


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _ToolCall(msgspec.Struct):
    id: str | None = None
    type: str | None = None
    function: _Function | None = None


class _Message(msgspec.Struct):
    role: str
    content: str | None = None
    name: str | None = None
    tool_call_id: str | None = None
    tool_calls: list[_ToolCall] | None = None


class ThinRow(msgspec.Struct):
    """Fields of a step without its long text. Two names on one line of the table in docs/formats.md are synonyms."""

    rollout_id: str | int
    step: int | None = None
    step_index: int | None = None
    task_id: str | int | None = None
    group_id: str | int | None = None
    instruction: str | None = None
    task: str | None = None
    observation: str | None = None
    action: str | None = None
    action_valid: bool | None = None
    valid: bool | None = None
    admissible_actions: list[str] | None = None
    admissible: list[str] | None = None
    reward: float | None = None
    done: bool | None = None
    truncated: bool | None = None
    success: bool | None = None
    won: bool | None = None
    outcome: float | None = None
    score: float | None = None
    outcome_min: float | None = None
    outcome_max: float | None = None
    terminal_status: str | None = None
    final_observation: str | None = None
    next_observation: str | None = None
    policy: str | None = None
    policy_version: str | int | None = None


class FullRow(ThinRow):
    """All fields of a step."""

    prompt: str | list[_Message] | None = None
    response: str | _Message | None = None
    thought: str | None = None
    prompt_token_ids: list[_Token] | None = None
    response_token_ids: list[_Token] | None = None
    response_logprobs: list[float | None] | None = None
    metadata: dict[str, Any] | None = None


TERMINAL = ("done", "truncated_steps", "truncated_tokens", "error_infra", "error_agent", "unknown")
AS_LOGGED = ("observation", "done", "truncated", "outcome_min", "outcome_max", "policy")
LONG = ("thought", "prompt_token_ids", "response_token_ids", "response_logprobs", "metadata")


def take_columns(rows: Sequence[ThinRow], places: Sequence[int], report: Report) -> Columns:
    """The staged columns of rows of one kind.

    Args:
        rows: `ThinRow`s, or `FullRow`s for text as well.
        places: line or record of each row.
        report: told of rows that are no step, which are skipped.
    """
    used = [place for place in zip(rows, places, strict=True) if _usable(*place, report)]
    rows, places = [row for row, _ in used], [where for _, where in used]

    def of(*names: str) -> list[Any]:
        """The first of some synonyms that is given."""
        values = list(map(attrgetter(names[0]), rows))
        for name in names[1:]:
            if None in values:
                others = map(attrgetter(name), rows)
                values = [b if a is None else a for a, b in zip(values, others, strict=True)]
        return values

    steps, actions, groups, versions = of("step", "step_index"), of("action"), of("group_id"), of("policy_version")
    ends = [bool(row.done or row.truncated) for row in rows]
    outcomes = _outcomes(of("outcome", "score"), places, report)
    successes = of("success", "won")
    columns: Columns = {
        **{name: of(name) for name in AS_LOGGED},
        "task_id": list(map(str, of("task_id", "group_id"))),
        "group_id": [None if g is None else str(g) for g in groups],
        "group_source": ["task" if g is None else "explicit" for g in groups],
        "rollout_id": list(map(str, of("rollout_id"))),
        "step_index": steps,
        "source_row": places,
        "policy_version": [None if v is None else str(v) for v in versions],
        "instruction": of("instruction", "task"),
        "outcome": outcomes,
        "success": successes,
        "outcome_kind": [
            "missing" if o is None and s is None else "terminal" for o, s in zip(outcomes, successes, strict=True)
        ],
        "terminal_status": _statuses(rows, places, report),
        "final_observation": [
            row.next_observation if row.final_observation is None and end else row.final_observation
            for row, end in zip(rows, ends, strict=True)
        ],
        "observation_source": ["missing" if row.observation is None else "logged_pre" for row in rows],
        "prompt_from": [0] * len(rows),
        "action_text": actions,
        "action_kind": ["lost" if action is None else "env_command" for action in actions],
        "action_valid": of("action_valid", "valid"),
        "reward": [None if r is None or not math.isfinite(r) else r for r in of("reward")],
        "admissible_actions": of("admissible_actions", "admissible"),
    }
    report.rollouts += steps.count(0)
    report.steps += len(steps)
    if rows and isinstance(rows[0], FullRow):
        prompts = of("prompt")
        columns |= {name: of(name) for name in LONG}
        columns["prompt_from"] = [0 if p is None else step for p, step in zip(prompts, steps, strict=True)]
        columns["messages"] = list(map(_messages, prompts, of("response"), of("observation"), actions))
    return columns


def _usable(row: ThinRow, where: int, report: Report) -> bool:
    step = row.step if row.step is not None else row.step_index
    if step is None:
        report.skip("no step number", where)
    elif row.task_id is None and row.group_id is None:
        report.skip("no task_id", where)
    elif not 0 <= step < 2**31:
        report.skip("step number out of range", where, step)
    else:
        return True
    return False


def _outcomes(outcomes: list[float | None], places: Sequence[int], report: Report) -> list[float | None]:
    for i, outcome in enumerate(outcomes):
        if outcome is not None and not math.isfinite(outcome):
            report.warn("outcome is not a number: unscored", places[i], outcome)
            outcomes[i] = None
    return outcomes


def _statuses(rows: Sequence[ThinRow], places: Sequence[int], report: Report) -> list[str]:
    statuses = []
    for row, where in zip(rows, places, strict=True):
        status = row.terminal_status or "unknown"
        if status not in TERMINAL:
            report.warn("unknown terminal_status", where, status)
            status = "unknown"
        if status == "unknown" and (row.done or row.truncated):
            status = "truncated_steps" if row.truncated else "done"
        statuses.append(status)
    return statuses


def _messages(
    prompt: str | list[_Message] | None, response: str | _Message | None, observation: str | None, action: str | None
) -> list[_Message]:
    """What a step adds: its prompt (else its observation, where there is one) and its response (else its action)."""
    if isinstance(response, _Message):
        answer = response
    else:
        answer = _Message("assistant", action if response is None else response)
    if isinstance(prompt, list):
        return [*prompt, answer]
    asked = observation if prompt is None else prompt
    return [answer] if asked is None else [_Message("user", asked), answer]
