"""Chat messages of any dialect in, messages of one dialect out.

Dialects understood, found by keys message by message (a log may mix them):

* OpenAI: `role`, `content` (string, list of parts, null), `tool_calls` (objects, or each a JSON string; arguments a
  JSON string or an object), `function_call`, `tool_call_id`;
* Anthropic: `content` blocks `text`, `thinking`, `tool_use`, `tool_result`;
* Gemini and OpenTelemetry: `parts` with `functionCall`/`functionResponse` or `tool_call`/`tool_call_response`;
* ShareGPT: `from`, `value`; roles human, gpt, function_call, observation.

Calls that the *user* makes (a simulated user with tools of its own) and their results are dropped: the agent never saw
them.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from mcgpo_data.readers.base import Message
from mcgpo_data.readers.logfile import loads

ROLES = {
    "system": "system", "developer": "system",
    "user": "user", "human": "user",
    "assistant": "assistant", "gpt": "assistant", "model": "assistant", "ai": "assistant", "agent": "assistant",
    "bot": "assistant", "chatgpt": "assistant", "function_call": "assistant",
    "tool": "tool", "function": "tool", "ipython": "tool", "observation": "tool", "environment": "tool",
}  # fmt: skip
NOT_BY_POLICY = {
    "sampled": False,  # verifiers: fabricated context
    "trainable": False,  # ART
    "loss": False,  # ShareGPT: scripted "Ok.", bad turns
    "is_demo": True,  # SWE-agent
    "is_copied_context": True,  # ATIF
}
CALL_KINDS = ("tool_use", "tool_call", "function_call", "function", "toolCall")
RESULT_KINDS = ("tool_result", "tool_call_response", "function_call_output", "tool_response")
THOUGHT_KINDS = ("thinking", "reasoning", "redacted_thinking")
MAX_DEPTH = 32  # of blocks inside blocks


class NotMessagesError(ValueError):
    """The value is no list of chat messages. The text is a fixed phrase, fit for `Report.skip`."""


@dataclass(slots=True)
class Turn:
    """One message in the common dialect, with what the dialect has no room for."""

    message: Message
    thought: str | None = None  # reasoning kept apart from the content
    by_policy: bool | None = None  # assistant: False for scripted or demonstrated turns, True where the log says so
    source: dict[str, Any] = field(default_factory=dict)  # the message as logged


def dump(value: object, *, sort: bool = False) -> str:
    """`value` as compact JSON text; NaN and infinities become null, unknown objects their text."""
    try:
        return _dump(value, sort, False)
    except ValueError:
        return _dump(_finite(value), sort, False)


def _dump(value: object, sort: bool, nan: bool) -> str:
    return json.dumps(value, sort_keys=sort, separators=(",", ":"), ensure_ascii=False, allow_nan=nan, default=str)


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def digest(*parts: object) -> str:
    """16 hex digits of the sha256 of the JSON of `parts`: equal content, equal digest, wherever it is stored."""
    return hashlib.sha256(dump(parts, sort=True).encode("utf-8", "replace")).hexdigest()[:16]


def parsed(value: object) -> object:
    """`value`, or what it says if it is a string that holds a JSON object or list."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def normalise(raw: object) -> tuple[list[Turn], Counter[str]]:
    """All messages in the common dialect, and remarks (fixed phrases) with counts.

    Raises:
        NotMessagesError: not a list, an entry that is no object, no role, or tool calls that are no list.
    """
    entries = parsed(raw)
    if not isinstance(entries, list | tuple):
        raise NotMessagesError("messages are not a list")
    turns: list[Turn] = []
    remarks: Counter[str] = Counter()
    user_calls: set[str] = set()
    for entry in entries:
        entry = parsed(entry)
        if not isinstance(entry, dict):
            raise NotMessagesError("a message is not an object")
        several = entry.get("tool_messages")  # tau2: the results of parallel calls in one entry
        for item in several if isinstance(several, list) else [entry]:
            if not isinstance(item, dict):
                raise NotMessagesError("a message is not an object")
            turns.extend(_turns(item, remarks, user_calls))
    return turns, remarks


