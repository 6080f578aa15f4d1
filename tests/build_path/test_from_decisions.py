"""Decisions tables made elsewhere: worked worlds, and one located error for every way in which a table can be bad."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mcgpo_data.build import from_decisions
from mcgpo_data.build.from_decisions import COLUMNS, build_from_decisions
from mcgpo_data.build.reference import reference_pairs
from mcgpo_data.build.run import BuildOptions, build_preferences
from mcgpo_data.config import BuildConfig, build_config
from mcgpo_data.errors import DataError, IntegrityError, McgpoError, UsageError
from mcgpo_data.store import open_store

from .logs import Row, table_bytes

SCHEMA = pa.schema(COLUMNS)
RENAMED = {"K": "folds", "cap": "max_pairs_per_class"}
ONE = BuildOptions(workers=1)


def worlds() -> list[str]:
    path = Path(__file__).resolve().parents[3] / "shared" / "vectors" / "mcgpo_small.json"
    return [w["name"] for w in json.loads(path.read_text())] if path.exists() else ["absent"]


def world_rows(world: dict[str, Any]) -> list[Row]:
    return [
        {
            "group_id": rollout["group_id"], "rollout_id": rollout["rollout_id"], "step": t, "rule": rule,
            "context": context, "action": action, "valid": step["valid"], "outcome": rollout["outcome"],
        }
        for rollout in world["rollouts"]
        for t, step in enumerate(rollout["steps"])
        for rule, (context, action) in enumerate(step["rules"])
    ]  # fmt: skip


def random_rows(seed: int = 0, groups: int = 3, rollouts: int = 10) -> list[Row]:
    rng = random.Random(seed)
    rows = []
    for g in range(groups):
        for r in range(rollouts):
            outcome = rng.choice([0.0, 1.0, None])
            for t in range(3):
                state, action = rng.randrange(3), rng.randrange(3)
                for rule, (c, a) in enumerate([(f"s{state}", f"a{action}"), ("any", f"b{action % 2}")]):
                    rows.append(
                        {
                            "group_id": f"g{g}", "rollout_id": f"r{r}", "step": t, "rule": rule, "context": c,
                            "action": a, "valid": rng.random() > 0.1 or rule == 1, "outcome": outcome,
                        }
                    )  # fmt: skip
    return rows


def write(path: Path, rows: list[Row], schema: pa.Schema = SCHEMA) -> Path:
    pq.write_table(pa.Table.from_pylist(rows, schema), path)
    return path


def made(tmp_path: Path, rows: list[Row], config: BuildConfig | None = None, out: str = "out") -> list[Row]:
    file = write(tmp_path / "decisions.parquet", rows)
    build_from_decisions(file, tmp_path / out, config or BuildConfig(), ONE)
    found: list[Row] = open_store(tmp_path / out).read("preferences").to_pylist()
    return found


@pytest.mark.parametrize("name", worlds())
def test_worked_worlds_give_their_pairs_in_keys_order_and_numbers(shared: Path, tmp_path: Path, name: str) -> None:
    loaded = json.loads((shared / "vectors" / "mcgpo_small.json").read_text())
    (world,) = [w for w in loaded if w["name"] == name]
    rows = world_rows(world)
    random.Random(1).shuffle(rows)
    found = made(tmp_path, rows, build_config({RENAMED.get(k, k): v for k, v in world["options"].items()}))
    names = {"n_chosen": "chosen_support", "n_rejected": "rejected_support"}
    numbers = {"p_chosen": "chosen_estimate", "p_rejected": "rejected_estimate"}
    for pair in found:
        for side in ("chosen", "rejected"):
            pair[side] = f"{pair[f'{side}_rollout_id']}:{pair[f'{side}_step']}"
    exact = [k for k in world["pairs"][0] if not isinstance(world["pairs"][0][k], float)]
    assert [[p[names.get(k, k)] for k in exact] for p in found] == [[p[k] for k in exact] for p in world["pairs"]]
    for ours, worked in zip(found, world["pairs"], strict=True):
        for k in ("p_chosen", "p_rejected", "delta", "support", "class_weight", "weight"):
            assert ours[numbers.get(k, k)] == pytest.approx(worked[k], rel=0, abs=1e-12), k


@pytest.mark.parametrize("options", [{}, {"folds": 3}, {"min_support": 2}, {"weight": "posterior"}])
def test_pairs_are_those_of_the_reference(tmp_path: Path, options: dict[str, Any]) -> None:
    rows, config = random_rows(7, rollouts=20), build_config(options)
    found = made(tmp_path, rows, config)
    wanted = reference_pairs(rows, config)
    keys = ["group_id", "rule", "context", "chosen_rollout_id", "chosen_step", "rejected_rollout_id", "rejected_step"]
    assert wanted
    assert [[p[k] for k in keys] for p in found] == [[p[k] for k in keys] for p in wanted]
    assert [p["weight"] for p in found] == pytest.approx([p["weight"] for p in wanted], rel=0, abs=1e-12)


def test_batches_partitions_and_row_order_change_no_pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = random_rows(3, groups=6)
    one = made(tmp_path, rows, out="one")
    monkeypatch.setattr(from_decisions, "BATCH_ROWS", 50)
    random.Random(2).shuffle(rows)
    made(tmp_path, rows, out="two")
    assert table_bytes(open_store(tmp_path / "one")) == table_bytes(open_store(tmp_path / "two"))
    monkeypatch.setattr(from_decisions, "BUCKET_ROWS", 60)
    parts = made(tmp_path, rows, out="parts")
    assert len(open_store(tmp_path / "parts").files("preferences")) > 1
    assert {p["pair_id"]: p for p in parts} == {p["pair_id"]: p for p in one}


def test_nan_is_null_and_an_action_of_null_is_no_candidate(tmp_path: Path) -> None:
    rows = random_rows(5)
    nan = [{**row, "outcome": float("nan") if row["outcome"] is None else row["outcome"]} for row in rows]
    lost = [{**row, "action": None} if not row["valid"] else row for row in nan]
    assert made(tmp_path, rows, out="a") == made(tmp_path, nan, out="b") == made(tmp_path, lost, out="c") != []


def test_text_columns_may_be_encoded_as_dictionaries_and_numbers_may_be_wide(tmp_path: Path) -> None:
    rows = random_rows(5)
    table = pa.Table.from_pylist(rows, SCHEMA)
    wide = {"step": pa.int64(), "rule": pa.int64(), "context": pa.large_string(), "outcome": pa.float32()}
    for name in ("group_id", "action"):
        table = table.set_column(table.column_names.index(name), name, table[name].dictionary_encode())
    for name, kind in wide.items():
        table = table.set_column(table.column_names.index(name), name, table[name].cast(kind))
    pq.write_table(table, tmp_path / "wide.parquet")
    build_from_decisions(tmp_path / "wide.parquet", tmp_path / "wide", BuildConfig(), ONE)
    assert open_store(tmp_path / "wide").read("preferences").to_pylist() == made(tmp_path, rows)


def replaced(rows: list[Row], index: int, **values: Any) -> list[Row]:
    return [{**row, **values} if i == index else row for i, row in enumerate(rows)]


ROWS = random_rows(1)
BAD: dict[str, tuple[Callable[[], list[Row]], list[str]]] = {
    "null group": (lambda: replaced(ROWS, 7, group_id=None), ["row 7", "group_id"]),
    "null rollout": (lambda: replaced(ROWS, 8, rollout_id=None), ["row 8", "rollout_id"]),
    "null context": (lambda: replaced(ROWS, 9, context=None), ["row 9", "context"]),
    "null step": (lambda: replaced(ROWS, 10, step=None), ["row 10", "step"]),
    "null rule": (lambda: replaced(ROWS, 11, rule=None), ["row 11", "rule"]),
    "null valid": (lambda: replaced(ROWS, 12, valid=None), ["row 12", "valid"]),
    "negative step": (lambda: replaced(ROWS, 3, step=-1), ["row 3", "step", "-1"]),
    "negative rule": (lambda: replaced(ROWS, 3, rule=-1), ["row 3", "rule", "-1"]),
    "outcome 1.5": (lambda: replaced(ROWS, 30, outcome=1.5), ["row 30", "outcome", "1.5"]),
    "outcome -0.1": (lambda: replaced(ROWS, 31, outcome=-0.1), ["row 31", "outcome", "-0.1"]),
    "outcome inf": (lambda: replaced(ROWS, 31, outcome=float("inf")), ["row 31", "outcome", "inf"]),
    "two outcomes": (
        lambda: [{**r, "outcome": 0.25} if i == 5 else {**r, "outcome": 1.0} for i, r in enumerate(ROWS)],
        ["'r0'", "more than one outcome"],
    ),
    "outcome and null": (
        lambda: [{**r, "outcome": None} if i == 5 else {**r, "outcome": 1.0} for i, r in enumerate(ROWS)],
        ["'r0'", "more than one outcome"],
    ),
    "row twice": (lambda: [*ROWS, ROWS[20]], [repr(ROWS[20]["rollout_id"]), f"step {ROWS[20]['step']}", "two rows"]),
    "no rule 0": (lambda: [r for r in ROWS if r["rule"]], ["rule 0", "'r0'"]),
    "one decision without rule 0": (lambda: ROWS[:18] + ROWS[19:], ["rule 0", "'r3'", "step 0"]),
    "no rows": (list, ["no rows"]),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_table_is_one_error_that_says_where(tmp_path: Path, name: str) -> None:
    rows, words = BAD[name]
    file = write(tmp_path / "decisions.parquet", rows())
    with pytest.raises(DataError) as error:
        build_from_decisions(file, tmp_path / "out", BuildConfig(), ONE)
    for word in words:
        assert word in str(error.value)
    assert [p.name for p in tmp_path.iterdir()] == ["decisions.parquet"]


@pytest.mark.parametrize("column", COLUMNS)
def test_a_missing_column_is_named(tmp_path: Path, column: str) -> None:
    table = pa.Table.from_pylist(ROWS, SCHEMA).drop_columns([column])
    pq.write_table(table, tmp_path / "d.parquet")
    with pytest.raises(UsageError, match=f"lacks {column}"):
        build_from_decisions(tmp_path / "d.parquet", tmp_path / "out", BuildConfig(), ONE)


@pytest.mark.parametrize(
    "column, values",
    [
        ("step", ["first"] * len(ROWS)),
        ("rule", [0.5] * len(ROWS)),
        ("outcome", ["won"] * len(ROWS)),
        ("valid", ["perhaps"] * len(ROWS)),
        ("context", [["a", "list"]] * len(ROWS)),
        ("step", [2**40] * len(ROWS)),
    ],
)
def test_a_column_of_the_wrong_type_is_named(tmp_path: Path, column: str, values: list[Any]) -> None:
    table = pa.Table.from_pylist(ROWS, SCHEMA)
    pq.write_table(
        table.set_column(table.column_names.index(column), column, pa.array(values)), tmp_path / "d.parquet"
    )
    with pytest.raises(DataError, match=f"column {column}"):
        build_from_decisions(tmp_path / "d.parquet", tmp_path / "out", BuildConfig(), ONE)


def test_a_column_that_is_there_twice_is_named(tmp_path: Path) -> None:
    table = pa.Table.from_pylist(ROWS, SCHEMA)
    pq.write_table(table.append_column("step", table["step"]), tmp_path / "d.parquet")
    with pytest.raises(UsageError, match="step"):
        build_from_decisions(tmp_path / "d.parquet", tmp_path / "out", BuildConfig(), ONE)


def test_what_is_no_parquet_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "d.parquet").write_text("rollout_id,step\n")
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "d.parquet", tmp_path / "fifo", tmp_path / "absent", tmp_path):
        with pytest.raises(UsageError, match=str(path)):
            build_from_decisions(path, tmp_path / "out", BuildConfig(), ONE)
    assert not (tmp_path / "out").exists()


def test_cut_tables_are_refused_and_flipped_bits_end_in_no_other_error(tmp_path: Path) -> None:
    file = write(tmp_path / "d.parquet", random_rows(2, groups=2))
    data, rng, refused = file.read_bytes(), random.Random(0), 0
    for number in range(40):
        broken = bytearray(data)
        broken[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        file.write_bytes(broken if number % 2 else broken[: rng.randrange(1, len(data))])
        try:
            build_from_decisions(file, tmp_path / f"o{number}", BuildConfig(), ONE)
        except McgpoError:
            refused += 1
    assert refused >= 20  # all that were cut


@pytest.mark.parametrize("option", [{"scope": "task"}, {"representation": "state"}])
def test_options_that_need_logs_are_refused(tmp_path: Path, option: dict[str, str]) -> None:
    file = write(tmp_path / "d.parquet", ROWS)
    with pytest.raises(UsageError, match=f"--{next(iter(option))}"):
        build_from_decisions(file, tmp_path / "out", build_config(option), ONE)


def test_the_build_can_be_verified_and_is_not_rebuilt(tmp_path: Path) -> None:
    made(tmp_path, ROWS)
    store = open_store(tmp_path / "out")
    store.verify()
    with pytest.raises(UsageError, match="--from-decisions"):
        build_preferences([tmp_path / "out"], tmp_path / "again", BuildConfig(form="thin"))
    store.files("preferences")[0].write_bytes(b"PAR1")
    with pytest.raises(IntegrityError):
        store.verify()
