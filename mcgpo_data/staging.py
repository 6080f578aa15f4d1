"""Between readers and tables: step rows spread over hash partitions of the task, so that each part is small and
complete.

A staged row is one decision with everything its source said, rollout facts repeated. Every worker appends Arrow record
batches to one file per partition; a partition is a range of the task's 60-bit hash, so that all rollouts of a task
meet in one partition whatever file they came from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from mcgpo_data.errors import DataError
from mcgpo_data.readers.base import Message, Rollout, Step
from mcgpo_data.readers.logfile import SURROGATE
from mcgpo_data.schema import MESSAGE, MESSAGES, STEPS, TOOL_CALL

KEY_SPACE: Final = 2**60
FLUSH_BYTES: Final = 16 * 2**20
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


def messages_array(rows: list[list[Message]]) -> pa.Array:
    """Lists of messages as an Arrow array of type `schema.MESSAGES`, built column by column."""
    offsets = [0]
    flat: list[Message] = []
    for row in rows:
        flat.extend(row)
        offsets.append(len(flat))
    columns = [
        _array([m.get(name) for m in flat], MESSAGE.field(name))
        for name in ("role", "content", "name", "tool_call_id")
    ]
    if any(m.get("tool_calls") for m in flat):
        calls = pa.array([_tool_calls(m.get("tool_calls")) for m in flat], pa.list_(TOOL_CALL))
    else:
        calls = pa.nulls(len(flat), pa.list_(TOOL_CALL))
    values = pa.StructArray.from_arrays([*columns, calls], fields=list(MESSAGE))
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
    """Collects step rows of one worker and appends them to its partition files.

    Args:
        folder: our own staging folder.
        worker: name of this worker's files.
        partitions: power of two.
        thin: leave `TEXT_COLUMNS` null.
    """

    folder: Path
    worker: str
    partitions: int
    thin: bool = False
    steps: int = 0
    text_bytes: int = 0
    narrow_bytes: int = 0
    _rows: list[tuple[Rollout, Step, int, str, str, int]] = field(default_factory=list)
    _bytes: int = 0
    _writers: dict[int, tuple[pa.OSFile, pa.ipc.RecordBatchFileWriter]] = field(default_factory=dict)
    _task_keys: dict[str, int] = field(default_factory=dict)
    _seen: dict[str, int] = field(default_factory=dict)

    def add(self, rollout: Rollout, source_format: str, file_index: int) -> None:
        """Append all steps of a rollout (or of the piece of it that this record holds)."""
        rollout_id = rollout.rollout_id if rollout.rollout_id is not None else self._content_id(rollout, file_index)
        for index, step in enumerate(rollout.steps, rollout.first_step):
            self._rows.append((rollout, step, index, rollout_id, source_format, file_index))
            self._bytes += 200 + len(step.observation or "")
            for message in step.messages:
                self._bytes += len(message.get("content") or "")
        if self._bytes >= FLUSH_BYTES or len(self._rows) >= FLUSH_ROWS:
            self.flush()

    def task_key(self, task_id: str) -> int:
        """60-bit key of a task, remembered."""
        key = self._task_keys.get(task_id)
        if key is None:
            key = self._task_keys[task_id] = h60(clean(task_id) or "")
        return key

    def _content_id(self, rollout: Rollout, file_index: int) -> str:
        """An id for a rollout whose source has none: the same content gives the same id; repeats in one file are
        numbered.
        """
        digest = hashlib.sha256()
        for part in (rollout.task_id, rollout.policy, rollout.policy_version, repr(rollout.outcome)):
            digest.update(repr(part).encode("utf-8", "surrogatepass"))
        for step in rollout.steps:
            digest.update(orjson_bytes(step))
        name = f"content-{digest.hexdigest()[:20]}"
        count = self._seen.get(f"{file_index} {name}", 0)
        self._seen[f"{file_index} {name}"] = count + 1
        return f"{name}-{count}"

    def flush(self) -> None:
        """Write what was collected, column by column."""
        if not self._rows:
            return
        rollouts, steps, indices, ids, formats, files = zip(*self._rows, strict=True)
        columns: dict[str, Sequence[Any]] = {
            **{name: list(map(attrgetter(name), rollouts)) for name in (*ROLLOUT_COLUMNS, "task_id", "group_source")},
            **{name: list(map(attrgetter(name), steps)) for name in STEP_COLUMNS},
            "step_index": indices,
            "rollout_id": ids,
            "source_format": formats,
            "source_file": files,
            "source_row": [r.row for r in rollouts],
            "task_key": [self.task_key(r.task_id) for r in rollouts],
            "group_id": [r.task_id if r.group_id is None else r.group_id for r in rollouts],
            "prompt_from": [
                i if s.prompt_from is None else s.prompt_from for s, i in zip(steps, indices, strict=True)
            ],
            "metadata": [dumps(s.metadata) for s in steps],
            "rollout_metadata": [
                dumps(r.metadata) if i == r.first_step else None for r, i in zip(rollouts, indices, strict=True)
            ],
        }
        arrays = []
        for f in STAGED:
            values = columns[f.name]
            if f.name in TEXT_COLUMNS and self.thin:
                arrays.append(pa.nulls(len(values), f.type))
            elif f.name == "messages":
                arrays.append(messages_array(list(values)))
            else:
                arrays.append(_array(values, f))
        self._rows = []
        self._bytes = 0
        self.write(pa.RecordBatch.from_arrays(arrays, schema=STAGED))

    def write(self, batch: pa.RecordBatch) -> None:
        """Append a batch of staged rows, split by partition."""
        self.steps += batch.num_rows
        if not self.thin:
            contents = pc.list_flatten(batch.column("messages")).field("content")
            self.text_bytes += pc.sum(pc.binary_length(contents)).as_py() or 0
        for name in ("observation", "action_text", "instruction"):
            self.narrow_bytes += pc.sum(pc.binary_length(batch.column(name))).as_py() or 0
        if self.partitions == 1:
            self._append(0, batch)
            return
        width = KEY_SPACE // self.partitions
        part = pc.divide(batch.column("task_key"), width)
        order = pc.sort_indices(part)
        batch, part = batch.take(order), part.take(order)
        ends = pc.run_end_encode(part)
        start = 0
        for value, end in zip(ends.values.to_pylist(), ends.run_ends.to_pylist(), strict=True):
            self._append(value, batch.slice(start, end - start))
            start = end

    def _append(self, partition: int, batch: pa.RecordBatch) -> None:
        if partition not in self._writers:
            sink = pa.OSFile(str(self.folder / f"{partition:05d}-{self.worker}.arrow"), "wb")
            options = pa.ipc.IpcWriteOptions(compression="lz4")
            self._writers[partition] = (sink, pa.ipc.new_file(sink, STAGED, options=options))
        self._writers[partition][1].write_batch(batch)

    def close(self) -> None:
        """Flush and finish all files."""
        self.flush()
        for sink, writer in self._writers.values():
            writer.close()
            sink.close()
        self._writers = {}


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
    tables: list[pa.Table] = []
    schema = pa.schema([STAGED.field(name) for name in columns])
    wanted = sorted({*columns, "task_key"}, key=STAGED.get_field_index)
    options = pa.ipc.IpcReadOptions(included_fields=[STAGED.get_field_index(name) for name in wanted])
    for path in sorted(folder.glob("*.arrow")):
        partition = int(path.name[:5])
        if (partition + 1) * width <= low or partition * width >= high:
            continue
        with pa.memory_map(str(path)) as source:
            table = pa.ipc.open_file(source, options=options).read_all()
        if partition * width < low or (partition + 1) * width > high:
            key = table.column("task_key")
            table = table.filter(pc.and_(pc.greater_equal(key, low), pc.less(key, high)))
        tables.append(table.select(columns))
    return pa.concat_tables(tables) if tables else schema.empty_table()
