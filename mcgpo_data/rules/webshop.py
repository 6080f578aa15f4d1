"""WebShop in text mode: search, open an item, choose options, buy.

exact state: kind of page (search, results, item, sub-page, done), options chosen, query (results only), instruction,
and the page as shown. The page does not show chosen options: they are followed from the agent's own clicks, and
forgotten where the shop forgets them (on leaving the item). coarse state: the kind of page.

Progress, from the instruction and from what pages displayed: `query` share of the instruction's content words in
the last query (none, half, full); on an item also `title` the same for its title, `price` (ok, over, unknown)
against the limit that the instruction states, `options` chosen as asked / asked for (an option is asked for if one
of its values occurs in the instruction). Nothing comes from the reward.

exact action: `search[..]` or `click[..]` in lower case. coarse action: what is clicked: an item by rank on the page
(first, near top, lower), an asked or other option by name, `buy now`, `back to search`, `next`, `prev`, `tab`; a
search by the share of the instruction's content words in it.

A click on something that the page does not show, or a search away from the search page, changes nothing: invalid.
"""

from __future__ import annotations

import re
from typing import Final

import polars as pl

from mcgpo_data.rules.frame import before, carried, known, share, working
from mcgpo_data.rules.text import lowered, said
from mcgpo_data.rules.webshop_page import page_parts, page_tables, page_text, stated_instruction

SLOTS: Final = 8  # options of one item that are followed; real items have up to five
LIMIT: Final = r"(?:price |cost )?(?:lower|less|cheaper|below|under|not more) (?:than )?\$?([\d,]+(?:\.\d+)?)"
IDLE: Final = frozenset(
    re.findall(
        r"\S+",
        """a an the and or of in on to for with that this is are be i i'm im am me my we it its looking look need want
        would like find buy get shop some any which has have having can could price lower less than cheaper dollars
        dollar usd under below color colour size style also as at by from please new""",
    )
)
WORD: Final = re.compile(r"[a-z0-9][a-z0-9'-]*")


class WebshopRules:
    """Page, chosen options and a rubric, all read from displayed text and own clicks."""

    name = "webshop"
    rules: tuple[str, ...] = ("exact", "coarse")

    def detect(self, steps: pl.DataFrame) -> bool:
        """Half of the actions are search[..] or click[..], on pages with buttons of the shop."""
        acts = share(lowered(pl.col("action_text")).str.contains(r"^(?:search|click)\[.*\]$"), steps)
        shows = share(
            lowered(pl.col("observation")).str.contains(r"back to search|buy now|webshop|^\W?search\W?$"), steps
        )
        return acts >= 0.5 and shows >= 0.5

    def apply(self, steps: pl.DataFrame) -> pl.DataFrame:
        """Adds the columns of `rules/base.py` for both rules, `valid` and `observation_key`."""
        work = _rubric(_follow(_read(steps)))
        progress = pl.concat_str(
            pl.format("query={}", "query_share"),
            pl.when(pl.col("kind").is_in(["item", "sub"])).then(
                pl.format("title={},price={},options={}/{}", "title_share", "price", "chosen_asked", "asked")
            ),
            separator=",",
            ignore_nulls=True,
        )
        exact = pl.format(
            "{} {}; chosen {}; query {}; task {}; page {}", "kind", "opened", "chosen", "shown_query", "task", "page"
        )
        return steps.with_columns(
            work.select(
                known("page", exact).alias("state_0"),
                known("page", pl.col("kind")).alias("state_1"),
                pl.col("action").alias("action_0"),
                _coarse_action().alias("action_1"),
                progress.alias("progress"),
                _valid().alias("valid"),
                pl.col("page").alias("observation_key"),
            )
        )


def _read(steps: pl.DataFrame) -> pl.DataFrame:
    """What each row says by itself: page, task, action, and what the action points at."""
    work = working(
        steps,
        page_parts(pl.col("observation")).alias("parts"),
        lowered(pl.col("instruction")).alias("instruction"),
        said(lowered(pl.col("action_text"))).alias("action"),
    )
    work = work.with_columns(
        page_text(pl.col("parts")).alias("page"),
        pl.coalesce("instruction", carried(stated_instruction(pl.col("parts")))).fill_null("").alias("task"),
        pl.col("action").str.extract(r"^(search|click)\[.*\]$", 1).alias("verb"),
        pl.col("action").str.extract(r"^(?:search|click)\[(.*)\]$", 1).str.strip_chars().alias("argument"),
    )
    pages, clicks = page_tables(work["page"])
    work = work.join(pages, on="page", how="left", maintain_order="left")
    work = work.join(clicks, on=["page_id", "argument"], how="left", maintain_order="left")
    asked = _asked(work, clicks)
    counts = asked.group_by("page_id", "task").agg(pl.col("slot").n_unique().cast(pl.Int64).alias("asked"))
    work = work.join(counts, on=["page_id", "task"], how="left", maintain_order="left")
    work = work.join(
        asked.with_columns(asks=pl.lit(True)),
        on=["page_id", "task", "argument", "slot"],
        how="left",
        maintain_order="left",
    )
    return work.with_columns(
        pl.col("kind").fill_null("other"),
        pl.when(pl.col("verb") == "click").then("click").alias("click"),
        pl.when(pl.col("verb") == "search").then("argument").alias("sought"),
        pl.col("asks").fill_null(False),
    )


