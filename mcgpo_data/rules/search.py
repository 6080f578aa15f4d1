"""Question answering with a search tool: `search[..]`, `<search>..</search>`, Retrieve, Lookup, Finish, `<answer>`.

exact state: last observation and the ordered list of queries so far. coarse state: question, number of searches so far
(up to 5) and kind of the last action.

Progress, without any gold answer: `words` share of the question's content words that some result has shown (none,
half, full), `new` the last call returned text not seen before in this rollout, `again` the last query was no new one.

exact action: verb and argument, blanks folded and in lower case; `<search>q</search>` is `search[q]`, and
`<answer>a</answer>` is `finish[a]`. coarse action: the verb; for searches also whether the query has a content word
that the question lacks (`search new`, `search known`).
"""

from __future__ import annotations

import re
from typing import Final

import polars as pl

from mcgpo_data.rules.frame import RUN, before, carried, first, known, names, share, trail, working
from mcgpo_data.rules.text import lowered, said

VERBS: Final = r"(?:search|retrieve|lookup|finish|answer|wikipedia|google|query|open|find)"
WORDS: Final = r"[a-z0-9][a-z0-9'-]{2,}"
IDLE: Final = re.findall(
    r"\S+",
    """the and for are was were what which who whom whose when where why how did does has have had with from that this
    than its his her their not but also been both between into about other same only more most name named called
    known""",
)


def canonical_call(text: pl.Expr) -> pl.Expr:
    """`verb[argument]` in lower case, from either notation; other text as it is, in lower case."""
    line = lowered(text)
    verb = line.str.extract(rf"^({VERBS}) ?[\[(]", 1).replace({"answer": "finish"})
    argument = line.str.extract(r"^[a-z]+ ?[\[(](.*)[\])]\.?$", 1).str.strip_chars(" '\"")
    query, answer = (line.str.extract(rf"<{tag}>(.*?)</{tag}>", 1).str.strip_chars() for tag in ("search", "answer"))
    return pl.coalesce(
        pl.format("search[{}]", query), pl.format("finish[{}]", answer), pl.format("{}[{}]", verb, argument), line
    )


class SearchRules:
    """Queries so far, and what they returned."""

    name = "search"
    rules: tuple[str, ...] = ("exact", "coarse")

    def detect(self, steps: pl.DataFrame) -> bool:
        """At least half of the actions search, look up or answer, in one of the two notations, without clicks."""
        calls = canonical_call(pl.col("action_text"))
        finds = share(calls.str.contains(rf"^{VERBS}\[.*\]$"), steps)
        return finds >= 0.5 and share(calls.str.starts_with("click["), steps) == 0.0

    def apply(self, steps: pl.DataFrame) -> pl.DataFrame:
        """Adds the columns of `rules/base.py` for both rules, and `observation_key`."""
        work = working(
            steps,
            lowered(pl.col("observation")).alias("seen"),
            said(canonical_call(pl.col("action_text"))).alias("action"),
            lowered(pl.col("instruction")).alias("instruction"),
        )
        work = work.with_columns(
            pl.coalesce("instruction", carried(pl.when(first()).then("seen")))
            .fill_null("")
            .str.replace_all("; sees", ", sees", literal=True)
            .alias("question"),
            pl.col("action").str.extract(rf"^({VERBS})\[", 1).alias("verb"),
        ).with_columns(_content_words("question").alias("wanted"))
        work = _coverage(trail(work, "action", "asked", ordered=True))
        last = before(pl.col("verb")).fill_null("nothing")
        exact = pl.format(
            "{}; after {} calls ({}), list {}; sees {}", "question", "asked_count", last, "asked", "seen"
        )
        coarse = pl.format("{}; after {} calls ({})", "question", pl.col("asked_count").clip(upper_bound=5), last)
        facts = names(
            {
                "new": ~first() & (pl.col("seen").cum_count().over(RUN, "seen") == 1),
                "again": before(pl.col("action").cum_count().over(RUN, "action") > 1),
            }
        )
        return steps.with_columns(
            work.select(
                known("seen", exact).alias("state_0"),
                known("seen", coarse).alias("state_1"),
                pl.col("action").alias("action_0"),
                _coarse_action().alias("action_1"),
                pl.format("words={} {}", "covered", facts).str.strip_chars_end().alias("progress"),
                pl.col("seen").alias("observation_key"),
            )
        )


def _content_words(column: str) -> pl.Expr:
    """The distinct words of three letters or more that are no function words."""
    words = pl.col(column).str.extract_all(WORDS)
    return words.list.unique(maintain_order=True).list.eval(pl.element().filter(~pl.element().is_in(IDLE)))


def _coverage(work: pl.DataFrame) -> pl.DataFrame:
    """Adds `covered`: none, half or full of `wanted` have been shown by results so far."""
    work = work.with_row_index("row")
    shown = pl.when(~first()).then(pl.col("seen")).str.extract_all(WORDS)
    hits = (
        work.select("row", RUN, shown.list.set_intersection("wanted").alias("word"))
        .explode("word")
        .drop_nulls("word")
        .filter(pl.col("word").cum_count().over(RUN, "word") == 1)
        .group_by("row")
        .agg(pl.len().alias("hits"))
    )
    work = work.join(hits, on="row", how="left", maintain_order="left")
    found = pl.col("hits").fill_null(0).cum_sum().over(RUN) / pl.col("wanted").list.len().clip(lower_bound=1)
    bucket = (
        pl.when(found < 0.25).then(pl.lit("none")).when(found < 0.75).then(pl.lit("half")).otherwise(pl.lit("full"))
    )
    return work.with_columns(bucket.alias("covered"))


def _coarse_action() -> pl.Expr:
    query = pl.col("action").str.extract(r"\[(.*)\]$", 1).str.extract_all(WORDS)
    adds = query.list.set_difference("wanted").list.eval(pl.element().filter(~pl.element().is_in(IDLE))).list.len() > 0
    kind = pl.when(adds).then(pl.lit("new")).otherwise(pl.lit("known"))
    return (
        pl.when(pl.col("verb").is_in(["search", "retrieve"]))
        .then(pl.format("{} {}", "verb", kind))
        .otherwise(pl.coalesce("verb", "action"))
    )
