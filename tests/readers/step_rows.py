"""Makes verl-agent step rows of a small world, with the prompt template of that project."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

ROOM = "-= Welcome =-\n\nYou are in a room. You see a desk 1, and a shelf 1.\n\nYour task is to: {task}."
SEEN = {"go to desk 1": "On the desk 1, you see a pen 1.", "go to shelf 1": "On the shelf 1, you see nothing."}
COMMANDS = ("go to desk 1", "go to shelf 1", "take pen 1")

Turn = tuple[str, str]  # (thought, action)


def prompt(task: str, history: Sequence[tuple[str, str]], observation: str, window: int = 2) -> str:
    """The prompt of the step after `history`, roles decoded to bare lines."""
    n = len(history)
    first = max(0, n - window)
    shown = "\n".join(
        f"[Observation {i + 1}: '{o}', Action {i + 1}: '{a}']" for i, (o, a) in enumerate(history) if i >= first
    )
    actions = "\n ".join(f"'{command}'" for command in COMMANDS)
    return (
        f"user\nYou are an expert agent operating in the ALFRED Embodied Environment. Your task is to: {task}\n"
        f"Prior to this step, you have already taken {n} step(s). Below are the most recent {n - first} observaitons "
        f"and the corresponding actions you took: {shown}\nYou are now at step {n + 1} and your current observation "
        f"is: {observation}\nYour admissible actions of the current situation are: [{actions}].\n\n"
        "Now it's your turn to take an action.\nYou should first reason step-by-step about the current situation.\n"
        "assistant\n"
    )


def rows(task: str, turns: Sequence[Turn], score: float, *, window: int = 2, **more: Any) -> list[dict[str, Any]]:
    """One row per step of a rollout. An action that the room does not know gives "Nothing happens."."""
    history: list[tuple[str, str]] = []
    observation = ROOM.format(task=task)
    found = []
    for thought, action in turns:
        output = f"<think>{thought}</think><action>{action}</action>"
        row = {"input": prompt(task, history, observation, window), "output": output, "gts": None}
        found.append(row | {"score": score, "step": 5} | more)
        history.append((observation, action.lower()))
        observation = SEEN.get(action, "Nothing happens.")
    return found
