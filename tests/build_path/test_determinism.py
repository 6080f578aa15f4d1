"""The same rollouts give the same bytes, however they are spread over lines, files and processes."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from mcgpo_data.build import run

from .logs import build, make_rows, pairs_of, table_bytes, write_log

ROWS = make_rows(seed=3, tasks=4, rollouts=14, text=True, reward=0.5, thought="hm")
SPREADS = [(1, "", 0), (2, ".gz", 1), (3, ".zst", 2), (5, "", 3), (4, ".gz", 4)]


@pytest.fixture(scope="module", params=["full", "thin"])
def form(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(scope="module")
def plain(form: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("plain")
    return build(write_log(folder / "log.jsonl", ROWS), folder / "out", form=form)


def spread(folder: Path, files: int, suffix: str, seed: int) -> list[Path]:
    rng = random.Random(seed)
    rows = rng.sample(ROWS, len(ROWS))
    names = rng.sample("abcdefgh", files)
    paths = [write_log(folder / f"{name}.jsonl{suffix}", rows[i::files]) for i, name in enumerate(names)]
    return rng.sample(paths, files)


def test_the_log_gives_pairs_in_every_task(plain: Any) -> None:
    assert {p["task_id"] for p in pairs_of(plain)} == {f"task-{i}" for i in range(4)}


@pytest.mark.parametrize("files, suffix, seed", SPREADS)
def test_order_of_lines_number_of_files_and_packing_change_no_byte(
    tmp_path: Path, plain: Any, form: str, files: int, suffix: str, seed: int
) -> None:
    store = build(spread(tmp_path / "logs", files, suffix, seed), tmp_path / "out", form=form)
    assert store.manifest["content_id"] == plain.manifest["content_id"]
    assert table_bytes(store) == table_bytes(plain)
    sources = store.read("sources").select(["rollout_id"])
    assert sources == plain.read("sources").select(["rollout_id"])


def test_a_folder_is_the_same_as_its_files(tmp_path: Path, plain: Any, form: str) -> None:
    spread(tmp_path / "logs", 3, "", 1)
    store = build(tmp_path / "logs", tmp_path / "out", form=form)
    assert table_bytes(store) == table_bytes(plain)


def small_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "BUCKET_STEPS", len(ROWS) / 3)
    monkeypatch.setattr(run, "PART_TEXT_BYTES", 2_000)


def test_two_workers_give_the_bytes_of_one(tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    small_buckets(monkeypatch)
    logs = [write_log(tmp_path / "a.jsonl", ROWS[1::2]), write_log(tmp_path / "b.jsonl", ROWS[::2])]
    one = build(logs, tmp_path / "one", workers=1, form=form)
    two = build(logs[::-1], tmp_path / "two", workers=2, form=form)
    assert len(one.files("decisions")) >= 2
    assert table_bytes(one) == table_bytes(two)


def test_small_buckets_and_text_parts_give_the_same_pairs(
    tmp_path: Path, plain: Any, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_buckets(monkeypatch)
    store = build(write_log(tmp_path / "log.jsonl", ROWS), tmp_path / "out", form=form)
    assert store.manifest["layout"]["buckets"] == 4
    assert (store.manifest["layout"]["text_parts"] > 1) == (form == "full")
    by_id = {p["pair_id"]: p for p in pairs_of(plain)}
    assert {p["pair_id"]: p for p in pairs_of(store)} == by_id
    for table in ("rollouts", "steps"):
        key = ["rollout_id", "step_index"] if table == "steps" else ["rollout_id"]
        order = [(name, "ascending") for name in key]
        assert store.read(table).sort_by(order).to_pylist() == plain.read(table).sort_by(order).to_pylist()
    for name, count in plain.manifest["funnel"]["counts"].items():
        assert store.manifest["funnel"]["counts"][name] == count, name
    assert store.manifest["funnel"]["rules"] == plain.manifest["funnel"]["rules"]


def test_small_buckets_do_not_depend_on_order_either(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_buckets(monkeypatch)
    one = build(write_log(tmp_path / "log.jsonl", ROWS), tmp_path / "one", form=form)
    two = build(spread(tmp_path / "logs", 3, ".zst", 5), tmp_path / "two", form=form)
    assert table_bytes(one) == table_bytes(two)


def test_pairs_of_full_and_thin_builds_differ_in_text_only(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", ROWS)
    full, thin = (build(log, tmp_path / form, form=form).read("preferences") for form in ("full", "thin"))
    assert full.select(thin.column_names).equals(thin)


def test_a_log_that_is_there_twice_changes_no_byte_even_at_the_edge_of_a_bucket(
    tmp_path: Path, plain: Any, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "BUCKET_STEPS", len(ROWS))
    logs = [write_log(tmp_path / "a.jsonl", ROWS), write_log(tmp_path / "b.jsonl", ROWS)]
    store = build(logs, tmp_path / "out", form=form)
    assert table_bytes(store) == table_bytes(plain)
    assert store.manifest["funnel"]["repairs"] == {"duplicate steps dropped": len(ROWS)}


def test_detection_of_rules_does_not_depend_on_the_number_of_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = set()
    log = write_log(tmp_path / "log.jsonl", ROWS)
    samples: list[list[tuple[Any, ...]]] = []
    real = run.detect_rules

    def detect(sample: Any) -> Any:
        samples.append(sample.rows())
        return real(sample)

    monkeypatch.setattr(run, "detect_rules", detect)
    monkeypatch.setattr(run, "SAMPLE_TASKS", 2)
    for count in (1, 8, 64):
        monkeypatch.setattr(run, "_partitions", lambda sources, thin, count=count: count)
        found.add(run.build_preferences([log], tmp_path / f"o{count}", run.BuildConfig())["config"]["rules"])
    assert len({row[0] for row in samples[0]}) == 2
    assert samples[0] == samples[1] == samples[2]
    assert len(found) == 1
