"""TRL completion logs."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mcgpo_data.readers.base import Report, Rollout
from mcgpo_data.readers.logfile import LogFile
from mcgpo_data.readers.trl import TrlReader

NAN = math.nan


def table(**columns: Any) -> pa.Table:
    base = {
        "step": [1, 1, 1, 1],
        "prompt": ["user\na?\nassistant\n"] * 2 + ["user\nb?\nassistant\n"] * 2,
        "completion": ["yes", "no", "left", "right"],
        "correct_reward": [1.0, 0.0, NAN, 1.0],
        "format_reward": [0.5, 0.5, NAN, NAN],
        "answer": ["yes", "yes", "left", "left"],
        "difficulty": [0.1, 0.2, 0.3, 0.4],
        "advantage": [1.0, -1.0, -1.0, 1.0],
    }
    merged = base | columns
    return pa.table({name: values for name, values in merged.items() if values is not None})


def read_table(tmp_path: Path, log: pa.Table, name: str = "completions_00001.parquet") -> tuple[list[Rollout], Report]:
    path = tmp_path / name
    pq.write_table(log, path)
    file, report = LogFile(path, name), Report(name)
    assert TrlReader().detect(file.head())
    return list(TrlReader().read(file, report)), report


def test_the_outcome_is_the_sum_of_the_reward_columns_without_nan(tmp_path):
    rollouts, report = read_table(tmp_path, table())
    assert [r.outcome for r in rollouts] == [1.5, 0.5, None, 1.0]
    assert [r.outcome_kind for r in rollouts] == ["terminal", "terminal", "missing", "terminal"]
    assert report.warnings == {"outcome is null, NaN or no number: unscored": 1}


def test_a_float_column_behind_another_column_is_no_reward(tmp_path):
    rollouts, _ = read_table(tmp_path, table())
    assert rollouts[0].metadata["difficulty"] == 0.1
    assert rollouts[0].metadata["correct_reward"] == 1.0
    assert rollouts[0].metadata["answer"] == "yes"


def test_nan_stored_as_null_is_the_same(tmp_path):
    rollouts, _ = read_table(tmp_path, table(correct_reward=[None, None, None, None]))
    assert [r.outcome for r in rollouts] == [0.5, 0.5, None, None]


def test_the_group_is_the_same_prompt_within_one_step(tmp_path):
    rollouts, _ = read_table(tmp_path, table(step=[1, 2, 1, 1]))
    assert len({r.group_id for r in rollouts}) == 3
    assert len({r.task_id for r in rollouts}) == 2
    assert {r.group_source for r in rollouts} == {"initial_hash"}
    assert [r.policy_version for r in rollouts] == ["1", "2", "1", "1"]


def test_texts_are_split_into_turns(tmp_path):
    said = '<tool_call>{"name": "f", "arguments": {}}</tool_call>\ntool\n3\nassistant\nthree'
    rollouts, _ = read_table(tmp_path, table(completion=[said, "no", "left", "right"]))
    assert [s.action_kind for s in rollouts[0].steps] == ["tool_call", "message"]
    assert rollouts[0].steps[0].observation == "a?"
    assert rollouts[0].steps[1].observation == "3"


def test_conversational_completions_are_messages(tmp_path):
    prompt = [
        [{"role": "user", "content": "q"}, {"role": "assistant", "content": "shown"}, {"role": "user", "content": "r"}]
    ]
    completion = [
        [
            {"role": "assistant", "content": "Action: look"},
            {"role": "user", "content": "seen"},
            {"role": "assistant", "content": "Action: end"},
        ]
    ]
    rollouts, report = read_table(tmp_path, table(prompt=prompt * 4, completion=completion * 4))
    assert [s.action_text for s in rollouts[0].steps] == ["look", "end"]
    assert report.skipped == {}


def test_rows_written_again_under_the_next_step_are_dropped(tmp_path):
    log = pa.concat_tables([table(), table(step=[2] * 4), table(step=[3] * 4, completion=["a", "b", "c", "d"])])
    rollouts, report = read_table(tmp_path, log)
    assert [r.policy_version for r in rollouts] == ["1"] * 4 + ["3"] * 4
    assert report.skipped == {"rows of the step before, written again": 4}


def test_weights_that_the_log_does_not_hold_are_noticed(tmp_path):
    log = table(
        correct_reward=[1.0, 0.0, 1.0, 0.0], format_reward=[0.0, 2.0, 0.0, 0.0], advantage=[1.0, -1.0, 1.0, -1.0]
    )
    _, report = read_table(tmp_path, log)
    assert report.warnings == {"sum of rewards disagrees with the advantages: the reward functions had weights": 1}


def test_sums_in_the_order_of_the_advantages_are_accepted(tmp_path):
    assert "sum of rewards" not in str(read_table(tmp_path, table())[1].warnings)


def test_rows_without_a_completion_are_skipped(tmp_path):
    rollouts, report = read_table(tmp_path, table(completion=["yes", None, "left", "right"]))
    assert len(rollouts) == 3
    assert report.skipped == {"row without prompt and completion": 1}


def test_the_source_has_no_rollout_ids(tmp_path):
    assert {r.rollout_id for r in read_table(tmp_path, table())[0]} == {None}


def test_json_lines_of_the_same_columns_are_read(read):
    rows = [json.loads(json.dumps(row)) for row in table(correct_reward=[1.0, 0.0, None, 1.0]).to_pylist()]
    rollouts, _ = read(TrlReader(), rows)
    assert [r.outcome for r in rollouts] == [1.5, 0.5, None, 1.0]


@pytest.mark.parametrize("gone", ["step", "prompt", "completion"])
def test_other_tables_are_not_claimed(tmp_path, gone):
    path = tmp_path / "x.parquet"
    pq.write_table(table(**{gone: None}), path)
    assert not TrlReader().detect(LogFile(path).head())


def test_a_table_of_preferences_is_not_claimed(tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"prompt": ["a"], "chosen": ["b"], "rejected": ["c"]}), path)
    assert not TrlReader().detect(LogFile(path).head())
