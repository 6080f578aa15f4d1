"""Native rows taken column by column, and files read in several ranges: neither shows in what is staged or built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcgpo_data.build import run
from mcgpo_data.build.run import BuildOptions, build_preferences
from mcgpo_data.config import BuildConfig
from mcgpo_data.readers import native
from mcgpo_data.readers.base import Report
from mcgpo_data.readers.logfile import LogFile
from mcgpo_data.readers.native import NativeReader
from mcgpo_data.staging import KEY_SPACE, STAGED, Stage, read_range
from mcgpo_data.store import Store, open_store

from ..build_path.logs import lines, make_rows, table_bytes, write_log

TEXT = st.none() | st.sampled_from(["", "go", "é\u2028", "look\n"])
FLAG = st.none() | st.booleans()
NUMBER = st.none() | st.sampled_from([0, 1, -2.5, 0.1])
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user"])},
    optional={
        "content": TEXT,
        "tool_call_id": TEXT,
        "tool_calls": st.none() | st.just([{"id": "c", "function": {"name": "f", "arguments": "{}"}}]),
    },
)
ROW = st.fixed_dictionaries(
    {"rollout_id": st.sampled_from(["r", 7]), "step": st.integers(-1, 3), "task_id": st.sampled_from(["t", "u", 5])},
    optional={
        **dict.fromkeys(("observation", "action", "instruction", "task", "thought", "policy", "group_id"), TEXT),
        **dict.fromkeys(("final_observation", "next_observation"), TEXT),
        **dict.fromkeys(("done", "truncated", "success", "won", "action_valid", "valid"), FLAG),
        **dict.fromkeys(("reward", "outcome", "score", "outcome_min", "outcome_max"), NUMBER),
        "terminal_status": st.sampled_from([None, "done", "error_agent", "odd"]),
        "policy_version": st.sampled_from([None, 3, "v"]),
        "admissible_actions": st.none() | st.lists(st.sampled_from(["a", "b"])),
        "prompt": TEXT | st.lists(MESSAGE, max_size=2),
        "response": TEXT | MESSAGE,
        "response_token_ids": st.none() | st.lists(st.integers(0, 9)),
        "metadata": st.none() | st.just({"k": [1, None]}),
    },
)


def staged(folder: Path, log: LogFile, *, objects: bool, thin: bool) -> tuple[pa.Table, Report]:
    report = Report("log")
    stage = Stage(folder, 0, "native", 1, thin)
    if objects:
        for rollout in NativeReader().read(log, report):
            stage.add(rollout)
    else:
        for columns in NativeReader().read_columns(log, report, thin=thin):
            stage.add_columns(columns)
    stage.close()
    table = read_range(folder, 1, 0, KEY_SPACE, STAGED.names)
    for path in folder.glob("0*"):
        path.unlink()
    return table, report


@settings(max_examples=150, deadline=None)
@given(rows=st.lists(ROW, min_size=1, max_size=6), block=st.sampled_from([1, 2, 100]))
def test_columns_hold_what_the_objects_hold(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], block: int
) -> None:
    folder = tmp_path_factory.mktemp("staged")
    log = LogFile(write_log(folder / "log.jsonl", rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "BLOCK_ROWS", block)
        objects, told = staged(folder, log, objects=True, thin=False)
        columns, told_too = staged(folder, log, objects=False, thin=False)
        thin, _ = staged(folder, log, objects=False, thin=True)
    assert columns.equals(objects)
    assert told == told_too
    long = ["messages", "prompt_token_ids", "response_token_ids", "response_logprobs", "thought", "metadata"]

    kept = [name for name in thin.column_names if name not in (*long, "prompt_from")]
    assert thin.select(kept).equals(objects.select(kept))
    assert all(thin[name].null_count == len(thin) for name in long)


def build(log: Path, out: Path, **options: Any) -> Store:
    build_preferences([log], out, BuildConfig(**options), BuildOptions(workers=2, max_bad_fraction=1.0))
    return open_store(out)


@pytest.mark.parametrize("form", ["thin", "full"])
@pytest.mark.parametrize("span", [1, 700, 5_000])
def test_ranges_of_one_file_change_no_byte_and_no_line_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, span: int, form: str
) -> None:
    rows = lines(make_rows(seed=5, text=True)).splitlines(keepends=True)
    bad = [b"{not json\n", b'{"rollout_id": "x", "task_id": "t"}\n', b"\n", b'{"rollout_id": [], "step": 1}\n']
    for number, line in enumerate(bad * 4):
        rows.insert(7 * number, line)
    log = tmp_path / "log.jsonl"
    log.write_bytes(b"\xef\xbb\xbf" + b"".join(rows) + rows[-1][:20])
    whole = build(log, tmp_path / "whole", form=form)
    monkeypatch.setattr(run, "SPAN_BYTES", span)
    split = build(log, tmp_path / "split", form=form)
    assert len(LogFile(log).spans(span)) > 3
    assert table_bytes(split) == table_bytes(whole)
    assert split.read("sources").equals(whole.read("sources"))
    assert split.manifest["inputs"] == whole.manifest["inputs"]
    assert split.manifest["inputs"][0]["skipped"]["truncated last line"] == 1


def test_a_compressed_file_is_read_in_one_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = write_log(tmp_path / "log.jsonl.gz", make_rows(seed=5))
    plain = build(write_log(tmp_path / "log.jsonl", make_rows(seed=5)), tmp_path / "plain")
    monkeypatch.setattr(run, "SPAN_BYTES", 10)
    assert table_bytes(build(log, tmp_path / "packed")) == table_bytes(plain)


@settings(max_examples=200, deadline=None)
@given(
    data=st.lists(st.sampled_from([b"a", b"bb\n", b"\n", b"cccccccc\n", b"d\r\n"]), min_size=1), most=st.integers(1, 9)
)
def test_ranges_are_whole_lines_that_follow_each_other(
    tmp_path_factory: pytest.TempPathFactory, data: list[bytes], most: int
) -> None:
    path = tmp_path_factory.mktemp("spans") / "log.jsonl"
    path.write_bytes(b"".join(data))
    found = LogFile(path).spans(most)
    text = path.read_bytes()
    assert b"".join(text[a:b] for a, b in found) == text
    assert all(a == 0 or text[a - 1 : a] == b"\n" for a, _ in found)
    together = [line for span in found for _, line in LogFile(path, span=span).lines(Report())]
    assert together == [line for _, line in LogFile(path).lines(Report())]
