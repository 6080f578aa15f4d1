"""Columns of the tables, for people and for programs."""

from __future__ import annotations

import difflib
from typing import Any

from mcgpo_data.errors import UsageError
from mcgpo_data.jsonschema import table_schema
from mcgpo_data.schema import TABLES


def _names(table: str | None) -> list[str]:
    if table is None:
        return list(TABLES)
    if table not in TABLES:
        near = difflib.get_close_matches(table, TABLES, 1)
        raise UsageError(
            f"no table {table!r}.{f' Did you mean {near[0]}?' if near else ''} Known: {', '.join(TABLES)}."
        )
    return [table]


def table_lines(table: str | None) -> list[str]:
    """Name, type and meaning of each column."""
    lines = []
    for name in _names(table):
        lines.append(name)
        for f in TABLES[name]:
            kind = str(f.type)
            kind = "list<message>" if kind.startswith("list<") and "role" in kind else kind
            lines.append(
                f"    {f.name:22} {kind:14} {'null ok ' if f.nullable else '        '} {f.metadata[b'doc'].decode()}"
            )
    return lines


def table_schemas(table: str | None) -> dict[str, Any]:
    """JSON Schemas by table name."""
    return {name: table_schema(name) for name in _names(table)}
