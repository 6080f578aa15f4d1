"""From the fields of a record of unknown make and its chat to a `Rollout`: the ladder of ids, for several readers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcgpo_data.readers.base import Report, Rollout
from mcgpo_data.readers.chat import Chat
from mcgpo_data.readers.fields import (
    find_id,
    ident,
    lookup,
    read_error,
    read_outcome,
    read_status,
    rest,
    set_group,
    unscore_errors,
)
from mcgpo_data.readers.messages import digest

GROUP_KEYS = ("group_id", "group_uid", "prompt_uid", "problem_group")
TASK_KEYS = (
    "task_id", "example_id", "instance_id", "prompt_id", "problem_id", "question_id", "item_id",
    "game_file", "gamefile", "task_name", "task_hash",
)  # fmt: skip
ROLLOUT_KEYS = ("rollout_id", "traj_uid", "trajectory_uid", "trajectory_id", "traj_id", "episode_id", "request_id")
TRIAL_KEYS = ("trial", "trial_id", "rollout_idx", "rollout_index", "sample_idx", "sample_index", "attempt", "repeat")
POLICY_KEYS = ("model", "model_name", "policy", "model_id", "agent", "agent_name")
VERSION_KEYS = ("policy_version", "global_step", "checkpoint", "model_version", "iteration")
INSTRUCTION_KEYS = ("instruction", "task_description", "problem_statement", "question", "goal", "query")


def is_message(value: object) -> bool:
    """Whether a value looks like one chat message."""
    if not isinstance(value, Mapping) or not isinstance(value.get("role", value.get("from")), str):
        return False
    return bool(value.keys() & {"content", "value", "parts", "text", "tool_calls", "function_call"})


def with_system(record: Mapping[str, Any], messages: Any) -> Any:
    """The messages, with the system prompt that Anthropic and ShareGPT records keep beside them before them."""
    system = record.get("system")
    if not isinstance(messages, list) or not messages or not isinstance(system, str | list) or not system:
        return messages
    first = messages[0]
    role = first.get("role", first.get("from")) if isinstance(first, Mapping) else None
    return messages if role == "system" else [{"role": "system", "content": system}, *messages]


def make_rollout(
    record: Mapping[str, Any],
    chat: Chat,
    messages: object,
    row: int,
    report: Report,
    *,
    used: tuple[str, ...],
    task: str | None = None,
) -> Rollout:
    """A rollout from the usual fields of `record`.

    `used`: keys that hold the messages, kept out of the metadata. `task`: task id, where the reader knows better.
    """
    policy, version = find_id(record, *POLICY_KEYS), find_id(record, *VERSION_KEYS)
    named = find_id(record, *ROLLOUT_KEYS)
    group = find_id(record, *GROUP_KEYS)
    if group is None and (named or record.get("id") is not None):
        group = find_id(record, "uid")
    task = task or find_id(record, *TASK_KEYS)
    outcome = read_outcome(record, row, report)
    rollout = Rollout(
        steps=chat.steps,
        task_id=task or group or chat.initial_hash,
        row=row,
        group_id=group,
        group_source="explicit" if group else "task" if task else "initial_hash",
        policy=policy,
        policy_version=version,
        instruction=seen_instruction(record, chat),
        outcome=outcome.value,
        outcome_min=outcome.low,
        outcome_max=outcome.high,
        success=outcome.success,
        outcome_kind=outcome.kind,
        terminal_status=read_status(record),
        final_observation=chat.final_observation,
        metadata=rest(record, *used) | {"initial_hash": chat.initial_hash},
    )
    prefix = [part for part in (policy, version) if part]
    trial, own = find_id(record, *TRIAL_KEYS), ident(record.get("id")) or ident(record.get("uid"))
    if named:
        rollout.rollout_id = "/".join([*prefix, named])
    elif trial or own:
        said = digest(messages, outcome.value, outcome.success)
        rollout.rollout_id = "/".join([*prefix, *(part for part in (rollout.task_id, own, trial, said) if part)])
    set_group(rollout)
    unscore_errors(rollout, report, failed=read_error(record) is not None)
    return rollout


def seen_instruction(record: Mapping[str, Any], chat: Chat) -> str | None:
    """The logged instruction, if the first prompt holds it: such fields may be meant for others than the agent."""
    text = lookup(record, *INSTRUCTION_KEYS)
    if not isinstance(text, str) or not text.strip():
        return None
    opening = chat.steps[0].messages[:-1] if chat.steps else []
    return text if any(text.strip() in (message["content"] or "") for message in opening) else None
