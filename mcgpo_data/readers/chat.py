"""A list of chat messages as steps: one decision per message that the policy wrote.

* Parallel tool calls of one message are one decision, in their order.
* `messages` of a step: what was added since the last response, then the response. `prompt_from` is 0: the prompt of
  step t is all that went before.
* `observation`: what the agent saw since its last response: tool results in the order of their calls, then user
  messages. Before the first decision it is all that follows the system message, or, if the prompt holds scripted or
  demonstrated assistant turns, what follows the last of these.
* Context and no decision: what the log marks as scripted, fabricated or demonstrated; a text of the assistant before
  any user message (greeting); a first reply that is only "OK" or "OK. I'll follow your instructions ..." (AgentGym).
* What comes after the last response is `final_observation`.

Form of `action_text`, by `action_kind`:

    tool_call    JSON list of `{"arguments": {...}, "name": "..."}`, one per call, keys sorted at every level, no
                 spaces, e.g. `[{"arguments":{"user_id":"mia_li_3668"},"name":"get_user_details"}]`. Arguments that are
                 no JSON stay a string. Calls written as `<tool_call>{"name", "arguments"}</tool_call>` do too.
    env_command  text of the last `<action>..</action>`, or of the last line that starts with `Action:` (with the
                 fenced block or the `Action Input:` line below it)
    message      the text without `<think>..</think>`
    invalid      null: nothing was said, an `<action>` that never closes, a call that has no name or cannot be parsed
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from mcgpo_data.readers.base import Message, Step
from mcgpo_data.readers.messages import Turn, digest, dump, normalise, parsed

THINK = re.compile(r"<(think|thinking)>.*?</\1>", re.DOTALL | re.IGNORECASE)
ACKNOWLEDGED = re.compile(r"ok(ay)?[.!]?( i'll follow your instructions\b.*)?", re.DOTALL | re.IGNORECASE)
ACTION_TAG = re.compile(r"<action>((?:(?!<action>).)*?)</action>", re.DOTALL | re.IGNORECASE)
CALL_TAG = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
ACTION_LINE = re.compile(r"^[ \t>*]*Action[ \t]*\d*[ \t]*:[* \t]*", re.MULTILINE | re.IGNORECASE)
FENCE = re.compile(r"\s*```.*?(?:```|\Z)", re.DOTALL)
ACTION_INPUT = re.compile(r"\s*Action Input[ \t]*:[ \t]*([^\n]*)", re.IGNORECASE)


@dataclass(slots=True)
class Chat:
    """What one message list says."""

    steps: list[Step]
    opening: list[Message]  # all messages before the first decision
    final_observation: str | None = None
    remarks: Counter[str] = field(default_factory=Counter)  # fixed phrases, for `Report.warn`
    sources: list[dict[str, Any]] = field(default_factory=list)  # the logged message behind each step

    @property
    def initial_hash(self) -> str:
        """Digest of the first prompt: equal for rollouts that start alike."""
        return digest([[m["role"], m["content"]] for m in self.opening])


def read_chat(raw: object, prompt: object = None) -> Chat:
    """Steps of one rollout.

    Args:
        raw: list of messages in any dialect of `messages`, or a JSON string of one.
        prompt: the messages before these, where the log keeps them apart. Assistant messages in it are no decisions,
            those after it all are.

    Raises:
        NotMessagesError: not a list of chat messages.
    """
    turns, remarks = normalise(raw)
    if prompt is None:
        return chat_of_turns(turns, remarks)
    before, more = normalise(prompt)
    for turn in before:
        turn.by_policy = False
    for turn in turns:
        turn.by_policy = turn.by_policy is not False
    return chat_of_turns([*before, *turns], remarks + more)


def chat_of_turns(turns: list[Turn], remarks: Counter[str] | None = None) -> Chat:
    """As `read_chat`, from messages that are normalised already."""
    chat = Chat([], [], remarks=remarks if remarks is not None else Counter())
    _join_results(turns, chat.remarks)
    pending: list[Turn] = []
    for turn in turns:
        if turn.message["role"] != "assistant":
            pending.append(turn)
            continue
        action, kind = parse_action(turn.message)
        if scripted := _scripted(turn, kind, pending, first=not chat.steps):
            chat.remarks[scripted] += 1
            pending.append(turn)
            continue
        if not chat.steps:
            chat.opening = [t.message for t in pending]
        chat.steps.append(
            Step(
                messages=[*(t.message for t in pending), turn.message],
                observation=_observation(pending, first=not chat.steps),
                prompt_from=0,
                thought=turn.thought,
                action_text=action,
                action_kind=kind,
            )
        )
        chat.sources.append(turn.source)
        pending = []
    if chat.steps and pending:
        chat.final_observation = _observation(pending, first=False) or None
    return chat


def _scripted(turn: Turn, kind: str, before: list[Turn], *, first: bool) -> str | None:
    """Why an assistant message is no decision, or None if it is one."""
    if turn.by_policy is False:
        return "scripted or demonstrated assistant message is no decision"
    if turn.by_policy is None and first and kind == "message":
        roles = [t.message["role"] for t in before]
        if not {"user", "tool"} & set(roles):
            return "greeting before any user message is no decision"
        if "assistant" not in roles and ACKNOWLEDGED.fullmatch(turn.message["content"].strip()):
            return "scripted or demonstrated assistant message is no decision"
    return None


def parse_action(message: Message) -> tuple[str | None, str]:
    """(action_text, action_kind) of one assistant message; see the head of this module."""
    if message["tool_calls"]:
        calls = [(c["function"]["name"], c["function"]["arguments"]) for c in message["tool_calls"]]
        return action_of_calls(calls)
    return action_of_text(message["content"] or "")


def action_of_calls(calls: list[tuple[Any, Any]]) -> tuple[str | None, str]:
    """(action_text, "tool_call") of (name, arguments: object or JSON text) pairs; (None, "invalid") without a name."""
    if not calls or not all(isinstance(name, str) and name for name, _ in calls):
        return None, "invalid"
    return dump([{"name": name, "arguments": parsed(arguments)} for name, arguments in calls], sort=True), "tool_call"


def action_of_text(text: str) -> tuple[str | None, str]:
    """(action_text, action_kind) of a response without structured tool calls."""
    text = THINK.sub("", text)
    if "</think>" in text:  # the opening tag was part of the prompt
        text = text.rsplit("</think>", 1)[1]
    if tags := ACTION_TAG.findall(text):
        return (tags[-1].strip() or None, "env_command") if tags[-1].strip() else (None, "invalid")
    if "<action>" in text.lower():
        return None, "invalid"
    if written := CALL_TAG.findall(text):
        calls = [parsed(item.strip()) for item in written]
        return action_of_calls(
            [(c.get("name"), c.get("arguments", {})) if isinstance(c, dict) else (None, None) for c in calls]
        )
    if lines := list(ACTION_LINE.finditer(text)):
        if action := _after_action_line(text[lines[-1].end() :]):
            return action, "env_command"
        return None, "invalid"
    text = text.strip()
    return (text, "message") if text and not text.lower().startswith("<think>") else (None, "invalid")


def _after_action_line(rest: str) -> str:
    """The first line of `rest` that is not blank, with the fenced block or the input line below it."""
    rest = rest.lstrip()
    if fence := FENCE.match(rest):
        return fence.group().strip()
    line, _, below = rest.partition("\n")
    line = line.strip()
    if fence := FENCE.match(below):
        return f"{line}\n{fence.group().strip()}"
    if given := ACTION_INPUT.match(below):
        return f"{line} {given.group(1).strip()}".strip()
    return line


def _observation(pending: list[Turn], *, first: bool) -> str:
    """Texts that the agent saw, parallel tool results in the order of their calls."""
    if first:
        scripted = [i for i, turn in enumerate(pending) if turn.message["role"] == "assistant"]
        after = pending[scripted[-1] + 1 :] if scripted else pending
        pending = after if any(turn.message["role"] in ("user", "tool") for turn in after) else pending
    texts = [
        turn.message["content"]
        for turn in pending
        if turn.message["content"]
        and turn.message["role"] != "assistant"
        and not (first and turn.message["role"] == "system")
    ]
    return "\n\n".join(texts)


def _join_results(turns: list[Turn], remarks: Counter[str]) -> None:
    """Brings parallel tool results into the order of their calls and gives each the name and id of its call.

    Results are joined to the calls of the message before them: by id where the ids of these calls are present and
    differ and the results bear them, else by order.
    """
    start = 0
    while start < len(turns):
        calls = turns[start].message["tool_calls"] or []
        start = end = start + 1
        while end < len(turns) and turns[end].message["role"] == "tool":
            end += 1
        if not calls or end == start:
            continue
        block = turns[start:end]
        ids = [call["id"] for call in calls]
        if None not in ids and len(set(ids)) == len(ids) and all(t.message["tool_call_id"] in ids for t in block):
            block.sort(key=lambda turn: ids.index(turn.message["tool_call_id"]))
            joined = [calls[ids.index(turn.message["tool_call_id"])] for turn in block]
        else:
            remarks["tool call ids missing or reused: results joined by order"] += 1
            joined = calls if len(block) <= len(calls) else []
        turns[start:end] = block
        for turn, call in zip(block, joined, strict=False):
            turn.message["name"] = turn.message["name"] or call["function"]["name"]
            if turn.message["tool_call_id"] not in ids:  # none, or the id of the message itself
                turn.message["tool_call_id"] = call["id"]
        start = end
