"""Names and texts that mean something to a shell, a glob, a terminal or SQL mean nothing here."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from mcgpo_data.build.run import BuildOptions, build_preferences
from mcgpo_data.config import BuildConfig
from mcgpo_data.errors import OutputError, UsageError
from mcgpo_data.inputs import find_files
from mcgpo_data.schema import PREFERENCES, TABLES

from ..build_path.logs import Row, build, make_rows, pairs_of, table_bytes, without_text, write_log

NAMES = {
    "quotes": 'it\'s "quoted" `x`',
    "glob": "x[1]*?{a,b}",
    "hive": "split=train",
    "newline": "two\nlines\r\tand tabs",
    "rtl": "\u202eevil\u202c\u200f",
    "dash": "-rf --overwrite",
    "unicode": "日本語 é e\u0301 \U0001f600 \ufeff",
    "sql": "'; DROP TABLE decisions; --",
    "format": "%s {0} ${HOME} $(id) \\n",
    "escape": "\x1b[31m\x07\x7f\x85",
    "url": "file:passwd?x=1#y",
    "separator": "a\x1fb\x1ec",
    "space": "  ",
}
TEXTS = {
    **NAMES,
    "dots": "...",
    "nul": "a\0b",
    "slash": "../../etc/passwd",
    "long": "long " * 12_800,
    "null": "null",
    "empty": "",
}


def renamed(text: str, fields: tuple[str, ...]) -> list[Row]:
    """A log in which some texts carry a hostile one, still different from each other where they were."""
    rows = make_rows(seed=51, tasks=2, text=True)
    for row in rows:
        for name in fields:
            row[name] = f"{row[name]}{text}"
    return rows


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    folder = tmp_path_factory.mktemp("plain")
    return pairs_of(build(write_log(folder / "log.jsonl", make_rows(seed=51, tasks=2, text=True)), folder / "out"))


@pytest.mark.parametrize("name", TEXTS)
def test_ids_reach_the_pairs_as_they_are(tmp_path: Path, name: str) -> None:
    text = TEXTS[name]
    rows = renamed(text, ("task_id", "rollout_id"))
    store = build(write_log(tmp_path / "log.jsonl", rows), tmp_path / "out")
    store.verify()
    assert {t: store.read(t).schema for t in store.manifest["tables"]} == {
        t: TABLES[t] for t in store.manifest["tables"]
    }
    ids = {r["rollout_id"] for r in rows}
    assert set(store.read("rollouts")["rollout_id"].to_pylist()) == ids
    assert {r["task_id"] for r in rows} == set(store.read("rollouts")["task_id"].to_pylist())
    assert pairs_of(store)
    for pair in pairs_of(store):
        assert {pair["chosen_rollout_id"], pair["rejected_rollout_id"]} <= ids
        assert pair["group_id"] == pair["task_id"] == pair["chosen_rollout_id"].split("/")[0] + text or "/" in text


@pytest.mark.parametrize("name", TEXTS)
def test_contents_reach_the_pairs_as_they_are(tmp_path: Path, plain: list[Row], name: str) -> None:
    text = TEXTS[name]
    rows = renamed(text, ("observation", "action", "response"))
    for row in rows:
        row |= {
            "instruction": text,
            "thought": text,
            "policy": text,
            "policy_version": text,
            "final_observation": text,
        }
        row["metadata"] = {text: {text: [text]}}
    store = build(write_log(tmp_path / "log.jsonl", rows), tmp_path / "out")
    by_step = {(r["rollout_id"], r["step"]): r for r in rows}
    found = pairs_of(store)
    order = ("chosen_rollout_id", "chosen_step", "rejected_rollout_id", "rejected_step")
    assert {tuple(p[k] for k in order) for p in found} == {tuple(p[k] for k in order) for p in plain}
    for pair in found:
        row = by_step[pair["chosen_rollout_id"], pair["chosen_step"]]
        assert pair["chosen_response"][0]["content"] == row["response"]
        assert pair["chosen_action"].split() == row["action"].split()
    for step in store.read("steps").to_pylist():
        row = by_step[step["rollout_id"], step["step_index"]]
        assert (step["action_text"], step["thought"], step["observation"]) == (row["action"], text, row["observation"])


@pytest.mark.parametrize("name", NAMES)
def test_files_folders_and_outputs_may_have_any_name(tmp_path: Path, plain: list[Row], name: str) -> None:
    odd, rows = NAMES[name], make_rows(seed=51, tasks=2, text=True)
    folder = tmp_path / odd / "split=train"
    write_log(folder / f"{odd}.jsonl", rows[1::2])
    write_log(folder / f"{odd}", rows[::2])
    (tmp_path / odd / "x1.jsonl").write_text("{}\n")  # what a glob of `x[1].jsonl` would find
    store = build([tmp_path / odd], tmp_path / "out of" / odd)
    store.verify()
    assert pairs_of(store) == plain
    assert store.read("preferences").schema.equals(PREFERENCES)
    assert {i["path"] for i in store.manifest["inputs"]} == {str(folder / f"{odd}.jsonl"), str(folder / odd)}
    assert set(store.read("sources")["source_file"].to_pylist()) <= {str(folder / f"{odd}.jsonl"), str(folder / odd)}
    again = build(store.path, tmp_path / "again" / odd)
    assert table_bytes(again) == table_bytes(store)
    assert sorted(os.listdir(tmp_path / "out of")) == [odd]


def test_relative_names_that_look_like_options_or_globs_are_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plain: list[Row]
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = make_rows(seed=51, tasks=2, text=True)
    write_log(Path("-o"), rows[::2])
    write_log(Path("*.jsonl"), rows[1::2])
    write_log(Path("decoy.jsonl"), make_rows(seed=1))
    store = build([Path("-o"), Path("*.jsonl")], Path("-out"))
    assert pairs_of(store) == plain
    assert sorted(os.listdir()) == ["*.jsonl", "-o", "-out", "decoy.jsonl"]


def test_a_name_that_is_no_unicode_is_read_and_stored_as_text(tmp_path: Path, plain: list[Row]) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9.jsonl")
    try:
        write_log(path, make_rows(seed=51, tasks=2, text=True))
    except OSError:
        pytest.skip("this file system wants UTF-8")
    for given in (path, tmp_path):
        store = build([given], tmp_path / ".out" / given.name.replace("\udce9", ""))
        assert pairs_of(store) == plain
        assert set(store.read("sources")["source_file"].to_pylist()) == {f"{tmp_path}/caf\ufffd.jsonl"}
    with pytest.raises(OutputError):
        build(path, tmp_path / os.fsdecode(b"out \xe9"))
    (tmp_path / os.fsdecode(b"\xe9.parquet")).write_bytes(b"PAR1....PAR1")
    with pytest.raises(UsageError, match="must be UTF-8"):
        build(tmp_path / os.fsdecode(b"\xe9.parquet"), tmp_path / "out")


def test_hidden_files_and_links_out_of_a_folder_are_not_followed(tmp_path: Path, plain: list[Row]) -> None:
    folder, outside = tmp_path / "logs", tmp_path / "outside"
    rows = make_rows(seed=51, tasks=2, text=True)
    log = write_log(folder / "log.jsonl", rows)
    for name in ("secret.jsonl", "below/secret.jsonl"):
        write_log(outside / name, make_rows(seed=1, rollouts=30))
    write_log(folder / ".hidden.jsonl", make_rows(seed=2))
    write_log(folder / ".git" / "log.jsonl", make_rows(seed=3))
    (folder / "link.jsonl").symlink_to(outside / "secret.jsonl")
    (folder / "linked").symlink_to(outside / "below", target_is_directory=True)
    (folder / "loop").symlink_to(folder, target_is_directory=True)
    (folder / "broken").symlink_to(folder / "nowhere")
    (folder / "inside.jsonl").symlink_to(log)
    assert [p.name for p, _ in find_files([folder])] == ["inside.jsonl", "log.jsonl"]
    assert pairs_of(build(folder, tmp_path / "out")) == plain
    named = build(folder / "link.jsonl", tmp_path / "named")  # a link that is named itself is what was asked for
    assert named.read("rollouts").num_rows == 90


@pytest.mark.parametrize("kind", ["fifo", "device", "socket", "folder without logs", "absent", "nul", "too long"])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    import socket

    path = tmp_path / "thing"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        path = Path("/dev/zero")
        assert stat.S_ISCHR(path.stat().st_mode)
    elif kind == "socket":
        here = socket.socket(socket.AF_UNIX)
        path = Path(os.path.relpath(path)) if len(str(path)) > 100 else path
        here.bind(str(path))
        here.close()
    elif kind == "folder without logs":
        path.mkdir()
        os.mkfifo(path / "fifo")
    elif kind == "nul":
        path = Path("a\0b")
    elif kind == "too long":
        path = tmp_path / ("x" * 5000)
    errors: list[BaseException] = []

    def act() -> None:
        try:
            build_preferences([path], tmp_path / "out", BuildConfig(), BuildOptions(workers=1))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive(), "hangs"
    assert isinstance(errors[0], UsageError)
    assert not (tmp_path / "out").exists()


def test_a_log_may_lie_beside_things_that_are_not_logs(tmp_path: Path, plain: list[Row]) -> None:
    folder = tmp_path / "logs"
    write_log(folder / "log.jsonl", make_rows(seed=51, tasks=2, text=True))
    os.mkfifo(folder / "fifo")
    (folder / "empty.jsonl").touch()
    (folder / "model.pkl").write_bytes(b"\x80\x04K\x01.")
    (folder / "a.zip").write_bytes(b"PK\x03\x04")
    (folder / "pointer").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    store = build(folder, tmp_path / "out")
    assert pairs_of(store) == plain
    why: dict[str, Any] = {Path(i["path"]).name: i["why"] for i in store.manifest["ignored_inputs"]}
    assert set(why) == {"empty.jsonl", "model.pkl", "a.zip", "pointer"}
    assert "pickle" in why["model.pkl"]
    assert "Git-LFS" in why["pointer"]
    assert without_text(store.read("preferences")).num_rows == len(plain)
