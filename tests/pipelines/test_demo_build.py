"""The demo log through the real builder: what comes out fits the published schemas and the log."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from mcgpo_data.build.run import BuildOptions, build_preferences
from mcgpo_data.config import BuildConfig
from mcgpo_data.jsonschema import manifest_schema, table_schema
from mcgpo_data.store import Store, open_store

LOG = Path(__file__).resolve().parents[2] / "pipelines" / "demo" / "demo_rollouts.jsonl.gz"
Record = dict[str, Any]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    out = tmp_path_factory.mktemp("demo") / "out"
    build_preferences([LOG], out, BuildConfig(), BuildOptions(workers=1))
    return open_store(out)


@pytest.fixture(scope="module")
def log() -> dict[tuple[str, int], Record]:
    records = [json.loads(line) for line in gzip.decompress(LOG.read_bytes()).decode().splitlines()]
    return {(record["rollout_id"], record["step"]): record for record in records}


def problems(body: Record, value: object) -> list[str]:
    return [error.message for error in jsonschema.Draft202012Validator(body).iter_errors(value)]


def test_the_manifest_fits_its_schema(store: Store) -> None:
    assert problems(manifest_schema(), store.manifest) == []


def test_the_manifest_of_a_rebuild_fits_its_schema(store: Store, tmp_path: Path) -> None:
    again = build_preferences([store.path], tmp_path / "again", BuildConfig(weight="support"), BuildOptions(workers=1))
    assert again["rebuilt_from"] == store.manifest["content_id"]
    assert problems(manifest_schema(), again) == []


@pytest.mark.parametrize("name", ["rollouts", "steps", "decisions", "preferences", "sources"])
def test_rows_fit_the_schema_of_their_table(store: Store, name: str) -> None:
    body = table_schema(name)
    table = store.read(name)
    for row in table.slice(0, 200).to_pylist():
        assert problems(body, row) == []


def test_no_record_is_lost(store: Store, log: dict[tuple[str, int], Record]) -> None:
    (source,) = store.manifest["inputs"]
    assert (source["records"], source["rollouts"], source["skipped"], source["warnings"]) == (len(log), 384, {}, {})
    assert store.manifest["tables"]["steps"]["rows"] == len(log)


def test_every_side_of_a_pair_is_what_the_policy_saw_and_said(
    store: Store, log: dict[tuple[str, int], Record]
) -> None:
    pairs = store.read("preferences").to_pylist()
    assert len(pairs) > 500
    for pair in pairs:
        for side in ("chosen", "rejected"):
            record = log[pair[f"{side}_rollout_id"], pair[f"{side}_step"]]
            assert [(m["role"], m["content"]) for m in pair[f"{side}_prompt"]] == [
                (m["role"], m["content"]) for m in record["prompt"]
            ]
            assert [m["content"] for m in pair[f"{side}_response"]] == [record["response"]]
            assert pair[f"{side}_action"] == record["action"]


def test_the_hidden_state_is_kept_but_not_matched_on(store: Store, log: dict[tuple[str, int], Record]) -> None:
    steps = store.read("steps", ["rollout_id", "step_index", "metadata"]).to_pylist()
    for step in steps:
        hidden = log[step["rollout_id"], step["step_index"]]["metadata"]
        assert json.loads(step["metadata"]) == hidden
    states = {
        (d["rule"], d["state_key"]): d["state_summary"]
        for d in store.read("decisions", ["rule", "state_key", "state_summary"]).to_pylist()
    }
    known = {record["metadata"]["state_id"] for record in log.values()}
    assert not [summary for summary in states.values() if any(state in summary for state in known)]
