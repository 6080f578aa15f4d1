"""`mcgpo validate` says beforehand what a build would stop at or repair."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcgpo_data.build.run import BuildOptions, build_preferences
from mcgpo_data.config import BuildConfig
from mcgpo_data.errors import McgpoError
from mcgpo_data.inspect.validate import validate_files, validation_lines

OUTSIDE = "outcome outside [0, 1] and no scale declared: a build needs --outcome-range LOW,HIGH"
DECLARED = "outcome outside its declared scale: a build stops, unless --outcome-range LOW,HIGH overrules it"
SCALE = "declared scale of the outcome is not LOW < HIGH"
TWICE = "step number twice in one rollout: a build takes equal steps once and stops at different ones"
MISSING = "rollout with missing steps: not trusted in order"
UNGRADED = "no graded outcome in this file: name it with a mapping (in native logs: `success` or `outcome`)"


def step(index: int, rollout: str = "r", **more: Any) -> dict[str, Any]:
    return {"task_id": "t", "rollout_id": rollout, "step": index, "observation": "o", "action": f"a{index}", **more}


def validated(folder: Path, records: list[dict[str, Any]]) -> dict[str, Any]:
    path = folder / "log.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    (entry,) = validate_files([str(path)])
    return entry


def builds(folder: Path) -> bool:
    try:
        options = BuildOptions(workers=1, rules="generic")
        build_preferences([folder / "log.jsonl"], folder / "out", BuildConfig(), options)
    except McgpoError:
        return False
    return True


@pytest.mark.parametrize(
    "records, warnings, places, good",
    [
        ([step(0), step(1, outcome=0.5)], {}, {}, True),
        ([step(0), step(1, success=False)], {}, {}, True),
        ([step(0), step(1, outcome=7)], {OUTSIDE: 1}, {OUTSIDE: ["2: '7'"]}, False),
        ([step(1, outcome=7), step(0, outcome=0.5)], {OUTSIDE: 1}, {OUTSIDE: ["1: '7'"]}, False),
        ([step(0, outcome=7), step(1, outcome=0.5)], {}, {}, True),
        ([step(0, outcome=7), step(1, success=True)], {}, {}, True),
        ([step(0, outcome_max=10), step(1, outcome=7)], {}, {}, True),
        ([step(0, outcome=11, outcome_max=10)], {DECLARED: 1}, {DECLARED: ["1: '11'"]}, False),
        ([step(0, outcome=1, outcome_min=2)], {SCALE: 1}, {SCALE: ["1: '2, 1'"]}, False),
        ([step(0), step(1), step(0, "s")], {UNGRADED: 2}, {UNGRADED: [""]}, True),
        ([step(0, outcome=1), step(0, outcome=1)], {TWICE: 1}, {TWICE: ["2: 'step 0 of r'"]}, True),
        ([step(0, outcome=1), step(0, outcome=1, action="b")], {TWICE: 1}, {TWICE: ["2: 'step 0 of r'"]}, False),
        ([step(i, outcome=1) for i in (3, 1, 0, 2)], {}, {}, True),
        ([step(i, outcome=1) for i in (1, 2)], {}, {}, True),
        ([step(i, outcome=1) for i in (2, 3)], {MISSING: 1}, {MISSING: ["1: 'no step 0 of r'"]}, True),
        ([step(i, outcome=1) for i in (5, 0, 1, 3)], {MISSING: 1}, {MISSING: ["1: 'no step 2 of r'"]}, True),
        ([step(i, outcome=1) for i in (4, 2, 1, 2)], {MISSING: 1, TWICE: 1}, {TWICE: ["4: 'step 2 of r'"]}, True),
    ],
)
def test_it_says_what_a_build_will_say(
    tmp_path: Path, records: list[dict[str, Any]], warnings: dict[str, int], places: dict[str, Any], good: bool
) -> None:
    entry = validated(tmp_path, records)
    assert entry["warnings"] == warnings
    told = {k: [p.removeprefix(entry["path"]).removeprefix(":") for p in v] for k, v in entry["places"].items()}
    assert {reason: told[reason] for reason in places} == places
    assert builds(tmp_path) == good


@pytest.mark.parametrize("order", [(0, 1, 2, 4), (4, 2, 1, 0), (1, 4, 0, 2)])
def test_missing_steps_are_those_of_a_build(tmp_path: Path, order: tuple[int, ...]) -> None:
    assert validated(tmp_path, [step(i, outcome=1) for i in order])["warnings"] == {MISSING: 1}
    options = BuildOptions(workers=1, rules="generic")
    manifest = build_preferences([tmp_path / "log.jsonl"], tmp_path / "out", BuildConfig(), options)
    assert manifest["funnel"]["repairs"]["rollouts with missing steps"] == 1


def test_rollouts_are_counted_whole(tmp_path: Path) -> None:
    entry = validated(tmp_path, [step(i, name, outcome=1) for name in "ab" for i in range(3)])
    assert entry["facts"] == {"steps": 6, "rollouts": 2, "graded": 2, "group_source task": 2}


def test_the_file_is_named_once_and_places_by_their_number(tmp_path: Path) -> None:
    entry = validated(tmp_path, [step(0, f"r{i}", outcome=2) for i in range(7)] + [{**step(0), "step": None}] * 2)
    lines = validation_lines([entry])
    assert sum(entry["path"] in line for line in lines) == 1
    assert lines[1:3] == ["    skipped  2 x no step number", "             at 8, 9"]
    assert [line.strip() for line in lines[3:]] == [f"warning  7 x {OUTSIDE}", *(f"at {i}: '2'" for i in range(1, 6))]
    entry["warnings"], entry["places"] = {"odd": 9}, {"odd": [f"{entry['path']}:{i}" for i in range(5)]}
    assert validation_lines([entry])[-1].strip() == "at 0, 1, 2, 3, 4 ..."
