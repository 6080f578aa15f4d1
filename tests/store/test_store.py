"""A build on disk: published whole or not at all, and damage is seen."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mcgpo_data.build.run import BuildOptions, build_preferences
from mcgpo_data.config import BuildConfig
from mcgpo_data.errors import IntegrityError, OutputError, ResourceError, UsageError
from mcgpo_data.schema import SOURCES, TABLES
from mcgpo_data.store import finish, is_store, open_store, read_parquet, staged_output, write_part

from ..build_path.logs import build, make_rows, table_bytes, write_log

ROWS = make_rows(seed=21, text=True)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    build(write_log(folder / "log.jsonl", ROWS), folder / "out")
    return folder / "out"


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "copy"))


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def edit(folder: Path, change: Any) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    change(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))


def test_tables_have_their_schemas_and_the_manifest_counts_their_rows(made: Path) -> None:
    store = open_store(made)
    store.verify()
    assert set(store.manifest["tables"]) == {"rollouts", "steps", "decisions", "preferences", "sources"}
    for name, entry in store.manifest["tables"].items():
        assert read_parquet(store.files(name)[0]).schema.equals(TABLES[name])
        assert store.read(name).num_rows == entry["rows"]
    assert sum(map(len, table_bytes(store, ()).values())) == sum(
        f["bytes"] for e in store.manifest["tables"].values() for f in e["files"]
    )


def test_non_null_columns_hold_no_null(made: Path) -> None:
    store = open_store(made)
    for name in store.manifest["tables"]:
        for column in store.read(name).schema:
            assert column.nullable or store.read(name)[column.name].null_count == 0


def test_every_flipped_bit_is_noticed(copy: Path) -> None:
    store, rng = open_store(copy), random.Random(0)
    store.verify()
    files = [path for name in store.manifest["tables"] for path in store.files(name)]
    for _ in range(200):
        path = rng.choice(files)
        data = bytearray(path.read_bytes())
        place, bit = rng.randrange(len(data)), 1 << rng.randrange(8)
        data[place] ^= bit
        path.write_bytes(data)
        with pytest.raises(IntegrityError, match=path.name):
            store.verify()
        data[place] ^= bit
        path.write_bytes(data)
    store.verify()


@pytest.mark.parametrize("cut", [0, 1, 100])
def test_a_cut_or_missing_file_is_noticed(copy: Path, cut: int) -> None:
    path = open_store(copy).files("steps")[0]
    path.write_bytes(path.read_bytes()[:-cut] if cut else b"")
    for act in (open_store(copy).verify, lambda: open_store(copy).read("steps")):
        with pytest.raises(IntegrityError, match="steps"):
            act()
    path.unlink()
    for act in (open_store(copy).verify, lambda: open_store(copy).read("steps")):
        with pytest.raises(IntegrityError, match="steps"):
            act()


@pytest.mark.parametrize(
    "text",
    ["", "{", "null", "[]", "{}", '{"schema_version": "1.0"}', '{"schema_version": "1.0", "tables": []}', "\udcff"],
)
def test_a_damaged_manifest_is_an_error(copy: Path, text: str) -> None:
    (copy / "manifest.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(IntegrityError, match="manifest"):
        open_store(copy)


@pytest.mark.parametrize("key", ["schema_version", "tables", "content_id", "config", "inputs", "funnel"])
def test_a_manifest_without_a_part_is_an_error(copy: Path, key: str) -> None:
    edit(copy, lambda m: m.pop(key))
    with pytest.raises(IntegrityError, match=key):
        open_store(copy)


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "/x", "..", "steps", "a/b/c", "", None, 3])
def test_a_manifest_cannot_name_files_outside_its_tables(copy: Path, path: Any) -> None:
    edit(copy, lambda m: m["tables"]["steps"]["files"][0].update(path=path))
    with pytest.raises(IntegrityError, match="damaged"):
        open_store(copy)


def test_a_checksum_that_was_changed_with_its_file_is_noticed(copy: Path) -> None:
    edit(copy, lambda m: m["tables"]["steps"]["files"][0].update(sha256="0" * 64))
    with pytest.raises(IntegrityError, match="content_id"):
        open_store(copy).verify()


@pytest.mark.parametrize("version, word", [("2.0", "2.0"), ("0.9", "0.9"), ("99", "99")])
def test_a_schema_version_of_another_time_is_refused_with_the_remedy(copy: Path, version: str, word: str) -> None:
    edit(copy, lambda m: m.update(schema_version=version))
    with pytest.raises(IntegrityError, match=word) as error:
        open_store(copy)
    assert "Rebuild" in str(error.value)


def test_a_newer_minor_version_is_read(copy: Path) -> None:
    edit(copy, lambda m: m.update(schema_version="1.7"))
    open_store(copy).verify()


def test_a_folder_without_a_build_is_no_store(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(UsageError, match="is not a build"):
            open_store(path)


def test_a_log_folder_with_a_manifest_of_another_program_is_read_as_logs(tmp_path: Path) -> None:
    log = write_log(tmp_path / "logs" / "log.jsonl", ROWS)
    (log.parent / "manifest.json").write_text('{"written_by": "another program"}')
    assert not is_store(log.parent)
    store = build(log.parent, tmp_path / "out")
    assert [i["path"] for i in store.manifest["inputs"]] == [str(log)]


def test_a_build_inside_a_log_folder_is_not_read_as_a_log(tmp_path: Path) -> None:
    log = write_log(tmp_path / "logs" / "log.jsonl", ROWS)
    first = build(log.parent, log.parent / "out")
    second = build(log.parent, tmp_path / "again")
    assert second.manifest["content_id"] == first.manifest["content_id"]
    assert [i["path"] for i in second.manifest["inputs"]] == [str(log)]
    assert second.manifest["ignored_inputs"] == []


def test_an_existing_output_is_refused_and_kept(copy: Path, tmp_path: Path) -> None:
    log, before = write_log(tmp_path / "log.jsonl", ROWS[:20]), table_bytes(open_store(copy))
    with pytest.raises(OutputError, match="--overwrite"):
        build_preferences([log], copy, BuildConfig(), BuildOptions(workers=1))
    assert table_bytes(open_store(copy)) == before
    build_preferences([log], copy, BuildConfig(), BuildOptions(workers=1, overwrite=True))
    assert open_store(copy).read("steps").num_rows == 20
    assert names(tmp_path) == ["copy", "log.jsonl"]


def test_overwriting_that_fails_keeps_what_was_there(copy: Path, tmp_path: Path, monkeypatch: Any) -> None:
    before = table_bytes(open_store(copy))
    bad = write_log(tmp_path / "log.jsonl", [{**ROWS[0], "outcome": 7.0}])
    with pytest.raises(UsageError, match="--outcome-range"):
        build_preferences([bad], copy, BuildConfig(outcome="score"), BuildOptions(workers=1, overwrite=True))
    good, real = write_log(tmp_path / "log.jsonl", ROWS[:20]), os.rename

    def rename(source: Any, target: Any) -> None:
        if str(source).endswith(".partial"):
            raise OSError(28, "No space left on device")
        real(source, target)

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(ResourceError, match="No space left"):
        build_preferences([good], copy, BuildConfig(), BuildOptions(workers=1, overwrite=True))
    assert table_bytes(open_store(copy)) == before
    assert names(tmp_path) == ["copy", "log.jsonl"]


def test_files_that_are_not_a_build_are_never_replaced(tmp_path: Path) -> None:
    log, out = write_log(tmp_path / "log.jsonl", ROWS[:20]), tmp_path / "out"
    out.mkdir()
    (out / "thesis.tex").write_text("years of work")
    (tmp_path / "file").write_text("a file")
    (tmp_path / "link").symlink_to(out)
    for target in (out, tmp_path / "file", tmp_path / "link", tmp_path / "file" / "below"):
        with pytest.raises(OutputError, match=target.name):
            build_preferences([log], target, BuildConfig(), BuildOptions(workers=1, overwrite=True))
    assert (out / "thesis.tex").read_text() == "years of work"
    assert names(tmp_path) == ["file", "link", "log.jsonl", "out"]


@pytest.mark.parametrize("out", ["", ".", "..", "a\0b", "x" * 300, "/proc/nowhere/out"], ids=repr)
def test_a_target_that_cannot_be_made_is_an_output_error(tmp_path: Path, monkeypatch: Any, out: str) -> None:
    monkeypatch.chdir(tmp_path)
    write_log(tmp_path / "log.jsonl", ROWS[:20])
    with pytest.raises(OutputError):
        build_preferences(["log.jsonl"], out, BuildConfig(), BuildOptions(workers=1))
    assert names(tmp_path) == ["log.jsonl"]


def test_an_empty_folder_may_be_the_target_and_parents_are_made(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", ROWS)
    (tmp_path / "empty").mkdir()
    assert build(log, tmp_path / "empty").path.is_dir()
    assert build(log, tmp_path / "a" / "b" / "c").path.is_dir()


def test_what_dead_builds_left_is_removed_and_what_lives_or_is_not_ours_stays(copy: Path, tmp_path: Path) -> None:
    shutil.copytree(copy, tmp_path / ".out.1234.old")
    dead = tmp_path / ".out.99.partial" / "steps"
    dead.mkdir(parents=True)
    (dead / "part.parquet").write_text("half")
    others = [".outer.99.partial", ".out.x.partial", ".out.99.partial.mine", ".other.5.old"]
    for name in others:
        (tmp_path / name).mkdir()
    with staged_output(tmp_path / "out2", overwrite=False) as living:
        (tmp_path / "out").mkdir()
        with staged_output(tmp_path / "out", overwrite=False) as stage:
            write_part(stage, "preferences", "00000", SOURCES, [SOURCES.empty_table()])
            finish(stage, {"config": {}, "inputs": [], "funnel": {}})
            with (
                pytest.raises(OutputError, match="cannot be created"),
                staged_output(tmp_path / "out", overwrite=True),
            ):
                pass
            assert stage.is_dir()
        assert living.is_dir()
        write_part(living, "preferences", "00000", SOURCES, [SOURCES.empty_table()])
    assert set(names(tmp_path)) == {*others, "copy", "out", "out2"}
    assert is_store(tmp_path / "out")


def test_a_build_that_died_between_its_two_renames_gives_the_older_one_back(copy: Path, tmp_path: Path) -> None:
    before = table_bytes(open_store(copy))
    os.rename(copy, tmp_path / ".copy.1234.old")
    (tmp_path / ".copy.1234.partial").mkdir()
    with pytest.raises(OutputError, match="exists already"), staged_output(copy, overwrite=False):
        pass
    assert table_bytes(open_store(copy)) == before
    assert names(tmp_path) == ["copy"]


def test_no_space_on_the_device_is_a_resource_error_and_leaves_nothing(tmp_path: Path, monkeypatch: Any) -> None:
    log = write_log(tmp_path / "log.jsonl", ROWS)

    def full(*args: Any, **kwargs: Any) -> None:
        raise OSError(28, "No space left on device")

    for target, name in (
        ("pyarrow.parquet.ParquetWriter.write_table", "a"),
        ("pyarrow.OSFile", "b"),
        ("os.fsync", "c"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(target, full)
            with pytest.raises(ResourceError, match="No space left"):
                build(log, tmp_path / name)
        assert names(tmp_path) == ["log.jsonl"]


def test_a_row_group_is_small_enough_for_every_reader(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    (tmp_path / "s").mkdir()
    text = pa.table({"rollout_id": ["x" * 2**20] * 70, "source_file": ["f"] * 70})
    write_part(tmp_path / "s", "sources", "0", SOURCES, [text])
    meta = pq.read_metadata(tmp_path / "s" / "sources" / "part-0.parquet")
    assert [meta.row_group(i).num_rows for i in range(meta.num_row_groups)] == [64, 6]
    assert read_parquet(tmp_path / "s" / "sources" / "part-0.parquet")["source_row"].null_count == 70
