"""Writes small logs and reads them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcgpo_data.readers.base import Reader, Report, Rollout
from mcgpo_data.readers.logfile import LogFile

Read = Callable[..., tuple[list[Rollout], Report]]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """`read(reader, records)`: the rollouts and the report of a JSON-lines log (or of raw bytes) under `name`."""

    def read_log(reader: Reader, records: Any, name: str = "log.jsonl") -> tuple[list[Rollout], Report]:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(records, bytes):
            path.write_bytes(records)
        else:
            path.write_text("".join(json.dumps(record) + "\n" for record in records))
        report = Report(name)
        log = LogFile(path, name)
        assert reader.detect(log.head()), "the reader must know its own format"
        return list(reader.read(log, report)), report

    return read_log
