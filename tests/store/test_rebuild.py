"""Other options on an existing build give what a fresh build from the logs gives."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from mcgpo_data.build import run
from mcgpo_data.build.run import BuildOptions, build_preferences
from mcgpo_data.config import BuildConfig, build_config
from mcgpo_data.errors import IntegrityError, UsageError
from mcgpo_data.store import Store, open_store

from ..build_path.logs import Row, build, make_rows, pairs_of, table_bytes, write_log


def rows() -> list[Row]:
    rng, made = random.Random(1), make_rows(seed=31, text=True, rollouts=16)
    versions = {r["rollout_id"]: rng.choice("ab") for r in made}
    for r in made:
        r |= {"reward": rng.choice([0.0, 0.25]), "policy_version": versions[r["rollout_id"]]}
        r["group_id"] = f"{r['task_id']}-{r['policy_version']}"
        if r.get("done"):
            r["outcome"] = rng.choice([0.0, 0.5, 1.0])
            if rng.random() < 0.2:
                r |= {"done": False, "truncated": True}
    return made


ROWS = rows()
OPTIONS: list[dict[str, Any]] = [
    {},
    {"seed": 3},
    {"folds": 3},
    {"margin": 0.3, "scope": "task"},
    {"scope": "task"},
    {"representation": "history", "scope": "task"},
    {"representation": "state"},
    {"outcome": "score", "scope": "task"},
    {"outcome": "return", "outcome_range": (0, 2), "scope": "task"},
    {"truncated": "unscored", "scope": "task"},
    {"weight": "posterior", "scope": "task", "max_pairs_per_class": 1},
    {"form": "thin", "scope": "task"},
    {"form": "thin", "outcome": "return", "outcome_range": (0, 2), "scope": "task"},
]
ONE = BuildOptions(workers=1)


@pytest.fixture(scope="module", params=["one bucket", "many buckets"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "many buckets":
            patch.setattr(run, "BUCKET_STEPS", 40)
            patch.setattr(run, "PART_TEXT_BYTES", 2_000)
        write_log(folder / "log.jsonl", ROWS)
        yield build(folder / "log.jsonl", folder / "full"), folder / "log.jsonl"


def rebuilt(store: Store, out: Path, options: dict[str, Any], **more: Any) -> Store:
    build_preferences([store.path], out, build_config(options), BuildOptions(workers=1, **more))
    return open_store(out)


def same(one: Store, other: Store) -> None:
    """The same tables, however their pairs are spread over parts."""
    for name in ("rollouts", "decisions", "sources"):
        assert one.read(name).equals(other.read(name)), name
    assert one.read("preferences").equals(other.read("preferences"))
    assert one.manifest["funnel"] == other.manifest["funnel"]
    assert one.manifest["config"] == other.manifest["config"]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: ",".join(f"{k}={v}" for k, v in o.items()) or "same")
def test_a_rebuild_is_a_fresh_build(made: tuple[Store, Path], tmp_path: Path, options: dict[str, Any]) -> None:
    store, log = made
    again, fresh = rebuilt(store, tmp_path / "again", options), build(log, tmp_path / "fresh", **options)
    again.verify()
    same(again, fresh)
    if options.get("form") != "thin":
        assert table_bytes(again) == table_bytes(fresh)
    if options.get("scope") == "task" or not options:
        assert pairs_of(again)
    assert again.manifest["rebuilt_from"] == store.manifest["content_id"]


def test_a_rebuild_of_a_rebuild_is_a_fresh_build_too(made: tuple[Store, Path], tmp_path: Path) -> None:
    store, log = made
    unscored = rebuilt(store, tmp_path / "a", {"truncated": "unscored", "scope": "task", "outcome": "score"})
    back = rebuilt(unscored, tmp_path / "b", {"scope": "task"})
    assert table_bytes(back) == table_bytes(build(log, tmp_path / "fresh", scope="task"))


def test_a_thin_build_is_rebuilt_thin_and_not_full(made: tuple[Store, Path], tmp_path: Path) -> None:
    thin = build(made[1], tmp_path / "thin", form="thin")
    same(
        rebuilt(thin, tmp_path / "again", {"form": "thin", "seed": 2}),
        build(made[1], tmp_path / "fresh", form="thin", seed=2),
    )
    with pytest.raises(UsageError, match="thin build without text"):
        rebuilt(thin, tmp_path / "full", {})
    assert not (tmp_path / "full").exists()


def test_a_build_is_not_rebuilt_onto_itself(made: tuple[Store, Path], tmp_path: Path) -> None:
    copy = Path(shutil.copytree(made[0].path, tmp_path / "copy"))
    (tmp_path / "link").symlink_to(tmp_path)
    before = table_bytes(open_store(copy))
    for out in (copy, tmp_path / "link" / "copy", copy / ".." / "copy"):
        with pytest.raises(UsageError, match="onto itself"):
            rebuilt(open_store(copy), out, {"seed": 1}, overwrite=True)
    assert table_bytes(open_store(copy)) == before


def test_other_rules_need_the_logs(made: tuple[Store, Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--rules generic"):
        rebuilt(made[0], tmp_path / "out", {}, rules="alfworld")
    assert pairs_of(rebuilt(made[0], tmp_path / "out", {}, rules="generic"))


def test_a_build_is_not_mixed_with_logs(made: tuple[Store, Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="rebuilt alone"):
        build_preferences([made[0].path, made[1]], tmp_path / "out", BuildConfig(), ONE)


@pytest.mark.parametrize("table", ["decisions", "rollouts", "steps"])
@pytest.mark.parametrize("damage", ["flip", "missing"])
def test_a_damaged_build_is_not_rebuilt(made: tuple[Store, Path], tmp_path: Path, table: str, damage: str) -> None:
    copy = open_store(shutil.copytree(made[0].path, tmp_path / "copy"))
    path = copy.files(table)[-1]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.unlink() if damage == "missing" else path.write_bytes(data)
    with pytest.raises(IntegrityError, match=table):
        rebuilt(copy, tmp_path / "out", {"seed": 1})
    assert sorted(p.name for p in tmp_path.iterdir()) == ["copy"]


def test_two_workers_rebuild_what_one_does(made: tuple[Store, Path], tmp_path: Path) -> None:
    one = rebuilt(made[0], tmp_path / "one", {"seed": 4})
    build_preferences([made[0].path], tmp_path / "two", build_config({"seed": 4}), BuildOptions(workers=2))
    assert table_bytes(open_store(tmp_path / "two")) == table_bytes(one)


def test_a_rebuild_does_not_touch_its_source(made: tuple[Store, Path], tmp_path: Path) -> None:
    before = table_bytes(made[0], ())
    rebuilt(made[0], tmp_path / "out", {"outcome": "score", "seed": 9})
    shutil.rmtree(tmp_path / "out")
    assert table_bytes(made[0], ()) == before
