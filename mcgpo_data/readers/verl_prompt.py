r"""Reads the prompt of one environment step as the verl-agent templates write it.

    Your task is to: T. Prior to this step, you have already taken 3 step(s). Below are the most recent 2 observations
    and the corresponding actions you took: [Observation 2: 'O', Action 2: 'A']
    [Observation 3: 'O', Action 3: 'A'] You are now at step 4 and your current observation is: O
    Your admissible actions of the current situation are: ['A'\n 'A'].  Now it's your turn ...

The first step has no history and may have no step number. Line ends may have become spaces. Lists of actions come as
numpy prints them (no commas), or one per line with a comma.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

STEP = re.compile(r"(?:You are now at|Now you are at) step (\d+)", re.IGNORECASE)
TAKEN = re.compile(r"you have already taken (\d+) step", re.IGNORECASE)
CURRENT = re.compile(r"current observation is:\s*", re.IGNORECASE)
ENDS = re.compile(
    r"\s*(?:Your (?:current )?(?:admissible|available) actions|Your previous overall plan is"
    r"|Now it's your turn|You should first reason)",
    re.IGNORECASE,
)
TASK = re.compile(r"Your (?:task is to|task is|question)[ \t]*:[ \t]*([^\n]+)", re.IGNORECASE)
TASK_ENDS = re.compile(
    r"\s*(?:Prior to this step|Your current observation is|You are now at step|Your admissible actions"
    r"|Now it's your turn)",
    re.IGNORECASE,
)
ADMISSIBLE = re.compile(
    r"(?:admissible|available) actions[^:\[]*:\s*\[(.*?)\]\s*\.?\s*(?=Now it's your turn|You should|\Z)",
    re.DOTALL | re.IGNORECASE,
)
BETWEEN_ACTIONS = re.compile(r"(?<=['\"]),?\s+(?=['\"])")
HISTORY = re.compile(
    r"\[Observation (\d+): '(.*?)', Action \1: '(.*?)'\](?=\s*(?:\[Observation|You are now at|\n|\Z))", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the prompt of one step says. `step` counts from 1."""

    step: int
    observation: str
    task: str | None
    history: tuple[tuple[int, str, str], ...]  # (step from 1, observation, action), in time order
    admissible: tuple[str, ...] | None


def parse_prompt(text: str) -> Prompt | None:
    """The parts of a step prompt; None if the text names neither a current observation nor the steps taken."""
    current = list(CURRENT.finditer(text))
    numbered, taken = STEP.findall(text), TAKEN.search(text)
    if not current and not taken:
        return None
    if numbered:
        step = int(numbered[-1][:9])
    else:
        step = int(taken.group(1)[:9]) + 1 if taken else 1
    task = TASK.search(text)
    return Prompt(
        step=step,
        observation=_observation(text[current[-1].end() :]) if current else "",
        task=_task(task.group(1)) if task else None,
        history=tuple((int(i[:9]), o.strip(), a.strip()) for i, o, a in HISTORY.findall(text)),
        admissible=_admissible(text),
    )


def _observation(rest: str) -> str:
    end = ENDS.search(rest)
    observation = (rest[: end.start()] if end else rest).strip()
    return observation[:-1] if observation.endswith("'.") else observation  # the full stop is the template's


def _task(text: str) -> str:
    end = TASK_ENDS.search(text)
    return (text[: end.start()] if end else text).strip().removesuffix(".")


def _admissible(text: str) -> tuple[str, ...] | None:
    found = ADMISSIBLE.search(text)
    if not found:
        return None
    items = (item.strip().rstrip(",").strip() for item in BETWEEN_ACTIONS.split(found.group(1)))
    return tuple(item[1:-1] if item[:1] in "'\"" and item[-1:] == item[:1] else item for item in items if item)
