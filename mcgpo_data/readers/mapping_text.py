"""One text that holds a whole trajectory, taken apart line by line.

Each line belongs to a block: an action, a thought (part of the response, but nothing the environment sees), or an
observation. With an `observation` pattern a line that begins none of these continues the block above it; without one
it is an observation. A decision is the thoughts and the action between two observations. Messages keep the text as it
stands; the action and the observation are what the patterns' groups take, or the whole line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from mcgpo_data.readers.base import Message, Step
from mcgpo_data.readers.mapping_spec import StepSpec
from mcgpo_data.readers.role_text import message


@dataclass(slots=True)
class TextLog:
    """What one text says."""

    steps: list[Step] = field(default_factory=list)
    answers: list[str | None] = field(default_factory=list)  # what the environment said to each action
    unfinished: bool = False  # thoughts without an action at the end
    matched: set[str] = field(default_factory=set)  # names of the patterns that matched anywhere


@dataclass(slots=True)
class _Block:
    kind: str  # action | thought | observation
    raw: list[str]
    taken: list[str]


def read_text(text: str, spec: StepSpec) -> TextLog:
    """Steps of one text; `spec` is of form text."""
    end = _cut(text, spec)
    preamble, rest = text[:end].strip("\n"), text[end:]
    log = TextLog(matched={"cut"} if end else set())
    pending: list[Message] = [message("system", preamble)] if preamble and spec.keep_cut else []
    seen: list[_Block] = []
    said: list[_Block] = []
    for block in _blocks(rest, spec, log.matched):
        if block.kind == "observation":
            if said:  # thoughts that no action followed: the agent went on after hearing something
                seen.append(_Block("observation", [line for b in said for line in b.raw], []))
                said = []
            seen.append(block)
            continue
        said.append(block)
        if block.kind == "thought":
            continue
        if log.steps:
            log.answers.append(_joined(seen, taken=True))
        log.steps.append(_step(pending, seen, said, spec))
        pending, seen, said = [], [], []
    if log.steps:
        log.answers.append(_joined(seen, taken=True))
    log.unfinished = bool(said)
    return log


def _cut(text: str, spec: StepSpec) -> int:
    """Where instructions and examples end and the trajectory begins: after the last place where `cut` matches."""
    return max((found.end() for found in spec.cut.finditer(text)), default=0) if spec.cut else 0


def _blocks(text: str, spec: StepSpec, matched: set[str]) -> list[_Block]:
    patterns = [("action", spec.action), ("thought", spec.thought), ("observation", spec.observation)]
    blocks: list[_Block] = []
    for line in text.replace("\r\n", "\n").split("\n"):
        kind, found = next(
            ((name, hit) for name, pattern in patterns if pattern is not None and (hit := pattern.match(line))),
            ("observation", None),
        )
        if found is not None:
            matched.add(kind)
        goes_on = spec.observation is not None or not line.strip() or (blocks and blocks[-1].kind == kind)
        if blocks and found is None and goes_on:
            blocks[-1].raw.append(line)
            blocks[-1].taken.append(line)
        else:
            blocks.append(_Block(kind, [line], [_taken(found, line)]))
    return blocks


def _taken(found: re.Match[str] | None, line: str) -> str:
    return (found.group(1) or "") + line[found.end() :] if found is not None and found.re.groups else line


def _step(pending: list[Message], seen: list[_Block], said: list[_Block], spec: StepSpec) -> Step:
    shown = _joined(seen, taken=False)
    response = "\n".join(line for block in said for line in block.raw).strip("\n")
    action = "\n".join(said[-1].taken).strip()
    asked = [message("user", shown)] if shown is not None else []
    return Step(
        messages=[*pending, *asked, message("assistant", response)],
        observation=_joined(seen, taken=True),
        observation_source="logged_pre" if seen else "missing",
        prompt_from=0,
        action_text=action or None,
        action_kind=spec.kind if action else "invalid",
    )


def _joined(blocks: list[_Block], *, taken: bool) -> str | None:
    lines = [line for block in blocks for line in (block.taken if taken else block.raw)]
    return "\n".join(lines).strip("\n") or None
