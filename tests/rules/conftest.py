"""Frames of steps for the tests of task rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl
import pytest

SCHEMA = {
    "task_id": pl.String,
    "rollout_id": pl.String,
    "step_index": pl.Int32,
    "is_final": pl.Boolean,
    "instruction": pl.String,
    "observation": pl.String,
    "action_text": pl.String,
    "action_kind": pl.String,
    "action_valid": pl.Boolean,
    "admissible_actions": pl.List(pl.String),
}

Pairs = Sequence[tuple[str | None, str | None]]


def build_frame(
    *rollouts: Pairs,
    instruction: str | None = None,
    kind: str | Callable[[str | None], str] = "env_command",
    offers: Sequence[Sequence[str]] | None = None,
) -> pl.DataFrame:
    """Rollouts of (observation, action) pairs; a last pair with action None becomes the final row."""
    rows = []
    for number, pairs in enumerate(rollouts):
        for step, (observation, action) in enumerate(pairs):
            rows.append(
                {
                    "task_id": "task",
                    "rollout_id": f"r{number:04d}",
                    "step_index": step,
                    "is_final": action is None and step == len(pairs) - 1 and step > 0,
                    "instruction": instruction,
                    "observation": observation,
                    "action_text": action,
                    "action_kind": kind if isinstance(kind, str) else kind(action),
                    "action_valid": None,
                    "admissible_actions": list(offers[step]) if offers else None,
                }
            )
    return pl.DataFrame(rows, schema=SCHEMA)


@pytest.fixture(scope="session")
def frame() -> Callable[..., pl.DataFrame]:
    return build_frame