def _turns(entry: dict[str, Any], remarks: Counter[str], user_calls: set[str]) -> list[Turn]:
    name = entry.get("role", entry.get("from"))
    if not isinstance(name, str):
        raise NotMessagesError("a message has no role")
    role = ROLES.get(name.strip().lower())
    if role is None:
        remarks["unknown role read as user"] += 1
        role = "user"
    content = _Content(remarks)
    value = next((entry[key] for key in ("content", "value", "parts", "text") if entry.get(key) is not None), None)
    if name == "function_call":  # ShareGPT: the call is the value
        content.call(parsed(value))
    else:
        content.add(value)
    calls = parsed(entry.get("tool_calls"))
    if calls is not None:
        if not isinstance(calls, list | tuple):
            raise NotMessagesError("tool_calls are not a list")
        for call in calls:
            content.call(parsed(call))
    if isinstance(entry.get("function_call"), dict):
        content.call(entry["function_call"])

    text = "\n".join(content.text) if content.text else None
    turns = list(content.results)
    if role == "assistant":
        thoughts = [t for key in ("reasoning_content", "reasoning", "thinking") if (t := _text(entry.get(key)))][:1]
        message = _message("assistant", text, calls=content.calls)
        flags = {entry[key] is not value for key, value in NOT_BY_POLICY.items() if isinstance(entry.get(key), bool)}
        thought = "\n".join(thoughts or content.thoughts) or None
        turns.append(Turn(message, thought, False if False in flags else True if flags else None, entry))
        return turns
    if role == "tool":
        call_id = _text(entry.get("tool_call_id")) or _text(entry.get("id"))
        turns.append(Turn(_message("tool", text, name=_text(entry.get("name")), call_id=call_id), source=entry))
    elif role == "user" and content.calls:
        remarks["tool calls by the user left out"] += len(content.calls)
        user_calls.update(call["id"] for call in content.calls if call["id"])
        if text:
            turns.append(Turn(_message("user", text), source=entry))
    elif text is not None or not turns:
        turns.append(Turn(_message(role, text), source=entry))
    return [turn for turn in turns if not _of_user(turn, user_calls)]


def _of_user(turn: Turn, user_calls: set[str]) -> bool:
    """Whether a tool result answers a call that the user made."""
    requestor = turn.source.get("requestor")
    if turn.message["role"] != "tool" or requestor == "assistant":
        return False
    return requestor == "user" or turn.message["tool_call_id"] in user_calls


def _message(
    role: str, text: str | None, *, name: str | None = None, call_id: str | None = None, calls: list[Any] | None = None
) -> Message:
    return {"role": role, "content": text, "name": name, "tool_call_id": call_id, "tool_calls": calls or None}


def _text(value: object) -> str | None:
    """A scalar or nested JSON as text; null and empty as None."""
    if value is None or value == "":
        return None
    return value if isinstance(value, str) else dump(value)


class _Content:
    """Collects what the content of one message holds."""

    def __init__(self, remarks: Counter[str]) -> None:
        self.text: list[str] = []
        self.thoughts: list[str] = []
        self.calls: list[dict[str, Any]] = []
        self.results: list[Turn] = []
        self.remarks = remarks

    def add(self, value: object, depth: int = 0) -> None:
        if value is None:
            return
        if isinstance(value, str):
            self.text.append(value)
        elif isinstance(value, list | tuple) and depth < MAX_DEPTH:
            for part in value:
                self.add(part, depth + 1)
        elif isinstance(value, dict) and depth < MAX_DEPTH:
            self.part(value, depth)
        else:
            self.text.append(dump(value))

    def part(self, part: dict[str, Any], depth: int) -> None:
        kind = part.get("type")
        if kind in THOUGHT_KINDS:
            self.thoughts.extend(t for key in ("thinking", "text", "content") if (t := _text(part.get(key))))
        elif kind in CALL_KINDS or isinstance(part.get("functionCall"), dict):
            self.call(part.get("functionCall") or part)
        elif kind in RESULT_KINDS or isinstance(part.get("functionResponse"), dict):
            self.result(part.get("functionResponse") or part, depth)
        elif isinstance(part.get("text"), str):
            self.text.append(part["text"])
        elif "content" in part:
            self.add(part["content"], depth + 1)
        elif kind is None and not part.keys() & {"inlineData", "fileData", "inline_data", "file_data"}:
            self.text.append(dump(part))
        else:  # images, audio, files: equal text must mean equal content, so the content is named by its digest
            self.remarks["image or other attachment replaced by its digest"] += 1
            self.text.append(
                f"[{kind or 'file'} {digest({k: v for k, v in part.items() if k != 'cache_control'})[:12]}]"
            )

    def call(self, value: object) -> None:
        """Takes `{"function": {"name", "arguments"}}`, or the same flat under any of its usual names."""
        if not isinstance(value, dict):
            raise NotMessagesError("a tool call is not an object")
        inner = parsed(value.get("function"))
        inner = inner if isinstance(inner, dict) else value
        keys = ("arguments", "input", "args", "parameters", "kwargs")
        arguments: object = next((inner[key] for key in keys if inner.get(key) is not None), {})
        text = arguments if isinstance(arguments, str) else dump(arguments)
        identity = _text(value.get("id")) or _text(value.get("call_id")) or _text(value.get("tool_call_id"))
        function = {"name": _text(inner.get("name")), "arguments": text}
        self.calls.append({"id": identity, "type": "function", "function": function})

    def result(self, part: dict[str, Any], depth: int) -> None:
        inner = _Content(self.remarks)
        for key in ("content", "output", "result", "response"):
            if part.get(key) is not None:
                inner.add(part[key], depth + 1)
                break
        call_id = next((i for key in ("tool_use_id", "call_id", "id") if (i := _text(part.get(key)))), None)
        text = "\n".join(inner.text) if inner.text else None
        message = _message("tool", text, name=_text(part.get("name")), call_id=call_id)
        self.results.append(Turn(message, source=part))
