"""Prompts and responses of pairs are what the log says, in every way of logging them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcgpo_data.build import text
from mcgpo_data.build.run import BuildOptions, build_preferences
from mcgpo_data.config import BuildConfig
from mcgpo_data.readers.base import Report, Rollout, Step
from mcgpo_data.schema import PREFERENCES, PREFERENCES_THIN, STEPS
from mcgpo_data.store import Store, open_store

from .logs import Row, build, make_rows, pairs_of, write_log

OWN = make_rows(seed=4, text=True)
BLANK = {"content": None, "name": None, "tool_call_id": None, "tool_calls": None}


def message(role: str, content: str | None, **rest: Any) -> Row:
    return {"role": role, **BLANK, "content": content, **rest}


def sides(store: Store) -> list[tuple[str, int, list[Row], list[Row]]]:
    return [
        (p[f"{side}_rollout_id"], p[f"{side}_step"], p[f"{side}_prompt"], p[f"{side}_response"])
        for p in pairs_of(store)
        for side in ("chosen", "rejected")
    ]


def test_prompts_of_a_log_with_own_prompts_are_those_of_the_step(tmp_path: Path) -> None:
    store = build(write_log(tmp_path / "log.jsonl", OWN), tmp_path / "out")
    by_step = {(r["rollout_id"], r["step"]): r for r in OWN}
    assert len(sides(store)) > 20
    for rollout, step, prompt, response in sides(store):
        row = by_step[rollout, step]
        assert prompt == [message(m["role"], m["content"]) for m in row["prompt"]]
        assert response == [message("assistant", row["response"])]


def test_prompts_of_a_log_without_prompts_are_all_that_was_seen_and_said(tmp_path: Path) -> None:
    rows = [{k: v for k, v in r.items() if k != "prompt"} for r in OWN]
    store = build(write_log(tmp_path / "log.jsonl", rows), tmp_path / "out")
    by_step = {(r["rollout_id"], r["step"]): r for r in rows}
    assert max(step for _, step, _, _ in sides(store)) > 1
    for rollout, step, prompt, response in sides(store):
        seen = [
            m
            for t in range(step + 1)
            for m in (
                message("user", by_step[rollout, t]["observation"]),
                message("assistant", by_step[rollout, t]["response"]),
            )
        ]
        assert (prompt, response) == (seen[:-1], seen[-1:])


def tool_log() -> list[Row]:
    rows = make_rows(seed=9)
    for row in rows:
        call = {"id": f"call {row['step']}", "type": "function"}
        call["function"] = {"name": "go", "arguments": json.dumps({"to": row["action"]})}
        row["prompt"] = [
            {"role": "user", "content": row["observation"], "name": "world"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "content": "done", "tool_call_id": call["id"]},
        ]
        row["response"] = {"role": "assistant", "content": "", "tool_calls": [call, call]}
    return rows


def test_tool_calls_survive_whole(tmp_path: Path) -> None:
    rows = tool_log()
    store = build(write_log(tmp_path / "log.jsonl", rows), tmp_path / "out")
    by_step = {(r["rollout_id"], r["step"]): r for r in rows}
    assert sides(store)
    for rollout, step, prompt, response in sides(store):
        row = by_step[rollout, step]
        assert prompt == [{"role": m["role"], **BLANK, **m} for m in row["prompt"]]
        assert response == [{**BLANK, **row["response"]}]


def chat_log(path: Path, turns: int = 3) -> dict[str, list[Row]]:
    """Conversations as one record per rollout, with tool answers between the responses."""
    import random

    rng, records = random.Random(2), {}
    with open(path, "w", encoding="utf-8") as stream:
        for task in range(2):
            for number in range(12):
                messages: list[Row] = [
                    {"role": "system", "content": f"task {task}"},
                    {"role": "user", "content": "go"},
                ]
                for t in range(turns):
                    call = {"id": f"c{t}", "type": "function"}
                    call["function"] = {"name": rng.choice(["left", "right"]), "arguments": "{}"}
                    messages.append({"role": "assistant", "content": f"hm {rng.random()}", "tool_calls": [call]})
                    name = call["function"]["name"]  # the reader adds the name of the tool where it is not there
                    messages.append(
                        {"role": "tool", "content": rng.choice("xy"), "tool_call_id": f"c{t}", "name": name}
                    )
                record = {"id": f"{task}-{number}", "task_id": f"t{task}", "messages": messages}
                stream.write(json.dumps(record | {"reward": float(rng.random() < 0.5)}) + "\n")
                records[record["id"]] = messages
    return records


def test_prompts_of_a_conversation_are_its_beginning(tmp_path: Path) -> None:
    records = chat_log(tmp_path / "chat.jsonl")
    build_preferences([tmp_path / "chat.jsonl"], tmp_path / "out", BuildConfig(), BuildOptions(workers=1))
    store = open_store(tmp_path / "out")
    every = {json.dumps([{**BLANK, **m} for m in whole], sort_keys=True) for whole in records.values()}
    assert set(store.read("steps")["prompt_from"].to_pylist()) == {0}
    assert len(sides(store)) > 4
    for _, step, prompt, response in sides(store):
        begun = json.dumps(prompt + response, sort_keys=True)[:-1]
        assert sum(whole.startswith(begun) for whole in every) == 1
        assert [m["role"] for m in prompt].count("assistant") == step


def test_long_text_is_stored_once(tmp_path: Path) -> None:
    rows = [{k: v for k, v in r.items() if k != "prompt"} for r in OWN]
    for row in rows:
        row["observation"] += " " + "long " * 50
    store = build(write_log(tmp_path / "log.jsonl", rows), tmp_path / "out")
    steps = store.read("steps").to_pylist()
    assert [s["observation"] for s in steps] == [None] * len(rows)
    assert sum(len(s["messages"]) for s in steps) == 2 * len(rows)
    contents = [m["content"] for s in steps for m in s["messages"]]
    assert sorted(contents) == sorted([t for r in rows for t in (r["observation"], r["response"])])


def test_an_observation_that_is_not_the_last_message_is_kept(tmp_path: Path) -> None:
    store = build(write_log(tmp_path / "log.jsonl", OWN), tmp_path / "out")
    kept = {(s["rollout_id"], s["step_index"]): s["observation"] for s in store.read("steps").to_pylist()}
    assert kept == {(r["rollout_id"], r["step"]): r["observation"] for r in OWN}


def test_a_thin_build_has_no_text_but_the_same_keys(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", OWN)
    full, thin = build(log, tmp_path / "full"), build(log, tmp_path / "thin", form="thin")
    assert thin.read("preferences").schema.equals(PREFERENCES_THIN)
    assert full.read("preferences").schema.equals(PREFERENCES)
    assert thin.read("steps").schema.equals(STEPS)
    for name in ("messages", "prompt_token_ids", "response_token_ids", "response_logprobs"):
        assert thin.read("steps")[name].null_count == len(OWN)
    assert not any(b"<think>" in f.read_bytes() for f in (tmp_path / "thin").rglob("*") if f.is_file())
    assert thin.read("decisions").equals(full.read("decisions"))


def test_tokens_of_the_log_reach_the_steps(tmp_path: Path) -> None:
    rows = make_rows(seed=1)
    for n, row in enumerate(rows):
        row |= {"prompt_token_ids": [n, 2**31 - 1], "response_token_ids": [7], "response_logprobs": [-0.5]}
        row["metadata"] = {"n": n, "nested": {"b": 1, "a": [None, "é"]}}
    steps = build(write_log(tmp_path / "log.jsonl", rows), tmp_path / "out").read("steps").to_pylist()
    found = {(s["rollout_id"], s["step_index"]): s for s in steps}
    for row in rows:
        step = found[row["rollout_id"], row["step"]]
        for name in ("prompt_token_ids", "response_token_ids", "response_logprobs"):
            assert step[name] == row[name]
        assert json.loads(step["metadata"]) == row["metadata"]


class Compacted:
    """A reader whose rollouts start a new prompt in the middle, as after a compaction of the context."""

    name = "compacted"

    def detect(self, head: Any) -> bool:
        return True

    def read(self, log: Any, report: Report) -> Any:
        for n in range(12):
            steps = [
                Step(
                    messages=[{"role": "user", "content": f"o{t}"}, {"role": "assistant", "content": f"{n} a{t}"}],
                    observation=f"o{t}",
                    action_text=f"{'xy'[(n >> t) & 1]}",
                    prompt_from=0 if t < 2 else 2,
                )
                for t in range(4)
            ]
            yield Rollout(steps, "task", n, rollout_id=f"r{n}", success=n % 3 == 0, outcome_kind="terminal")


def test_a_prompt_begins_where_its_segment_begins(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text("{}\n{}\n")
    options = BuildOptions(workers=1, mapping=Compacted(), rules="generic")
    build_preferences([tmp_path / "log.jsonl"], tmp_path / "out", BuildConfig(), options)
    found = {
        step: [m["content"].split(" ")[-1] for m in prompt]
        for _, step, prompt, _ in sides(open_store(tmp_path / "out"))
    }
    wanted = {0: ["o0"], 1: ["o0", "a0", "o1"], 2: ["o2"], 3: ["o2", "a2", "o3"]}
    assert len(found) >= 3
    assert all(found[step] == wanted[step] for step in found)


def test_text_in_many_chunks_is_the_text_in_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = write_log(tmp_path / "log.jsonl", OWN)
    one = build(log, tmp_path / "one").read("preferences")
    monkeypatch.setattr(text, "CHUNK_BYTES", 1_000)
    many = build(log, tmp_path / "many")
    assert many.read("preferences").equals(one)
    import pyarrow.parquet as pq

    assert pq.read_metadata(many.files("preferences")[0]).num_row_groups > 5


def test_a_full_build_loads_with_datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    store = build(write_log(tmp_path / "log.jsonl", tool_log()), tmp_path / "out")
    files = [str(path) for path in store.files("preferences")]
    loaded = datasets.load_dataset("parquet", data_files=files, split="train", cache_dir=str(tmp_path / "cache"))
    assert loaded.column_names == PREFERENCES.names
    assert loaded.to_list() == pairs_of(store)
