"""What a reader gets and gives: `LogFile` in, `Rollout`s with `Step`s out, every loss told to a `Report`.

A reader is an object with

    name                      "tau_bench"
    detect(head)              True when the first records look like this format (by keys, never by file name alone)
    read(log, report)         yields `Rollout`s; skips what it cannot use and says so in `report`

Readers never raise on bad records: they call `report.skip(reason, where, value)` and go on. They raise `DataError`
only when a whole file contradicts itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from mcgpo_data.readers.logfile import Head, LogFile

Message = dict[str, Any]
"""`{"role", "content", "name", "tool_call_id", "tool_calls"}`; absent keys are None. `tool_calls` is a list of
`{"id", "type", "function": {"name", "arguments"}}` with `arguments` a JSON string, as in the OpenAI API."""

UNFOUND = "mapping: "
"""Begins warnings of what a mapping names and a file does not have. In the sum over several files they count only
where no file has it."""


@dataclass(slots=True)
class Step:
    """One decision. Field meanings and allowed values: `mcgpo_data.schema.STEPS`."""

    messages: list[Message]
    observation: str | None = None
    observation_source: str = "from_messages"
    prompt_from: int | None = None  # None: this step's own messages are the whole prompt
    thought: str | None = None
    action_text: str | None = None
    action_kind: str = "message"
    action_valid: bool | None = None
    reward: float | None = None
    done: bool | None = None
    truncated: bool | None = None
    admissible_actions: list[str] | None = None
    prompt_token_ids: list[int] | None = None
    response_token_ids: list[int] | None = None
    response_logprobs: list[float] | None = None
    metadata: dict[str, Any] | None = None


@dataclass(slots=True)
class Rollout:
    """One attempt. Field meanings and allowed values: `mcgpo_data.schema.ROLLOUTS`.

    `rollout_id` None asks for an id made from the content. `first_step` lets a reader give a rollout in pieces (one
    record per step): pieces with one rollout_id are put together by step index.
    """

    steps: list[Step]
    task_id: str
    row: int
    rollout_id: str | None = None
    group_id: str | None = None  # None: the task
    group_source: str = "task"
    policy: str | None = None
    policy_version: str | None = None
    instruction: str | None = None
    outcome: float | None = None
    outcome_min: float | None = None
    outcome_max: float | None = None
    success: bool | None = None
    outcome_kind: str = "missing"
    terminal_status: str = "unknown"
    order_trusted: bool = True
    final_observation: str | None = None
    first_step: int = 0
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass
class Report:
    """What happened to one file: counts, and the first places of every loss. Mergeable over files."""

    path: str = ""
    format: str = ""
    records: int = 0
    rollouts: int = 0
    steps: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    warnings: dict[str, int] = field(default_factory=dict)
    found: dict[str, list[tuple[int | str | None, str]]] = field(default_factory=dict)  # reason: (where, what)

    MAX_PLACES = 5

    @property
    def places(self) -> dict[str, list[str]]:
        """The first places of every loss and warning, as text."""
        path = self.path
        return {
            reason: [f"{path}{shown}" if where is None else f"{path}:{where}{shown}" for where, shown in places]
            for reason, places in self.found.items()
        }

    def add(self, other: Report, lines: int) -> None:
        """Take in what happened to a later range of lines of the same file, that begins after `lines` lines."""
        self.records += other.records
        self.rollouts += other.rollouts
        self.steps += other.steps
        for mine, more in ((self.skipped, other.skipped), (self.warnings, other.warnings)):
            for reason, count in more.items():
                mine[reason] = mine.get(reason, 0) + count
        for reason, found in other.found.items():
            places = self.found.setdefault(reason, [])
            for where, shown in found[: self.MAX_PLACES - len(places)]:
                places.append((where + lines if isinstance(where, int) else where, shown))

    def skip(self, reason: str, where: int | str | None = None, value: object = None, count: int = 1) -> None:
        """Account for `count` records that are not used. `reason` is a fixed phrase, e.g. "truncated last line"."""
        self.skipped[reason] = self.skipped.get(reason, 0) + count
        self._place(reason, where, value)

    def warn(self, reason: str, where: int | str | None = None, value: object = None, count: int = 1) -> None:
        """Account for records that are used, but not as the source states (e.g. "outcome is NaN: unscored")."""
        self.warnings[reason] = self.warnings.get(reason, 0) + count
        self._place(reason, where, value)

    def _place(self, reason: str, where: int | str | None, value: object) -> None:
        found = self.found.setdefault(reason, [])
        if len(found) < self.MAX_PLACES:
            found.append((where, "" if value is None else f": {str(value)[:120]!r}"))


class Reader(Protocol):
    """One log format."""

    name: str

    def detect(self, head: Head) -> bool:
        """Whether the file that starts like `head` is of this format."""
        ...

    def read(self, log: LogFile, report: Report) -> Iterator[Rollout]:
        """All rollouts of one file."""
        ...
