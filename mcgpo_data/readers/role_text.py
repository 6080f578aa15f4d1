r"""Chat templates decoded to plain text, split back into messages.

RL trainers decode token ids without special tokens, so that roles are bare lines:

    system\nYou are helpful.\nuser\n2+2?\nassistant\n                    a prompt
    <tool_call>..</tool_call>\n\ntool\n4\n\nassistant\nIt is 4.          a response of several turns

The split is heuristic, since content may hold such a line itself. A role line counts only where a role may follow the
one before it (system -> user -> assistant -> tool or user -> assistant ...), a prompt is split only if it starts with
`system` or `user`, and in a response a `user` line counts only if an `assistant` line or a `<tool_response>` follows.
ChatML markers are taken off where they were kept. Llama-3 style text, whose roles are glued to the text before them,
stays one message. The order of the turns is that of the text.
"""

from __future__ import annotations

import re

from mcgpo_data.readers.base import Message

MARKERS = re.compile(r"<\|im_start\|>|[ \t]*<\|im_end\|>\n?|<\|endoftext\|>")
ROLE_LINE = re.compile(r"^(system|user|assistant|tool)[ \t]*$", re.MULTILINE)
FOLLOWERS = {
    "": ("system", "user"),
    "system": ("user",),
    "user": ("assistant",),
    "assistant": ("user", "tool"),
    "tool": ("tool", "user", "assistant"),
}


def prompt_messages(text: str) -> list[Message]:
    """Messages of a prompt; one user message if the text shows no roles. An empty last assistant turn is left out."""
    plain = _unmarked(text)
    parts = _split(plain, "")
    if not parts or plain[: parts[0][1]].strip():
        return [message("user", text)]
    messages = [message(role, content) for role, content in _contents(plain, parts)]
    if messages[-1]["role"] == "assistant" and _is_generation_prompt(messages[-1]["content"]):
        messages.pop()
    return messages


def response_messages(text: str) -> list[Message]:
    """Messages of a response: the first is the assistant's, then tool and user messages and further turns."""
    plain = _unmarked(text)
    parts = _split(plain, "assistant")
    first = plain[: parts[0][1]] if parts else text
    return [message("assistant", first.strip("\n") if parts else text)] + [
        message(role, content) for role, content in _contents(plain, parts)
    ]


def message(role: str, content: str | None) -> Message:
    """A message without name and tool calls."""
    return {"role": role, "content": content, "name": None, "tool_call_id": None, "tool_calls": None}


def _unmarked(text: str) -> str:
    return MARKERS.sub(lambda m: "\n" if "im_end" in m.group() else "", text) if "<|" in text else text


def _is_generation_prompt(content: str | None) -> bool:
    """Whether this is what a chat template writes in front of the response: nothing, or an (empty) thought."""
    return re.fullmatch(r"\s*(?:<think>\s*(?:</think>\s*)?)?", content or "") is not None


def _split(text: str, role: str) -> list[tuple[str, int, int]]:
    """(role, start of the role line, start of the content) of each turn that follows a turn of `role`."""
    lines = list(ROLE_LINE.finditer(text))
    last_reply = max((line.start() for line in lines if line.group(1) == "assistant"), default=-1)
    found: list[tuple[str, int, int]] = []
    in_response = role == "assistant"
    for line in lines:
        name = line.group(1)
        if name not in FOLLOWERS[role]:
            continue
        if not role and text[: line.start()].strip():
            break
        rest = text[line.end() : line.end() + 64].lstrip()
        if in_response and name == "user" and last_reply < line.start() and not rest.startswith("<tool_response>"):
            continue
        found.append((name, line.start(), line.end()))
        role = name
    return found


def _contents(text: str, parts: list[tuple[str, int, int]]) -> list[tuple[str, str]]:
    ends = [*(start for _, start, _ in parts[1:]), len(text)]
    return [(role, text[start:end].strip("\n")) for (role, _, start), end in zip(parts, ends, strict=False)]
