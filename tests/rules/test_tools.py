"""Rules for tool-calling agents."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import zstandard

from mcgpo_data.readers.chat import read_chat
from mcgpo_data.rules.tools import ToolRules

Frame = Callable[..., pl.DataFrame]
RULES = ToolRules()


def call(name: str, **arguments: object) -> str:
    return json.dumps([{"name": name, "arguments": arguments}])


def kind(action: str | None) -> str:
    return "lost" if action is None else "tool_call" if action.startswith("[") else "message"


def test_calls_are_names_with_sorted_arguments_and_talk_is_one_action(frame: Frame) -> None:
    parallel = json.dumps(
        [{"name": "a", "arguments": {}}, {"function": {"name": "b", "arguments": '{"y": 1, "x": 2}'}}]
    )
    out = RULES.apply(
        frame(
            [("hi", "How can I help?"), ("book", call("book", b=2, a=1)), ("ok", parallel)],
            [("hi", "Hello! What do you need?"), ("book", call("book", a=1, b=2)), ("ok", "[broken")],
            kind=kind,
        )
    )
    assert out["action_0"].to_list() == [
        "message",
        'book({"a":1,"b":2})',
        'a({}); b({"x":2,"y":1})',
        "message",
        'book({"a":1,"b":2})',
        "[broken",
    ]


def test_other_arguments_are_other_actions(frame: Frame) -> None:
    out = RULES.apply(frame([("hi", call("get", id="A"))], [("hi", call("get", id="B"))], kind=kind))
    assert out["action_0"].n_unique() == 2


def test_exact_states_hold_the_calls_so_far_in_order_and_coarse_states_the_observation(frame: Frame) -> None:
    a, b = call("get", id="A"), call("get", id="B")
    out = RULES.apply(
        frame(
            [("hi", a), ("1", b), ("2", "Bye")],
            [("hello", a), ("1", b), ("2", "Bye")],
            [("hi", b), ("2", a), ("2", "Bye")],
            kind=kind,
        )
    )
    last = out.filter(pl.col("step_index") == 2)
    assert last["state_0"][0] == last["state_0"][1] != last["state_0"][2]
    assert last["state_1"].n_unique() == 1


def test_talk_is_no_call(frame: Frame) -> None:
    a = call("get", id="A")
    out = RULES.apply(frame([("hi", a), ("1", "Really?"), ("1", "Bye")], kind=kind))
    assert out["state_0"][1] == out["state_0"][2]


def test_progress_counts_distinct_calls_that_worked_and_changed_something(frame: Frame) -> None:
    out = RULES.apply(
        frame(
            [
                ("hi", call("get_user", id=1)),
                ("{}", call("get_user", id=1)),
                ("{}", call("book_flight", id=1)),
                ("Error: no seats", call("book_flight", id=2)),
                ('{"error": "no"}', call("book_flight", id=3)),
                ('{"error": null}', call("transfer_to_human")),
                ("done", None),
            ],
            kind=kind,
        )
    )
    assert out["progress"].to_list() == [
        "ok=0 changes=0",
        "ok=1 changes=0",
        "ok=1 changes=0",
        "ok=1 changes=0",
        "ok=1 changes=0",
        "ok=2 changes=1",
        "ok=3 changes=1",
    ]
    assert out["progress_1"].to_list()[-1] == "changes=1"


def informative(out: pl.DataFrame, *context: str) -> int:
    """Contexts, first visits only, in which two actions have different mean outcomes."""
    first = out.filter(~pl.col("is_final") & pl.col("action_0").is_not_null()).unique(
        ["task_id", "rollout_id", *context], keep="first", maintain_order=True
    )
    means = first.group_by("task_id", *context, "action_0").agg(pl.col("outcome").mean())
    counts = means.group_by("task_id", *context).agg(pl.len(), pl.col("outcome").n_unique())
    return counts.filter((pl.col("len") >= 2) & (pl.col("outcome") >= 2)).height


def test_contexts_of_tau_bench_are_those_counted_by_hand(shared: Path, frame: Frame) -> None:
    packed = (shared / "data/tau_bench/gpt-4o-airline.json.zst").read_bytes()
    parts = []
    for record in json.loads(zstandard.ZstdDecompressor().stream_reader(packed).read()):
        chat = read_chat(record["traj"])
        pairs = [(step.observation, step.action_text) for step in chat.steps]
        part = frame([*pairs, (chat.final_observation, None)], kind=kind)
        parts.append(
            part.with_columns(
                pl.lit(f"{record['task_id']:03d}").alias("task_id"),
                pl.lit(f"{record['task_id']:03d}:{record['trial']}").alias("rollout_id"),
                pl.lit(record["reward"]).alias("outcome"),
            )
        )
    out = RULES.apply(pl.concat(parts).sort("rollout_id", "step_index"))
    assert RULES.detect(out)
    assert informative(out, "observation_key") == 39
    assert informative(out, "state_1") == 39
    assert informative(out, "state_0") == 21
