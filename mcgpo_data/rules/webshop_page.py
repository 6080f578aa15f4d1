"""WebShop pages as text: what kind of page, what it shows, what can be clicked.

Pages come as parts joined by `[SEP]`, each bare or in single quotes, or as lines with buttons in square brackets. Each
distinct page is parsed once, in Python, into two tables that rows are joined to.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from mcgpo_data.rules.text import lowered

OPTION_NAMES: Final = re.compile(
    r"^(?:(?:special |item |product |band |frame |lens |ring |shoe )?"
    r"(?:size|colou?r|style|shape|material|length|width|height|diameter|capacity|configuration|scent|flavou?r|pattern|fit"
    r"|type|package quantity|quantity|count|weight|format|edition|design|team|wattage|voltage|power|model|number"
    r"|finish|dimensions?)(?: name| type| map)?"
    r"|(?:unit|item package|number of) (?:count|quantity|items)|set name)$"
)
_HEAD: Final = r"^(?:\[?webshop\]? )?(?:\[sep\] )?instruction:? ?(?:\[sep\] )?"
RANKS: Final = (1, 3)  # first, next two, the rest
PRICE: Final = re.compile(r"\$\s*([\d,]+(?:\.\d+)?)")
ASIN: Final = re.compile(r"^(?:b[a-z0-9]{9}|\d{9}[\dx])$")
BUTTONS: Final = {
    "back to search": "back to search",
    "next >": "next",
    "< prev": "prev",
    "description": "tab",
    "features": "tab",
    "reviews": "tab",
    "attributes": "tab",
    "buy now": "buy now",
}


def page_parts(observation: pl.Expr) -> pl.Expr:
    """The page in lower case, as parts joined by " [sep] " whatever joined them before."""
    return lowered(observation.str.replace_all(r"\s*\n\s*\[?([^\n\]]*)\]?[ \t]*", " [SEP] ${1}"))


def stated_instruction(parts: pl.Expr) -> pl.Expr:
    """The instruction that a page shows; null where it shows none."""
    return parts.str.extract(rf"{_HEAD}(.*?)(?: \[sep\]|$)", 1)


def page_text(parts: pl.Expr) -> pl.Expr:
    """The page without the instruction and without quotes around its parts."""
    bare = parts.str.replace(rf"{_HEAD}.*?(?: \[sep\] |$)", "")
    return bare.str.replace_all(r"(^|\[sep\] )['\"]", "${1}").str.replace_all(r"['\"]( \[sep\]|$)", "${1}")


@dataclass(slots=True)
class Page:
    """One parsed page. `clicks`: what can be clicked, with (kind of click, name of option, index of option)."""

    kind: str
    title: str = ""
    low: float | None = None
    high: float | None = None
    clicks: dict[str, tuple[str, str, int]] = field(default_factory=dict)


def parse_page(text: str) -> Page:
    """Reads one page in the form of `page_text`."""
    parts = [part.strip() for part in text.split("[sep]")]
    shown = set(parts)
    if "thank you for shopping" in text:
        return Page("done")
    if parts[-1] == "search" and len(parts) <= 2:
        return Page("search", clicks={"search": ("button", "", 0)})
    kind = "item" if "buy now" in shown else "results" if re.search(r"page \d+ \(total results", text) else "other"
    if kind == "other" and "< prev" in shown:
        kind = "sub"
    page = Page(kind)
    for part in parts:
        if part in BUTTONS:
            page.clicks[part] = (BUTTONS[part], "", 0)
    if kind == "results":
        for rank, asin in enumerate((part for part in parts if ASIN.match(part)), 1):
            bucket = "first" if rank <= RANKS[0] else "near top" if rank <= RANKS[1] else "lower"
            page.clicks.setdefault(asin, (f"item {bucket}", "", 0))
    elif kind == "item":
        _read_item(page, parts)
    return page


def _read_item(page: Page, parts: list[str]) -> None:
    priced = next((i for i, part in enumerate(parts) if part.startswith("price:")), None)
    if priced is None or priced == 0:
        return
    page.title = parts[priced - 1]
    prices = [float(p.replace(",", "")) for p in PRICE.findall(parts[priced])]
    if prices:
        page.low, page.high = min(prices), max(prices)
    name, index = "option", -1
    start = parts.index("< prev") + 1 if "< prev" in parts else 0
    for part in parts[start : priced - 1]:
        if OPTION_NAMES.match(part):
            name, index = part, index + 1
        elif part and part not in BUTTONS:
            page.clicks.setdefault(part, ("option", name, max(index, 0)))


def page_tables(pages: pl.Series) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(one row per distinct page, one row per page and thing to click)."""
    texts = pages.unique().drop_nulls().to_list()
    parsed = [parse_page(text) for text in texts]
    table = pl.DataFrame(
        {
            "page": pl.Series(texts, dtype=pl.String),
            "page_id": pl.Series(range(len(texts)), dtype=pl.Int32),
            "kind": pl.Series([p.kind for p in parsed], dtype=pl.String),
            "title": pl.Series([p.title for p in parsed], dtype=pl.String),
            "low": pl.Series([p.low for p in parsed], dtype=pl.Float64),
            "high": pl.Series([p.high for p in parsed], dtype=pl.Float64),
        }
    )
    clicks = [(i, what, *rest) for i, page in enumerate(parsed) for what, rest in page.clicks.items()]
    return table, pl.DataFrame(
        clicks,
        schema={
            "page_id": pl.Int32,
            "argument": pl.String,
            "click": pl.String,
            "option": pl.String,
            "slot": pl.Int32,
        },
        orient="row",
    )
