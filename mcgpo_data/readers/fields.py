"""Fields that message logs spell in many ways: ids, outcomes, reasons for the end.

Every function takes a record as logged and tells the `Report` where it had to deviate from it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcgpo_data.readers.base import Report, Rollout
from mcgpo_data.readers.chat import Chat, read_chat
from mcgpo_data.readers.logfile import finite
from mcgpo_data.readers.messages import NotMessagesError, digest, parsed

MAX_ID = 512  # characters; longer ids are replaced by their digest

OUTCOME_KEYS = ("reward", "score", "outcome", "final_reward", "total_reward", "episode_reward", "return")
SUCCESS_KEYS = ("success", "resolved", "is_correct", "correct", "passed", "solved", "won", "is_resolved")
REASON_KEYS = ("termination_reason", "terminate_reason", "stop_condition", "stop_reason", "finish_reason", "status")
NESTED_KEYS = ("metadata", "meta", "info", "extra_info", "extra")

REASONS = {  # terminal status: what a reason looks like; the first that matches counts
    "error_agent": r"agent_error|too_many_errors|invalid_(action|format)|tool_?(parse|call)?_?error|format_error",
    "truncated_tokens": r"length|token|context|overlong|too_long",
    "truncated_steps": r"max_?\w*(step|turn|round|iter|call)|(step|turn|round|time)_?limit|limit_reached|time_?out",
    "error_infra": r"infra|error|unexpected|exception|crash|network|disconnect|abort|cancel",
    "done": r"done|complete|success|solved|finish|stop|submit|terminated|resolved|failed|eos|tool_calls|exit",
}


@dataclass(slots=True)
class Outcome:
    """Graded result of a rollout, on the scale of the source."""

    value: float | None = None
    kind: str = "missing"
    success: bool | None = None
    low: float | None = None  # scale, only where the format fixes it
    high: float | None = None


def ident(value: object) -> str | None:
    """A scalar as id text; null, booleans, lists and objects are no ids."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if isinstance(value, float):  # a column with nulls turns 7 into 7.0
        if not value.is_integer():
            return None
        value = int(value)
    text = str(value).strip()
    return (text if len(text) <= MAX_ID else digest(text)) or None


def lookup(record: Mapping[str, Any], *keys: str) -> Any:
    """The first value under one of `keys` that is not null: of the record itself, then of its nested metadata."""
    for holder in (record, *(parsed(record.get(name)) for name in NESTED_KEYS)):
        if isinstance(holder, Mapping):
            for key in keys:
                if holder.get(key) is not None:
                    return holder[key]
    return None


def find_id(record: Mapping[str, Any], *keys: str) -> str | None:
    """The first id under one of `keys`."""
    return next((found for key in keys if (found := ident(lookup(record, key))) is not None), None)


