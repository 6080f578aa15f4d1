"""The funnel with the reason for every loss, as rows of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

LOSSES = (
    ("contexts", "repeated_contexts", "seen by one rollout only"),
    ("repeated_contexts", "contexts_with_two_actions", "all rollouts did the same"),
    ("contexts_with_two_actions", "informative_contexts", "the actions ended equally well"),
    ("informative_contexts", "comparable_contexts", "not both actions have evidence in the folds that may judge"),
    ("comparable_classes", "oriented_classes", "tied, or a difference within the margin"),
)
NAMES = {
    "contexts": "contexts",
    "repeated_contexts": "seen by two rollouts or more",
    "contexts_with_two_actions": "with two actions or more",
    "informative_contexts": "whose actions ended differently",
    "comparable_contexts": "that can be compared",
    "comparable_classes": "comparisons",
    "oriented_classes": "with a winner",
    "pairs": "pairs",
}


@dataclass(frozen=True)
class Stage:
    """One row: `count` things are left; `share` of the first row of its block; `lost` went for `reason` before it."""

    name: str
    count: int
    share: float
    lost: int
    reason: str


def rule_stages(counts: dict[str, int]) -> list[list[Stage]]:
    """Blocks of rows of one rule: contexts, then comparisons and pairs."""
    reasons = {after: (before, reason) for before, after, reason in LOSSES}
    blocks: list[list[Stage]] = []
    top = 1
    for key, name in NAMES.items():
        count = counts.get(key, 0)
        if key in ("contexts", "comparable_classes", "pairs"):
            blocks.append([])
            top = max(count, 1)
        before, reason = reasons.get(key, (key, ""))
        blocks[-1].append(Stage(name, count, count / top, counts.get(before, 0) - count, reason))
    return blocks


def input_losses(funnel: dict[str, Any], inputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Skipped records and warnings of the readers: kind, reason, count, and the first places."""
    rows = []
    for kind, word in (("skipped", "skipped"), ("warnings", "note")):
        for reason, count in funnel[kind].items():
            places = [place for entry in inputs for place in entry["places"].get(reason, [])]
            rows.append({"kind": word, "reason": reason, "count": count, "places": places[:3]})
    rows += [{"kind": "repaired", "reason": r, "count": n, "places": []} for r, n in funnel["repairs"].items()]
    return rows
