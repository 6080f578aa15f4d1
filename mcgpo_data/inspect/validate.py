"""What each input file is, and what is wrong where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from mcgpo_data.errors import DataError
from mcgpo_data.inputs import find_sources
from mcgpo_data.inspect.explain import plain
from mcgpo_data.readers.base import Reader, Report
from mcgpo_data.readers.logfile import LogFile
from mcgpo_data.readers.native import NativeReader


def validate_files(
    paths: Sequence[str], format_name: str | None = None, mapping: Reader | None = None
) -> list[dict[str, Any]]:
    """One entry per file: format, counts, and the first places of every loss.

    Raises:
        UsageError: no file is a trajectory log.
    """
    entries = []
    for source in find_sources(paths, format_name, mapping):
        entry: dict[str, Any] = {"path": source.display, "bytes": source.size, "format": None, "why": source.why}
        if source.reader is not None:
            report = Report(path=source.display, format=source.reader.name)
            facts: Counter[str] = Counter()
            ids: set[str] = set()
            for rollout in source.reader.read(LogFile(source.path, source.display), report):
                facts["steps"] += len(rollout.steps)
                whole = not isinstance(source.reader, NativeReader)
                if whole or rollout.rollout_id not in ids:
                    facts["rollouts"] += 1
                    ids.add(rollout.rollout_id or "")
                facts["graded"] += rollout.outcome is not None or rollout.success is not None
                facts[f"group_source {rollout.group_source}"] += whole
                facts["order not trusted"] += not rollout.order_trusted
            entry |= {
                "format": report.format, "records": report.records, "facts": {k: v for k, v in facts.items() if v},
                "skipped": report.skipped, "warnings": report.warnings, "places": report.places,
            }  # fmt: skip
        entries.append(entry)
    return entries


def validation_lines(entries: list[dict[str, Any]]) -> list[str]:
    """The entries as text."""
    lines = []
    for e in entries:
        if e["format"] is None:
            lines.append(f"{plain(e['path'], 200)}: not a log: {plain(e['why'], 200)}")
            continue
        facts = ", ".join(f"{count:,} {name}" for name, count in e["facts"].items())
        lines.append(f"{plain(e['path'], 200)}: {e['format']}, {e['records']:,} records: {facts or 'no rollouts'}")
        for kind in ("skipped", "warnings"):
            for reason, count in e[kind].items():
                lines.append(f"    {kind[:7]:8} {count:,} x {reason}")
                lines += [f"             {plain(place, 200)}" for place in e["places"].get(reason, [])]
    return lines


def check_bad(entries: list[dict[str, Any]], limit: float) -> None:
    """Raise where too many records cannot be used.

    Raises:
        DataError: more than `limit` of all records were skipped.
    """
    records = sum(e.get("records", 0) for e in entries)
    bad = sum(sum(e.get("skipped", {}).values()) for e in entries)
    if records and bad / records > limit:
        raise DataError(
            f"{bad:,} of {records:,} records ({bad / records:.1%}) cannot be used, more than "
            f"--max-bad-fraction {limit:g}."
        )
