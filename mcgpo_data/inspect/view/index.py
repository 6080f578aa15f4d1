"""All pairs of a build in a DuckDB table in memory: narrow columns to filter and sort; a pair's text stays on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import pyarrow as pa

from mcgpo_data.build.database import connect
from mcgpo_data.errors import UsageError
from mcgpo_data.store import Store, read_parquet

SORTS: Final = ("weight", "support", "delta", "order")
COLUMNS: Final = (
    "pair_id", "task_id", "rule_name", "chosen_action", "rejected_action", "weight", "delta", "support",
    "chosen_support", "rejected_support",
)  # fmt: skip

CREATE = """
CREATE TABLE pairs AS
SELECT *, row_number() OVER (ORDER BY file, row) AS by_order,
       row_number() OVER (ORDER BY weight DESC, pair_id) AS by_weight,
       row_number() OVER (ORDER BY support DESC, pair_id) AS by_support,
       row_number() OVER (ORDER BY delta DESC, pair_id) AS by_delta
FROM incoming
"""
CHOSEN = """
CREATE MACRO chosen(task, rule, action, weight_from, support_from) AS TABLE
SELECT * FROM pairs
WHERE (task = '' OR contains(lower(task_id), lower(task))) AND (rule = '' OR rule_name = rule)
  AND (action = '' OR contains(lower(chosen_action), lower(action)) OR contains(lower(rejected_action), lower(action)))
  AND weight >= weight_from AND least(chosen_support, rejected_support) >= support_from
"""
PAGE = """
SELECT * FROM chosen($task, $rule, $action, $weight, $support)
ORDER BY CASE $sort WHEN 'support' THEN by_support WHEN 'delta' THEN by_delta WHEN 'order' THEN by_order
                    ELSE by_weight END
LIMIT $limit OFFSET $offset
"""
TOTAL = """
SELECT count(*) AS number, coalesce(sum(weight), 0) / (SELECT greatest(sum(weight), 1e-300) FROM pairs) AS share
FROM chosen($task, $rule, $action, $weight, $support)
"""


@dataclass(frozen=True)
class Filter:
    """Which pairs, in which order. Text is looked for inside task ids and actions; an empty one matches all.

    Attributes:
        task: part of the task id.
        rule: name of the rule.
        action: part of one of the two actions.
        weight: least weight.
        support: least support of the weaker side.
        sort: one of `SORTS`, from large to small; "order": as in the build.
    """

    task: str = ""
    rule: str = ""
    action: str = ""
    weight: float = 0.0
    support: int = 0
    sort: str = "weight"

    @classmethod
    def from_query(cls, query: Mapping[str, str]) -> Filter:
        """A filter from the fields of an address; what cannot be understood is left out."""
        values: dict[str, Any] = {name: query[name] for name in ("task", "rule", "action") if name in query}
        for name, kind in (("weight", float), ("support", int)):
            try:
                values[name] = max(kind(query.get(name, "0") or 0), 0)
            except (ValueError, OverflowError):
                continue
        if query.get("sort") in SORTS:
            values["sort"] = query["sort"]
        return cls(**values)

    def query(self, **more: int) -> str:
        """The fields of an address that differ from the defaults, then `more`."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        return urlencode({**values, **more})


class PairIndex:
    """Pairs of a build, to be filtered and paged through. Safe to use from several threads."""

    def __init__(self, store: Store) -> None:
        self._files = store.files("preferences")
        parts = []
        for number, path in enumerate(self._files):
            table = read_parquet(path, list(COLUMNS))
            rows = pa.array(range(table.num_rows), pa.int64())
            table = table.append_column("file", pa.array([number] * table.num_rows, pa.int32()))
            parts.append(table.append_column("row", rows))
        if not parts:
            raise UsageError(f"{store.path}: holds no pairs to look at; `mcgpo report` says why.")
        incoming = pa.concat_tables(parts)
        self._con = connect("4GB", threads=2)
        self._con.register("incoming", incoming)
        self._con.execute(CREATE)
        self._con.execute(CHOSEN)
        self._con.unregister("incoming")
        self.rules = sorted(set(incoming["rule_name"].to_pylist()))
        self.total = incoming.num_rows

    def count(self, chosen: Filter) -> tuple[int, float]:
        """Number of pairs, and their share of the weight of all."""
        (row,) = self._rows(TOTAL, {name: value for name, value in asdict(chosen).items() if name != "sort"})
        return int(row["number"]), float(row["share"])

    def page(self, chosen: Filter, offset: int, limit: int) -> list[dict[str, Any]]:
        """Some rows of the filtered pairs."""
        return self._rows(PAGE, {**asdict(chosen), "offset": offset, "limit": limit})

    def place(self, pair_id: str) -> tuple[Path, int] | None:
        """File and row of a pair; None: no such pair."""
        found = self._rows("SELECT file, row FROM pairs WHERE pair_id = $pair_id", {"pair_id": pair_id})
        return (self._files[found[0]["file"]], int(found[0]["row"])) if found else None

    def _rows(self, query: str, values: dict[str, Any]) -> list[dict[str, Any]]:
        """Rows of a query, from a connection of the calling thread's own."""
        with self._con.cursor() as cursor:
            cursor.execute(query, values)
            names = [column[0] for column in cursor.description or []]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
