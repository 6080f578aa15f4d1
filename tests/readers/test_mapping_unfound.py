"""What a mapping names and a file does not have is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcgpo_data.build.run import BuildOptions, build_preferences
from mcgpo_data.config import BuildConfig
from mcgpo_data.inspect.validate import validate_files, validation_lines
from mcgpo_data.readers.base import Report
from mcgpo_data.readers.logfile import LogFile
from mcgpo_data.readers.mapping import MappingReader, load_mapping

MAPPING = """
name: mine
task: t
rollout: [t, seed]
policy_version: {file: '(v\\d)'}
outcome: {field: end, values: {won: 1, lost: 0}, min: 0, max: 1}
steps:
  form: list
  at: turns
  fields: {response: cmd, observation: screen, valid: ok}
  phase: before
  action: 'CMD: (.*)'
  invalid: 'Unknown'
"""

TEXT = """
name: talk
split: '^== '
task: {field: text, match: 'Goal: (.*)'}
steps: {form: text, at: text, cut: 'BEGIN', action: '> (.*)', thought: '# '}
"""


def records(count: int = 8) -> list[dict[str, Any]]:
    return [
        {
            "t": "x", "seed": i, "end": ("won", "lost")[i % 2],
            "turns": [
                {"cmd": f"CMD: {'ab'[i % 2]}", "screen": "door", "ok": True},
                {"cmd": f"CMD: sit {i}", "screen": "Unknown" if i % 2 else "room", "ok": None},
            ],
        }
        for i in range(count)
    ]  # fmt: skip


def reader(folder: Path, mapping: str) -> MappingReader:
    (folder / "mapping.yaml").write_text(mapping)
    return load_mapping(folder / "mapping.yaml")


def warnings(folder: Path, mapping: str, log: Any) -> dict[str, int]:
    path = folder / "log-v1.jsonl"
    path.write_text(log if isinstance(log, str) else "".join(json.dumps(r) + "\n" for r in log))
    report = Report(path.name)
    list(reader(folder, mapping).read(LogFile(path, path.name), report))
    assert all(report.places[reason] == [path.name] for reason in report.warnings if reason.startswith("mapping:"))
    return report.warnings


def test_a_mapping_that_fits_says_nothing(tmp_path: Path) -> None:
    assert warnings(tmp_path, MAPPING, records()) == {}


@pytest.mark.parametrize(
    "right, wrong, reason, count",
    [
        ("valid: ok", "valid: okk", "`steps.fields.valid` (okk) found in none of the steps", 16),
        ("observation: screen", "observation: scn", "`steps.fields.observation` (scn) found in none of the steps", 16),
        ("response: cmd", "response: cdm", "`steps.fields.response` (cdm) found in none of the steps", 16),
        ("CMD: (", "CMMD: (", "the pattern of `steps.action` matched none of the responses", 16),
        ("'Unknown'", "'Unkown'", "the pattern of `steps.invalid` matched none of the answers", 8),
        ("task: t", "task: {field: task, default: x}", "`task` (task) found in none of the records", 8),
        ("task: t", "task: {any: [task, name]}", "`task` (task, name) found in none of the records", 8),
        ("task: t", "task: {field: t, match: 'y(.)'}", "the pattern of `task` matched none of the texts", 8),
        ("seed]", "sed]", "`rollout` (sed) found in none of the records", 8),
        ("(v\\d)", "run(\\d)", "the pattern of `policy_version` is not in the name of the file", 1),
        ("field: end", "field: ends", "`outcome` (ends) found in none of the records", 8),
        ("task: t", "task: t\nsuccess: won", "`success` (won) found in none of the records", 8),
        ("phase: before", "phase: after\n  initial: st", "`steps.initial` (st) found in none of the records", 8),
    ],
)  # fmt: skip
def test_a_typing_mistake_is_told(tmp_path: Path, right: str, wrong: str, reason: str, count: int) -> None:
    assert right in MAPPING
    assert warnings(tmp_path, MAPPING.replace(right, wrong), records())[f"mapping: {reason}"] == count


@pytest.mark.parametrize(
    "same", ["task: {any: [task, {value: x}]}", "task: {any: [task, t]}", "task: {value: x}", "task: {field: t.0}"]
)
def test_what_may_be_absent_is_not_told(tmp_path: Path, same: str) -> None:
    log = [{**record, "t": ["x"]} for record in records()]
    assert warnings(tmp_path, MAPPING.replace("task: t", same), log) == {}


def test_a_key_that_is_there_once_or_null_is_found(tmp_path: Path) -> None:
    log = records()
    for record in log:
        for turn in record["turns"]:
            turn.pop("ok")
    log[-1]["turns"][-1]["ok"] = None
    assert warnings(tmp_path, MAPPING, log) == {}


def test_columns_are_looked_for_in_the_records(tmp_path: Path) -> None:
    mapping = "name: c\nsteps:\n  form: columns\n  phase: before\n  fields: {action: a, observation: o, valid: ok}\n"
    log = [{"a": ["x", "y"], "o": ["1", "2"], "ok": True}, {"a": ["x"], "o": ["1"]}]
    assert warnings(tmp_path, mapping, log) == {
        "mapping: `steps.fields.valid` (ok) found in none of the records": 2,
    }


def test_rows_are_steps(tmp_path: Path) -> None:
    mapping = "name: r\nrollout: [ep, sed]\nsteps: {form: rows, fields: {action: a}}\n"
    log = [{"ep": ep, "seed": 0, "a": "x"} for ep in (0, 1) for _ in range(3)]
    assert warnings(tmp_path, mapping, log) == {"mapping: `rollout` (sed) found in none of the records": 6}
    right = mapping.replace("sed", "seed").replace("action: a", "action: a, reward: r")
    assert warnings(tmp_path, right, log) == {"mapping: `steps.fields.reward` (r) found in none of the steps": 6}


LOG = "".join(f"== {i}\nHello BEGIN\nGoal: go\n# think\n> walk\nHall\n" for i in range(3))


@pytest.mark.parametrize(
    "right, wrong, reason, count",
    [
        ("'# '", "'## '", "the pattern of `steps.thought` matched none of the texts", 3),
        ("'> (.*)'", "'>> (.*)'", "the pattern of `steps.action` matched none of the texts", 3),
        ("'BEGIN'", "'BEGINN'", "the pattern of `steps.cut` matched none of the texts", 3),
        ("Goal", "Gaol", "the pattern of `task` matched none of the texts", 3),
        ("'^== '", "'^=== '", "the pattern of `split` matched none of the files", 1),
    ],
)
def test_patterns_of_text_logs(tmp_path: Path, right: str, wrong: str, reason: str, count: int) -> None:
    assert warnings(tmp_path, TEXT, LOG) == {}
    assert warnings(tmp_path, TEXT.replace(right, wrong), LOG)[f"mapping: {reason}"] == count


def test_validate_tells_it_of_each_file_and_a_build_of_all_files_together(tmp_path: Path) -> None:
    logs = []
    for number, valid in enumerate(("ok", "fine")):
        rows = records()
        for row in rows:
            row["seed"] += 8 * number
            row["turns"] = [{**turn, valid: turn["ok"]} for turn in row["turns"]]
            row["turns"] = [{k: v for k, v in turn.items() if k != "ok" or valid == "ok"} for turn in row["turns"]]
        logs.append(tmp_path / f"log{number}-v1.jsonl")
        logs[-1].write_text("".join(json.dumps(row) + "\n" for row in rows))
    mine = reader(tmp_path, MAPPING.replace("response: cmd", "response: cmd, reward: r"))
    lines = validation_lines(validate_files([str(log) for log in logs], mapping=mine))
    absent = "16 x mapping: `steps.fields.{}` ({}) found in none of the steps"
    assert sum(absent.format("valid", "ok") in line for line in lines) == 1
    assert sum(absent.format("reward", "r") in line for line in lines) == 2
    options = BuildOptions(workers=1, mapping=mine, rules="generic")
    manifest = build_preferences(logs, tmp_path / "out", BuildConfig(), options)
    assert manifest["funnel"]["warnings"] == {"mapping: `steps.fields.reward` (r) found in none of the steps": 32}