def _asked(work: pl.DataFrame, clicks: pl.DataFrame) -> pl.DataFrame:
    """Option values that occur in the task: one row per (page_id, task, argument, slot)."""
    pairs = work.filter(pl.col("kind") == "item").select("page_id", "task").unique()
    found = pairs.join(clicks.filter(pl.col("click") == "option"), on="page_id")
    return found.filter(_words("task").str.contains(_words("argument"), literal=True)).select(
        "page_id", "task", "argument", "slot"
    )


def _words(column: str) -> pl.Expr:
    return pl.format(" {} ", pl.col(column).str.replace_all(r"[^\w$.%/-]+", " ").str.strip_chars(" ."))


def _follow(work: pl.DataFrame) -> pl.DataFrame:
    """Adds `visit` (number of the visit to an item), `opened`, `chosen`, `chosen_asked`, `query` and `shown_query`."""
    inside = pl.col("kind").is_in(["item", "sub"])
    visit = (~inside | before(inside).is_null()).cum_sum()
    asked = pl.when(pl.col("asks")).then(pl.lit(" (asked)")).otherwise(pl.lit(""))
    value = pl.format("{}={}{}", "option", "argument", asked)
    work = work.with_columns(visit.alias("visit"))
    picks = (pl.col("kind") == "item") & (pl.col("click") == "option")
    slots = [
        carried(before(pl.when(picks & (pl.col("slot").clip(0, SLOTS - 1) == slot)).then(value)), "visit")
        for slot in range(SLOTS)
    ]
    searched = pl.when(pl.col("kind").is_in(["search", "other"])).then("sought")
    chosen = pl.when(inside).then(pl.concat_str(slots, separator=", ", ignore_nulls=True)).otherwise(pl.lit(""))
    opened = before(pl.when((pl.col("kind") == "results") & pl.col("click").is_not_null()).then("argument"))
    return work.with_columns(
        chosen.alias("chosen"),
        pl.when(inside).then(carried(opened, "visit")).fill_null("").alias("opened"),
        carried(before(searched)).fill_null("").alias("query"),
    ).with_columns(
        pl.col("chosen").str.count_matches(r" \(asked\)(?:, |$)").alias("chosen_asked"),
        pl.when(pl.col("kind") == "results").then("query").otherwise(pl.lit("")).alias("shown_query"),
    )


def _rubric(work: pl.DataFrame) -> pl.DataFrame:
    """Adds `query_share`, `title_share`, `sought_share`, `price`, and carries what an item showed to its sub-pages."""
    for text in ("query", "title", "sought"):
        work = _with_share(work, text)
    on_item = pl.col("kind") == "item"
    limit = pl.col("task").str.extract(LIMIT, 1).str.replace_all(",", "").cast(pl.Float64, strict=False)
    price = (
        pl.when(pl.col("high") <= limit)
        .then(pl.lit("ok"))
        .when(pl.col("low") > limit)
        .then(pl.lit("over"))
        .otherwise(pl.lit("unknown"))
    )
    return work.with_columns(
        carried(pl.when(on_item).then("title_share"), "visit").fill_null("none"),
        carried(pl.when(on_item).then(price), "visit").fill_null("unknown").alias("price"),
        carried(pl.when(on_item).then(pl.col("asked").fill_null(0)), "visit").fill_null(0).alias("asked"),
    )


def _with_share(work: pl.DataFrame, text: str) -> pl.DataFrame:
    """Adds `{text}_share`: none, half or full of the content words of `task` are in `text`; each pair is read once."""
    pairs = work.select(text, "task").unique().drop_nulls()
    wanted = {task: set(WORD.findall(task)) - IDLE for task in pairs["task"].unique()}
    shares = []
    for words, task in pairs.iter_rows():
        found = len(wanted[task].intersection(WORD.findall(words))) / max(len(wanted[task]), 1)
        shares.append("none" if found < 0.25 else "half" if found < 0.75 else "full")
    table = pairs.with_columns(pl.Series(f"{text}_share", shares, dtype=pl.String))
    return work.join(table, on=[text, "task"], how="left", maintain_order="left")


def _coarse_action() -> pl.Expr:
    option = pl.format(
        "click {} option {}", pl.when(pl.col("asks")).then(pl.lit("asked")).otherwise(pl.lit("other")), "option"
    )
    return (
        pl.when(pl.col("verb") == "search")
        .then(pl.format("search {}", "sought_share"))
        .when(pl.col("click") == "option")
        .then(option)
        .when(pl.col("verb") == "click")
        .then(pl.format("click {}", pl.col("click").fill_null("nothing")))
        .otherwise("action")
    )


def _valid() -> pl.Expr:
    kind = pl.col("kind")
    refused = (
        pl.when(pl.col("verb").is_null())
        .then(pl.col("action").is_not_null())
        .when(pl.col("verb") == "search")
        .then(kind.is_in(["results", "item", "sub", "done"]))
        .otherwise(pl.col("click").is_null() & (kind != "other"))
    )
    return pl.when(refused).then(False)
