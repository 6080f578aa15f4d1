"""Which files a command line names, and what is said of those that are no logs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcgpo_data.errors import UsageError
from mcgpo_data.inputs import find_files, find_sources
from mcgpo_data.readers.mapping import load_mapping

STEP = {"task_id": "t", "rollout_id": "r", "step": 0, "observation": "door", "action": "open", "success": True}


def write(path: Path, *records: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def renamed(**names: str | None) -> dict[str, Any]:
    """A native step with keys renamed, or left out where the name is None."""
    return {name: value for key, value in STEP.items() if (name := names.get(key, key)) is not None}


def refusal(*paths: Path, format_name: str | None = None) -> str:
    with pytest.raises(UsageError) as caught:
        find_sources(paths, format_name)
    return str(caught.value)


@pytest.mark.parametrize(
    "record, words",
    [
        (renamed(rollout_id="rollout"), "lacks `rollout_id` (is it `rollout`?) (docs"),
        (renamed(rollout_id=None), "lacks `rollout_id` (docs"),
        (renamed(step="stepindex"), "lacks `step` or `step_index` (is it `stepindex`?) (docs"),
        (renamed(step=None), "lacks `step` or `step_index` (docs"),
        (renamed(task_id=None, action="command"), "lacks `task_id` or `group_id` and `action` or `response` (docs"),
    ],
)
def test_what_nearly_is_native_is_told_what_it_lacks(tmp_path: Path, record: dict[str, Any], words: str) -> None:
    log = write(tmp_path / "log.jsonl", record, record)
    assert f"{log}: looks like the native format, but {words}" in refusal(log)


@pytest.mark.parametrize(
    "record",
    [
        {"a": 1},
        {"prompt": "p", "response": "r", "reward": 1.0},
        {"task_id": "t", "step": 1, "other": 2},
        {"turns": [{"role": "user", "content": "hi"}, {"n": 1}]},
        {"turns": []},
    ],
)
def test_what_resembles_nothing_is_told_no_more(tmp_path: Path, record: dict[str, Any]) -> None:
    assert "no known log format" in refusal(write(tmp_path / "log.jsonl", record, record))


def test_messages_under_an_unknown_key_are_told(tmp_path: Path) -> None:
    record = {"turns": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]}
    found = refusal(write(tmp_path / "log.jsonl", record, record))
    assert "has messages under 'turns'" in found
    assert "messages, conversation, trajectory" in found


def test_an_unknown_format_is_the_error_itself(tmp_path: Path) -> None:
    log = write(tmp_path / "log.jsonl", STEP)
    for path in (log, tmp_path):
        assert refusal(path, format_name="nativ").startswith("--format nativ: unknown. Did you mean native?")


def test_a_format_and_a_mapping_exclude_each_other(tmp_path: Path) -> None:
    log = write(tmp_path / "log.jsonl", STEP)
    with pytest.raises(UsageError, match="--format and --mapping"):
        find_sources([log], "native", load_mapping("intercode"))


def test_links_out_of_a_folder_are_told_and_are_read_when_named(tmp_path: Path) -> None:
    folder, outside = tmp_path / "logs", tmp_path / "outside"
    folder.mkdir()
    write(outside / "log.jsonl", STEP)
    for name in ("a", "b"):
        (folder / name).symlink_to(outside, target_is_directory=True)
    (folder / "c.jsonl").symlink_to(outside / "log.jsonl")
    found = refusal(folder)
    assert f"{folder}: 3 link(s) that leave this folder are not followed, such as {folder / 'a'}" in found
    assert "name the link itself" in found
    notes: list[str] = []
    sources = find_sources([folder, folder / "a", folder / "c.jsonl"], note=notes.append)
    assert [s.path for s in sources] == [folder / "a" / "log.jsonl", folder / "c.jsonl"]
    assert [note.partition(":")[0] for note in notes] == [str(folder)]


def test_links_that_stay_in_the_folder_or_go_in_circles_are_no_matter(tmp_path: Path) -> None:
    log = write(tmp_path / "logs" / "below" / "log.jsonl", STEP)
    (tmp_path / "logs" / "self").symlink_to(tmp_path / "logs", target_is_directory=True)
    (tmp_path / "logs" / "near").symlink_to(log.parent, target_is_directory=True)
    (tmp_path / "logs" / "x").symlink_to(tmp_path / "logs" / "y")
    (tmp_path / "logs" / "y").symlink_to(tmp_path / "logs" / "x")
    notes: list[str] = []
    assert find_files([tmp_path / "logs"], notes.append) == [(log, False)]
    assert notes == []
