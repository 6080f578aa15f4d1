"""Where the data goes between a log and its pairs, in numbers and in words."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcgpo_data.config import BuildConfig
from mcgpo_data.readers.base import UNFOUND, Report

if TYPE_CHECKING:
    from mcgpo_data.build.bucket import BucketResult

RULE_STAGES = {
    "decisions": "valid decisions",
    "in_repeated_contexts": "  in a context that 2+ rollouts saw",
    "in_contexts_with_two_actions": "    with 2+ actions",
    "contexts": "contexts",
    "repeated_contexts": "  seen by 2+ rollouts",
    "contexts_with_two_actions": "    with 2+ actions",
    "informative_contexts": "      with different mean outcomes",
    "comparable_contexts": "      with evidence in the judging folds",
    "comparable_classes": "comparison classes",
    "oriented_classes": "  with a difference above the margin",
    "pairs": "pairs",
}


@dataclass(frozen=True)
class Funnel:
    """Counts from records to pairs; `advice` says in words what would give (more) pairs."""

    records: int
    skipped: dict[str, int]
    warnings: dict[str, int]
    counts: dict[str, int]
    repairs: dict[str, int]
    rules: dict[str, dict[str, int]]
    pairs: int
    advice: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for the manifest and `--json`."""
        return dict(vars(self))

    def lines(self) -> list[str]:
        """The funnel as text."""
        c = self.counts
        lines = [f"{self.records:>12,}  records"]
        lines += [f"{-n:>12,}    {reason}" for reason, n in self.skipped.items()]
        lines += [f"{n:>12,}    note: {reason}" for reason, n in {**self.warnings, **self.repairs}.items()]
        ungraded = c["rollouts"] - c["graded_rollouts"]
        lines.append(f"{c['rollouts']:>12,}  rollouts of {c['tasks']:,} tasks in {c['groups']:,} groups")
        if ungraded:
            lines.append(f"{ungraded:>12,}    without a graded outcome (no evidence; never counted as failures)")
        lines.append(f"{c['groups_mixed']:>12,}    groups with different outcomes (only these can give pairs)")
        lines.append(f"{c['steps']:>12,}  steps")
        if self.rules:
            width = max(12, *(len(name) + 2 for name in self.rules))
            lines += ["", f"  {'by rule':40}" + "".join(f"{name:>{width}}" for name in self.rules)]
            for key, label in RULE_STAGES.items():
                values = "".join(f"{stages.get(key, 0):>{width},}" for stages in self.rules.values())
                lines.append(f"  {label:40}{values}")
            lines.append("")
        lines.append(f"{self.pairs:>12,}  pairs in {c['tasks_with_pairs']:,} of {c['tasks']:,} tasks")
        return lines


def make_funnel(reports: list[Report], total: BucketResult, config: BuildConfig) -> Funnel:
    """Sum up all files and buckets."""
    skipped: Counter[str] = Counter()
    warnings: Counter[str] = Counter()
    for report in reports:
        skipped.update(report.skipped)
        warnings.update(report.warnings)
    for reason in [r for r in warnings if r.startswith(UNFOUND) and _found(r, reports)]:
        del warnings[reason]
    rules = {
        (total.rule_names[r] if r < len(total.rule_names) else str(r)): dict(counts)
        for r, counts in sorted(total.rules.items())
    }
    counts = dict(total.counts)
    return Funnel(
        records=sum(r.records for r in reports),
        skipped=dict(skipped.most_common()),
        warnings=dict(warnings.most_common()),
        counts=counts,
        repairs=dict(total.repairs),
        rules=rules,
        pairs=counts["pairs"],
        advice=advise(counts, rules, config),
    )


def _found(reason: str, reports: list[Report]) -> bool:
    """Whether what one file lacks is in another of the same format."""
    formats = {report.format for report in reports if reason in report.warnings}
    return any(reason not in report.warnings for report in reports if report.format in formats and report.steps)


def advise(counts: dict[str, int], rules: dict[str, dict[str, int]], config: BuildConfig) -> list[str]:
    """Sentences that say why there are few or no pairs, and which option would help."""
    out = []
    groups = counts["groups"]
    if not counts["graded_rollouts"]:
        other = "Name the field that holds it with --mapping."
        if config.outcome != "auto":
            other = f"--outcome {config.outcome} found nothing to grade by; --outcome auto takes success, else score."
        return [f"No rollout has a graded outcome. {other}"]
    if (several := counts.get("groups_several_policies", 0)) and config.scope == "group":
        out.append(
            f"{several:,} of {groups:,} groups hold rollouts of several policies: a pair may compare policies rather "
            "than actions. --scope task takes every outcome against the mean of its own policy."
        )
    if counts["groups_too_small"] == groups and config.orientation == "opposite-fold":
        shared = config.scope == "group" and counts["tasks"] < groups
        here = "would help here" if shared else "helps where a task has several groups"
        out.append(
            f"Every {config.scope} has fewer than 4 rollouts. A pair needs two actions, each seen both in the fold of "
            f"the candidates and in the folds that judge, hence at least 4 rollouts, at K = {config.folds} and at any "
            f"larger K. --scope task {here}; otherwise more rollouts per task are the remedy. (--orientation "
            "all-folds gives pairs from as few as 2, judged by their own outcomes: leaky, for comparison only.)"
        )
    elif counts["groups_too_small"]:
        out.append(
            f"{counts['groups_too_small']:,} of {groups:,} groups have fewer than 4 rollouts and cannot give a pair."
        )
    if not counts["groups_mixed"]:
        out.append("In every group all outcomes are equal: nothing says which action was better.")
    informative = max((r.get("informative_contexts", 0) for r in rules.values()), default=0)
    if not counts["pairs"] and counts["groups_mixed"] and not informative:
        out.append(
            "No context was seen with two actions and different outcomes. A coarser state may match more: try --rules "
            "for your task family, --representation progress or state, or rules of your own (docs/rules.md)."
        )
    elif not counts["pairs"] and any(r.get("comparable_classes", 0) for r in rules.values()):
        out.append(f"Actions were compared, but none differed by more than --margin {config.margin:g}.")
    elif not counts["pairs"] and counts["groups_mixed"] and counts["groups_too_small"] < groups:
        out.append(
            f"{informative:,} contexts are informative, but in none of them both actions have evidence in the folds "
            "that judge. (Rollouts with identical actions share a fold.) More rollouts per task help most; --folds 4 "
            "leaves more folds to judge."
        )
    if config.scope == "group" and counts["tasks"] < groups and not out:
        out.append("Some tasks have several groups: --scope task matches contexts across them.")
    return out