def inner(record: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The object under `key`; empty where there is none."""
    value = parsed(record.get(key))
    return value if isinstance(value, dict) else {}


def flag(value: object) -> bool | None:
    """True or false where the value says so: booleans, 0 and 1, and their usual spellings."""
    if isinstance(value, str):
        return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}.get(value.lower())
    return bool(value) if isinstance(value, bool | int | float) and value in (0, 1) else None


def number(value: object, row: int, report: Report) -> float | None:
    """A finite number, or None with a warning where the record holds NaN, infinity or no number."""
    found = None if isinstance(value, list | dict) else finite(value)
    if found is None:
        report.warn("outcome is null, NaN or no number: unscored", row, value)
    return found


def read_outcome(record: Mapping[str, Any], row: int, report: Report) -> Outcome:
    """Outcome of a record of unknown make: a number, a list of step rewards, named parts, or success alone."""
    success = flag(lookup(record, *SUCCESS_KEYS))
    value = parsed(lookup(record, *OUTCOME_KEYS))
    if value is None:
        named = {key for name in ("", *NESTED_KEYS) for key in (inner(record, name) if name else record)}
        if success is not None and not named & {*OUTCOME_KEYS}:
            return Outcome(float(success), "terminal", success, 0.0, 1.0)
        if named & {*OUTCOME_KEYS, *SUCCESS_KEYS}:  # a null is no zero, whatever the flag says
            number(None, row, report)
        return Outcome(success=success)
    if isinstance(value, dict):  # named parts: a total, or the only one
        total = next((value[name] for name in (*OUTCOME_KEYS, "total", "value", "overall") if name in value), None)
        value = total if total is not None else next(iter(value.values())) if len(value) == 1 else value
    if isinstance(value, list) and value and None not in (parts := [finite(item) for item in value]):
        return Outcome(sum(part for part in parts if part is not None), "sum_of_steps", success)
    found = number(value, row, report)
    return Outcome(found, "missing" if found is None else "terminal", success)


def status_of(reason: object) -> str:
    """`schema.TERMINAL_STATUSES` value for a reason as logged; "unknown" where nothing is recognised."""
    if not isinstance(reason, str):
        return "unknown"
    text = re.sub(r"[\s-]+", "_", reason.strip().lower())
    return next((status for status, pattern in REASONS.items() if re.search(pattern, text)), "unknown")


def status_of_error(error: object) -> str:
    """As `status_of`, for what is known to be an error: one of the infrastructure unless it names another."""
    named = status_of(error)
    return named if named in ("error_agent", "truncated_tokens") else "error_infra"


def read_status(record: Mapping[str, Any]) -> str:
    """How a record of unknown make ended."""
    if error := read_error(record):
        return status_of_error(error)
    reason = status_of(lookup(record, *REASON_KEYS))
    if reason in ("unknown", "done"):
        if flag(record.get("is_truncated")):
            return "truncated_tokens"
        if flag(record.get("truncated")):
            return "truncated_steps"
    return reason


def read_error(record: Mapping[str, Any]) -> object:
    """What a record says under `error` or `exception`, or None if that is nothing."""
    found = record.get("error") or record.get("exception")
    return None if isinstance(found, str) and found.strip().lower() in ("", "none", "null") else found or None


def unscore_errors(rollout: Rollout, report: Report, *, failed: bool = False) -> None:
    """Takes the outcome from a rollout that an error ended: its zero is a default, no result."""
    if failed or rollout.terminal_status == "error_infra":
        rollout.outcome, rollout.success, rollout.outcome_kind = None, None, "missing"
        report.warn("ended by an error: unscored", rollout.row)


def set_group(rollout: Rollout) -> None:
    """Groups by task and, where the log names them, by policy and version: those of others are not compared."""
    if rollout.group_id is None and (rollout.policy is not None or rollout.policy_version is not None):
        rollout.group_id = "|".join([rollout.task_id, rollout.policy or "", rollout.policy_version or ""])


def read_or_skip(
    messages: object, row: int, report: Report, *, prompt: object = None, may_be_empty: bool = False
) -> Chat | None:
    """Steps of a message list, or None (counted) where it is none or holds no decision.

    `prompt`: as in `read_chat`. `may_be_empty`: accept a rollout that ended before its first decision.
    """
    try:
        chat = read_chat(messages, prompt) if messages or not may_be_empty else Chat([], [])
    except NotMessagesError as error:
        report.skip(str(error), row)
        return None
    except RecursionError:
        report.skip("messages are nested too deep", row)
        return None
    if not chat.steps and not may_be_empty:
        report.skip("no decision in the messages", row)
        return None
    for remark, count in chat.remarks.items():
        report.warn(remark, row, count=count)
    return chat


def token_ids(value: object) -> list[int] | None:
    """Token ids that fit the schema, or None."""
    if isinstance(value, list) and value and all(type(i) is int and 0 <= i < 2**31 for i in value):
        return value
    return None


def logprobs(value: object, ids: list[int] | None) -> list[float] | None:
    """Log-probabilities, one per token id, or None."""
    if ids is None or not isinstance(value, list) or len(value) != len(ids):
        return None
    found = [item for item in map(finite, value) if item is not None]
    return found if len(found) == len(ids) else None


def as_messages(value: object, role: str) -> Any:
    """A message list as it is; plain text as one message of `role`; null as none; other things as they are."""
    value = parsed(value)
    if value is None:
        return []
    return [{"role": role, "content": value}] if isinstance(value, str) else value


def rest(record: Mapping[str, Any], *used: str) -> dict[str, Any]:
    """What the record says besides `used`."""
    return {key: value for key, value in record.items() if key not in used and value is not None}
