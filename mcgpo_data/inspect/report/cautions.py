"""What to know before trusting or training on the pairs, in plain words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcgpo_data.inspect.report.content import Content

FEW = 200
SCARCE = 20  # below, shares mean nothing
GUESSED = {"text_cluster": "the likeness of their texts", "initial_hash": "their first prompt"}


@dataclass(frozen=True)
class Caution:
    """One sentence or two; `serious` ones can make the pairs useless."""

    serious: bool
    text: str


def cautions(found: Content) -> list[Caution]:
    """All that apply, the serious ones first."""
    every = [*_amount(found), *_evidence(found), *_logs(found), *_spread(found)]
    return sorted(every, key=lambda c: not c.serious)


def _amount(found: Content) -> Iterator[Caution]:
    counts, pairs = found.counts, len(found.pairs)
    if not pairs:
        yield Caution(True, "There are no pairs. " + " ".join(found.advice))
        return
    if pairs < FEW:
        yield Caution(True, f"Only {pairs} pair{'s' if pairs > 1 else ''}: enough to look at, few to train on.")
    empty = counts["tasks"] - counts["tasks_with_pairs"]
    if empty > counts["tasks"] / 2:
        yield Caution(False, f"{empty:,} of {counts['tasks']:,} tasks give no pair: training sees only the others.")
    same = counts["groups"] - counts["groups_mixed"]
    if same > counts["groups"] / 2:
        yield Caution(
            False, f"In {same:,} of {counts['groups']:,} groups all outcomes are equal; such groups teach nothing."
        )
    for text in found.advice:
        yield Caution(False, text)


def _evidence(found: Content) -> Iterator[Caution]:
    if found.config.orientation != "opposite-fold":
        yield Caution(
            True,
            f"Orientation is {found.config.orientation}: pairs are judged by their own outcomes, so luck passes for "
            "skill. For comparison only.",
        )
    if not len(found.pairs):
        return
    single = found.single_support
    if single > 0.5:
        yield Caution(
            False,
            f"{single:.0%} of the weight rests on a single rollout on at least one side. More rollouts per task give "
            "firmer pairs; --min-support 2 keeps only the firm ones.",
        )
    for name, shares, what in (
        ("Folds", found.folds_agree, "times that both folds compared the same two actions, they agree"),
        ("Own outcomes", found.own, "comparisons the chosen rollout itself ended better"),
    ):
        if shares and shares[0].total >= SCARCE:
            hits, total, (low, _) = shares[0].hits, shares[0].total, shares[0].interval
            if low <= 0.5:
                yield Caution(
                    hits / total < 0.5 or total >= 100,
                    f"{name}: in {hits:,} of {total:,} {what}. That does not differ clearly from chance (one half): "
                    "the outcomes may not depend on these choices, or there is too little evidence to tell.",
                )
    coarse = sum(row["weight_share"] for row in found.rules if row["rule"] > 0)
    if coarse > 0.5:
        yield Caution(
            False, f"{coarse:.0%} of the weight comes from coarse rules: check that they treat as equal what is equal."
        )


def _logs(found: Content) -> Iterator[Caution]:
    counts = found.counts
    rollouts = max(counts["rollouts"], 1)
    ungraded = (counts["rollouts"] - counts["graded_rollouts"]) / rollouts
    if ungraded > 0.1:
        yield Caution(ungraded > 0.5, f"{ungraded:.0%} of the rollouts have no grade. They are no evidence.")
    if counts.get("untrusted_order"):
        yield Caution(
            False,
            f"In {counts['untrusted_order']:,} of {rollouts:,} rollouts the order of the steps is known to be "
            "unreliable: what counts as before and after may be wrong there.",
        )
    cut = sum(n for name, n in counts.items() if name.startswith("terminal_status:truncated")) / rollouts
    if cut > 0.2 and found.config.truncated == "graded":
        yield Caution(
            False,
            f"{cut:.0%} of the rollouts were cut by a limit and count as graded. If cut does not mean failed here, "
            "rebuild with --truncated unscored.",
        )
    for source, words in GUESSED.items():
        if guessed := counts.get(f"group_source:{source}", 0):
            yield Caution(
                False, f"{guessed:,} rollouts were put into groups by {words}, since the log does not name tasks."
            )
    skipped = sum(row["count"] for row in found.input_losses if row["kind"] == "skipped")
    if skipped:
        yield Caution(False, f"{skipped:,} of {found.records:,} records could not be used; see the funnel.")


def _spread(found: Content) -> Iterator[Caution]:
    limits = {"task": 0.25, "rollout (either side)": 0.1, "chosen action": 0.4, "rejected action": 0.4,
              "chosen response text": 0.1, "rejected response text": 0.1}  # fmt: skip
    if len(found.pairs) < SCARCE:
        return
    for row in found.concentration:
        limit = limits.get(row.kind, 1.0)
        if row.first > limit and row.distinct > 1:
            yield Caution(False, f"One {row.kind} holds {row.first:.0%} of the weight.")
    if found.longer is not None and not 0.35 <= found.longer <= 0.65:
        side = "chosen" if found.longer > 0.5 else "rejected"
        yield Caution(
            False,
            f"By weight the {side} response is the longer one in {max(found.longer, 1 - found.longer):.0%} of the "
            "pairs that differ in length: training may teach length.",
        )
