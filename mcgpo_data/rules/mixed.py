"""Several task families in one build: every task goes to the first family that knows its steps.

`alfworld+webshop` is what a build uses when its logs hold tasks of both. A rule has the same index in every family; a
task whose family has fewer rules has no decision under the others. Tasks are looked at one by one, about 5 ms each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest

import polars as pl

from mcgpo_data.rules.base import TaskRules

SEPARATOR = "+"
SAMPLE_ROWS = 60
FEW_TASKS = 20


class MixedRules:
    """Rules that ask several families."""

    def __init__(self, families: Sequence[TaskRules], otherwise: TaskRules) -> None:
        self.families = tuple(families)
        self.otherwise = otherwise
        self.name = SEPARATOR.join(family.name for family in families)
        levels = zip_longest(*(family.rules for family in families))
        self.rules = tuple("/".join(dict.fromkeys(name for name in level if name)) for level in levels)

    def detect(self, steps: pl.DataFrame) -> bool:
        """Whether any of the families knows these steps."""
        return any(family.detect(steps) for family in self.families)

    def apply(self, steps: pl.DataFrame) -> pl.DataFrame:
        """Each task through its family; rows stay in order."""
        rows = steps.with_row_index("_row")
        of_task = {task: self.choose(frame) for (task,), frame in sample_tasks(steps).items()}
        parts = []
        for family in {id(f): f for f in of_task.values()}.values():
            tasks = [task for task, chosen in of_task.items() if chosen is family]
            mine = rows.filter(pl.col("task_id").is_in(tasks))
            parts.append(self._filled(family.apply(mine.drop("_row")), mine["_row"]))
        return pl.concat(parts, how="diagonal").sort("_row").drop("_row")

    def choose(self, steps: pl.DataFrame) -> TaskRules:
        """The family of one task."""
        return next((family for family in self.families if family.detect(steps)), self.otherwise)

    def _filled(self, applied: pl.DataFrame, row: pl.Series) -> pl.DataFrame:
        """All rules' columns: no state and no action where the family has no such rule."""
        columns = {c: pl.lit(None, pl.String) for r in range(len(self.rules)) for c in (f"state_{r}", f"action_{r}")}
        columns |= {f"progress_{r}": pl.col("progress") for r in range(len(self.rules))}
        columns |= {"valid": pl.lit(None, pl.Boolean), "observation_key": pl.col("observation")}
        missing = {name: value for name, value in columns.items() if name not in applied.columns}
        return applied.with_columns(**missing).with_columns(row.alias("_row"))


def sample_tasks(steps: pl.DataFrame) -> dict[tuple[object, ...], pl.DataFrame]:
    """The first rows of each task."""
    first = steps.filter(pl.int_range(pl.len()).over("task_id") < SAMPLE_ROWS)
    return first.partition_by("task_id", as_dict=True, maintain_order=True)


def families_of(steps: pl.DataFrame, known: Sequence[TaskRules], otherwise: TaskRules) -> list[TaskRules]:
    """Families that at least two tasks belong to (one, where there are few), in the order of `known`.

    Args:
        steps: some whole tasks, as `TaskRules.apply` takes them.
        known: families that may be chosen.
        otherwise: what takes tasks that no family knows; returned where it is all there is.
    """
    chooser = MixedRules(known, otherwise)
    counts = Counter(chooser.choose(frame).name for frame in sample_tasks(steps).values())
    enough = 2 if sum(counts.values()) > FEW_TASKS else 1
    return [f for f in known if counts[f.name] >= enough and f.name != otherwise.name] or [otherwise]
