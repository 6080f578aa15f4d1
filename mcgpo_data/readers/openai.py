"""Message logs of no particular make: JSON lines, arrays or Parquet whose records hold an OpenAI-style message list.

Messages: under `messages`, `conversation`, `trajectory`, `chat` or `dialog`; or `prompt` (messages) with `completion`
or `response` (messages or text); or the record is the list itself.

Ids, the first match counts, the record itself before its `metadata`, `info` and the like:

    group      group_id ... (explicit); uid, where another field names the rollout (elsewhere it may number rows)
    task       task_id, example_id, instance_id, prompt_id ...; else the hash of the first prompt (`initial_hash`)
    rollout    rollout_id, traj_uid, episode_id ..., policy and version before it, so that several models can be read
               together; else task, trial and a digest of the content; `id` alone does not say what it numbers and
               counts only together with that digest; else none: an id is made from the content later

Groups are split by policy and policy version where the log names them. A reward, score or success is taken as logged;
the scale stays undeclared, except for a bare success flag. This reader takes what is left over: ask it last.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mcgpo_data.readers import sharegpt, tau, verifiers
from mcgpo_data.readers.base import Report, Rollout
from mcgpo_data.readers.fields import as_messages, read_or_skip
from mcgpo_data.readers.generic import is_message, make_rollout, with_system
from mcgpo_data.readers.logfile import Head, LogFile
from mcgpo_data.readers.messages import parsed

MESSAGE_KEYS = ("messages", "conversation", "trajectory", "chat", "dialog")
RESPONSE_KEYS = ("completion", "response")
NOT_OURS = (  # lists and objects under these keys: a format whose messages mean something else
    "responses_create_params",  # NeMo Gym
    "history",  # SWE-agent, OpenHands
    "tokens",  # Atropos
    "samples",  # Inspect
    "trajectories",  # several agents in one record
    "steps",  # steps with messages of their own
)


class OpenAIMessages:
    """Records with a message list."""

    name = "openai_messages"

    def detect(self, head: Head) -> bool:
        """A list of messages under a known key, in no format that has a reader of its own."""
        if any(reader.detect(head) for module in (tau, verifiers, sharegpt) for reader in module.READERS):
            return False
        return any(self._messages(record) is not None for record in head.records)

    def read(self, log: LogFile, report: Report) -> Iterator[Rollout]:
        """One rollout per record."""
        columnar = log.parquet
        for row, record in log.records(report):
            found = self._messages(record)
            if found is None:
                report.skip("record without messages", row, record)
                continue
            prompt, messages = found
            fields = record if isinstance(record, dict) else {}
            if columnar:
                prompt, messages = without_nulls(prompt), without_nulls(messages)
            if prompt is None:
                chat = read_or_skip(with_system(fields, messages), row, report)
            else:
                chat = read_or_skip(messages, row, report, prompt=with_system(fields, prompt))
            if chat is not None:
                yield make_rollout(fields, chat, messages, row, report, used=(*MESSAGE_KEYS, "prompt", *RESPONSE_KEYS))

    @staticmethod
    def _messages(record: object) -> tuple[Any, Any] | None:
        """(prompt or None, messages), or None where the record holds none."""
        if isinstance(record, list):
            return (None, record) if record and all(is_message(item) for item in record) else None
        if not isinstance(record, dict) or any(isinstance(record.get(key), list | dict) for key in NOT_OURS):
            return None
        for key in MESSAGE_KEYS:
            value = parsed(record.get(key))
            if isinstance(value, list) and value and is_message(value[0]):
                return None, value
        prompt = parsed(record.get("prompt"))
        if isinstance(prompt, list) and prompt and is_message(prompt[0]):
            for key in RESPONSE_KEYS:
                if record.get(key):
                    return prompt, as_messages(record[key], "assistant")
        return None


def without_nulls(value: Any) -> Any:
    """`value` less the object entries that are null: a Parquet column gives every object the keys of all others."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


READERS = (OpenAIMessages(),)
