"""What all figures share: size, colours, fonts, and SVG text that is the same every time."""

from __future__ import annotations

import io
import re
from functools import cache
from typing import TYPE_CHECKING, Final

from mcgpo_data.errors import UsageError
from mcgpo_data.inspect.explain import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GOOD: Final = "#2a6f97"
BAD: Final = "#c8553d"
QUIET: Final = "#8a939b"
INK: Final = "#2b2f33"
FADED: Final = "#e4e7ea"


def new_axes(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure of `width` x `height` inches with one pair of axes.

    Raises:
        UsageError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError("figures need matplotlib, which is not installed: pip install 'mcgpo[notebook]'") from error
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(QUIET)
    axes.tick_params(labelsize=8, colors=INK)
    axes.set_axisbelow(True)
    return figure, axes


def name_axes(axes: Axes, x: str, y: str, title: str = "") -> None:
    """Labels in our own words; an axis of counts has whole numbers."""
    from matplotlib.ticker import MaxNLocator

    if y in ("pairs", "tasks"):
        axes.yaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.set_xlabel(x, fontsize=9, color=INK)
    axes.set_ylabel(y, fontsize=9, color=INK)
    axes.set_title(title, fontsize=10, color=INK, loc="left")


def shade(share: float | None) -> tuple[float, float, float]:
    """Colour of a mean outcome in [0, 1]: from red over grey to blue; None (unscored) is grey."""
    from matplotlib.colors import LinearSegmentedColormap, to_rgb

    if share is None:
        return to_rgb(QUIET)
    red, green, blue, _ = LinearSegmentedColormap.from_list("outcome", [BAD, "#cfcac4", GOOD])(share)
    return float(red), float(green), float(blue)


def label(text: str, limit: int) -> str:
    """Log text for a figure: one line, and a box for every letter that the font lacks. Set it with `parse_math=False`:
    a `$` is a `$`.
    """
    return "".join(c if ord(c) in _letters() else "□" for c in plain(text, limit))


@cache
def _letters() -> frozenset[int]:
    from matplotlib.font_manager import findfont, get_font

    return frozenset(get_font(findfont("DejaVu Sans")).get_charmap())


def svg(figure: Figure, title: str = "") -> str:
    """A figure as an `<svg>` element: no date, the same ids every time and only those that are referred to, letters as
    text. `title` is what is read aloud.
    """
    import matplotlib

    out = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "mcgpo", "svg.fonttype": "none", "font.family": "DejaVu Sans"}):
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    text = text[text.index("<svg") :]
    used = set(re.findall(r"#(\w+)", text))
    text = re.sub(r' id="(\w+)"', lambda m: m[0] if m[1] in used else "", text)
    return text.replace("<svg", f'<svg role="img" aria-label="{title}"', 1)
