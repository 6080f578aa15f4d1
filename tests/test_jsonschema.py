"""The JSON Schema files: current, valid, and true to the Arrow schemas."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema as validator
import pyarrow as pa
import pytest

from mcgpo_data import schema
from mcgpo_data.jsonschema import documents, main, manifest_schema, stale, table_schema

ROOT = Path(__file__).resolve().parent.parent

VALUES = {pa.string(): "text", pa.bool_(): True, pa.float64(): 0.5, pa.float32(): -0.5}


def sample(kind: pa.DataType) -> object:
    """Some value of an Arrow type, as JSON."""
    if pa.types.is_list(kind):
        return [sample(kind.value_type)]
    if pa.types.is_struct(kind):
        return {f.name: sample(f.type) for f in kind.fields}
    return VALUES.get(kind, 3)


def row(name: str) -> dict[str, object]:
    chosen = {
        "group_source": "task",
        "outcome_kind": "terminal",
        "terminal_status": "done",
        "observation_source": "logged_pre",
        "action_kind": "tool_call",
    }
    return {f.name: chosen.get(f.name, sample(f.type)) for f in schema.TABLES[name]}


def errors(body: dict[str, object], value: object) -> list[str]:
    checker = validator.Draft202012Validator(body, format_checker=validator.FormatChecker())
    return [error.json_path for error in checker.iter_errors(value)]


def manifest() -> dict[str, object]:
    digest = "0123456789abcdef" * 4
    return {
        "schema_version": "1.0",
        "builder": {"name": "mcgpo_data", "version": "0.1.0"},
        "created": "2026-01-02T03:04:05Z",
        "inputs": [
            {
                "path": "a.jsonl",
                "sha256": digest,
                "bytes": 10,
                "format": "native",
                "records": 2,
                "rollouts": 1,
                "steps": 1,
                "skipped": {"malformed JSON": 1},
                "warnings": {},
                "places": {"malformed JSON": ["a.jsonl:2: 'x'"]},
            }
        ],
        "ignored_inputs": [{"path": "b.txt", "why": "no records"}],
        "config": {"folds": 2},
        "layout": {"buckets": 1, "text_parts": 1},
        "tables": {
            "steps": {"files": [{"path": "steps.parquet", "sha256": digest, "rows": 1, "bytes": 9}], "rows": 1}
        },
        "funnel": {},
        "versions": {"python": "3.11.7", "duckdb": "2.0.1", "polars": "2.1.0", "pyarrow": "26.0.1"},
        "content_id": digest,
    }


def test_the_files_in_the_repository_are_current() -> None:
    assert stale(ROOT / "schemas") == [], "run `make schemas`"


def test_there_is_a_file_for_every_table_and_the_manifest() -> None:
    assert set(documents()) == {f"{name}.schema.json" for name in [*schema.TABLES, "manifest"]}


@pytest.mark.parametrize("name", sorted(documents()))
def test_every_file_is_a_valid_schema(name: str) -> None:
    validator.Draft202012Validator.check_schema(json.loads(documents()[name]))


@pytest.mark.parametrize("name", sorted(schema.TABLES))
def test_a_complete_row_is_accepted(name: str) -> None:
    assert errors(table_schema(name), row(name)) == []


@pytest.mark.parametrize("name", sorted(schema.TABLES))
def test_nullable_columns_may_be_null_or_absent_and_others_may_not(name: str) -> None:
    body = table_schema(name)
    for column in schema.TABLES[name]:
        null = {**row(name), column.name: None}
        absent = {key: value for key, value in row(name).items() if key != column.name}
        assert (errors(body, null) == []) == column.nullable, column.name
        assert (errors(body, absent) == []) == column.nullable, column.name


@pytest.mark.parametrize("name", sorted(schema.TABLES))
def test_rows_written_with_the_arrow_schema_are_accepted(name: str) -> None:
    table = pa.Table.from_pylist([row(name)], schema=schema.TABLES[name])
    assert errors(table_schema(name), table.to_pylist()[0]) == []


def test_a_thin_preference_is_a_preference() -> None:
    thin = {f.name: row("preferences")[f.name] for f in schema.PREFERENCES_THIN}
    assert errors(table_schema("preferences"), thin) == []


@pytest.mark.parametrize(
    "column, value",
    [
        ("step_index", "3"),
        ("step_index", 2**31),
        ("reward", "high"),
        ("action_kind", "dance"),
        ("messages", [{"role": 1}]),
        ("messages", [{"role": "assistant", "tool_calls": [{"function": {"name": 5}}]}]),
        ("admissible_actions", [1]),
        ("done", 1),
    ],
)
def test_values_of_another_type_are_refused(column: str, value: object) -> None:
    assert errors(table_schema("steps"), {**row("steps"), column: value})


def test_unknown_columns_are_allowed() -> None:
    assert errors(table_schema("steps"), {**row("steps"), "episode_advantage": 0.1}) == []


def test_every_column_tells_what_it_means() -> None:
    for name in schema.TABLES:
        assert all(one["description"] for one in table_schema(name)["properties"].values())


def test_a_complete_manifest_is_accepted() -> None:
    assert errors(manifest_schema(), manifest()) == []


@pytest.mark.parametrize("key", sorted(manifest()))
def test_no_key_of_the_manifest_may_be_missing(key: str) -> None:
    assert errors(manifest_schema(), {k: v for k, v in manifest().items() if k != key})


@pytest.mark.parametrize(
    "key, value",
    [
        ("schema_version", "1"),
        ("content_id", "0123"),
        ("versions", {"python": "3.11.7"}),
        ("inputs", [{"path": "a.jsonl"}]),
        ("tables", {"steps": {"files": [{"path": "x"}], "rows": 1}}),
        ("tables", {"steps": {"files": [], "rows": -1}}),
    ],
)
def test_a_broken_manifest_is_refused(key: str, value: object) -> None:
    assert errors(manifest_schema(), {**manifest(), key: value})


def test_the_command_writes_files_that_its_check_accepts(tmp_path: Path) -> None:
    folder = tmp_path / "schemas"
    assert main([str(folder)]) == 0
    assert main(["--check", str(folder)]) == 0


@pytest.mark.parametrize("change", ["edited", "missing", "extra"])
def test_the_check_names_the_file_that_is_stale(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: str
) -> None:
    main([str(tmp_path)])
    name = "orders.schema.json" if change == "extra" else "steps.schema.json"
    if change == "missing":
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_text("{}")
    assert main(["--check", str(tmp_path)]) == 1
    assert name in capsys.readouterr().err


def test_a_wrong_call_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage" in capsys.readouterr().err
