"""A figure of how estimators differ. Needs the extra `notebook`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mcgpo_data.errors import ResourceError
from mcgpo_data.inspect.canvas import BAD, FADED, GOOD, INK, QUIET, name_axes, new_axes, svg
from mcgpo_data.inspect.credit_report import judged_pairs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def credit_figure(found: Mapping[str, Any]) -> Figure:
    """The result of `compare_build`: where each estimator says something, how alike they rank the steps, and whether
    they prefer what the pairs prefer.

    Raises:
        UsageError: matplotlib is not installed.
    """
    figure, first = new_axes(11, 3.4)
    grid = figure.add_gridspec(1, 3)
    first.set_subplotspec(grid[0])
    _signal(first, found)
    _ranks(figure.add_subplot(grid[1]), found)
    _pairs(figure.add_subplot(grid[2]), found)
    return figure


def save_credit_plot(found: Mapping[str, Any], path: Path) -> None:
    """Write the figure as SVG; the same result gives the same bytes.

    Raises:
        UsageError: matplotlib is not installed.
        ResourceError: the file cannot be written.
    """
    text = svg(credit_figure(found))
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ResourceError(f"{path}: cannot be written ({error}).") from error


def _signal(axes: Axes, found: Mapping[str, Any]) -> None:
    place = np.arange(len(found["signal"]))
    bars = (("with_step_signal", "steps with a step signal", GOOD), ("collapsed", "groups without any signal", BAD))
    for shift, (key, label, colour) in zip((-0.2, 0.2), bars, strict=True):
        heights = [signal[key] or 0.0 for signal in found["signal"].values()]
        axes.bar(place + shift, heights, 0.4, label=label, color=colour)
    _shares(axes, found, "Signal")


def _ranks(axes: Axes, found: Mapping[str, Any]) -> None:
    """Spearman's correlation of the advantages of every two estimators; blank where it is not defined."""
    names = list(found["signal"])
    matrix = np.full((len(names), len(names)), np.nan)
    np.fill_diagonal(matrix, 1.0)
    for pair, terms in found["agreement"].items():
        a, b = (names.index(name) for name in pair.split("/"))
        rank = terms["advantage"]["spearman"]
        matrix[a, b] = matrix[b, a] = np.nan if rank is None else rank
    axes.imshow(matrix, cmap="RdBu", vmin=-1, vmax=1)
    for (row, column), value in np.ndenumerate(matrix):
        if np.isfinite(value):
            colour = "white" if abs(value) > 0.6 else INK
            axes.text(column, row, f"{value:.2f}", ha="center", va="center", color=colour, fontsize=8)
    axes.set_yticks(range(len(names)), names)
    _names(axes, found)
    name_axes(axes, "", "", "Rank correlation of advantages")


def _pairs(axes: Axes, found: Mapping[str, Any]) -> None:
    place, bottom = np.arange(len(found["signal"])), np.zeros(len(found["signal"]))
    for key, label, colour in (("agree", "prefer the chosen step", GOOD), ("tied", "tied", FADED)):
        height = np.array([terms["advantage"][key] or 0.0 for terms in found["with_pairs"].values()])
        axes.bar(place, height, 0.6, bottom, label=label, color=colour)
        bottom += height
    axes.axhline(0.5, color=QUIET, lw=1, ls="--")
    _shares(axes, found, f"Agreement with {judged_pairs(found):,} pairs")


def _shares(axes: Axes, found: Mapping[str, Any], title: str) -> None:
    axes.set_ylim(0, 1.25)  # room for the legend
    axes.set_yticks(np.arange(0, 1.1, 0.25))
    axes.legend(frameon=False, fontsize=8, loc="upper left")
    _names(axes, found)
    name_axes(axes, "", "share", title)


def _names(axes: Axes, found: Mapping[str, Any]) -> None:
    axes.tick_params(labelsize=8)
    axes.set_xticks(range(len(found["signal"])), list(found["signal"]), rotation=30, ha="right")
