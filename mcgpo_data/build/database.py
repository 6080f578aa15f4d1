"""A DuckDB connection that touches nothing but the tables it is given, and the SQL files of this package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from pathlib import Path

import duckdb


def connect(memory_limit: str = "1GB", spill: Path | None = None, threads: int = 1) -> duckdb.DuckDBPyConnection:
    """An in-memory database: no file access, no extensions, no Python variables picked up as tables.

    Args:
        memory_limit: DuckDB's own limit; the process needs about 130 MB more.
        spill: existing folder of ours for what does not fit; None: what does not fit is an error.
        threads: threads of one query. Results never depend on it.
    """
    con = duckdb.connect(
        ":memory:",
        config={
            "threads": threads,
            "memory_limit": memory_limit,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_community_extensions": False,
        },
    )
    con.execute("SET temp_directory = ?", [str(spill) if spill is not None else ""])
    con.execute("SET python_enable_replacements = false")
    con.execute("SET preserve_insertion_order = false")
    con.execute("SET enable_external_access = false")
    con.execute("SET lock_configuration = true")
    return con


@contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C during a query is a KeyboardInterrupt, as everywhere; DuckDB makes errors of its own of it."""
    try:
        yield
    except (RuntimeError, duckdb.Error) as error:
        text = str(error).strip()
        wrapped = isinstance(error.__cause__, KeyboardInterrupt)  # as by an import in the middle of a class
        if wrapped or text == "Query interrupted" or text.endswith("failed: KeyboardInterrupt:"):
            raise KeyboardInterrupt from error
        raise


@cache
def statement(name: str) -> str:
    """The SQL of `sql/{name}.sql`."""
    return (files("mcgpo_data.build") / "sql" / f"{name}.sql").read_text(encoding="utf-8")
