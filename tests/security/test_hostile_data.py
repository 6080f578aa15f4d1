"""Bombs, deep nesting, endless lines, bad bytes, and random damage: always an error of ours or a counted loss."""

from __future__ import annotations

import contextlib
import gzip
import json
import math
import random
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from mcgpo_data.build.run import BuildOptions, build_preferences
from mcgpo_data.config import BuildConfig
from mcgpo_data.errors import McgpoError, ResourceError, UsageError
from mcgpo_data.readers import logfile
from mcgpo_data.readers.base import Report
from mcgpo_data.readers.logfile import LogFile
from mcgpo_data.store import open_store

from ..build_path.logs import Row, build, lines, make_rows, table_bytes, write_log

ROWS = make_rows(seed=61, tasks=2, text=True)
LENIENT = BuildOptions(workers=1, rules="generic", max_bad_fraction=1.0)


def bomb(packing: str, size: int) -> bytes:
    start = lines(ROWS)
    if packing == "gzip":
        packer: Any = zlib.compressobj(9, wbits=31)
    else:
        packer = zstandard.ZstdCompressor(level=19).compressobj()
    parts = [packer.compress(start)]
    parts += [packer.compress(b" " * 2**20) for _ in range(size)]
    return b"".join([*parts, packer.flush()])


