"""Mapping files: what they say, what they refuse, and the layouts that come with the package."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from mcgpo_data.errors import DataError, UsageError
from mcgpo_data.readers.base import Report, Rollout
from mcgpo_data.readers.logfile import LogFile
from mcgpo_data.readers.mapping import READERS, load_mapping
from mcgpo_data.readers.mapping_spec import (
    FIELD_KEYS,
    MEANT_FOR,
    OUTCOME_KEYS,
    SOURCE_KEYS,
    STEP_KEYS,
    TABLE_KEYS,
    TOP_KEYS,
)
from mcgpo_data.readers.mapping_values import follow
from mcgpo_data.readers.mapping_yaml import load_yaml

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "mapping.md").read_text(encoding="utf-8")

LIST = """
name: mine
task: t
steps:
  form: list
  at: turns
  fields: {action: act, observation: obs}
  phase: before
"""


@pytest.fixture
def run(tmp_path: Path):
    """`run(mapping, records)`: rollouts and report of a log read with a mapping; `log` is its file name."""

    def read(mapping: str, records: Any, log: str = "log.jsonl") -> tuple[list[Rollout], Report]:
        rules = tmp_path / "mapping.yaml"
        rules.write_text(mapping)
        path = tmp_path / log
        if isinstance(records, str):
            path.write_text(records)
        elif path.suffix == ".json":
            path.write_text(json.dumps(records))
        else:
            path.write_text("".join(json.dumps(record) + "\n" for record in records))
        report = Report(log)
        return list(load_mapping(rules).read(LogFile(path, log), report)), report

    return read


def turns(*pairs: tuple[Any, Any]) -> list[dict[str, Any]]:
    return [{"obs": observation, "act": action} for observation, action in pairs]


# --- the page ----------------------------------------------------------------------------------------------------


def block(language: str, index: int = 0) -> str:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)[index]


def test_the_worked_example_gives_what_the_page_says(run):
    rollouts, report = run(block("yaml"), block("jsonl"), "runs-v7.jsonl")
    assert [r.rollout_id for r in rollouts] == ["4|0|v7", "4|1|v7", "4|2|v7", "4|3|v7", "4|4|v7"]
    assert {(r.task_id, r.group_id, r.group_source) for r in rollouts} == {("4", None, "task")}
    assert [r.outcome for r in rollouts] == [1.0, 0.0, None, 0.0, 1.0]
    assert [r.success for r in rollouts] == [True, False, None, False, True]
    assert [r.terminal_status for r in rollouts] == ["done", "done", "error_infra", "done", "done"]
    assert [r.policy_version for r in rollouts] == ["v7"] * 5
    assert {r.steps[0].observation for r in rollouts} == {"A desk with two drawers."}
    found, lost, *_ = rollouts
    assert [s.action_text for s in found.steps] == ["open right", "take key"]
    assert [s.observation for s in found.steps] == ["A desk with two drawers.", "A key."]
    assert {s.observation_source for s in found.steps} == {"shifted_post"}
    assert found.final_observation == "Taken."
    assert found.steps[0].messages[0]["content"] == "Find the key."
    assert [s.action_valid for s in lost.steps] == [True, False]
    assert report.skipped == {}


def test_the_second_example_reads_a_text_log(run):
    episode = (
        "=== episode 1\nUse tools.\nQuestion: Who?\nThought 1: me\nAction 1: x[y]\nEND OF EXAMPLES\n"
        "Question: Where?\nThought 1: look\nmore thought\nAction 1: Search[a]\nObservation 1: It is\nin Rome.\n"
        "Action 2: Finish[Rome]\nreward = 0.5\n"
    )
    rollouts, report = run(block("yaml", 2), "header\n" + episode + episode.replace("Where", "When"), "log.txt")
    assert [r.outcome for r in rollouts] == [0.5, 0.5]
    assert [r.task_id for r in rollouts] == ["Who?", "Who?"]
    first, second = rollouts[0].steps
    assert (first.observation, first.action_text) == ("Where?", "Search[a]")
    assert first.messages[0]["role"] == "system"
    assert first.messages[0]["content"].endswith("END OF EXAMPLES")
    assert first.messages[1]["content"] == "Question: Where?"
    assert first.messages[2]["content"] == "Thought 1: look\nmore thought\nAction 1: Search[a]"
    assert second.observation == "It is\nin Rome."
    assert report.records == 2


def test_the_table_example_of_the_page_is_valid():
    spec = "name: x\n" + block("yaml", 1) + "steps: {form: list, at: a, fields: {action: b}}\n"
    load_yaml(spec, "page")
    assert yaml.safe_load(spec)["outcome"]["table"]["path"] == "resolved.csv"


def test_the_error_on_the_page_is_the_error_of_the_tool(run):
    with pytest.raises(UsageError) as caught:
        run("#" + LIST.replace("task: t", "task: t\n#").replace("phase", "phse"), [])
    assert str(caught.value).split("mapping.yaml:")[1] == block("text").split("my-agent.yaml:")[1].strip()


def test_the_page_lists_every_key():
    rows = {
        key for cell in re.findall(r"^\| ([^|]+) \|", PAGE, re.MULTILINE) for key in re.findall(r"`([^`]+)`", cell)
    }
    assert set(TOP_KEYS) <= rows
    assert {*STEP_KEYS, *OUTCOME_KEYS} <= rows
    for key in (*FIELD_KEYS, *TABLE_KEYS, *SOURCE_KEYS):
        assert key in PAGE
    for key, forms in MEANT_FOR.items():
        assert re.search(rf"^\| `{key}`[^|]*\| {', '.join(sorted(forms))} \|", PAGE.replace(
            "list, columns, rows", "columns, list, rows"), re.MULTILINE), key  # fmt: skip
    for reader in READERS:
        assert all(f"`{name}`" in PAGE for name in (reader.name, *reader.spec.aliases))


# --- strictness --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change, message",
    [
        (("task: t", "tsk: t"), "mapping.yaml:3: tsk: unknown key 'tsk'; did you mean 'task'?"),
        (("task: t", "zzzzzz: t"), "3: zzzzzz: unknown key 'zzzzzz'; valid keys: name, aliases"),
        (("form: list", "form: lst"), "5: steps.form: is 'lst'; choose one of text, columns, list, rows."),
        (("action: act", "acton: act"), "7: steps.fields.acton: unknown key 'acton'; did you mean 'action'?"),
        (("phase: before", "phase: later"), "8: steps.phase: is 'later'; choose one of before, after."),
        (("  phase: before", ""), "steps: needs phase: is the logged observation the one before or the one after"),
        (("  at: turns", ""), "steps: form list needs the key at."),
        (("  at: turns", "  at: [a]"), "steps.at: must be text; it is a list."),
        (("phase: before", "cut: x"), "steps.cut: has no meaning with form list."),
        (("phase: before", "unequal: skip"), "steps.unequal: has no meaning with form list."),
        (("phase: before", "phase: before\n  invalid: '('"), "9: steps.invalid: is no regular expression: "),
        (("phase: before", "phase: before\n  action: abc"), "steps.action: needs a group (..) around the value"),
        (("task: t", "task: t\ntask: u"), "4: key 'task' occurs twice."),
        (("task: t", "task: {field: a, value: b}"), "task: needs exactly one of field, file, value and any."),
        (("task: t", "task: {match: a}"), "task: needs exactly one of field, file, value and any."),
        (("task: t", "task: []"), "task: is an empty list."),
        (("task: t", "task: '@nothing'"), "task: is '@nothing'; choose one of @task, @policy, @policy_version."),
        (("task: t", "task: {field: a, values: 3}"), "task.values: must map logged values to the values meant"),
        (("task: t", "task: {any: a}"), "task.any: must be a list of sources"),
        (("task: t", "outcome: {field: a, min: 0}"), "outcome: min and max belong together."),
        (("task: t", "outcome: {field: a, min: 2, max: 1}"), "outcome: min 2 is not below max 1."),
        (("task: t", "outcome: {field: a, clip: true}"), "outcome: clip needs min and max."),
        (("task: t", "outcome: {field: a, clip: 3, min: 0, max: 1}"), "outcome.clip: must be true or false; it is 3."),
        (("task: t", "outcome: {field: a, threshold: high}"), "outcome.threshold: must be a number; it is 'high'."),
        (("task: t", "outcome: {field: a, threshold: .nan}"), "outcome.threshold: must be a number; it is NaN."),
        (
            ("task: t", "outcome: {field: a, table: {}}"),
            "outcome: needs exactly one of field, file, value, any, table",
        ),
        (("task: t", "outcome: {table: {path: a}}"), "outcome.table: needs path, on and value."),
        (("task: t", "outcome: {table: {path: a, on: b, value: c}}"), "outcome.table.on: must map columns"),
        (("task: t", "status: {field: a, values: {x: fine}}"), "status: 'fine' is no terminal status; choose of done"),
        (("task: t", "split: a\nrecords: b"), "split: is for text files, records for JSON; use one of them."),
        (("task: t", "detect: {match: {a: b}}"), "detect: needs keys"),
        (("form: list\n  at: turns", "form: rows"), "steps: form rows needs the top-level key rollout"),
        (("name: mine", "x: [1, 2"), "no valid YAML"),
        (("name: mine", ""), "needs the keys name and steps; it has task, steps."),
        ((LIST, ""), "is empty."),
        ((LIST, "- a"), "must be a mapping with keys of name, aliases"),
        ((LIST, "? [a]\n: b"), "keys must be plain text."),
        ((LIST, "name: a\n---\nname: b"), "no valid YAML"),
        ((LIST, "[" * 2000), "no valid YAML"),
        ((LIST, "name: " + "x" * 2**20), "larger than 1 MiB"),
    ],
)
def test_mistakes_are_told_with_their_place(run, change, message):
    mapping = LIST.replace(*change)
    assert mapping != LIST
    with pytest.raises(UsageError) as caught:
        run(mapping, [])
    assert message in str(caught.value)


def test_aliases_of_collections_are_refused(run):
    with pytest.raises(UsageError, match="an alias"):
        run(LIST.replace("task: t", "task: &a [t]\ngroup: *a"), [])


@pytest.mark.parametrize(
    "name, hint", [("intercod", "did you mean 'intercode'?"), ("zzz", "Shipped mappings: intercode")]
)
def test_unknown_names_are_told_the_known_ones(name, hint):
    with pytest.raises(UsageError, match=re.escape(hint)):
        load_mapping(name)


def test_shipped_mappings_are_found_by_name_and_alias():
    assert load_mapping("intercode-sql") is load_mapping("intercode")
    assert load_mapping("knowagent-alfworld").name == "knowagent-alfworld"


def test_a_mapping_that_is_no_text_is_refused(tmp_path: Path):
    path = tmp_path / "m.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="cannot be read as a mapping"):
        load_mapping(path)


# --- values ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path, expected",
    [
        ("a.b", [1]),
        ("a.*", [1, 2]),
        ("list.0.x", [5]),
        ("list.-1.x", [6]),
        ("list.*.x", [5, 6]),
        ("list.7", []),
        ("dotted.key", [7]),
        ("none", [None]),
        ("missing.x", []),
        ("a.b.c", []),
        ("json.x.0", [8]),
    ],
)
def test_paths(path, expected):
    value = {"a": {"b": 1, "c": 2}, "list": [{"x": 5}, {"x": 6}], "dotted.key": 7, "none": None}
    value["json"] = '{"x": [8]}'
    assert list(follow(value, path)) == expected


def test_parts_join_to_one_id_and_a_missing_part_leaves_it_to_the_content(run):
    mapping = LIST.replace("task: t", "task: t\nrollout: [t, seed]")
    a, b = run(mapping, [{"t": "x", "seed": 1.0, "turns": turns(("a", "b"))}, {"t": "x", "turns": turns(("a", "b"))}])[
        0
    ]
    assert a.rollout_id == "x|1"
    assert b.rollout_id is None


def test_values_from_file_names_and_folders(run, tmp_path: Path):
    (tmp_path / "llama" / "exp1").mkdir(parents=True)
    mapping = LIST.replace("task: t", "task: t\npolicy: {file: '(\\w+)/exp'}\npolicy_version: {file: '_(\\d+)\\.'}")
    (rollout,), _ = run(mapping, [{"t": 1, "turns": turns(("a", "b"))}], "llama/exp1/run_3.jsonl")
    assert (rollout.policy, rollout.policy_version) == ("llama", "3")


def test_true_false_and_zero_in_one_column_stay_apart(run):
    mapping = LIST.replace(
        "task: t", "status: {field: r, values: {true: done, false: error_agent, 0: truncated_steps}}"
    )
    records = [{"r": r, "turns": turns(("a", "b"))} for r in (True, False, 0, "True", 0.0)]
    assert [r.terminal_status for r in run(mapping, records)[0]] == [
        "done", "error_agent", "truncated_steps", "done", "truncated_steps",
    ]  # fmt: skip


def test_a_value_that_is_not_listed_counts_as_missing(run):
    mapping = LIST.replace("task: t", "outcome: {field: r, values: {won: 1}}")
    (rollout,), report = run(mapping, [{"r": "draw", "turns": turns(("a", "b"))}])
    assert rollout.outcome is None
    assert report.warnings["value is not in the mapping's list of values"] == 1


@pytest.mark.parametrize(
    "raw, expected", [("True", 1.0), ("0", 0.0), ("0.25", 0.25), (True, 1.0), (None, None), ("NaN", None), ([1], None)]
)
def test_outcomes_as_strings_booleans_and_nan(run, raw, expected):
    mapping = LIST.replace("task: t", "outcome: {field: r, min: 0, max: 1}")
    (rollout,), report = run(mapping, [{"r": raw, "turns": turns(("a", "b"))}])
    assert rollout.outcome == expected
    assert bool(report.warnings) == (expected is None)


@pytest.mark.parametrize("clip, expected", [("", None), (", clip: true", 0.0)])
def test_outcomes_outside_the_scale(run, clip, expected):
    mapping = LIST.replace("task: t", f"outcome: {{field: r, min: 0, max: 1{clip}}}")
    (rollout,), report = run(mapping, [{"r": -0.2, "turns": turns(("a", "b"))}])
    assert rollout.outcome == expected
    assert "outcome outside the declared scale" in next(iter(report.warnings))


@pytest.mark.parametrize(
    "name, value, kind",
    [("sum", 3.0, "sum_of_steps"), ("max", 2.0, "max_of_steps"), ("mean", 1.5, "mean"), ("last", 1.0, "terminal")],
)
def test_outcomes_from_step_rewards_leave_out_what_was_not_logged(run, name, value, kind):
    mapping = LIST.replace("task: t", f"outcome: {{from_rewards: {name}}}").replace(
        "action: act", "action: act, reward: r"
    )
    steps = [{"act": "a", "r": 2.0}, {"act": "b", "r": None}, {"act": "c", "r": 1}]
    (rollout,), _ = run(mapping, [{"turns": steps}])
    assert (rollout.outcome, rollout.outcome_kind) == (value, kind)
    assert [s.reward for s in rollout.steps] == [2.0, None, 1.0]


def test_success_alone_is_an_outcome_of_zero_or_one(run):
    rollouts, _ = run(
        LIST.replace("task: t", "success: won"), [{"won": w, "turns": turns(("a", "b"))} for w in (1, "no")]
    )
    assert [(r.outcome, r.success, r.outcome_max) for r in rollouts] == [(1.0, True, 1.0), (0.0, False, 1.0)]


TABLE = "task: t\noutcome: {table: {path: %s, on: {%s}, value: ok}, min: 0, max: 1}"


@pytest.mark.parametrize(
    "name, content, on",
    [
        ("o.csv", "id,run,ok\na,1,1\nb,1,False\n", "id: t, run: seed"),
        ("o.jsonl", '{"id": "a", "run": 1, "ok": true}\n{"id": "b", "run": "1", "ok": 0}\n', "id: t, run: seed"),
        ("o.json", '{"a": {"ok": 1}, "b": {"ok": 0}, "d": {"ok": 1}}', "'@key': t"),
        ("o.json", '{"a": true, "b": false, "d": true}', "'@key': t"),
    ],
)
def test_outcomes_from_a_table_beside_the_log(run, tmp_path: Path, name, content, on):
    (tmp_path / name).write_text(content)
    records = [{"t": t, "seed": 1, "turns": turns(("a", "b"))} for t in "abc"]
    rollouts, report = run(LIST.replace("task: t", TABLE % (name, on)), records)
    assert [r.outcome for r in rollouts] == [1.0, 0.0, None]
    assert report.warnings["no row for it in the table of outcomes: unscored"] == 1


def test_a_table_that_is_not_there_is_named(run):
    with pytest.raises(UsageError, match=r"mapping.yaml:4: outcome.table: no file 'o.csv'"):
        run(LIST.replace("task: t", TABLE % ("o.csv", "id: t")), [{"t": 1}])


def test_a_table_that_contradicts_itself_is_refused(run, tmp_path: Path):
    (tmp_path / "o.csv").write_text("id,ok\na,1\na,0\n")
    with pytest.raises(DataError, match="two values of ok for"):
        run(LIST.replace("task: t", TABLE % ("o.csv", "id: t")), [{"t": "a"}])


# --- shapes ------------------------------------------------------------------------------------------------------


def test_observations_before_the_action_are_taken_as_they_are(run):
    (rollout,), _ = run(LIST, [{"t": 1, "turns": turns(("o1", "a1"), ("o2", "a2"))}])
    assert [s.observation for s in rollout.steps] == ["o1", "o2"]
    assert {s.observation_source for s in rollout.steps} == {"logged_pre"}
    assert [[m["content"] for m in s.messages] for s in rollout.steps] == [["o1", "a1"], ["o2", "a2"]]
    assert [s.prompt_from for s in rollout.steps] == [0, 0]
    assert rollout.final_observation is None


def test_observations_after_the_action_are_shifted_and_the_first_may_be_missing(run):
    (rollout,), _ = run(LIST.replace("before", "after"), [{"t": 1, "turns": turns(("o1", "a1"), ("o2", "a2"))}])
    assert [s.observation for s in rollout.steps] == [None, "o1"]
    assert [s.observation_source for s in rollout.steps] == ["missing", "shifted_post"]
    assert rollout.final_observation == "o2"


def test_one_record_per_step(run):
    mapping = (
        "name: mine\ntask: t\nrollout: [t, ep]\noutcome: {field: score, min: 0, max: 1}\n"
        "steps: {form: rows, order: n, phase: before, fields: {action: act, observation: obs, done: end}}\n"
    )
    rows = [
        {"t": "x", "ep": ep, "n": n, "obs": f"o{n}", "act": f"a{n}", "end": n == 2, "score": 1.0 if n == 2 else None}
        for ep in (0, 1)
        for n in range(3)
    ]
    random.Random(0).shuffle(rows)
    rollouts, report = run(mapping, [*rows, {"t": "x", "n": 0}])
    assert sorted(r.rollout_id or "" for r in rollouts) == ["x|0", "x|1"]
    assert all([s.action_text for s in r.steps] == ["a0", "a1", "a2"] for r in rollouts)
    assert {(r.outcome, r.steps[-1].done) for r in rollouts} == {(1.0, True)}
    assert report.skipped == {"row without the id of its rollout": 1}


@pytest.mark.parametrize(
    "numbers, reason",
    [
        ([1, 1], "two steps with one number to order by"),
        ([1, None], "step without the number to order by"),
    ],
)
def test_steps_that_cannot_be_ordered_are_skipped(run, numbers, reason):
    mapping = LIST.replace("phase: before", "phase: before\n  order: n")
    rollouts, report = run(mapping, [{"turns": [{"act": "a", "obs": "o", "n": n} for n in numbers]}])
    assert rollouts == []
    assert report.skipped == {reason: 1}


@pytest.mark.parametrize("unequal, count", [("skip", 0), ("shortest", 2)])
def test_arrays_of_unequal_length(run, unequal, count):
    mapping = (
        "name: mine\nsteps:\n  form: columns\n  fields: {action: a, observation: o, reward: r}\n  phase: after\n"
        f"  unequal: {unequal}\n"
    )
    rollouts, report = run(mapping, [{"a": ["x", "y", "z"], "o": ["1", "2"]}])
    assert [len(r.steps) for r in rollouts] == [count] * bool(count)
    told = report.warnings if count else report.skipped
    assert any("unequal length" in reason for reason in told)


@pytest.mark.parametrize("form", [json.dumps, lambda steps: {f"Turn {i}": step for i, step in enumerate(steps)}])
def test_steps_in_a_json_string_or_in_an_object_by_turn(run, form):
    (rollout,), _ = run(LIST, [{"t": 1, "turns": form(turns(("o1", "a1"), ("o2", "a2")))}])
    assert [s.action_text for s in rollout.steps] == ["a1", "a2"]


def test_objects_keyed_by_row_and_wrapped_ones(run):
    mapping = LIST.replace("task: t", 'task: t\nrecords: ["logs.*", "*"]')
    inner = {"0": {"t": 1, "turns": turns(("a", "b"))}, "1": {"t": 2, "turns": turns(("a", "b"))}}
    for document in (inner, {"meta": {"n": 2}, "logs": inner}):
        rollouts, report = run(mapping, document, "log.json")
        assert [(r.task_id, r.row) for r in rollouts] == [("1", 0), ("2", 1)]
        assert report.records == 2


def test_actions_that_are_objects_or_were_not_logged(run):
    steps = turns(("a", {"name": "f", "x": 1}), ("b", None), ("c", " "))
    (rollout,), _ = run(LIST, [{"turns": steps}])
    assert [(s.action_text, s.action_kind) for s in rollout.steps] == [
        ('{"name":"f","x":1}', "tool_call"), (None, "lost"), (None, "invalid"),
    ]  # fmt: skip


def test_actions_found_by_the_usual_marks_in_the_response(run):
    mapping = LIST.replace("action: act", "response: act")
    (rollout,), _ = run(mapping, [{"turns": turns(("a", "<action>go</action>"), ("b", "Action: stop"), ("c", None))}])
    assert [s.action_text for s in rollout.steps] == ["go", "stop", None]
    assert rollout.steps[2].action_kind == "lost"


def test_rollouts_without_a_task_are_grouped_by_how_they_start(run):
    rollouts, _ = run(LIST.replace("task: t", ""), [{"turns": turns((o, "b"))} for o in ("x", "x", "y")])
    assert [r.group_source for r in rollouts] == ["initial_hash"] * 3
    assert rollouts[0].task_id == rollouts[1].task_id != rollouts[2].task_id


def test_a_group_of_the_mapping_is_the_users(run):
    mapping = LIST.replace("task: t", 'task: t\npolicy: m\ngroup: ["@task", "@policy"]')
    (rollout,), _ = run(mapping, [{"t": 1, "m": "p", "turns": turns(("a", "b"))}])
    assert (rollout.group_id, rollout.group_source) == ("1|p", "user")


def test_an_error_of_the_infrastructure_is_no_failure(run):
    status = "status: {field: e, values: {true: error_infra}, default: done}"
    mapping = LIST.replace("task: t", "outcome: {field: r, min: 0, max: 1, threshold: 1}\n" + status)
    a, b = run(mapping, [{"r": 0, "e": e, "turns": turns(("a", "b"))} for e in (True, None)])[0]
    assert (a.outcome, a.success, a.terminal_status) == (None, None, "error_infra")
    assert (b.outcome, b.success, b.terminal_status) == (0.0, False, "done")


@pytest.mark.parametrize(
    "record, reason",
    [
        ({"t": 1}, "no list of steps where the mapping says"),
        ({"turns": []}, "record without steps"),
        ([], "no record where the mapping says"),
        (7, "no record where the mapping says"),
    ],
)
def test_records_that_do_not_fit_are_counted(run, record, reason):
    rollouts, report = run(LIST, [{"t": 1, "turns": turns(("a", "b"))}, record])
    assert len(rollouts) == 1
    assert report.skipped == {reason: 1}


def test_a_text_file_without_split_is_counted(run):
    _, report = run(LIST, "just text\n")
    assert report.skipped == {"no JSON in the file, and the mapping says nowhere to split it": 1}


def test_the_cut_prefix_may_be_dropped_and_blank_lines_end_nothing(run):
    mapping = """
name: x
steps: {form: text, at: t, cut: 'EXAMPLES', keep_cut: false, action: '> (?!think)(.*)', thought: '> think'}
"""
    text = "many EXAMPLES\r\nroom\n> think a\n\n> go\nhall\n> think b\n> stop\n> think c\n"
    (rollout,), report = run(mapping, [{"t": text}])
    assert [s.action_text for s in rollout.steps] == ["go", "stop"]
    assert [[m["content"] for m in s.messages] for s in rollout.steps] == [
        ["room", "> think a\n\n> go"],
        ["hall", "> think b\n> stop"],
    ]
    assert rollout.final_observation is None
    assert report.warnings == {"text ends with a thought and no action: left out": 1}


def test_reading_twice_gives_the_same(run):
    log = [{"t": 1, "turns": turns(("a", "b"))}]
    assert run(LIST, log) == run(LIST, log)
