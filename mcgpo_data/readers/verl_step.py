"""One logged environment step of the verl-agent family as a `Step`.

Steps come as (prompt, response) texts or as (observation, response). The response is `<think>..</think>` and a tag
that holds the action: `<action>`, in search tasks `<search>` or `<answer>`, in code tasks `<code>`. The last tag
counts. A response without one is an invalid action: these environments refuse it. Each prompt is complete in itself.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import Any

from mcgpo_data.readers.base import Rollout, Step
from mcgpo_data.readers.chat import action_of_text
from mcgpo_data.readers.fields import flag, ident
from mcgpo_data.readers.logfile import finite
from mcgpo_data.readers.messages import digest
from mcgpo_data.readers.role_text import message, prompt_messages
from mcgpo_data.readers.verl_prompt import Prompt, parse_prompt

OBSERVATION_KEYS = ("observation", "obs", "anchor_obs", "input", "prompt")
RESPONSE_KEYS = ("output", "response", "model_response", "raw_response", "raw_action")
ACTION_KEYS = ("action", "text_action")
REWARD_KEYS = ("step_reward", "reward")
VALID_KEYS = ("is_action_valid", "action_valid", "valid")
DONE_KEYS = ("done", "is_done")
KNOWN = {*OBSERVATION_KEYS, *RESPONSE_KEYS, *ACTION_KEYS, *REWARD_KEYS, *VALID_KEYS, *DONE_KEYS}
ACTION_MARK = re.compile(r"<(?:action|tool_call|search|answer|code)>", re.IGNORECASE)
OTHER_TAG = re.compile(r"<(search|answer|code)>(.*?)</\1>", re.DOTALL)
WORDS = {"success": True, "won": True, "pass": True, "failure": False, "failed": False, "fail": False, "lost": False}
WON = 10.0  # episode reward of ALFWorld and WebShop in verl-agent; 0 when lost
FOLDED = {10.0: 10.0, 9.9: 10.0, 0.0: 0.0, -0.1: 0.0}  # with and without 0.1 off for an invalid action


def pick(record: dict[str, Any], keys: tuple[str, ...]) -> Any:
    """The first value under one of `keys` that is not null."""
    return next((record[key] for key in keys if record.get(key) is not None), None)


def agent_step(raw: dict[str, Any], *, tagged: bool = True) -> tuple[Step, Prompt | None] | None:
    """The step and what its prompt says; None without an observation and a response, both texts.

    Args:
        raw: the step as logged.
        tagged: actions stand in tags; False where the dump holds bare commands.
    """
    shown, command = pick(raw, OBSERVATION_KEYS), pick(raw, ACTION_KEYS)
    response = pick(raw, RESPONSE_KEYS) or command
    if not isinstance(shown, str) or not isinstance(response, str):
        return None
    messages = prompt_messages(shown)
    prompt = parse_prompt(shown)
    if tagged or not isinstance(command, str):
        action, kind = action_of_response(response)
    else:
        action, kind = (command.strip(), "env_command") if command.strip() else (None, "invalid")
    valid = flag(pick(raw, VALID_KEYS))
    step = Step(
        messages=[*messages, message("assistant", response)],
        observation=prompt.observation if prompt and prompt.observation else messages[-1]["content"],
        observation_source="logged_pre",
        action_text=action,
        action_kind=kind,
        action_valid=False if action is None else valid,
        reward=finite(pick(raw, REWARD_KEYS)),
        done=flag(pick(raw, DONE_KEYS)),
        admissible_actions=list(prompt.admissible) if prompt and prompt.admissible else None,
        metadata={key: value for key, value in raw.items() if key not in KNOWN} or None,
    )
    return step, prompt


def is_tagged(steps: list[dict[str, Any]]) -> bool:
    """Whether any response holds an action tag, so that one without is an invalid action."""
    return any(
        isinstance(text, str) and ACTION_MARK.search(text)
        for raw in steps
        for text in (pick(raw, RESPONSE_KEYS), pick(raw, ACTION_KEYS))
    )


def action_of_response(response: str) -> tuple[str | None, str]:
    """(action_text, action_kind) of a tagged response."""
    if "<tool_call>" not in response and "<action>" not in response.lower():
        if not (tags := OTHER_TAG.findall(response.rsplit("</think>", 1)[-1])):
            return None, "invalid"
        tag, inside = tags[-1]
        return (f"{tag}[{inside.strip()}]", "env_command") if inside.strip() else (None, "invalid")
    action, kind = action_of_text(response)
    return (action, kind) if kind in ("env_command", "tool_call") else (None, "invalid")


def truth(value: object) -> bool | None:
    """True or False where `value` says so: a boolean, 0 or 1, or one of the usual words."""
    word = WORDS.get(value.strip().lower()) if isinstance(value, str) else None
    return flag(value) if word is None else word


def rollout_name(given: object, version: object, content: object) -> str | None:
    """A rollout id that is unique over files: short ones are row numbers, and qualified by version and content."""
    name = ident(given)
    return name if name is None or len(name) >= 16 else f"{name}@{version}#{digest(content)}"


def unite_tasks(rollouts: list[Rollout]) -> None:
    """Gives all rollouts of an explicit group the task id that most of them have.

    A rollout whose first step was not dumped cannot be told by its first observation, and a group is of one task.
    """
    groups: dict[str, list[Rollout]] = defaultdict(list)
    for rollout in rollouts:
        if rollout.group_source == "explicit" and rollout.group_id is not None:
            groups[rollout.group_id].append(rollout)
    for members in groups.values():
        counts = Counter(rollout.task_id for rollout in members)
        for rollout in members:
            rollout.task_id = min(counts, key=lambda task: (-counts[task], task))


def settle_scores(rollouts: list[Rollout]) -> None:
    """Takes folded penalties off the outcomes of one dump, and declares the scale of win-or-loss dumps.

    10 is the episode reward of a win in verl-agent's ALFWorld and WebShop, 0 that of a loss; 9.9 and -0.1 are the same
    with the penalty of an invalid action. Any other score in the dump, and all stand for themselves.
    """
    scored = [r for r in rollouts if r.outcome is not None and r.outcome_kind == "terminal"]
    if all(round(r.outcome or 0.0, 4) in FOLDED for r in scored):
        for rollout in scored:
            rollout.outcome = FOLDED[round(rollout.outcome or 0.0, 4)]
    if {r.outcome for r in scored} in ({0.0, WON}, {WON}):
        for rollout in scored:
            rollout.outcome_min, rollout.outcome_max = 0.0, WON
            rollout.success = rollout.outcome == WON if rollout.success is None else rollout.success
    for rollout in rollouts:
        if rollout.success:
            rollout.terminal_status = "done"
