"""What task rules are: text seen before an action in, keys out.

A rules object has

    name            "alfworld"
    rules           names of its rules, finest first, e.g. ("exact", "coarse")
    detect(steps)   True when the steps look like this task family
    apply(steps)    adds the columns below

`apply` gets a Polars frame sorted by (rollout_id, step_index), whole rollouts, with the columns of `INPUT_COLUMNS`.
Where the source logged what the agent saw after its last action, each rollout ends with one extra row: `is_final`
true, `action_text` null. It returns the same rows in the same order with, for every rule index r, `state_{r}` and
`action_{r}` (strings; action null: nothing to compare), one `progress` (string, empty where there is none),
optionally `progress_{r}` where a coarse rule has a coarser progress, optionally `valid` (bool: False where the
environment refused the action; null: as logged), and optionally `observation_key` (string: the observation without
moving parts such as step counters; used by `representation: history`).

No column of row t may depend on anything after the observation of row t, except `action_{r}`, which also depends on
the action of row t, and `valid`, which may look at the answer of the environment to it. A coarse rule must be a
function of the finer one: equal finer states have equal coarser states.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import polars as pl

INPUT_COLUMNS = {
    "task_id": "string",
    "rollout_id": "string",
    "step_index": "int32",
    "is_final": "bool",
    "instruction": "string; the task text, equal on all rows of a rollout; null where not logged apart",
    "observation": "string; what the agent saw before the action; null where not logged",
    "action_text": "string; the parsed action; null where none could be parsed",
    "action_kind": "string; one of schema.ACTION_KINDS",
    "action_valid": "bool; null where not logged",
    "admissible_actions": "list of strings; null where not logged",
}


class TaskRules(Protocol):
    """State summary, rubric progress and canonical action of one task family."""

    name: str
    rules: tuple[str, ...]

    def detect(self, steps: pl.DataFrame) -> bool:
        """Whether a sample of steps is of this family."""
        ...

    def apply(self, steps: pl.DataFrame) -> pl.DataFrame:
        """The same rows with state, action and progress columns."""
        ...
