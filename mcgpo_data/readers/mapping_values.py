"""Looks values up: paths into JSON, sources of a mapping, and the side table of outcomes."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from mcgpo_data.errors import DataError
from mcgpo_data.readers.base import Report
from mcgpo_data.readers.fields import ident
from mcgpo_data.readers.logfile import LogFile
from mcgpo_data.readers.mapping_spec import Part, Source, TableSpec
from mcgpo_data.readers.messages import dump, parsed

MAX_FIELD = 2**27  # characters of one CSV field
KEY_COLUMN = "@key"


def follow(value: object, path: str) -> Iterator[Any]:
    """All values at a dotted path. `*` is every element, a number an index of a list; `.` is the value itself.

    A key that holds the whole rest of the path, dots and all, goes first. Text that holds JSON is entered as JSON.
    """
    if path in ("", "."):
        yield value
        return
    value = parsed(value)
    if isinstance(value, dict):
        if path in value:
            yield value[path]
            return
        head, _, tail = path.partition(".")
        if head == "*":
            for item in value.values():
                yield from follow(item, tail)
        elif head in value:
            yield from follow(value[head], tail)
    elif isinstance(value, list):
        head, _, tail = path.partition(".")
        if head == "*":
            for item in value:
                yield from follow(item, tail)
        elif head.removeprefix("-").isdecimal() and len(head) < 10 and -len(value) <= int(head) < len(value):
            yield from follow(value[int(head)], tail)


def get(value: object, path: str) -> Any:
    """The first value at a path, or None."""
    return next(follow(value, path), None)


def as_text(value: object) -> str | None:
    """Text as it is, null as None, anything else as JSON with sorted keys."""
    return value if value is None or isinstance(value, str) else dump(value, sort=True)


def key_text(value: object) -> str:
    """How a logged value is written in a `values` map: true, false, null, 1, 0.5, text in lower case."""
    if value is None:
        return "null"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip().lower() if isinstance(value, str | bool | int | float) else dump(value, sort=True)


def inside_file(pattern: re.Pattern[str], file: str) -> re.Match[str] | None:
    """Where the name of a file matches; a pattern with a `/` sees the whole path as given."""
    return pattern.search(file if "/" in pattern.pattern else Path(file).name)


class Lookup:
    """Evaluates the sources of a mapping for one record of one file."""

    def __init__(self, file: str, row: int, report: Report, known: dict[str, str | None]) -> None:
        self.file, self.row, self.report, self.known = file, row, report, known

    def value(self, source: Source | None, record: object) -> Any:
        """A single part's value of any type, or the parts' texts joined by `|`. None where anything is missing."""
        if source is None:
            return None
        if len(source) == 1:
            return self._part(source[0], record)
        texts = [ident(value) if isinstance(value := self._part(part, record), int | float) else as_text(value)
                 for part in source]  # fmt: skip
        return None if None in texts else "|".join(text for text in texts if text is not None)

    def id(self, source: Source | None, record: object) -> str | None:
        """The value as an id."""
        value = self.value(source, record)
        return ident(as_text(value) if isinstance(value, bool | dict | list) else value)

    def _part(self, part: Part, record: object) -> Any:
        if part.reference is not None:
            return self.known.get(part.reference)
        if part.any:
            value: Any = next((v for inner in part.any if (v := self.value(inner, record)) is not None), None)
        elif part.file is not None:
            found = inside_file(part.file, self.file)
            value = (found.group(1) if found.re.groups else found.group()) if found else None
        else:
            value = part.value if part.field is None else get(record, part.field)
        if part.match is not None and value is not None:
            inside = part.match.search(as_text(value) or "")
            value = (inside.group(1) if inside.re.groups else inside.group()) if inside else None
        if part.values is not None and (value is not None or "null" in part.values):
            if key_text(value) in part.values:
                return part.values[key_text(value)]
            if part.default is None:
                self.report.warn("value is not in the mapping's list of values", self.row, value)
            value = None
        return part.default if value is None else value


class Table:
    """Outcomes by the values they are joined on."""

    def __init__(self, spec: TableSpec, path: Path) -> None:
        self.spec = spec
        self.columns = tuple(spec.on)
        self.rows: dict[tuple[str, ...], Any] = {}
        for row in _table_rows(path, spec):
            keys = tuple(ident(get(row, column)) or "" for column in self.columns)
            if keys in self.rows and self.rows[keys] != get(row, spec.value):
                raise DataError(
                    f"{path}: two values of {spec.value} for {dict(zip(self.columns, keys, strict=True))}."
                )
            self.rows[keys] = get(row, spec.value)

    def find(self, lookup: Callable[[Source], str | None]) -> Any:
        """The value of the row that fits, or None."""
        return self.rows.get(tuple(lookup(self.spec.on[column]) or "" for column in self.columns))


def _table_rows(path: Path, spec: TableSpec) -> Iterator[Mapping[str, Any]]:
    log = LogFile(path)
    if path.name.lower().endswith((".csv", ".csv.gz", ".csv.zst")):
        csv.field_size_limit(MAX_FIELD)
        try:
            yield from csv.DictReader(io.StringIO(log.text(), newline=""))
        except csv.Error as error:
            raise DataError(f"{path}: no valid CSV: {error}.") from error
        return
    report = Report(str(path))
    for _, record in log.records(report):
        keyed = isinstance(record, dict) and KEY_COLUMN in spec.on
        for key, row in record.items() if keyed else [(None, record)]:
            yield {**(row if isinstance(row, dict) else {spec.value: row}), KEY_COLUMN: key}
    if report.skipped:
        raise DataError(f"{path}: cannot be read as a table of outcomes: {next(iter(report.skipped))}.")
