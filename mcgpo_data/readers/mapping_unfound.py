"""What a mapping names and a file does not have: a misspelt path reads as silence, so it is told after the file.

A path counts as found where its key is there, even with null. The alternatives of `any` count as one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from mcgpo_data.readers.base import UNFOUND, Report
from mcgpo_data.readers.mapping_spec import Mapping, Part, Source
from mcgpo_data.readers.mapping_values import as_text, follow, get, inside_file
from mcgpo_data.readers.messages import parsed

Look = Callable[[Any], bool | None]
"""Whether something is in a place; None: the place is none where it could be."""


class Sought:
    """Reasons for warnings, each with the look that does away with it."""

    def __init__(self, looks: dict[str, Look]) -> None:
        self.left = looks
        self.missed: Counter[str] = Counter()

    def look(self, place: object) -> None:
        """Look in one more place for what was not found yet."""
        for reason in list(self.left):
            found = self.left[reason](place)
            if found:
                del self.left[reason]
            elif found is not None:
                self.missed[reason] += 1

    def tell(self, report: Report) -> None:
        """Warn of what was looked for and never found; the count is that of the places."""
        for reason in self.left:
            if self.missed[reason]:
                report.warn(reason, count=self.missed[reason])


class Unfound:
    """All that the mapping `spec` names, looked for in one file."""

    def __init__(self, spec: Mapping, file: str) -> None:
        steps = spec.steps
        records: dict[str, Look] = {}
        names: dict[str, Look] = {}
        for key, part in _parts(spec):
            if paths := _paths(part):
                records[_path(key, ", ".join(paths), "records")] = partial(_has_any, paths)
            if part.field is not None and part.match is not None:
                records[_pattern(key, "texts")] = partial(_matches_at, part.field, part.match)
            if part.file is not None:
                names[f"{UNFOUND}the pattern of `{key}` is not in the name of the file"] = partial(_names, part.file)
        fields = {f"steps.fields.{name}": path for name, path in steps.fields.items()}
        if steps.form == "columns":
            records |= {_path(key, path, "records"): partial(_has_array, path) for key, path in fields.items()}
            fields = {}
        self.records = Sought(records)
        self.steps = Sought({_path(key, path, "steps"): partial(_has_any, (path,)) for key, path in fields.items()})
        taken = steps.action if steps.form != "text" and "action" not in steps.fields else None
        self.responses = Sought(_search("steps.action", taken, "responses"))
        self.answers = Sought(_search("steps.invalid", steps.invalid, "answers"))
        blocks = ("action", "thought", "observation", "cut") if steps.form == "text" else ()
        self.texts = Sought(
            {
                _pattern(f"steps.{name}", "texts"): partial(_is_in, name)
                for name in blocks
                if getattr(steps, name) is not None
            }
        )
        self.files = Sought(_search("split", spec.split, "files"))
        self.names = Sought(names)
        self.names.look(file)

    def tell(self, report: Report) -> None:
        """Warn of everything that was found nowhere."""
        for sought in (self.names, self.files, self.records, self.texts, self.steps, self.responses, self.answers):
            sought.tell(report)


def _parts(spec: Mapping) -> Iterator[tuple[str, Part]]:
    """All parts of all sources, with the key that they stand under."""
    sources: dict[str, Source | None] = {
        name: getattr(spec, name)
        for name in ("task", "group", "rollout", "policy", "policy_version", "instruction", "success", "status")
    }
    sources["steps.initial"] = spec.steps.initial
    if spec.outcome is not None:
        sources["outcome"] = spec.outcome.source
        if spec.outcome.table is not None:
            sources |= {f"outcome.table.on.{column}": source for column, source in spec.outcome.table.on.items()}
    for key, source in sources.items():
        for part in source or ():
            yield key, part


def _paths(part: Part) -> tuple[str, ...]:
    """The paths of which one should be there; none where the part has a value without."""
    if not part.any:
        return (part.field,) if part.field is not None else ()
    inner = [_paths(p) for source in part.any for p in source]
    return tuple(path for paths in inner for path in paths) if all(inner) else ()


def _path(key: str, path: str, places: str) -> str:
    return f"{UNFOUND}`{key}` ({path}) found in none of the {places}"


def _pattern(key: str, places: str) -> str:
    return f"{UNFOUND}the pattern of `{key}` matched none of the {places}"


def _search(key: str, pattern: re.Pattern[str] | None, places: str) -> dict[str, Look]:
    return {} if pattern is None else {_pattern(key, places): partial(_found, pattern)}


def _has_any(paths: tuple[str, ...], place: object) -> bool:
    return any(True for path in paths for _ in follow(place, path))


def _has_array(path: str, record: object) -> bool:
    return isinstance(parsed(get(record, path)), list)


def _matches_at(path: str, pattern: re.Pattern[str], record: object) -> bool | None:
    return _found(pattern, as_text(get(record, path)))


def _found(pattern: re.Pattern[str], text: str | None) -> bool | None:
    return None if text is None else pattern.search(text) is not None


def _names(pattern: re.Pattern[str], file: str) -> bool:
    return inside_file(pattern, file) is not None


def _is_in(name: str, names: set[str]) -> bool:
    return name in names
