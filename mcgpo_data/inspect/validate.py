"""What each input file is, and what is wrong where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcgpo_data.errors import DataError
from mcgpo_data.inputs import find_sources
from mcgpo_data.inspect.attempts import Attempts
from mcgpo_data.inspect.explain import plain
from mcgpo_data.readers.base import Reader, Report
from mcgpo_data.readers.logfile import LogFile


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
            attempts = Attempts(report)
            for rollout in source.reader.read(LogFile(source.path, source.display), report):
                attempts.add(rollout)
            attempts.close()
            facts = {name: count for name, count in attempts.facts.items() if count}
            entry |= {
                "format": report.format, "records": report.records, "facts": facts,
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
                lines.append(f"    {kind[:7]:8} {count:,} x {plain(reason, 200)}")
                places = [p.removeprefix(e["path"]).removeprefix(":") for p in e["places"].get(reason, [])]
                lines += [f"             {plain(place, 200)}" for place in _at(places, count)]
    return lines


def _at(places: list[str], count: int) -> list[str]:
    """Places inside one file, as lines of text: line numbers of JSON lines, else indices."""
    shown = [place for place in places if place]
    if any(": " in place for place in shown):
        return [f"at {place}" for place in shown]
    return [f"at {', '.join(shown)}{' ...' if count > len(shown) else ''}"] if shown else []


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
