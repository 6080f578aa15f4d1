"""What rows of a native log mean for the build: doubles, contradictions, gaps, scales, endings."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mcgpo_data.build import run
from mcgpo_data.build.run import BuildOptions, build_preferences
from mcgpo_data.config import build_config
from mcgpo_data.errors import DataError, UsageError
from mcgpo_data.store import Store, open_store

from ..build_path.logs import Row, build, lines, make_rows, pairs_of, table_bytes, write_log

ROWS = make_rows(seed=11, text=True)
ENDS = [r for r in ROWS if r.get("done")]


def changed(rollout: str, **values: Any) -> list[Row]:
    """`ROWS` with other values in the last row of a rollout."""
    return [{**r, **values} if r["rollout_id"] == rollout and r.get("done") else r for r in ROWS]


def rollout_of(store: Store, name: str) -> Row:
    (found,) = [r for r in store.read("rollouts").to_pylist() if r["rollout_id"] == name]
    return found


def made(tmp_path: Path, rows: list[Row], out: str = "out", **options: Any) -> Store:
    return build(write_log(tmp_path / f"{out}.jsonl", rows), tmp_path / out, **options)


def test_rows_in_parquet_give_the_bytes_of_rows_in_json(tmp_path: Path) -> None:
    rows = [{**r, "done": r.get("done"), "success": r.get("success")} for r in ROWS]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "log.parquet")
    parquet = build(tmp_path / "log.parquet", tmp_path / "parquet")
    assert table_bytes(parquet) == table_bytes(made(tmp_path, ROWS))
    assert parquet.manifest["inputs"][0]["format"] == "native"


def test_a_log_given_twice_changes_nothing(tmp_path: Path) -> None:
    one = made(tmp_path, ROWS, "one")
    log = write_log(tmp_path / "log.jsonl", ROWS)
    twice = build([log, write_log(tmp_path / "copy.jsonl.gz", ROWS[::-1])], tmp_path / "twice")
    assert table_bytes(twice) == table_bytes(one)
    assert twice.manifest["funnel"]["repairs"]["duplicate steps dropped"] == len(ROWS)
    inside = made(tmp_path, ROWS + ROWS[5:9], "inside")
    assert table_bytes(inside) == table_bytes(one)
    assert inside.manifest["funnel"]["repairs"]["duplicate steps dropped"] == 4


@pytest.mark.parametrize(
    "values",
    [
        {"action": "another"},
        {"observation": "another"},
        {"success": "flip"},
        {"reward": 0.25},
        {"thought": "another"},
        {"metadata": {"k": 1}},
        {"response": "another"},
        {"prompt": "another"},
        {"response_token_ids": [1]},
        {"task_id": "another"},
    ],
    ids=lambda v: next(iter(v)),
)
def test_one_rollout_id_with_two_contents_is_an_error_that_names_both_places(tmp_path: Path, values: Row) -> None:
    place = ROWS.index(ENDS[4])
    if values == {"success": "flip"}:
        values = {"success": not ENDS[4]["success"]}
    a = write_log(tmp_path / "a.jsonl", ROWS)
    b = write_log(tmp_path / "b.jsonl", [{**ROWS[place], **values}])
    with pytest.raises(DataError) as error:
        build([b, a], tmp_path / "out")
    assert repr(ENDS[4]["rollout_id"]) in str(error.value)
    assert f"{a}:{place + 1}" in str(error.value)
    assert f"{b}:1" in str(error.value)
    column = {"prompt": "messages", "response": "messages"}.get(next(iter(values)), next(iter(values)))
    assert column in str(error.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["task_id", "policy", "policy_version", "instruction", "group_id"])
def test_facts_of_a_rollout_must_agree_over_its_rows(tmp_path: Path, name: str) -> None:
    first = next(i for i, r in enumerate(ROWS) if r["step"] == 0)
    rows = [{**r, name: "a"} if r["task_id"] == ROWS[first]["task_id"] else r for r in ROWS]
    rows[first] = {**rows[first], name: "b"}
    with pytest.raises(DataError, match=re.escape(repr(ROWS[first]["rollout_id"]))) as error:
        made(tmp_path, rows)
    assert name in str(error.value)


@pytest.mark.parametrize("buckets", [1, 16])
@pytest.mark.parametrize("name", ["rollout_id", "group_id"])
def test_an_id_in_two_tasks_is_an_error_however_tasks_are_spread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, buckets: int
) -> None:
    monkeypatch.setattr(run, "BUCKET_STEPS", len(ROWS) / buckets)
    rows = [{**r, name: r["rollout_id"].split("/")[1]} for r in ROWS]
    with pytest.raises(DataError, match=r"'r\d+'") as error:
        made(tmp_path, rows)
    assert "task" in str(error.value)
    assert not (tmp_path / "out").exists()


def test_steps_that_start_at_1_are_whole_rollouts(tmp_path: Path) -> None:
    later = made(tmp_path, [{**r, "step": r["step"] + 1} for r in ROWS], "later")
    assert table_bytes(later) == table_bytes(made(tmp_path, ROWS))
    assert set(later.read("rollouts")["order_trusted"].to_pylist()) == {True}


def test_pieces_of_a_rollout_may_lie_in_several_files(tmp_path: Path) -> None:
    logs = [write_log(tmp_path / f"{t}.jsonl", [r for r in ROWS if r["step"] == t]) for t in range(4)]
    assert table_bytes(build(logs, tmp_path / "pieces")) == table_bytes(made(tmp_path, ROWS))


@pytest.mark.parametrize("missing", [0, 1])
def test_a_gap_is_counted_and_ends_trust_in_the_order(tmp_path: Path, missing: int) -> None:
    name = next(r["rollout_id"] for r in ROWS if r["step"] == 3)
    rows = [
        {**r, "step": r["step"] + 1} if r["rollout_id"] == name and missing == 0 else r
        for r in ROWS
        if (r["rollout_id"], r["step"]) != (name, missing)
    ]
    store = made(tmp_path, rows)
    assert store.manifest["funnel"]["repairs"] == {"rollouts with missing steps": 1}
    found = rollout_of(store, name)
    assert (found["order_trusted"], found["num_steps"]) == (False, 3)
    assert sum(not r["order_trusted"] for r in store.read("rollouts").to_pylist()) == 1
    steps = [s["step_index"] for s in store.read("steps").to_pylist() if s["rollout_id"] == name]
    assert steps == [0, 1, 2]
    with pytest.raises(UsageError, match=re.escape(repr(name))):
        made(tmp_path, rows, "history", representation="history")


def without(name: str) -> list[Row]:
    """`ROWS` with the outcome of one rollout taken out."""
    return changed(name, success=None)


@pytest.mark.parametrize(
    "values",
    [
        {"success": None},
        {"terminal_status": "error_infra"},
        {"terminal_status": "error_infra", "outcome": 1.0},
        {"success": None, "outcome": float("nan")},
    ],
    ids=str,
)
def test_unscored_and_crashed_rollouts_are_candidates_but_no_evidence(tmp_path: Path, values: Row) -> None:
    name = ENDS[3]["rollout_id"]
    store, unscored = made(tmp_path, changed(name, **values)), made(tmp_path, without(name), "unscored")
    assert rollout_of(store, name)["evidence_outcome"] is None
    assert pairs_of(store) == pairs_of(unscored) != pairs_of(made(tmp_path, ROWS, "graded"))
    assert store.manifest["funnel"]["counts"]["graded_rollouts"] == len(ENDS) - 1


@pytest.mark.parametrize(
    "values", [{"done": False, "truncated": True}, {"terminal_status": "truncated_tokens"}], ids=str
)
def test_cut_rollouts_are_graded_or_unscored_as_asked(tmp_path: Path, values: Row) -> None:
    name = ENDS[3]["rollout_id"]
    rows = changed(name, **values)
    graded, unscored = made(tmp_path, rows), made(tmp_path, rows, "unscored", truncated="unscored")
    assert rollout_of(graded, name)["evidence_outcome"] == float(ENDS[3]["success"])
    assert rollout_of(unscored, name)["evidence_outcome"] is None
    assert pairs_of(graded) == pairs_of(made(tmp_path, ROWS, "plain"))
    assert [p["pair_id"] for p in pairs_of(unscored)] == [
        p["pair_id"] for p in pairs_of(made(tmp_path, without(name), "w"))
    ]


def scored(scores: list[Any], **extra: Any) -> list[Row]:
    rows, number = [], 0
    for r in ROWS:
        row = {k: v for k, v in r.items() if k != "success"} | extra
        if r.get("done"):
            row["outcome"] = scores[number % len(scores)]
            number += 1
        rows.append(row)
    return rows


def test_an_undeclared_scale_is_an_error_that_names_value_and_remedy(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"7, outside \[0, 1\].*--outcome-range"):
        made(tmp_path, scored([0.5, 7.0]))
    with pytest.raises(UsageError, match=r"7, outside \[0, 5\]"):
        made(tmp_path, scored([0.5, 7.0]), outcome_range=(0, 5))
    with pytest.raises(UsageError, match=r"7, outside \[0, 6\]"):
        made(tmp_path, scored([0.5, 7.0], outcome_min=0, outcome_max=6))


def test_a_scale_of_the_log_or_of_the_option_maps_to_0_1(tmp_path: Path) -> None:
    scores = [-1.0, 0.0, 1.0, 3.0]
    wanted = {-1.0: 0.0, 0.0: 0.25, 1.0: 0.5, 3.0: 1.0}
    for store in (
        made(tmp_path, scored(scores), "option", outcome_range="-1,3"),
        made(tmp_path, scored(scores, outcome_min=-1, outcome_max=3), "log"),
    ):
        rollouts = store.read("rollouts").to_pylist()
        assert {r["outcome"]: r["evidence_outcome"] for r in rollouts} == wanted
        assert pairs_of(store)


@pytest.mark.parametrize("low, high", [(1, 1), (2, 1), (0, 1e400), (float("nan"), 1)])
def test_a_scale_that_is_none_is_refused(tmp_path: Path, low: float, high: float) -> None:
    rows = [{**r, "outcome_min": low, "outcome_max": high} for r in scored([0.0, 0.5, 1.0])]
    names = sorted({key for row in rows for key in row} - {"prompt"})
    table = pa.Table.from_pylist([{k: row.get(k) for k in names} for row in rows])
    pq.write_table(table, tmp_path / "log.parquet")  # as JSON has neither NaN nor infinity
    with pytest.raises(UsageError, match=r"scale|outside"):
        build(tmp_path / "log.parquet", tmp_path / "out")
    assert made(tmp_path, rows, "ranged", outcome_range=(0, 1))


def test_success_counts_before_the_score_and_the_score_where_there_is_no_success(tmp_path: Path) -> None:
    rows = [{**r, "outcome": 0.25} if r.get("done") else r for r in ROWS]
    assert {r["evidence_outcome"] for r in made(tmp_path, rows).read("rollouts").to_pylist()} == {0.0, 1.0}
    store = made(tmp_path, rows, "score", outcome="score")
    assert {r["evidence_outcome"] for r in store.read("rollouts").to_pylist()} == {0.25}
    for row in rows:
        row.pop("success", None)
    assert {r["evidence_outcome"] for r in made(tmp_path, rows, "only").read("rollouts").to_pylist()} == {0.25}


def test_the_return_is_the_sum_of_rewards_and_unknown_where_one_is(tmp_path: Path) -> None:
    rows = [{**r, "reward": 0.125} for r in ROWS]
    rows[0]["reward"] = None
    store = made(tmp_path, rows, outcome="return")
    steps = {r["rollout_id"]: r["step"] + 1 for r in ENDS}
    found = {r["rollout_id"]: r["evidence_outcome"] for r in store.read("rollouts").to_pylist()}
    assert found == {n: None if n == rows[0]["rollout_id"] else 0.125 * count for n, count in steps.items()}


def test_nan_and_infinity_are_unscored_and_told(tmp_path: Path) -> None:
    data = lines(scored([0.5, 1.0])).replace(b'"outcome": 0.5', b'"outcome": NaN', 1)
    (tmp_path / "log.jsonl").write_bytes(data.replace(b'"outcome": 1.0', b'"outcome": -Infinity', 1))
    store = build(tmp_path / "log.jsonl", tmp_path / "out")
    assert store.read("rollouts")["evidence_outcome"].null_count == 2
    pq.write_table(pa.Table.from_pylist([{**r, "outcome": float("nan")} for r in scored([0])]), tmp_path / "l.parquet")
    parquet = build(tmp_path / "l.parquet", tmp_path / "parquet")
    assert parquet.read("rollouts")["evidence_outcome"].null_count == len(ENDS)
    assert parquet.manifest["inputs"][0]["warnings"] == {"outcome is not a number: unscored": len(ROWS)}


def test_the_last_row_that_states_an_outcome_counts(tmp_path: Path) -> None:
    rows = [{**r, "success": r["step"] == 0} if not r.get("done") else {**r, "success": None} for r in ROWS]
    store = made(tmp_path, rows)
    last = {r["rollout_id"]: r["success"] for r in rows if r["success"] is not None}
    assert {r["rollout_id"]: r["success"] for r in store.read("rollouts").to_pylist()} == last


@pytest.mark.parametrize("packing", ["", ".gz"])
def test_a_truncated_last_line_costs_that_line_only(tmp_path: Path, packing: str) -> None:
    path = tmp_path / f"log.jsonl{packing}"
    write_log(tmp_path / "whole.jsonl", ROWS[:-1])
    data = lines(ROWS)[:-40]
    import gzip

    path.write_bytes(gzip.compress(data) if packing else data)
    cut = build(path, tmp_path / "cut")
    assert table_bytes(cut) == table_bytes(build(tmp_path / "whole.jsonl", tmp_path / "whole"))
    entry = cut.manifest["inputs"][0]
    assert entry["skipped"] == {"truncated last line": 1}
    assert entry["places"]["truncated last line"][0].startswith(f"{path}:{len(ROWS)}")
    assert cut.manifest["funnel"]["skipped"] == {"truncated last line": 1}


def test_a_gzip_stream_that_is_cut_gives_what_came_before(tmp_path: Path) -> None:
    rows = make_rows(seed=2, tasks=30, text=True)
    log = write_log(tmp_path / "log.jsonl.gz", rows)
    log.write_bytes(log.read_bytes()[:-100])
    store = build(log, tmp_path / "out")
    assert 0 < store.read("steps").num_rows < len(rows)
    assert sum(store.manifest["inputs"][0]["skipped"].values()) >= 1


BROKEN: dict[str, tuple[str, str]] = {
    "[1, 2]": ("not a JSON object", "[1, 2]"),
    '"text"': ("not a JSON object", "text"),
    "{broken": ("malformed JSON", "{broken"),
    '{"task_id": "t", "step": 0, "action": "a"}': ("field of the wrong type", "rollout_id"),
    '{"rollout_id": "x", "step": 0, "action": "a"}': ("no task_id", ""),
    '{"rollout_id": "x", "task_id": "t", "action": "a"}': ("no step number", ""),
    '{"rollout_id": "x", "task_id": "t", "step": -1, "action": "a"}': ("step number out of range", "-1"),
    '{"rollout_id": "x", "task_id": "t", "step": 2147483648, "action": "a"}': ("step number out of range", ""),
    '{"rollout_id": "x", "task_id": "t", "step": 1e30, "action": "a"}': ("", ""),
    '{"rollout_id": "x", "task_id": "t", "step": 1.5, "action": "a"}': ("field of the wrong type", "step"),
    '{"rollout_id": "x", "task_id": "t", "step": 0, "action": ["a"]}': ("field of the wrong type", "action"),
    '{"rollout_id": "x", "task_id": "t", "step": 0, "action": "a", "prompt": [{}]}': (
        "field of the wrong type", "role",
    ),
    '{"rollout_id": "x", "task_id": "t", "step": 0, "action": "a", "response_token_ids": [4294967296]}': (
        "field of the wrong type", "response_token_ids",
    ),
}  # fmt: skip


@pytest.mark.parametrize("line", BROKEN)
def test_a_row_that_cannot_be_used_is_counted_with_its_place(tmp_path: Path, line: str) -> None:
    reason, shown = BROKEN[line]
    data = lines(ROWS).split(b"\n")
    (tmp_path / "log.jsonl").write_bytes(b"\n".join([*data[:20], line.encode(), *data[20:]]))
    store = build(tmp_path / "log.jsonl", tmp_path / "out")
    assert table_bytes(store) == table_bytes(made(tmp_path, ROWS, "clean"))
    entry = store.manifest["inputs"][0]
    assert (entry["records"], entry["steps"]) == (len(ROWS) + 1, len(ROWS))
    assert sum(entry["skipped"].values()) == 1
    assert reason in next(iter(entry["skipped"]))
    (place,) = entry["places"][next(iter(entry["skipped"]))]
    assert place.startswith(f"{tmp_path / 'log.jsonl'}:21")
    assert shown in place


def test_too_many_bad_rows_are_an_error_with_counts(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", ROWS)
    log.write_bytes(log.read_bytes() + b"{broken\n" * 40 + lines(ROWS[:1]))
    with pytest.raises(DataError, match=rf"(?s)40 of {len(ROWS) + 41} records.*log.jsonl:{len(ROWS) + 1}") as error:
        build(log, tmp_path / "out")
    assert "40 x malformed JSON" in str(error.value)
    build_preferences([log], tmp_path / "out", build_config({}), BuildOptions(workers=1, max_bad_fraction=0.5))
    assert pairs_of(open_store(tmp_path / "out"))


def test_synonyms_of_fields_mean_the_same(tmp_path: Path) -> None:
    names = {"step": "step_index", "success": "won"}
    rows = [{names.get(k, k): v for k, v in r.items()} for r in ROWS]
    assert table_bytes(made(tmp_path, rows)) == table_bytes(made(tmp_path, ROWS, "plain"))


def test_numbers_may_be_ids(tmp_path: Path) -> None:
    rows = [{**r, "task_id": int(r["task_id"][-1]), "policy_version": 3} for r in ROWS]
    store = made(tmp_path, rows)
    assert set(store.read("rollouts")["task_id"].to_pylist()) == {"0", "1", "2"}
    assert set(store.read("rollouts")["policy_version"].to_pylist()) == {"3"}


def test_every_record_is_accounted_for(tmp_path: Path) -> None:
    rows = [dict(r) for r in ROWS]
    for r in rows[::10]:
        r["step"] = None
    log = write_log(tmp_path / "log.jsonl", rows)
    build_preferences([log], tmp_path / "out", build_config({}), BuildOptions(workers=1, max_bad_fraction=0.2))
    (entry,) = open_store(tmp_path / "out").manifest["inputs"]
    assert entry["records"] == entry["steps"] + sum(entry["skipped"].values()) == len(rows)
    assert json.loads(json.dumps(entry)) == entry
