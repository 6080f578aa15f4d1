"""The prefix tree of one group: rollouts that begin with the same actions share a path until they part."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from mcgpo_data.errors import UsageError
from mcgpo_data.inspect.canvas import INK, label, new_axes, shade
from mcgpo_data.store import Store, open_store

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INVALID = "(invalid)"


@dataclass
class Node:
    """All rollouts with one prefix of actions.

    Attributes:
        rollouts: how many.
        graded: how many of them have a graded outcome.
        total: sum of these outcomes.
        ended: how many rollouts have no further action.
        children: next nodes by action.
    """

    rollouts: int = 0
    graded: int = 0
    total: float = 0.0
    ended: int = 0
    children: dict[str, Node] = field(default_factory=dict)

    @property
    def mean(self) -> float | None:
        """Mean outcome; None where nothing is graded."""
        return self.total / self.graded if self.graded else None

    def ordered(self) -> list[tuple[str, Node]]:
        """Children, the best first."""
        key = {action: (-1.0 if n.mean is None else n.mean, n.rollouts) for action, n in self.children.items()}
        return sorted(self.children.items(), key=lambda kv: (*(-x for x in key[kv[0]]), kv[0]))


def make_tree(rollouts: Sequence[tuple[Sequence[str], float | None]]) -> Node:
    """Prefix tree of (actions, outcome) of each rollout."""
    root = Node()
    for actions, outcome in rollouts:
        node, path = root, [root]
        for action in actions:
            node = node.children.setdefault(action, Node())
            path.append(node)
        node.ended += 1
        for node in path:
            node.rollouts += 1
            if outcome is not None:
                node.graded += 1
                node.total += outcome
    return root


def group_tree(store: Store, task: str) -> Node:
    """Prefix tree of the exact actions of a task; of its first group where it has several.

    Raises:
        UsageError: no such task.
    """
    table = store.read("rollouts", ["rollout_id", "task_id", "group_id", "evidence_outcome"])
    rollouts = pl.DataFrame(table.filter(pc.equal(table["task_id"], task)))
    if rollouts.is_empty():
        some = ", ".join(sorted(set(table["task_id"].to_pylist()))[:5])
        raise UsageError(f"{store.path}: no task {task!r}; there are {some} …")
    rollouts = rollouts.filter(pl.col("group_id") == pl.col("group_id").min())
    decisions = store.read("decisions", ["rollout_id", "step_index", "rule", "action", "valid"])
    ids = pa.array(rollouts["rollout_id"].to_list(), pa.string())
    ours = pc.and_(pc.equal(decisions["rule"], 0), pc.is_in(decisions["rollout_id"], ids))
    steps = (
        pl.DataFrame(decisions.filter(ours))
        .sort("rollout_id", "step_index")
        .with_columns(action=pl.when("valid").then("action").otherwise(pl.lit(INVALID)).fill_null(INVALID))
        .group_by("rollout_id", maintain_order=True)
        .agg("action")
        .join(rollouts, on="rollout_id", how="left")
    )
    return make_tree(list(zip(steps["action"].to_list(), steps["evidence_outcome"].to_list(), strict=True)))


def prefix_tree(store: Store | str | os.PathLike[str], task: str, depth: int = 6) -> Figure:
    """Prefix tree of one task with the outcomes of its branches.

    Width of a branch: rollouts. Colour: their mean outcome, red 0 to blue 1. Good branches come first.

    Args:
        store: a build, or the folder of one.
        task: task id.
        depth: actions to show; what comes later is summed up.
    """
    root = group_tree(store if isinstance(store, Store) else open_store(store), task)
    leaves = sum(1 for _ in _leaves(root, depth))
    figure, axes = new_axes(1.5 * depth + 1.5, 0.28 * leaves + 0.8)
    _draw(axes, root, 0, depth, iter(range(leaves)))
    axes.set(xlim=(-0.05, depth + 0.9), ylim=(leaves - 0.4, -0.6))
    axes.axis("off")
    title = f"{root.rollouts} rollouts of {label(task, 60)}, first {depth} actions"
    axes.set_title(title, fontsize=10, color=INK, loc="left", parse_math=False)
    return figure


def _leaves(node: Node, depth: int) -> Iterator[Node]:
    if depth == 0 or not node.children:
        yield node
        return
    for child in node.children.values():
        yield from _leaves(child, depth - 1)


def _draw(axes: Axes, node: Node, x: int, depth: int, rows: Iterator[int]) -> float:
    """Draw what follows a node and return its height."""
    if x == depth or not node.children:
        y = float(next(rows))
        mean = "unscored" if node.mean is None else f"{node.mean:.0%}"
        axes.text(x + 0.06, y, f"{node.rollouts} × {mean}", va="center", fontsize=7, color=INK)
        axes.plot([x], [y], "o", color=shade(node.mean), markersize=5)
        return y
    parted = []
    for action, child in node.ordered():
        y = _draw(axes, child, x + 1, depth, rows)
        parted.append((y, action, child))
    here = sum(y for y, _, _ in parted) / len(parted)
    for y, action, child in parted:
        axes.plot([x, x + 0.25, x + 1], [here, y, y], color=shade(child.mean), lw=0.8 + 0.9 * child.rollouts**0.5,
                  solid_capstyle="round", zorder=1)  # fmt: skip
        axes.text(x + 0.27, y - 0.12, label(action, 22), fontsize=6.5, color=INK, va="bottom", parse_math=False)
    return here
