"""Figures of pairs for notebooks and the report: numbers in, matplotlib figure out.

    from mcgpo_data.inspect import plots
    plots.weight_histogram(load_pairs("out"))

Needs the extra `notebook`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from mcgpo_data.build.funnel import RULE_STAGES
from mcgpo_data.errors import UsageError
from mcgpo_data.inspect.canvas import BAD, FADED, GOOD, INK, QUIET, name_axes, new_axes
from mcgpo_data.inspect.load import funnel
from mcgpo_data.inspect.tree import prefix_tree
from mcgpo_data.store import Store

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "calibration",
    "deciles",
    "evidence_against_truth",
    "funnel_bars",
    "prefix_tree",
    "support_histogram",
    "weight_histogram",
    "wilson",
]


def wilson(right: ArrayLike, total: ArrayLike, z: float = 1.96) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Wilson score interval of shares, 95 % by default: (low, high), each of the shape of `right`."""
    n = np.asarray(total, np.float64)
    p = np.asarray(right, np.float64) / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return centre - half, centre + half


def deciles(weight: ArrayLike, right: ArrayLike, bins: int = 10) -> pl.DataFrame:
    """Share of rightly oriented comparisons per bin of weight, lightest first; bins hold equally many.

    Args:
        weight: weights, shape (n,).
        right: whether the chosen action is the better one, shape (n,).
        bins: number of bins.

    Returns:
        `bin`, `weight` (mean), `count`, `right` (share), `low`, `high` (95 %).
    """
    weights, verdicts = np.asarray(weight, np.float64), np.asarray(right, bool)
    if len(weights) < bins:
        raise UsageError(f"{len(weights)} comparisons do not fill {bins} bins.")
    parts = np.array_split(np.argsort(weights, kind="stable"), bins)
    hits, counts = [int(verdicts[p].sum()) for p in parts], [len(p) for p in parts]
    low, high = wilson(hits, counts)
    return pl.DataFrame(
        {
            "bin": range(1, bins + 1),
            "weight": [float(weights[p].mean()) for p in parts],
            "count": counts,
            "right": np.array(hits) / counts,
            "low": low,
            "high": high,
        }
    )


def calibration(weight: ArrayLike, right: ArrayLike, bins: int = 10, y: str = "share rightly oriented") -> Figure:
    """Are heavier comparisons right more often? Arguments as of `deciles`; `y` says what is right."""
    table = deciles(weight, right, bins)
    figure, axes = new_axes(6, 3.2)
    x, share = table["bin"].to_numpy(), table["right"].to_numpy()
    axes.axhline(0.5, color=QUIET, lw=1, ls="--")
    axes.vlines(x, table["low"], table["high"], color=FADED, lw=6)
    axes.plot(x, share, "o-", color=GOOD, lw=1.5)
    axes.set_xticks(x, [f"{w:.3f}" for w in table["weight"]])
    axes.set_ylim(0, 1.02)
    name_axes(axes, f"mean weight of each 1/{bins} of the comparisons, light to heavy", y)
    axes.text(x[0], 0.52, "chance", fontsize=7, color=QUIET)
    return figure


def evidence_against_truth(delta: ArrayLike, gap: ArrayLike, weight: ArrayLike) -> Figure:
    """What the evidence says against what is true, one dot per comparison, its area by weight.

    Args:
        delta: difference of the estimates, chosen less rejected, > 0; shape (n,).
        gap: difference of the true success probabilities; shape (n,). Below zero: wrongly oriented.
        weight: weights; shape (n,).
    """
    x, y, w = (np.asarray(values, np.float64) for values in (delta, gap, weight))
    figure, axes = new_axes(6, 3.6)
    axes.axhline(0, color=QUIET, lw=1)
    axes.scatter(x, y, s=4 + 260 * w, c=np.where(y > 0, GOOD, BAD), alpha=0.45, lw=0)
    edges = np.quantile(x, np.linspace(0, 1, 7))
    home = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, 5)
    filled = [b for b in range(6) if (home == b).any()]
    means = [(x[home == b].mean(), y[home == b].mean()) for b in filled]
    axes.plot(*zip(*means, strict=True), "o-", color=INK, lw=1.2, ms=3, label="mean of each sixth")
    axes.legend(frameon=False, fontsize=8, loc="lower right")
    title = f"{(y > 0).mean():.0%} of {len(y):,} rightly oriented, {w[y > 0].sum() / w.sum():.0%} by weight"
    name_axes(axes, "evidence: difference of estimates", "truth: difference of success probability", title)
    return figure


def weight_histogram(pairs: pl.DataFrame) -> Figure:
    """How weights are spread over pairs. `pairs` needs `weight`."""
    figure, axes = new_axes(4.6, 2.6)
    axes.hist(pairs["weight"].to_numpy(), bins=30, color=GOOD)
    name_axes(axes, "weight of a pair", "pairs")
    return figure


def support_histogram(pairs: pl.DataFrame) -> Figure:
    """How much evidence the weaker side of a pair has. `pairs` needs `chosen_support` and `rejected_support`."""
    weaker = np.minimum(pairs["chosen_support"].to_numpy(), pairs["rejected_support"].to_numpy())
    top = 12
    counts = np.bincount(np.minimum(weaker, top), minlength=top + 1)[1:] if len(weaker) else np.zeros(top)
    last = int(np.flatnonzero(counts)[-1]) + 1 if counts.any() else 1
    figure, axes = new_axes(4.6, 2.6)
    axes.bar(range(1, last + 1), counts[:last], color=[BAD if n == 1 else GOOD for n in range(1, last + 1)])
    axes.set_xticks(range(1, last + 1), [f"{top}+" if n == top else str(n) for n in range(1, last + 1)])
    name_axes(axes, "evidence rollouts of the weaker side", "pairs")
    return figure


def funnel_bars(store: Store | str | os.PathLike[str]) -> Figure:
    """Contexts and classes per rule, from all to those that gave pairs."""
    found = funnel(store)
    stages = [key for key in RULE_STAGES if "context" in key or "class" in key]
    stages = [key for key in stages if not key.startswith("in_")]
    rows = [(name, key, counts.get(key, 0)) for name, counts in found.rules.items() for key in stages]
    figure, axes = new_axes(7, 0.28 * len(rows) + 0.7)
    for y, (_, key, count) in enumerate(rows):
        axes.barh(y, count, color=GOOD if "class" in key else QUIET, height=0.75)
        axes.text(count, y, f" {count:,}", va="center", fontsize=8, color=INK)
    axes.set_yticks(range(len(rows)), [f"{name}: {RULE_STAGES[key].strip()}" for name, key, _ in rows])
    axes.invert_yaxis()
    axes.set_xticks([])
    axes.spines[["bottom"]].set_visible(False)
    name_axes(axes, "", "")
    return figure
