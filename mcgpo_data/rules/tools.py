"""Agents that call tools and talk to a user (tau-bench, OpenAI-style tool calling).

exact state: last observation (tool results or user message) and the ordered list of tool calls so far. coarse
state: the last observation alone. A list of calls alone would match more loosely still, but it is no function of
the last observation, and it gave fewer informative contexts (20 against 39 on tau-bench airline).

Actions, under both rules: `name({arguments, keys sorted})`, parallel calls joined by "; ". Free text to the user is
one action, `message`: else every context would have as many actions as visits.

Progress, from the text of results only: `ok=N` distinct calls that gave no error; `changes=M` those among them
whose name does not begin with a verb of reading. The coarse rule keeps `changes` alone.

Whitespace is folded; nothing else is removed, since times and paths are content here. The JSON of each distinct action
is parsed once in Python.
"""

from __future__ import annotations

from typing import Any, Final

import orjson
import polars as pl

from mcgpo_data.rules.frame import RUN, before, known, share, trail, working
from mcgpo_data.rules.text import folded, said

READS: Final = (
    r"^(?:get|list|search|find|read|view|show|check|query|fetch|describe|look|lookup|count|verify|validate|retrieve|browse"
    r"|calculate|compute|think|help|transfer|is|has|can)(?:_|-|\.|$|[A-Z])"
)
FAILED: Final = (
    r"(?i)^[^a-z{\"]{0,3}(?:error|exception|traceback|failed|invalid)(?-u:\b)"
    r"|\"(?:is_)?error\"\s*:\s*(?:true|\"[^\"]|[{1-9])"
)


class ToolRules:
    """Tool-call history and last observation."""

    name = "tools"
    rules: tuple[str, ...] = ("exact", "coarse")

    def detect(self, steps: pl.DataFrame) -> bool:
        """At least one decision in five is a tool call."""
        return share(pl.col("action_kind").filter(~pl.col("is_final")) == "tool_call", steps) >= 0.2

    def apply(self, steps: pl.DataFrame) -> pl.DataFrame:
        """Adds the columns of `rules/base.py` for both rules, and `observation_key`."""
        spoken = pl.col("action_kind") == "message"
        work = working(
            steps,
            folded(pl.col("observation")).alias("seen"),
            pl.when(spoken & pl.col("action_text").is_not_null())
            .then(pl.lit("message"))
            .otherwise(said(folded(pl.col("action_text"))))
            .alias("action"),
        ).hstack(_calls(steps))
        work = work.with_columns(pl.coalesce("call", "action").alias("action"))
        work = trail(work, "call", "calls", ordered=True)
        answered = before(pl.col("call"))
        good = pl.when(~pl.col("seen").fill_null("").str.contains(FAILED)).then(answered)
        work = work.with_columns(good.alias("good"), before(pl.col("changes")).fill_null(False).alias("changed"))
        new = pl.col("good").is_not_null() & (pl.col("good").cum_count().over(RUN, "good") == 1)
        ok, changes = new.cum_sum().over(RUN), (new & pl.col("changed")).cum_sum().over(RUN)
        return steps.with_columns(
            work.select(
                known("seen", pl.format("after {} calls, list {}; sees {}", "calls_count", "calls", "seen")).alias(
                    "state_0"
                ),
                pl.col("seen").alias("state_1"),
                pl.col("action").alias("action_0"),
                pl.col("action").alias("action_1"),
                pl.format("ok={} changes={}", ok, changes).alias("progress"),
                pl.format("changes={}", changes).alias("progress_1"),
                pl.col("seen").alias("observation_key"),
            )
        )


def _calls(steps: pl.DataFrame) -> pl.DataFrame:
    """`call` (canonical text) and `changes` (bool) of each row; null where the action is no JSON of tool calls."""
    texts = steps.select(pl.when(pl.col("action_kind") == "tool_call").then("action_text").alias("text"))
    distinct = texts["text"].unique().drop_nulls()
    parsed = [_canonical(text) for text in distinct]
    table = pl.DataFrame(
        {
            "text": distinct,
            "call": pl.Series([call for call, _ in parsed], dtype=pl.String),
            "names": pl.Series([names for _, names in parsed], dtype=pl.List(pl.String)),
        }
    )
    changing = pl.col("names").list.eval(~pl.element().str.contains(READS)).list.any()
    table = table.with_columns(changing.alias("changes"))
    return texts.join(table, on="text", how="left", maintain_order="left").select("call", "changes")


def _canonical(text: str) -> tuple[str | None, list[str]]:
    try:
        value = orjson.loads(text)
    except ValueError:
        return None, []
    calls = [_call(item) for item in (value if isinstance(value, list) else [value])]
    if not calls or not all(calls):
        return None, []
    named = [call for call in calls if call]
    return "; ".join(f"{name}({arguments})" for name, arguments in named), [name for name, _ in named]


def _call(item: Any) -> tuple[str, str] | None:
    if isinstance(item, dict) and isinstance(item.get("function"), dict):
        item = item["function"]
    if not isinstance(item, dict) or not isinstance(item.get("name"), str):
        return None
    arguments = item.get("arguments", {})
    if isinstance(arguments, str):
        try:
            arguments = orjson.loads(arguments)
        except ValueError:
            return item["name"], arguments
    return item["name"], orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS).decode()
