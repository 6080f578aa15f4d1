"""Figures of the report. None holds text of the log, so that nothing in them can be hostile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from mcgpo_data.inspect import plots
from mcgpo_data.inspect.canvas import BAD, FADED, GOOD, INK, QUIET, name_axes, new_axes, svg
from mcgpo_data.inspect.report.content import Content
from mcgpo_data.inspect.report.trust import SHOWN, Share

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SMALL = (4.6, 2.6)
NAMES = ("weights", "support", "folds", "own", "own_by_weight", "tasks", "lengths")


def draw(found: Content) -> dict[str, str]:
    """SVG text by name of the figure; empty where there is nothing to draw."""
    figures: dict[str, tuple[Figure, str]] = {}
    if len(found.pairs):
        figures["weights"] = plots.weight_histogram(found.pairs), "Histogram of weights"
        figures["support"] = plots.support_histogram(found.pairs), "Histogram of the weaker side's support"
    for name, shares in (("folds", found.folds_agree), ("own", found.own)):
        if shares and shares[0].total >= SHOWN:
            figures[name] = share_bars(shares), "Shares by support, with 95 % intervals"
    if found.own_by_weight is not None and len(found.own_by_weight) >= 50:
        tested = found.own_by_weight
        figure = plots.calibration(tested["weight"], tested["right"], 5, y="chosen rollout ended better")
        figures["own_by_weight"] = figure, "Share of chosen rollouts that ended better, by weight"
    if found.tasks is not None and found.tasks["outcome"].count():
        figures["tasks"] = task_histogram(found.tasks), "Histogram of mean outcomes of tasks"
    if found.lengths is not None and len(found.lengths.pairs):
        figures["lengths"] = length_curves(found.lengths.pairs), "Lengths of responses"
    return dict.fromkeys(NAMES, "") | {name: svg(figure, title) for name, (figure, title) in figures.items()}


def share_bars(shares: list[Share]) -> Figure:
    """One bar per kind of support, with its interval and the line of chance."""
    figure, axes = new_axes(*SMALL)
    axes.axhline(0.5, color=QUIET, lw=1, ls="--")
    for x, share in enumerate(shares):
        low, high = share.interval
        axes.bar(x, share.share or 0.0, width=0.6, color=GOOD if x else INK)
        axes.vlines(x, low, high, color=BAD, lw=1.5)
        axes.text(x, 0.02, f"{share.total:,}", ha="center", fontsize=7, color="white")
    axes.set_xticks(range(len(shares)), [share.name for share in shares])
    axes.set_ylim(0, 1.02)
    name_axes(axes, "support of the weaker side", "share")
    return figure


def task_histogram(tasks: pl.DataFrame) -> Figure:
    """How many tasks have which mean outcome; those that gave pairs in colour."""
    graded = tasks.filter(pl.col("outcome").is_not_null())
    bins = np.linspace(0, 1, 21).tolist()
    figure, axes = new_axes(*SMALL)
    axes.hist(graded["outcome"].to_numpy(), bins=bins, color=FADED, label="all")
    paired = graded.filter(pl.col("pairs") > 0)
    axes.hist(paired["outcome"].to_numpy(), bins=bins, color=GOOD, label="with pairs")
    axes.legend(frameon=False, fontsize=8)
    name_axes(axes, "mean outcome of a task", "tasks")
    return figure


def length_curves(pairs: pl.DataFrame) -> Figure:
    """Lengths of chosen and rejected responses, on a logarithmic scale where they differ much."""
    from matplotlib.ticker import NullFormatter, ScalarFormatter

    sides = {"chosen": GOOD, "rejected": BAD}
    values = {side: np.maximum(pairs[f"{side}_response"].to_numpy(), 1) for side in sides}
    low, high = min(v.min() for v in values.values()), max(v.max() for v in values.values())
    wide = high > 5 * low
    bins = (np.geomspace if wide else np.linspace)(low, max(high, low + 1), 31).tolist()
    figure, axes = new_axes(*SMALL)
    for side, color in sides.items():
        axes.hist(values[side], bins=bins, histtype="step", color=color, lw=1.6, label=side)
    if wide:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.legend(frameon=False, fontsize=8)
    name_axes(axes, "characters of a response", "pairs")
    return figure
