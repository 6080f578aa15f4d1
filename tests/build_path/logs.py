"""Small native logs, and builds of them, for the tests of the whole path from log to pairs."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import zstandard

from mcgpo_data.build.run import BuildOptions, build_preferences
from mcgpo_data.config import BuildConfig, build_config
from mcgpo_data.store import Store, open_store

Row = dict[str, Any]


def make_rows(
    seed: int = 0,
    tasks: int = 3,
    rollouts: int = 12,
    length: int = 4,
    states: int = 3,
    actions: int = 3,
    text: bool = False,
    **extra: Any,
) -> list[Row]:
    """Rows of a native log with few states and actions, so that contexts are shared.

    Args:
        text: also give each step a prompt and a response of its own.
        extra: further fields of every row.
    """
    rng = random.Random(seed)
    rows = []
    for task in range(tasks):
        for number in range(rollouts):
            steps = rng.randint(2, length)
            for t in range(steps):
                action = f"go {rng.randrange(actions)}"
                row: Row = {
                    "task_id": f"task-{task}",
                    "rollout_id": f"task-{task}/r{number}",
                    "step": t,
                    "observation": f"room {'abcdefgh'[rng.randrange(states)]}",
                    "action": action,
                    **extra,
                }
                if text:
                    row["prompt"] = [
                        {"role": "system", "content": f"You are in task {task}."},
                        {"role": "user", "content": f"{row['observation']} at step {t} of {row['rollout_id']}"},
                    ]
                    row["response"] = f"<think>{rng.random()}</think>{action}"
                if t == steps - 1:
                    row |= {"done": True, "success": rng.random() < 0.5}
                rows.append(row)
    return rows


def lines(rows: Iterable[Row]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def write_log(path: Path, rows: Iterable[Row]) -> Path:
    """A JSON-lines file, packed as its suffix says."""
    data = lines(rows)
    if path.suffix == ".gz":
        data = gzip.compress(data, 1)
    elif path.suffix == ".zst":
        data = zstandard.ZstdCompressor().compress(data)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def build(logs: Path | list[Path], out: Path, workers: int = 1, **options: Any) -> Store:
    """A build with some options of `BuildConfig`, or a whole `config`."""
    config = options.pop("config", None) or build_config(options)
    paths = logs if isinstance(logs, list) else [logs]
    build_preferences(paths, out, config, BuildOptions(workers=workers, rules="generic"))
    return open_store(out)


def table_bytes(store: Store, but: tuple[str, ...] = ("sources",)) -> dict[str, bytes]:
    """Every table file by its name."""
    tables = [name for name in store.manifest["tables"] if name not in but]
    return {f"{name}/{path.name}": path.read_bytes() for name in tables for path in store.files(name)}


def pairs_of(store: Store) -> list[Row]:
    found: list[Row] = store.read("preferences").to_pylist()
    return found


def without_text(table: pa.Table) -> pa.Table:
    return table.drop_columns([c for c in table.column_names if c.endswith(("_prompt", "_response"))])


__all__ = ["BuildConfig", "build", "lines", "make_rows", "pairs_of", "table_bytes", "without_text", "write_log"]
