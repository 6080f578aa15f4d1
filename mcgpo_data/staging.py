"""Between readers and tables: step rows spread over hash partitions of the task, so that each part is small and
complete.

A staged row is one decision with everything its source said, rollout facts repeated. Every reading job appends Arrow
record batches to one file; each batch holds rows of one partition, which is a range of the task's 60-bit hash, so that
all rollouts of a task meet in one partition whatever file they came from. Batches are not compressed: they are read
where they lie, and packing them would take as long as everything else here.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import to_builtins

from mcgpo_data.errors import DataError
from mcgpo_data.readers.base import Rollout, Step
from mcgpo_data.readers.logfile import SURROGATE
from mcgpo_data.schema import MESSAGE, MESSAGES, STEPS, TOOL_CALL

KEY_SPACE: Final = 2**60
FLUSH_BYTES: Final = 24 * 2**20
FLUSH_ROWS: Final = 20_000

ROLLOUT_COLUMNS: Final = {
    "policy": pa.string(),
    "policy_version": pa.string(),
    "instruction": pa.string(),
    "outcome": pa.float64(),
    "outcome_min": pa.float64(),
    "outcome_max": pa.float64(),
    "success": pa.bool_(),
    "outcome_kind": pa.string(),
    "terminal_status": pa.string(),
    "order_trusted": pa.bool_(),
    "final_observation": pa.string(),
}
KEY_COLUMNS: Final = {
    "task_key": pa.int64(),
    "task_id": pa.string(),
    "group_id": pa.string(),
    "group_source": pa.string(),
    "rollout_id": pa.string(),
    "step_index": pa.int32(),
    "source_format": pa.string(),
    "source_file": pa.int32(),
    "source_row": pa.int64(),
    "rollout_metadata": pa.string(),
}
STEP_COLUMNS: Final = {f.name: f.type for f in STEPS if f.name not in ("rollout_id", "step_index")}
STAGED: Final = pa.schema({**KEY_COLUMNS, **ROLLOUT_COLUMNS, **STEP_COLUMNS})
ROLLOUT_KEYS: Final = ("task_id", "group_id", "group_source")
TEXT_COLUMNS: Final = ("messages", "prompt_token_ids", "response_token_ids", "response_logprobs")


def h60(text: str) -> int:
    """The first 60 bits of sha256, as the SQL computes them."""
    return int(hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:15], 16)


def clean(text: str | None) -> str | None:
    """Text that every Parquet reader accepts: lone surrogates become U+FFFD."""
    if text is None:
        return None
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return SURROGATE.sub("\ufffd", text)
    return text


def messages_array(rows: Sequence[Sequence[Any]]) -> pa.Array:
    """Lists of messages (dicts, or objects with all fields of one) as an Arrow array of type `schema.MESSAGES`."""
    offsets = [0, *itertools.accumulate(map(len, rows))]
    flat = list(itertools.chain.from_iterable(rows))
    as_dict = bool(flat) and isinstance(flat[0], dict)

    def of(name: str) -> list[Any]:
        return [m.get(name) for m in flat] if as_dict else list(map(attrgetter(name), flat))

    columns = [_array(of(name), MESSAGE.field(name)) for name in ("role", "content", "name", "tool_call_id")]
    calls = of("tool_calls")
    if any(calls):
        columns.append(pa.array([_tool_calls(to_builtins(c)) for c in calls], pa.list_(TOOL_CALL)))
    else:
        columns.append(pa.nulls(len(flat), pa.list_(TOOL_CALL)))
    values = pa.StructArray.from_arrays(columns, fields=list(MESSAGE))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values).cast(MESSAGES)


def _tool_calls(calls: list[dict[str, Any]] | None) -> list[dict[str, Any]] | None:
    if not calls:
        return None
    return [
        {
            "id": clean(call.get("id")),
            "type": call.get("type") or "function",
            "function": {k: clean((call.get("function") or {}).get(k)) for k in ("name", "arguments")},
        }
        for call in calls
    ]


def dumps(value: dict[str, Any] | None) -> str | None:
    """A JSON object as text with sorted keys; None for an empty one."""
    if not value:
        return None
    try:
        text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS, default=str).decode()
    except (TypeError, orjson.JSONEncodeError):  # lone surrogates, integers beyond 64 bits
        import json

        try:
            text = json.dumps(value, sort_keys=True, default=str)
        except RecursionError:
            text = '{"left out": "nested too deep"}'
    return text


@dataclass
class Stage:
    """Collects step rows of one reading job and writes them to its file, partition by partition.

    Args:
        folder: our own staging folder.
        job: number of the job: name of its file, and `source_file` of its rows.
        source_format: name of the reader.
        partitions: power of two.
        thin: leave `TEXT_COLUMNS` null.
    """

    folder: Path
    job: int
    source_format: str
    partitions: int
    thin: bool = False
    steps: int = 0
    text_bytes: int = 0
    narrow_bytes: int = 0
    _rows: list[tuple[Rollout, Step, int, str]] = field(default_factory=list)
    _row_bytes: int = 0
    _file: tuple[pa.OSFile, pa.ipc.RecordBatchFileWriter] | None = None
    _written: list[int] = field(default_factory=list)  # partition of each batch in the file
    _task_keys: dict[str, int] = field(default_factory=dict)
    _seen: Counter[str] = field(default_factory=Counter)

    def add(self, rollout: Rollout) -> None:
        """Append all steps of a rollout."""
        rollout_id = rollout.rollout_id if rollout.rollout_id is not None else self._content_id(rollout)
        for index, step in enumerate(rollout.steps, rollout.first_step):
            self._rows.append((rollout, step, index, rollout_id))
            self._row_bytes += 200 + len(step.observation or "")
            for message in step.messages:
                self._row_bytes += len(message.get("content") or "")
        if self._row_bytes >= FLUSH_BYTES or len(self._rows) >= FLUSH_ROWS:
            self._take_rows()

    def _take_rows(self) -> None:
        if not self._rows:
            return
        rollouts, steps, indices, ids = zip(*self._rows, strict=True)
        self._rows, self._row_bytes = [], 0
        self.add_columns(
            {
                **{name: list(map(attrgetter(name), rollouts)) for name in (*ROLLOUT_COLUMNS, *ROLLOUT_KEYS)},
                **{name: list(map(attrgetter(name), steps)) for name in STEP_COLUMNS},
                "step_index": indices,
                "rollout_id": ids,
                "source_row": [r.row for r in rollouts],
                "prompt_from": [
                    i if s.prompt_from is None else s.prompt_from for s, i in zip(steps, indices, strict=True)
                ],
                "rollout_metadata": [
                    r.metadata if i == r.first_step else None for r, i in zip(rollouts, indices, strict=True)
                ],
            }
        )

    def add_columns(self, columns: Mapping[str, Sequence[Any]]) -> None:
        """Append rows that are columns already; those left out are null, but for what is the same in all rows."""
        tasks = columns["task_id"]
        if not tasks:
            return
        groups = [t if g is None else g for g, t in zip(columns["group_id"], tasks, strict=True)]
        columns = {**columns, "task_key": list(map(self.task_key, tasks)), "group_id": groups}
        for name in ("metadata", "rollout_metadata"):
            if name in columns:
                columns[name] = list(map(dumps, columns[name]))
        constant = {"source_format": self.source_format, "source_file": self.job, "order_trusted": True}
        arrays = []
        for f in STAGED:
            if f.name in columns and not (self.thin and f.name in TEXT_COLUMNS):
                values = columns[f.name]
                arrays.append(messages_array(values) if f.name == "messages" else _array(values, f))
            elif f.name in constant:
                arrays.append(pa.repeat(pa.scalar(constant[f.name], f.type), len(tasks)))
            else:
                arrays.append(pa.nulls(len(tasks), f.type))
        self._write(pa.RecordBatch.from_arrays(arrays, schema=STAGED))

    def task_key(self, task_id: str) -> int:
        """60-bit key of a task, remembered."""
        key = self._task_keys.get(task_id)
        if key is None:
            key = self._task_keys[task_id] = h60(clean(task_id) or "")
        return key

    def _content_id(self, rollout: Rollout) -> str:
        """An id for a rollout whose source has none: the same content gives the same id; repeats in one file are
        numbered.
        """
        digest = hashlib.sha256()
        for part in (rollout.task_id, rollout.policy, rollout.policy_version, repr(rollout.outcome)):
            digest.update(repr(part).encode("utf-8", "surrogatepass"))
        for step in rollout.steps:
            digest.update(orjson_bytes(step))
        name = f"content-{digest.hexdigest()[:20]}"
        self._seen[name] += 1
        return f"{name}-{self._seen[name] - 1}"

    def _write(self, batch: pa.RecordBatch) -> None:
        """Append rows to the file, split by partition."""
        self.steps += batch.num_rows
        if not self.thin:
            contents = pc.list_flatten(batch.column("messages")).field("content")
            self.text_bytes += pc.sum(pc.binary_length(contents)).as_py() or 0
        for name in ("observation", "action_text", "instruction"):
            self.narrow_bytes += pc.sum(pc.binary_length(batch.column(name))).as_py() or 0
        part = np.asarray(batch.column("task_key")) // (KEY_SPACE // self.partitions)
        if (part[1:] < part[:-1]).any():
            order = np.argsort(part, kind="stable")
            batch, part = batch.take(pa.array(order)), part[order]
        for rows in np.split(np.arange(len(part)), np.flatnonzero(np.diff(part)) + 1):
            self._append(int(part[rows[0]]), batch.slice(rows[0], len(rows)))

    def _append(self, partition: int, batch: pa.RecordBatch) -> None:
        if self._file is None:
            sink = pa.OSFile(str(self.folder / f"{self.job:05d}.arrow"), "wb")
            self._file = sink, pa.ipc.new_file(sink, STAGED)
        self._file[1].write_batch(batch)
        self._written.append(partition)

    def close(self) -> None:
        """Write what is left, and which partition each batch belongs to."""
        self._take_rows()
        if self._file is not None:
            sink, writer = self._file
            writer.close()
            sink.close()
            np.array(self._written, np.int64).tofile(self.folder / f"{self.job:05d}.partitions")


def orjson_bytes(step: Step) -> bytes:
    """A stable byte form of what identifies a step: its messages, observation and action."""
    try:
        return orjson.dumps([step.messages, step.observation, step.action_text], default=str)
    except (TypeError, orjson.JSONEncodeError):
        return repr([step.messages, step.observation, step.action_text]).encode("utf-8", "surrogatepass")


def _array(values: Sequence[Any], f: pa.Field) -> pa.Array:
    try:
        return pa.array(values, f.type)
    except UnicodeEncodeError:  # lone surrogates somewhere
        return pa.array([[clean(a) for a in v] if isinstance(v, list) else clean(v) for v in values], f.type)
    except (pa.ArrowException, OverflowError, TypeError) as error:
        raise DataError(f"column {f.name}: a value does not fit {f.type} ({error}).") from error


def read_range(folder: Path, partitions: int, low: int, high: int, columns: list[str]) -> pa.Table:
    """All staged rows whose task key lies in [low, high), with the given columns; in no particular order."""
    width = KEY_SPACE // partitions
    batches: list[pa.RecordBatch] = []
    schema = pa.schema([STAGED.field(name) for name in columns])
    wanted = sorted({*columns, "task_key"}, key=STAGED.get_field_index)
    options = pa.ipc.IpcReadOptions(included_fields=[STAGED.get_field_index(name) for name in wanted])
    for path in sorted(folder.glob("*.arrow")):
        begin = np.fromfile(path.with_suffix(".partitions"), np.int64) * width
        with pa.memory_map(str(path)) as source:
            file = pa.ipc.open_file(source, options=options)
            for number in np.flatnonzero((begin + width > low) & (begin < high)).tolist():
                batch = file.get_batch(number)
                if begin[number] < low or begin[number] + width > high:
                    key = batch.column("task_key")
                    batch = batch.filter(pc.and_(pc.greater_equal(key, low), pc.less(key, high)))
                batches.append(batch.select(columns))
    return pa.Table.from_batches(batches, schema)
