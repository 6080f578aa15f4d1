"""Agents at a command line (InterCode Bash, SWE-agent and the like).

exact state: last output and the ordered list of commands so far, since any of them may have changed files. coarse
state: last output alone. Outputs are compared without clock times, temporary names, process ids and addresses
(`text.steady`).

exact action: the command, blanks folded outside quotes, without prompt sign, code fence or trailing semicolon.
coarse action: the programs it runs, in order (`cat a.txt | grep -n "x"` is `cat | grep`), with the subcommand of
git, pip, npm, docker, apt and cargo.

Progress: `edited` a command wrote to a file, `tested` tests were run, `passed` the last test run reported no failure.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from mcgpo_data.rules.frame import before, carried, ever, known, names, share, trail, working
from mcgpo_data.rules.text import said, steady

PIECES: Final = r"'[^']*'|\"(?:[^\"\\]|\\.)*\"|\\.|[^'\"\\]+|['\"\\]"
PROMPT: Final = r"(?s)^\s*(?:```\s*(?:bash|sh|shell|console)?\s*\n)?(?:[$#%>] )?(.*?)(?:```)?[\s;]*$"
PROGRAMS: Final = (  # of a kind that are no verbs of plain English
    r"^(?:ls|cd|cat|e?grep|sed|awk|echo|pwd|mkdir|rmdir|rm|mv|cp|chmod|tail|wc|uniq|tr|tar|git|pip3?|python3?"
    r"|pytest|npm|node|docker|curl|wget|vim?|nano|du|df|ps|whoami|export|bash|sh|apt|apt-get|sudo|ssh|xargs|tee"
    r"|md5sum|find [./~-]\S*|head -\S*|search_file|search_dir|find_file|str_replace_editor|scroll_down"
    r"|scroll_up)(?:[\s;|]|$)"
)
EDITS: Final = (
    r"(?:^|[\s;|&])(?:edit|create|insert|str_replace_editor (?:create|str_replace|insert)|sed -i|tee|patch"
    r"|git apply)\b|[^0-9&]>{1,2} ?[\w./~]"
)
TESTS: Final = (
    r"\b(?:pytest|unittest|tox|nox|npm (?:run )?test|go test|cargo test|make (?:test|check)|runtests|ctest|mvn test)\b"
)
FAILURES: Final = r"(?i-u:\b[1-9]\d* (?:failed|errors?|failures?)\b|\bFAILED\b|traceback \(most recent call last\))"
PASSES: Final = r"(?i-u:\b[1-9]\d* passed\b|\bOK\b|test result: ok)"


def canonical_command(text: pl.Expr) -> pl.Expr:
    """A command with blanks folded outside quotes; newlines stay, for they separate commands."""
    piece = pl.element()
    loose = piece.str.replace_all(r"[ \t]+", " ").str.replace_all(r" ?\n\s*", "\n")
    kept = pl.when(piece.str.contains(r"^['\"\\]")).then(piece).otherwise(loose)
    return text.str.extract(PROMPT, 1).str.extract_all(PIECES).list.eval(kept).list.join("").str.strip_chars(" ;\n")


def programs(command: pl.Expr) -> pl.Expr:
    """The programs that a canonical command runs, in order, joined by " | "."""
    part = (
        pl.element()
        .str.strip_chars()
        .str.replace(r"^(?:(?:sudo|time|env|\w+=\S*) )*", "")
        .str.extract(r"^((?:git|pip3?|npm|docker|apt|apt-get|cargo) [a-z-]+|[^\s<>]+)", 1)
    )
    bare = command.str.replace_all(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"", "_").str.replace_all(r"\|\||&&|[;|&\n]+", "\n")
    return bare.str.split("\n").list.eval(part).list.drop_nulls().list.join(" | ")


class ShellRules:
    """Last output and commands so far."""

    name = "shell"
    rules: tuple[str, ...] = ("exact", "coarse")

    def detect(self, steps: pl.DataFrame) -> bool:
        """At least half of the actions start with a well-known program."""
        return share(pl.col("action_text").str.extract(PROMPT, 1).str.contains(PROGRAMS), steps) >= 0.5

    def apply(self, steps: pl.DataFrame) -> pl.DataFrame:
        """Adds the columns of `rules/base.py` for both rules, and `observation_key`."""
        work = working(
            steps,
            steady(pl.col("observation")).alias("seen"),
            said(canonical_command(pl.col("action_text"))).alias("action"),
        )
        work = trail(work, "action", "ran", ordered=True)
        last = before(pl.col("action"))
        tested = last.str.contains(TESTS).fill_null(False)
        clean = pl.col("seen").str.contains(PASSES) & ~pl.col("seen").str.contains(FAILURES)
        progress = names(
            {
                "edited": ever(last.str.contains(EDITS)),
                "tested": ever(tested),
                "passed": carried(pl.when(tested).then(clean)),
            }
        )
        return steps.with_columns(
            work.select(
                known("seen", pl.format("after {} commands, list {}; sees {}", "ran_count", "ran", "seen")).alias(
                    "state_0"
                ),
                pl.col("seen").alias("state_1"),
                pl.col("action").alias("action_0"),
                programs(pl.col("action")).alias("action_1"),
                progress.alias("progress"),
                pl.col("seen").alias("observation_key"),
            )
        )