@pytest.mark.parametrize("packing", ["gzip", "zstd"])
def test_a_decompression_bomb_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packing: str) -> None:
    monkeypatch.setattr(logfile, "RATIO_GRACE", 8 * 2**20)
    monkeypatch.setattr(logfile, "MAX_RATIO", 500)
    (tmp_path / "log.jsonl").write_bytes(bomb(packing, 64))
    with pytest.raises(ResourceError, match="decompression bomb"):
        build(tmp_path / "log.jsonl", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_bomb_under_the_default_limits_is_stopped_before_it_fills_memory(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_bytes(bomb("zstd", 400))
    seen = 0
    with LogFile(tmp_path / "log.jsonl").open() as stream, contextlib.suppress(ResourceError):
        while chunk := stream.read1(2**20):
            seen += len(chunk)
    assert logfile.RATIO_GRACE <= seen <= logfile.RATIO_GRACE + 2**21


def test_text_that_packs_well_is_no_bomb(tmp_path: Path) -> None:
    rows = [{**r, "response": r["response"] + "again " * 20_000} for r in ROWS]
    log = write_log(tmp_path / "log.jsonl.zst", rows)
    assert log.stat().st_size * 100 < len(lines(rows))
    assert build(log, tmp_path / "out").read("steps").num_rows == len(rows)


@pytest.mark.parametrize("depth", [200, 900, *range(975, 1_030, 5), 5_000, 200_000])
def test_deep_nesting_costs_at_most_its_record(tmp_path: Path, depth: int) -> None:
    row = json.dumps({**ROWS[0], "rollout_id": "deep", "metadata": {"x": "HERE"}})
    deep = row.replace('"HERE"', "[" * depth + "]" * depth)
    (tmp_path / "log.jsonl").write_bytes(lines(ROWS) + deep.encode() + b"\n")
    store = build(tmp_path / "log.jsonl", tmp_path / "out")
    (entry,) = store.manifest["inputs"]
    assert entry["steps"] + sum(entry["skipped"].values()) == len(ROWS) + 1
    assert store.read("rollouts").num_rows == 24 + entry["steps"] - len(ROWS)
    if depth <= 900:
        assert entry["skipped"] == {}
    if depth >= 5_000:
        assert entry["skipped"] == {"malformed JSON": 1}


def test_a_line_beyond_the_limit_is_passed_over_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open(tmp_path / "log.jsonl", "wb") as stream:
        stream.write(lines(ROWS[:30]))
        stream.write(b'{"rollout_id": "')
        stream.writelines(b"x" * 2**20 for _ in range(70))
        stream.write(b'"}\n' + lines(ROWS[30:]))
    store = build(tmp_path / "log.jsonl", tmp_path / "out", form="thin")
    (entry,) = store.manifest["inputs"]
    assert entry["skipped"] == {"line longer than 64 MiB": 1}
    assert entry["places"]["line longer than 64 MiB"] == [f"{tmp_path / 'log.jsonl'}:31"]
    clean = build(write_log(tmp_path / "clean.jsonl", ROWS), tmp_path / "clean", form="thin")
    assert table_bytes(store) == table_bytes(clean)


def test_bytes_that_are_no_utf8_cost_their_line_only(tmp_path: Path) -> None:
    data = lines(ROWS).split(b"\n")
    data[3] = data[3].replace(b"room", b"r\xff\xfem", 1)
    (tmp_path / "log.jsonl").write_bytes(b"\n".join(data))
    store = build(tmp_path / "log.jsonl", tmp_path / "out")
    assert store.manifest["inputs"][0]["skipped"] == {"malformed JSON": 1}
    assert store.read("steps").num_rows == len(ROWS) - 1


def test_halves_of_surrogate_pairs_are_replaced(tmp_path: Path) -> None:
    rows = [{**r, "observation": "half \ud83d", "task_id": f"{r['task_id']}\udc00"} for r in ROWS]
    store = build(write_log(tmp_path / "log.jsonl", rows), tmp_path / "out")
    assert set(store.read("rollouts")["task_id"].to_pylist()) == {"task-0\ufffd", "task-1\ufffd"}
    assert set(store.read("decisions")["state_summary"].to_pylist()) == {"half \ufffd"}
    assert table_bytes(build(store.path, tmp_path / "again")) == table_bytes(store)


@pytest.mark.parametrize(
    "magic", [b"\x80\x04K\x01.", b"PK\x03\x04abc", b"BZh91AY", b"\xfd7zXZ\0", b"\x89HDF\r\n"], ids=repr
)
@pytest.mark.parametrize("packed", [False, True])
def test_formats_that_can_run_code_or_hide_others_are_refused(tmp_path: Path, magic: bytes, packed: bool) -> None:
    (tmp_path / "log.jsonl").write_bytes(gzip.compress(magic) if packed else magic)
    with pytest.raises(UsageError, match=r"is an?"):
        build(tmp_path / "log.jsonl", tmp_path / "out")


# Random damage: a build ends well or with an error of ours, never otherwise, and never half.


def survive(path: Path, out: Path) -> bool:
    """Whether a build of a damaged log ended well."""
    try:
        build_preferences([path], out, BuildConfig(form="full" if len(out.name) % 2 else "thin"), LENIENT)
    except McgpoError:
        assert not out.exists()
        return False
    open_store(out).verify()
    return True


def parquet_bytes(rows: list[Row]) -> bytes:
    sink = pa.BufferOutputStream()
    names = list(dict.fromkeys(key for row in rows for key in row))
    pq.write_table(pa.Table.from_pylist([{k: r.get(k) for k in names} for r in rows]), sink)
    data: bytes = sink.getvalue().to_pybytes()
    return data


PACKED: dict[str, Callable[[list[Row]], bytes]] = {
    "jsonl": lines,
    "gzip": lambda rows: gzip.compress(lines(rows), 0),
    "zstd": lambda rows: b"".join(zstandard.compress(lines(rows[i : i + 5])) for i in range(0, len(rows), 5)),
    "parquet": parquet_bytes,
}


def mutate(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 3, 20])):
        place = rng.randrange(len(changed))
        kind = rng.randrange(5)
        if kind == 0:
            changed[place] = rng.randrange(256)
        elif kind == 1:
            del changed[place : place + rng.choice([1, 8, 300])]
        elif kind == 2:
            changed[place:place] = rng.randbytes(rng.choice([1, 8, 300]))
        elif kind == 3:
            changed[place:place] = changed[: rng.randrange(1, 400)]
        else:
            del changed[rng.randrange(len(changed) // 2, len(changed)) :]
        if not changed:
            changed = bytearray(b"{")
    return bytes(changed)


@pytest.mark.parametrize("packing", PACKED)
def test_random_bytes_in_a_log_end_in_pairs_or_an_error_of_ours(tmp_path: Path, packing: str) -> None:
    rng, well = random.Random(packing), 0
    data = PACKED[packing](ROWS[:60])
    for number in range(30):
        path = tmp_path / f"log{number}"
        path.write_bytes(mutate(data, rng))
        well += survive(path, tmp_path / f"o{number}")
    assert well


VALUES: list[Any] = [None, True, False, 0, -1, 2**31, 2**63, 2**70, 0.5, math.inf, -math.inf, math.nan, 1e400, "", "x"]
VALUES += ["nan", "\0", "\ud800", [], [None], [[]], {}, {"role": "user"}, [{"role": "x", "content": None}], [{}]]
VALUES += [{"a": {"b": [1, 2**80]}}, ["a", 1], [2**40], [0.5, None], "1", "true", {"": ""}, [{"tool_calls": [{}]}]]
FIELDS = ["task_id", "rollout_id", "step", "action", "response", "prompt", "observation", "action_valid", "reward"]
FIELDS += ["admissible_actions", "instruction", "thought", "done", "truncated", "success", "outcome", "outcome_min"]
FIELDS += ["outcome_max", "terminal_status", "final_observation", "group_id", "policy", "policy_version", "metadata"]
FIELDS += ["prompt_token_ids", "response_token_ids", "response_logprobs", "step_index", "won", "score"]


@pytest.mark.parametrize("field", FIELDS)
def test_any_value_in_any_field_ends_in_pairs_or_an_error_of_ours(tmp_path: Path, field: str) -> None:
    rng, well = random.Random(field), 0
    for number in range(4):
        rows = [dict(r) for r in ROWS[:50]]
        for value in VALUES[number::4]:
            rows[rng.randrange(50)][field] = value
        path = tmp_path / f"log{number}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        well += survive(path, tmp_path / f"o{number}")
    assert well or field in ("task_id", "rollout_id", "step", "step_index", "outcome_min", "outcome_max", "group_id")


def test_any_structure_ends_in_pairs_or_an_error_of_ours(tmp_path: Path) -> None:
    rng = random.Random(0)
    for number in range(30):
        rows: list[Any] = [dict(r) for r in rng.sample(ROWS, 40)]
        for _ in range(rng.randrange(1, 12)):
            row = rng.choice([r for r in rows if isinstance(r, dict) and r] or [{}])
            kind = rng.randrange(5)
            if kind == 0 and row:
                row.pop(rng.choice(list(row)))
            elif kind == 1:
                row[rng.choice(FIELDS)] = rng.choice(VALUES)
            elif kind == 2:
                rows.insert(rng.randrange(len(rows)), rng.choice(VALUES))
            elif kind == 3:
                rows.append(dict(row, step=rng.choice(VALUES)))
            else:
                row[str(rng.choice(VALUES))] = rng.choice(VALUES)
        path = tmp_path / f"log{number}.jsonl"
        text = "".join(json.dumps(row) + "\n" for row in rows) if number % 3 else json.dumps(rows)
        path.write_text(text)
        survive(path, tmp_path / f"o{number}")


def test_every_kind_of_damage_in_parquet_columns_is_survived(tmp_path: Path) -> None:
    kinds: list[Any] = [pa.int8(), pa.uint64(), pa.float32(), pa.large_string(), pa.binary(), pa.bool_(), pa.null()]
    kinds += [pa.timestamp("us"), pa.date32(), pa.decimal128(10, 2), pa.list_(pa.string()), pa.map_("string", "int32")]
    kinds += [pa.struct([("role", pa.string())]), pa.dictionary(pa.int8(), pa.string())]
    base = pa.Table.from_pylist([{k: r.get(k) for k in ("task_id", "rollout_id", "step", "action")} for r in ROWS])
    well = 0
    for number, (kind, field) in enumerate((k, f) for k in kinds for f in ("task_id", "step", "action", "metadata")):
        column = pa.array([_value(kind, n) for n in range(len(ROWS))], kind)
        table = base.drop_columns([field]) if field in base.column_names else base
        pq.write_table(table.append_column(field, column), tmp_path / f"log{number}")
        well += survive(tmp_path / f"log{number}", tmp_path / f"o{number}")
    assert well >= 5


def _value(kind: Any, n: int) -> Any:
    import datetime
    import decimal

    if pa.types.is_null(kind):
        return None
    if pa.types.is_boolean(kind):
        return n % 2 == 0
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return n % 4
    if pa.types.is_binary(kind):
        return b"\xff%d" % n
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return datetime.datetime(2020, 1, 1 + n % 20) if pa.types.is_timestamp(kind) else datetime.date(2020, 1, 2)
    if pa.types.is_decimal(kind):
        return decimal.Decimal(n % 4)
    if pa.types.is_map(kind):
        return [("a", n)]
    if pa.types.is_list(kind):
        return ["a", None]
    return {"role": "x"} if pa.types.is_struct(kind) else f"v{n % 3}"


def test_a_report_names_the_place_of_a_loss_without_repeating_all_of_it(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_bytes(lines(ROWS) + b'{"x": "' + b"y" * 10_000 + b"\n" + lines(ROWS[:1]))
    report = Report(path="log")
    list(LogFile(tmp_path / "log.jsonl").records(report))
    assert len(report.places["malformed JSON"][0]) < 250
