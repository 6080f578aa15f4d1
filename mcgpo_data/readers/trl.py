"""TRL completion logs (`log_completions`): Parquet, one row per completion.

    step, prompt, completion, <one column per reward function>, <extra columns>, advantage

`prompt` and `completion` are text without special tokens (roles are found by their bare lines, `role_text`) or message
lists. The group is the same prompt within one step; `step` is the policy version.

The reward columns are the float columns that follow `completion` without a gap. The outcome is their plain sum, with
NaN (the function returned None: not applicable) left out; all NaN is unscored. The weights that the trainer gave its
reward functions are not in the log: where the sums order a group otherwise than the logged advantages do, the report
says so.

The trainer logs from a buffer, so that the rows of one step may be written again under the next: a step whose rows are
all copies of the step before is left out and counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import groupby, pairwise
from typing import Any

from mcgpo_data.readers.base import Message, Report, Rollout
from mcgpo_data.readers.fields import ident, read_or_skip
from mcgpo_data.readers.logfile import Head, LogFile, finite
from mcgpo_data.readers.messages import digest
from mcgpo_data.readers.role_text import prompt_messages, response_messages

FIXED = ("step", "prompt", "completion")
Numbered = tuple[int, dict[str, Any]]


class TrlReader:
    """Completions of TRL's GRPO and RLOO trainers."""

    name = "trl"

    def detect(self, head: Head) -> bool:
        """`step`, `prompt`, `completion`, and an `advantage` or a column of floats after the completion."""
        columns = head.columns or tuple(head.first)
        if not set(FIXED) <= set(columns):
            return False
        rows = [record for record in head.records if isinstance(record, dict)]
        return "advantage" in columns or bool(_reward_columns(rows))

    def read(self, log: LogFile, report: Report) -> Iterator[Rollout]:
        """One rollout per row."""
        before: set[str] = set()
        for _, rows in groupby(_rows(log, report), key=lambda row: ident(row[1].get("step"))):
            batch = list(rows)
            contents = {digest({k: v for k, v in record.items() if k != "step"}) for _, record in batch}
            if contents <= before:
                report.skip("rows of the step before, written again", batch[0][0], count=len(batch))
                continue
            before = contents
            yield from _batch(batch, report)


def _rows(log: LogFile, report: Report) -> Iterator[Numbered]:
    for place, record in log.records(report):
        if isinstance(record, dict) and record.get("prompt") is not None and record.get("completion") is not None:
            yield place, record
        else:
            report.skip("row without prompt and completion", place, record)


def _batch(batch: list[Numbered], report: Report) -> Iterator[Rollout]:
    columns = _reward_columns([record for _, record in batch])
    _compare_with_advantages(batch, columns, report)
    for place, record in batch:
        rollout = _rollout(record, place, columns, report)
        if rollout is not None:
            yield rollout


def _rollout(record: dict[str, Any], place: int, columns: list[str], report: Report) -> Rollout | None:
    prompt = _messages(record["prompt"], prompt_messages)
    chat = read_or_skip(_messages(record["completion"], response_messages), place, report, prompt=prompt)
    if chat is None:
        return None
    version = ident(record.get("step"))
    outcome = _total(record, columns)
    if outcome is None:
        report.warn("outcome is null, NaN or no number: unscored", place)
    task = digest(record["prompt"])
    return Rollout(
        steps=chat.steps,
        task_id=task,
        row=place,
        group_id=digest(task, version),
        group_source="initial_hash",
        policy_version=version,
        outcome=outcome,
        outcome_kind="missing" if outcome is None else "terminal",
        final_observation=chat.final_observation,
        metadata={key: value for key, value in record.items() if key not in FIXED and value is not None},
    )


def _messages(value: object, split: Callable[[str], list[Message]]) -> object:
    """Messages as logged; text is split at its roles. What is neither is left to the chat engine to refuse."""
    return split(value) if isinstance(value, str) else value


def _reward_columns(rows: list[dict[str, Any]]) -> list[str]:
    """Names of the columns after `completion` that hold floats, up to the first that holds anything else."""
    names = list(rows[0]) if rows else []
    found: list[str] = []
    for name in names[names.index("completion") + 1 :] if "completion" in names else []:
        values = [row.get(name) for row in rows if row.get(name) is not None]
        if name.startswith("advantage") or not all(isinstance(value, float) for value in values):
            break
        if values:
            found.append(name)
    return found


def _total(record: dict[str, Any], columns: list[str]) -> float | None:
    values = [value for name in columns if (value := finite(record.get(name))) is not None]
    return math.fsum(values) if values else None


def _compare_with_advantages(batch: list[Numbered], columns: list[str], report: Report) -> None:
    """Warns where the advantages of one group do not rise with the sums: the reward functions had weights."""
    groups: dict[str, list[tuple[float, float]]] = {}
    for _, record in batch:
        total, advantage = _total(record, columns), finite(record.get("advantage"))
        if total is not None and advantage is not None:
            groups.setdefault(digest(record["prompt"]), []).append((total, advantage))
    for pairs in groups.values():
        pairs.sort()
        if any(a < b - 1e-6 for (s, b), (t, a) in pairwise(pairs) if t > s + 1e-9):
            report.warn("sum of rewards disagrees with the advantages: the reward functions had weights", batch[0][0])


READERS = (TrlReader(),)
