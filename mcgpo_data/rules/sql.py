"""SQL agents (InterCode and the like): statements in, results out.

exact state: last observation and the set of statements run so far: the database hardly changes, so what the agent
knows is what it has asked. coarse state: last observation alone. Measured on four InterCode policies, both give
contexts beyond the first.

exact action: the statement with case and whitespace folded outside quotes, without a trailing semicolon, code fence
or backticks, and with 'single' quotes for "double" ones; nothing is reordered or renamed. coarse action: its first
word and the tables it names (`select country, city`).

Progress: `tables` were listed, `columns` of a table were described, `rows` were returned by a SELECT; the coarse
rule has the same.

An error of the database is an answer, not a refusal: the action stays valid whatever the source logged, for writing
a query on a table that does not exist is a decision that evidence should count.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from mcgpo_data.rules.frame import before, ever, known, names, share, trail, working
from mcgpo_data.rules.text import folded, said

PIECES: Final = (
    r"'(?:[^'\\]|\\.|'')*'"  # text
    r"|\"(?:[^\"\\]|\\.|\"\")*\""  # text, or a name
    r"|`[^`]*`"  # name
    r"|[^'\"`]+|['\"`]"
)
FENCE: Final = r"(?is)^\s*(?:```\s*(?:sql|mysql|sqlite)?\s*)?(.*?)(?:```)?[\s;]*$"
STATEMENT: Final = (
    r"(?i)^(?:select|show|describe|desc|explain|with|pragma|insert|update|delete|create|drop|alter|use)\b"
)
FAILED: Final = r"(?i)^(?:error|\(?\w*error|no such|exception)"


def canonical_sql(text: pl.Expr) -> pl.Expr:
    """A statement in the form in which two spellings of one statement are equal."""
    piece, quoted = pl.element(), pl.element().str.slice(1, pl.element().str.len_chars() - 2)
    plain = (
        piece.str.to_lowercase()
        .str.replace_all(r"\s+", " ")
        .str.replace_all(r"\( ", "(")
        .str.replace_all(r" \)", ")")
        .str.replace_all(r" ?, ?", ", ")
        .str.replace_all(r" ?([=<>!]+) ?", " ${1} ")
    )
    folded_piece = (
        pl.when(piece.str.starts_with("`") & (piece.str.len_chars() > 1))
        .then(quoted.str.to_lowercase())
        .when(piece.str.starts_with('"') & (piece.str.len_chars() > 1))
        .then(
            pl.format("'{}'", quoted.str.replace_all("'", "''", literal=True).str.replace_all('""', '"', literal=True))
        )
        .when(piece.str.starts_with("'"))
        .then(piece)
        .otherwise(plain)
    )
    bare = text.str.extract(FENCE, 1)
    return bare.str.extract_all(PIECES).list.eval(folded_piece).list.join("").str.strip_chars(" ;")


def kind_and_tables(statement: pl.Expr) -> pl.Expr:
    """The first word of a canonical statement (two for `show ..`), and the tables it names in alphabetical order."""
    named = statement.str.extract_all(r"(?-u:\b)(?:from|join|into|update|describe|desc) [a-z0-9_.]+")
    tables = named.list.eval(pl.element().str.split(" ").list.last()).list.unique().list.sort().list.join(", ")
    return pl.format("{} {}", statement.str.extract(r"^(show [a-z]+|\S+)", 1), tables).str.strip_chars_end()


class SqlRules:
    """Last result and statements so far."""

    name = "sql"
    rules: tuple[str, ...] = ("exact", "coarse")

    def detect(self, steps: pl.DataFrame) -> bool:
        """At least half of the actions are SQL statements."""
        return share(pl.col("action_text").str.extract(FENCE, 1).str.contains(STATEMENT), steps) >= 0.5

    def apply(self, steps: pl.DataFrame) -> pl.DataFrame:
        """Adds the columns of `rules/base.py` for both rules, `valid` and `observation_key`."""
        work = working(
            steps,
            folded(pl.col("observation")).alias("seen"),
            said(canonical_sql(pl.col("action_text"))).alias("action"),
        )
        work = trail(work, "action", "asked", ordered=False)
        ran, answered = before(pl.col("action")), ~pl.col("seen").fill_null("error").str.contains(FAILED)
        progress = names(
            {
                "tables": ever(answered & ran.str.contains(r"^show tables|sqlite_master|information_schema\.tables")),
                "columns": ever(
                    answered
                    & ran.str.contains(r"^(?:desc|describe|show (?:full )?columns|show create|pragma table_info)\b")
                ),
                "rows": ever(
                    answered & ran.str.contains(r"^(?:select|with)\b") & ~pl.col("seen").is_in(["[]", "()", ""])
                ),
            }
        )
        return steps.with_columns(
            work.select(
                known("seen", pl.format("after {} statements, set {}; sees {}", "asked_count", "asked", "seen")).alias(
                    "state_0"
                ),
                pl.col("seen").alias("state_1"),
                pl.col("action").alias("action_0"),
                kind_and_tables(pl.col("action")).alias("action_1"),
                progress.alias("progress"),
                pl.when(pl.col("action").is_not_null()).then(True).alias("valid"),
                pl.col("seen").alias("observation_key"),
            )
        )
