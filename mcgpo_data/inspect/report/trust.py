"""Can the orientation be believed? Two checks that need no truth.

Folds: the same context and actions, compared by one set of folds and by another that shares no rollout with it.
Own outcomes: pairs are oriented without the outcomes of their own two rollouts, so that these are a test.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import polars as pl

from mcgpo_data.build.pairs import evidence_folds
from mcgpo_data.config import BuildConfig
from mcgpo_data.inspect.plots import wilson

CLASS = ["group_id", "rule", "context", "chosen_action", "rejected_action", "chosen_fold", "rejected_fold"]
SUPPORTS = ((1, "1"), (2, "2"), (3, "3–4"), (5, "5+"))

SHOWN = 5  # comparisons that a share of its own needs


@dataclass(frozen=True)
class Share:
    """`hits` of `total`, with the ends of a 95 % interval."""

    name: str
    hits: int
    total: int

    @property
    def share(self) -> float | None:
        """None where there is nothing to count."""
        return self.hits / self.total if self.total else None

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson interval; (0, 1) where there is nothing to count."""
        if not self.total:
            return 0.0, 1.0
        low, high = wilson(self.hits, self.total)
        return float(low), float(high)


def classes(pairs: pl.DataFrame) -> pl.DataFrame:
    """One row per comparison class: the first pair of each."""
    return pairs.unique(CLASS, keep="first", maintain_order=True)


def fold_agreement(pairs: pl.DataFrame, config: BuildConfig) -> list[Share] | None:
    """How often two disjoint sets of folds prefer the same action.

    Args:
        pairs: columns CLASS, chosen_support, rejected_support.
        config: options of the build.

    Returns:
        All comparisons, then those by the weaker support of both; None where no two sets of folds that judge are
        disjoint (K > 4, or an orientation that uses all folds).
    """
    judges: dict[tuple[int, int], int] = {}
    for f, g, e in evidence_folds(config):
        judges[f, g] = judges.get((f, g), 0) | 1 << e
    masks = sorted(set(judges.values()))
    apart = [(i, j) for (i, m), (j, n) in combinations(enumerate(masks), 2) if not m & n]
    if not apart:
        return None
    home = pl.DataFrame(
        [(f, g, masks.index(mask)) for (f, g), mask in judges.items()],
        schema={"chosen_fold": pl.Int16, "rejected_fold": pl.Int16, "judges": pl.Int32},
        orient="row",
    )
    ordered = pl.col("chosen_action") < pl.col("rejected_action")
    found = (
        classes(pairs)
        .join(home, on=["chosen_fold", "rejected_fold"])
        .select(
            "group_id",
            "rule",
            "context",
            a=pl.when(ordered).then("chosen_action").otherwise("rejected_action"),
            b=pl.when(ordered).then("rejected_action").otherwise("chosen_action"),
            up=ordered,
            judges="judges",
            support=pl.min_horizontal("chosen_support", "rejected_support"),
        )
        .unique(["group_id", "rule", "context", "a", "b", "judges"], keep="first")
    )
    both = found.join(found, on=["group_id", "rule", "context", "a", "b"], suffix="_2")
    disjoint = pl.DataFrame(apart, schema={"judges": pl.Int32, "judges_2": pl.Int32}, orient="row")
    both = both.join(disjoint, on=["judges", "judges_2"], how="semi")
    weaker = np.minimum(both["support"].to_numpy(), both["support_2"].to_numpy())
    return _by_support((both["up"] == both["up_2"]).to_numpy(), weaker)


def own_outcomes(pairs: pl.DataFrame, config: BuildConfig) -> tuple[list[Share], pl.DataFrame] | None:
    """How often the chosen rollout itself ended better, where the two ended differently.

    Args:
        pairs: columns CLASS, chosen_outcome, rejected_outcome, chosen_support, rejected_support, class_weight.
        config: options of the build.

    Returns:
        All classes, then by weaker support; and `weight`, `right` of each class. None where own outcomes were used to
        orient.
    """
    if config.orientation != "opposite-fold":
        return None
    tested = classes(pairs).filter(pl.col("chosen_outcome") != pl.col("rejected_outcome"))
    right = (tested["chosen_outcome"] > tested["rejected_outcome"]).to_numpy()
    weaker = np.minimum(tested["chosen_support"].to_numpy(), tested["rejected_support"].to_numpy())
    return _by_support(right, weaker), pl.DataFrame({"weight": tested["class_weight"], "right": right})


def _by_support(right: np.ndarray[tuple[int], np.dtype[np.bool_]], weaker: np.ndarray[tuple[int], np.dtype[np.int64]]
                ) -> list[Share]:  # fmt: skip
    shares = [Share("all", int(right.sum()), len(right))]
    bounds = [low for low, _ in SUPPORTS] + [np.inf]
    for (low, name), high in zip(SUPPORTS, bounds[1:], strict=True):
        here = (weaker >= low) & (weaker < high)
        if here.sum() >= SHOWN:
            shares.append(Share(name, int(right[here].sum()), int(here.sum())))
    return shares
