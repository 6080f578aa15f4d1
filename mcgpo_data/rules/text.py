"""Text of logs made comparable: the shared normalisers, as Polars expressions over whole columns.

Nothing here interprets text: patterns are constants of this module, applied in linear time (Rust regex, no
backtracking), so that hostile text can at worst be compared as it stands.
"""

from __future__ import annotations

from typing import Final

import polars as pl

GONE: Final = "~"
"""What moving text becomes: visible in a state summary, and never empty."""

EDGE: Final = r"(?-u:\b)"
"""A word boundary of ASCII letters. With that of Unicode the regex engine leaves its fast automaton wherever a text is
not all ASCII, and is a hundred times slower there."""

_UNITS = r"(?:steps?|turns?|moves?|rounds?|attempts?|chances?|tries)"
MOVING: Final = "|".join(
    (
        # counters of the harness, not of the task: they differ between visits to one and the same state
        r"you are (?:now )?at (?:step|turn) \d+",
        rf"\b\d+ (?:more )?{_UNITS}(?: are)? (?:left|remaining|remain)(?: and \d+ {_UNITS})?",
        rf"\b{_UNITS} (?:left|remaining|used|taken)\s*[:=]\s*\d+",
        rf"\b(?:remaining|current) {_UNITS}\s*[:=]\s*\d+",
        rf"\b{_UNITS}\s*[:#]?\s*\d+\s?(?:/|of|out of)\s?\d+",
        r"you have (?:already )?taken \d+ step(?:\(s\)|s)?",
        # clock times, with their date where there is one; dates alone are content
        r"\b(?:\d{4}-\d\d-\d\d[t ])?\d\d:\d\d:\d\d(?:[.,]\d+)?(?:z\b| ?[+-]\d\d:?\d\d\b)?",
        # names and numbers that the operating system draws
        r"/tmp/(?:tmp[\w.-]+|[\w-]*\.\w{6,}|pytest-of-\w+/pytest-\d+)",  # noqa: S108 - a pattern, no file
        r"/var/folders/[\w/+.-]+",
        r"\bpids?\s*[:=]?\s*\d+",
        r"\[\d+\] \d{3,7}\b",
        r"\b0x[0-9a-f]{8,16}\b",
        r"\b(?:in|took) \d+\.\d+ ?(?:ms|s|sec|secs|seconds)\b",
    )
)
_MOVING: Final = f"(?i-u:{MOVING})"
_SPACES: Final = r"\s{2,}|[^\S ]"  # leaves single blanks alone, which are nearly all: ten times faster than \s+


def folded(text: pl.Expr) -> pl.Expr:
    """Runs of whitespace as one blank, none at the ends."""
    return text.str.replace_all(_SPACES, " ").str.strip_chars()


def steady(text: pl.Expr) -> pl.Expr:
    """`folded`, with `GONE` in place of moving text.

    Moving are step counters ("You are now at step 7", "You have 3 steps left and 2 chances"), clock times, names of
    temporary files, process ids, memory addresses and durations: they differ between two visits to the same state.
    Numbers, dates and prices stay.
    """
    return folded(text.str.replace_all(_MOVING, GONE))


def lowered(text: pl.Expr) -> pl.Expr:
    """`steady`, in lower case: for environments that ignore case."""
    return steady(text).str.to_lowercase()


def said(action: pl.Expr) -> pl.Expr:
    """An action, null where nothing is left of it: there is nothing to compare."""
    return pl.when(action != "").then(action)
