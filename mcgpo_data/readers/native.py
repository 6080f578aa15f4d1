"""The native log: one JSON object (or Parquet row) per step. See docs/formats.md.

Required: `task_id`, `rollout_id`, `step`, and `action` or `response`. Everything else is optional. `success` and
    `outcome` count as the last step of a rollout states them. Steps of a rollout may lie in any order and in several
    files.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec

from mcgpo_data.readers.base import Report, Rollout, Step
from mcgpo_data.readers.logfile import Head, LogFile, loads

_Token = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]


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


class _ThinRow(msgspec.Struct):
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


class _Row(_ThinRow):
    prompt: str | list[_Message] | None = None
    response: str | _Message | None = None
    thought: str | None = None
    prompt_token_ids: list[_Token] | None = None
    response_token_ids: list[_Token] | None = None
    response_logprobs: list[float | None] | None = None
    metadata: dict[str, Any] | None = None


REQUIRED = (("rollout_id",), ("step", "step_index"), ("task_id", "group_id"), ("action", "response"))
"""Keys that a record is recognised by: one of each."""

TERMINAL = ("done", "truncated_steps", "truncated_tokens", "error_infra", "error_agent", "unknown")


class NativeReader:
    """Step rows."""

    name = "native"

    def detect(self, head: Head) -> bool:
        """Keys `rollout_id`, `step`, a task or group id, and an action or response."""
        keys = set(head.columns) or set(head.first)
        return all(keys & set(names) for names in REQUIRED)

    def read(self, log: LogFile, report: Report) -> Iterator[Rollout]:
        """One piece of a rollout per record."""
        yield from self.read_rows(log, report, thin=False)

    def read_rows(self, log: LogFile, report: Report, thin: bool) -> Iterator[Rollout]:
        """As `read`; `thin` does not even parse the long text."""
        kind: type[_ThinRow] = _ThinRow if thin else _Row
        if log.head().kind == "jsonl":
            decoder = msgspec.json.Decoder(kind, strict=False)
            last: tuple[int, bytes] | None = None
            row: _ThinRow | None
            for number, line in log.lines(report):
                report.records += 1
                if last is not None:
                    self._malformed(last, report, final=False)
                    last = None
                try:
                    row = decoder.decode(line)
                except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):  # NaN, a wrong type, or no JSON
                    try:
                        value = loads(line)
                    except (ValueError, RecursionError):
                        last = number, line
                        continue
                    row = self._convert(kind, value, number, report)
                if row is not None and (rollout := self._piece(row, number, report)) is not None:
                    yield rollout
            if last is not None:
                self._malformed(last, report, final=True)
        else:
            for index, value in log.records(report):
                converted = self._convert(kind, value, index, report)
                if converted is not None and (rollout := self._piece(converted, index, report)) is not None:
                    yield rollout

    @staticmethod
    def _malformed(last: tuple[int, bytes], report: Report, *, final: bool) -> None:
        cut = final and last[1][:1] == b"{" and not last[1].endswith(b"}")
        report.skip(
            "truncated last line" if cut else "malformed JSON", last[0], last[1][:80].decode("utf-8", "replace")
        )

    @staticmethod
    def _convert(kind: type[_ThinRow], value: Any, where: int, report: Report) -> _ThinRow | None:
        if not isinstance(value, dict):
            report.skip("not a JSON object", where, value)
            return None
        try:
            return msgspec.convert(value, kind, strict=False)
        except (msgspec.MsgspecError, OverflowError) as error:
            report.skip("field of the wrong type", where, error)
            return None

    def _piece(self, row: _ThinRow, where: int, report: Report) -> Rollout | None:
        step = row.step if row.step is not None else row.step_index
        task = row.task_id if row.task_id is not None else row.group_id
        if step is None or task is None:
            report.skip("no step number" if step is None else "no task_id", where)
            return None
        if not 0 <= step < 2**31:
            report.skip("step number out of range", where, step)
            return None
        outcome = row.outcome if row.outcome is not None else row.score
        if outcome is not None and not math.isfinite(outcome):
            report.warn("outcome is not a number: unscored", where, outcome)
            outcome = None
        reward = row.reward if row.reward is None or math.isfinite(row.reward) else None
        status = row.terminal_status or "unknown"
        if status not in TERMINAL:
            report.warn("unknown terminal_status", where, status)
            status = "unknown"
        if status == "unknown" and (row.done or row.truncated):
            status = "truncated_steps" if row.truncated else "done"
        report.rollouts += step == 0
        report.steps += 1
        final = row.final_observation
        if final is None and (row.done or row.truncated):
            final = row.next_observation
        return Rollout(
            steps=[self._step(row, step, reward)],
            task_id=str(task),
            row=where,
            rollout_id=str(row.rollout_id),
            group_id=None if row.group_id is None else str(row.group_id),
            group_source="task" if row.group_id is None else "explicit",
            policy=row.policy,
            policy_version=None if row.policy_version is None else str(row.policy_version),
            instruction=row.instruction if row.instruction is not None else row.task,
            outcome=outcome,
            outcome_min=row.outcome_min,
            outcome_max=row.outcome_max,
            success=row.success if row.success is not None else row.won,
            outcome_kind="missing" if outcome is None and row.success is None and row.won is None else "terminal",
            terminal_status=status,
            final_observation=final,
            first_step=step,
        )

    @staticmethod
    def _step(row: _ThinRow, index: int, reward: float | None) -> Step:
        prompt = getattr(row, "prompt", None)
        response = getattr(row, "response", None)
        own = prompt is not None
        if isinstance(prompt, list):
            messages = [msgspec.to_builtins(m) for m in prompt]
        elif own:
            messages = [{"role": "user", "content": prompt}]
        else:
            messages = [] if row.observation is None else [{"role": "user", "content": row.observation}]
        if isinstance(response, _Message):
            messages.append(msgspec.to_builtins(response))
        else:
            messages.append({"role": "assistant", "content": response if response is not None else row.action})
        valid = row.action_valid if row.action_valid is not None else row.valid
        return Step(
            messages=messages,
            observation=row.observation,
            observation_source="missing" if row.observation is None else "logged_pre",
            prompt_from=index if own else 0,
            thought=getattr(row, "thought", None),
            action_text=row.action,
            action_kind="lost" if row.action is None else "env_command",
            action_valid=valid,
            reward=reward,
            done=row.done,
            truncated=row.truncated,
            admissible_actions=row.admissible_actions if row.admissible_actions is not None else row.admissible,
            prompt_token_ids=getattr(row, "prompt_token_ids", None),
            response_token_ids=getattr(row, "response_token_ids", None),
            response_logprobs=getattr(row, "response_logprobs", None),
            metadata=getattr(row, "metadata", None),
        )


READERS = (NativeReader(),)
