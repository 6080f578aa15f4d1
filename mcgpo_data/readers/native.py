"""The native log: one JSON object (or Parquet row) per step. See docs/formats.md.

Required: `task_id`, `rollout_id`, `step`, and `action` or `response`. Everything else is optional. `success` and
    `outcome` count as the last step of a rollout states them. Steps of a rollout may lie in any order and in several
    files.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from mcgpo_data.readers.base import Report, Rollout, Step
from mcgpo_data.readers.logfile import Head, LogFile, loads
from mcgpo_data.readers.native_rows import Columns, FullRow, ThinRow, take_columns

REQUIRED = (("rollout_id",), ("step", "step_index"), ("task_id", "group_id"), ("action", "response"))
"""Keys that a record is recognised by: one of each."""

BLOCK_ROWS = 2048
BLOCK_BYTES = 8 * 2**20
ROLLOUT_FIELDS = (
    "task_id", "rollout_id", "group_id", "group_source", "policy", "policy_version", "instruction", "outcome",
    "outcome_min", "outcome_max", "success", "outcome_kind", "terminal_status", "final_observation",
)  # fmt: skip
STEP_FIELDS = (
    "observation", "observation_source", "prompt_from", "thought", "action_text", "action_kind", "action_valid",
    "reward", "done", "truncated", "admissible_actions", "prompt_token_ids", "response_token_ids",
    "response_logprobs", "metadata",
)  # fmt: skip


class NativeReader:
    """Step rows."""

    name = "native"

    def detect(self, head: Head) -> bool:
        """Keys `rollout_id`, `step`, a task or group id, and an action or response."""
        keys = set(head.columns) or set(head.first)
        return all(keys & set(names) for names in REQUIRED)

    def read(self, log: LogFile, report: Report) -> Iterator[Rollout]:
        """One piece of a rollout per record."""
        for columns in self.read_columns(log, report, thin=False):
            for i, index in enumerate(columns["step_index"]):
                step = Step(
                    [msgspec.to_builtins(m) for m in columns["messages"][i]],
                    **{name: columns[name][i] for name in STEP_FIELDS},
                )
                facts = {name: columns[name][i] for name in ROLLOUT_FIELDS}
                yield Rollout([step], row=columns["source_row"][i], first_step=index, **facts)

    def read_columns(self, log: LogFile, report: Report, *, thin: bool) -> Iterator[Columns]:
        """Some hundred rows at a time; `thin` does not even parse the long text."""
        rows: list[ThinRow] = []
        places: list[int] = []
        size = 0
        for where, row, length in self._rows(log, report, ThinRow if thin else FullRow):
            rows.append(row)
            places.append(where)
            size += length
            if len(rows) >= BLOCK_ROWS or size >= BLOCK_BYTES:
                yield take_columns(rows, places, report)
                rows, places, size = [], [], 0
        if rows:
            yield take_columns(rows, places, report)

    def _rows(self, log: LogFile, report: Report, kind: type[ThinRow]) -> Iterator[tuple[int, ThinRow, int]]:
        """(place, row, bytes where known) of every record that can be decoded."""
        if log.head().kind != "jsonl":
            for index, value in log.records(report):
                if (converted := self._convert(kind, value, index, report)) is not None:
                    yield index, converted, 0
            return
        decoder = msgspec.json.Decoder(kind, strict=False)
        last: tuple[int, bytes] | None = None
        row: ThinRow | None
        for number, line in log.lines(report):
            report.records += 1
            if last is not None:
                self._malformed(last, report, final=False)
                last = None
            try:
                row = decoder.decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):  # NaN, a wrong type, or no JSON
                try:
                    value = loads(line)
                except (ValueError, RecursionError):
                    last = number, line
                    continue
                row = self._convert(kind, value, number, report)
            if row is not None:
                yield number, row, len(line)
        if last is not None:
            self._malformed(last, report, final=log.at_end)

    @staticmethod
    def _malformed(last: tuple[int, bytes], report: Report, *, final: bool) -> None:
        cut = final and last[1][:1] == b"{" and not last[1].endswith(b"}")
        report.skip(
            "truncated last line" if cut else "malformed JSON", last[0], last[1][:80].decode("utf-8", "replace")
        )

    @staticmethod
    def _convert(kind: type[ThinRow], value: Any, where: int, report: Report) -> ThinRow | None:
        if not isinstance(value, dict):
            report.skip("not a JSON object", where, value)
            return None
        try:
            return msgspec.convert(value, kind, strict=False)
        except (msgspec.MsgspecError, OverflowError) as error:
            report.skip("field of the wrong type", where, error)
            return None


READERS = (NativeReader(),)
