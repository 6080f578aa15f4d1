"""Reader of home-made logs, driven by a YAML file that says what lies where. Vocabulary: `docs/mapping.md`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any

from mcgpo_data.errors import UsageError
from mcgpo_data.readers.base import Report, Rollout, Step
from mcgpo_data.readers.fields import flag, unscore_errors
from mcgpo_data.readers.logfile import Head, LogFile, finite
from mcgpo_data.readers.mapping_spec import REWARD_SUMS, Mapping, OutcomeSpec, read_spec
from mcgpo_data.readers.mapping_steps import build, from_columns, from_list
from mcgpo_data.readers.mapping_text import read_text
from mcgpo_data.readers.mapping_unfound import Unfound
from mcgpo_data.readers.mapping_values import Lookup, Table, as_text, follow, get
from mcgpo_data.readers.mapping_yaml import load_yaml
from mcgpo_data.readers.messages import digest, parsed

SHIPPED = resources.files("mcgpo_data.readers") / "mappings"
TEXT_FIELD = "text"  # of the records that `split` makes


class MappingReader:
    """Reads logs as one mapping says."""

    def __init__(self, spec: Mapping, folder: Path | None = None) -> None:
        self.spec, self.folder = spec, folder
        self.name = spec.name

    def detect(self, head: Head) -> bool:
        """The mapping names what its records have, and the first record of the file has it."""
        if not self.spec.detect_keys:
            return False
        heads = head.records if self.spec.split is None else [{TEXT_FIELD: head.text}]
        record = next((items[0] for value in heads if (items := self._expand(value))), None)
        return record is not None and self._fits(record)

    def read(self, log: LogFile, report: Report) -> Iterator[Rollout]:
        """All rollouts of one file."""
        table = self._table(log)
        unfound = Unfound(self.spec, log.display)
        if self.spec.steps.form == "rows":
            yield from self._from_rows(log, table, report, unfound)
        else:
            for row, record in self._records(log, report, unfound):
                rollout = self._rollout([record], row, log, table, report, unfound)
                if rollout is not None:
                    yield rollout
        unfound.tell(report)

    def _fits(self, record: object) -> bool:
        for key in self.spec.detect_keys:
            if next(follow(record, key), self) is self:
                return False
        texts = {path: as_text(get(record, path)) or "" for path in self.spec.detect_match}
        return all(pattern.search(texts[path]) for path, pattern in self.spec.detect_match.items())

    def _expand(self, value: object) -> list[Any]:
        """The records in one JSON value: those at the first path that leads to any object."""
        for path in self.spec.records or (".",):
            if items := [item for item in follow(value, path) if isinstance(item, dict)]:
                return items
        return []

    def _records(self, log: LogFile, report: Report, unfound: Unfound) -> Iterator[tuple[int, dict[str, Any]]]:
        if self.spec.split is not None:
            text = log.text()
            unfound.files.look(text)
            for index, piece in enumerate(_pieces(text, self.spec.split)):
                report.records += 1
                record = {TEXT_FIELD: piece}
                unfound.records.look(record)
                yield index, record
            return
        if log.head().kind == "text":
            report.records += 1
            report.skip("no JSON in the file, and the mapping says nowhere to split it", 0)
        for place, value in log.records(report):
            items = self._expand(value)
            if not items:
                report.skip("no record where the mapping says", place, value)
            report.records += max(len(items) - 1, 0)
            for index, item in enumerate(items):
                unfound.records.look(item)
                yield (index if self.spec.records else place), item

    def _from_rows(self, log: LogFile, table: Table | None, report: Report, unfound: Unfound) -> Iterator[Rollout]:
        rows: dict[str, list[dict[str, Any]]] = {}
        first: dict[str, int] = {}
        for place, record in self._records(log, report, unfound):
            name = Lookup(log.display, place, report, {}).id(self.spec.rollout, record)
            if name is None:
                report.skip("row without the id of its rollout", place)
                continue
            rows.setdefault(name, []).append(record)
            first.setdefault(name, place)
        for name, records in rows.items():
            rollout = self._rollout(records, first[name], log, table, report, unfound)
            if rollout is not None:
                yield rollout

    def _rollout(
        self,
        records: list[dict[str, Any]],
        row: int,
        log: LogFile,
        table: Table | None,
        report: Report,
        unfound: Unfound,
    ) -> Rollout | None:
        """One rollout. With form rows its fields are those of the first record that has them."""
        spec = self.spec
        known: dict[str, str | None] = {}
        look = _Fields(Lookup(log.display, row, report, known), records)
        for name, source in (("policy", spec.policy), ("policy_version", spec.policy_version), ("task", spec.task)):
            known[f"@{name}"] = look.id(source)
        instruction = as_text(look.value(spec.instruction))
        made = self._steps(records, row, look, instruction, report, unfound)
        if made is None:
            return None
        steps, answers = made
        if not steps:
            report.skip("record without steps", row)
            return None
        if spec.steps.invalid is not None:
            _mark_invalid(steps, answers, spec)
            for answer in answers:
                unfound.answers.look(answer)
        task = known["@task"]
        if task is None and spec.task is not None:
            report.warn("no task id where the mapping says: grouped by instruction and first observation", row)
        group = look.id(spec.group)
        rollout = Rollout(
            steps=steps,
            task_id=task if task is not None else digest(instruction, steps[0].observation),
            row=row,
            rollout_id=look.id(spec.rollout),
            group_id=group,
            group_source="user" if group is not None else "task" if task is not None else "initial_hash",
            policy=known["@policy"],
            policy_version=known["@policy_version"],
            instruction=instruction,
            terminal_status=str(look.value(spec.status) or "unknown"),
            final_observation=answers[-1],
            metadata=self._rest(records[0]),
        )
        self._outcome(rollout, look, table, report)
        return rollout

    def _steps(
        self,
        records: list[dict[str, Any]],
        row: int,
        look: _Fields,
        instruction: str | None,
        report: Report,
        unfound: Unfound,
    ) -> tuple[list[Step], list[str | None]] | None:
        spec = self.spec.steps
        if spec.form == "text":
            text = get(records[0], spec.at or ".")
            if not isinstance(text, str):
                report.skip("no text where the mapping says", row, text)
                return None
            log = read_text(text, spec)
            unfound.texts.look(log.matched)
            if log.unfinished:
                report.warn("text ends with a thought and no action: left out", row)
            return log.steps, log.answers
        if spec.form == "columns":
            logged = from_columns(records[0], spec, row, report)
        else:
            items: Any = records if spec.form == "rows" else parsed(get(records[0], spec.at or "."))
            items = list(items.values()) if isinstance(items, dict) else items
            if not isinstance(items, list):
                report.skip("no list of steps where the mapping says", row, items)
                return None
            for item in items:
                if isinstance(item, dict):
                    unfound.steps.look(item)
            logged = from_list(items, spec, row, report)
        if logged is None:
            return None
        for fields in logged:
            unfound.responses.look(as_text(fields.get("response")))
        stored = build(logged, spec, as_text(look.value(spec.initial)), instruction)
        return stored.steps, stored.answers

    def _outcome(self, rollout: Rollout, look: _Fields, table: Table | None, report: Report) -> None:
        spec = self.spec.outcome
        if spec is not None:
            raw = _from_rewards(rollout, spec) if spec.from_rewards else look.value(spec.source)
            if table is not None:
                raw = table.find(look.id)
                if raw is None:
                    report.warn("no row for it in the table of outcomes: unscored", rollout.row)
            rollout.outcome = _scaled(raw, spec, rollout.row, report)
            if rollout.outcome is not None:
                rollout.outcome_kind = REWARD_SUMS[spec.from_rewards] if spec.from_rewards else "terminal"
                rollout.outcome_min, rollout.outcome_max = spec.low, spec.high
                if spec.threshold is not None:
                    rollout.success = rollout.outcome >= spec.threshold
        if self.spec.success is not None:
            rollout.success = flag(look.value(self.spec.success))
            if spec is None and rollout.success is not None:
                rollout.outcome, rollout.outcome_kind = float(rollout.success), "terminal"
                rollout.outcome_min, rollout.outcome_max = 0.0, 1.0
        unscore_errors(rollout, report)

    def _rest(self, record: dict[str, Any]) -> dict[str, Any]:
        """Small fields that are not the steps themselves."""
        paths = [self.spec.steps.at or "", *self.spec.steps.fields.values()]
        used = {path.partition(".")[0] for path in paths}
        return {key: value for key, value in record.items() if key not in used and value is not None}

    def _table(self, log: LogFile) -> Table | None:
        spec = self.spec.outcome.table if self.spec.outcome else None
        if spec is None:
            return None
        for folder in (self.folder, log.path.parent):
            if folder is not None and (folder / spec.path).is_file():
                return Table(spec, folder / spec.path)
        return spec.place.fail(f"no file {spec.path!r} beside the mapping or beside {log.display}.")


class _Fields:
    """Sources looked up in the records of one rollout; the first that has a value counts."""

    def __init__(self, lookup: Lookup, records: list[dict[str, Any]]) -> None:
        self.lookup, self.records = lookup, records

    def value(self, source: Any) -> Any:
        """The value of a source."""
        return next((v for r in self.records if (v := self.lookup.value(source, r)) is not None), None)

    def id(self, source: Any) -> str | None:
        """The value of a source as an id."""
        return next((v for r in self.records if (v := self.lookup.id(source, r)) is not None), None)


def _pieces(text: str, split: re.Pattern[str]) -> list[str]:
    """The text from each match of `split` to the next; what stands before the first is a header."""
    starts = [found.start() for found in split.finditer(text)] or [0]
    return [text[a:b] for a, b in pairwise([*starts, len(text)]) if text[a:b].strip()]


def _mark_invalid(steps: list[Step], answers: list[str | None], spec: Mapping) -> None:
    for step, answer in zip(steps, answers, strict=True):
        if answer is not None and spec.steps.invalid is not None and step.action_valid is None:
            step.action_valid = spec.steps.invalid.search(answer) is None


def _from_rewards(rollout: Rollout, spec: OutcomeSpec) -> float | None:
    rewards = [step.reward for step in rollout.steps if step.reward is not None]
    if not rewards:
        return None
    return {"sum": sum(rewards), "max": max(rewards), "mean": sum(rewards) / len(rewards), "last": rewards[-1]}[
        spec.from_rewards or "last"
    ]


def _scaled(raw: Any, spec: OutcomeSpec, row: int, report: Report) -> float | None:
    word = flag(raw) if isinstance(raw, str) else None  # "True"
    value = None if isinstance(raw, list | dict) else finite(raw if word is None else word)
    if value is None:
        report.warn("outcome is null, NaN or no number: unscored", row, raw)
        return None
    if spec.low is not None and spec.high is not None and not spec.low <= value <= spec.high:
        if not spec.clip:
            report.warn("outcome outside the declared scale: unscored", row, raw)
            return None
        report.warn("outcome outside the declared scale: clipped", row, raw)
        return min(max(value, spec.low), spec.high)
    return value


def load_mapping(path_or_name: str | Path) -> MappingReader:
    """A reader from a YAML file, or from a shipped mapping by its name.

    Raises:
        UsageError: no such file or name, or anything in the file that is not in the vocabulary, with its place.
    """
    given = str(path_or_name)
    path = Path(given)
    if path.is_file():
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{given}: cannot be read as a mapping: {error}.") from error
        return MappingReader(read_spec(load_yaml(text, given)), path.parent)
    readers = {name: reader for reader in READERS for name in (reader.name, *reader.spec.aliases)}
    if given in readers:
        return readers[given]
    near = difflib.get_close_matches(given, readers, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"Shipped mappings: {', '.join(sorted(readers))}."
    raise UsageError(f"{given}: neither a mapping file nor the name of a shipped mapping. {hint}")


def _shipped() -> tuple[MappingReader, ...]:
    files = sorted((item for item in SHIPPED.iterdir() if item.name.endswith(".yaml")), key=lambda item: item.name)
    return tuple(MappingReader(read_spec(load_yaml(file.read_text(encoding="utf-8"), file.name))) for file in files)


READERS = _shipped()
