"""verl rollout and validation dumps: one row per rollout, prompt and response as text; and the family's other readers.

    {input, output, gts, score, step, [uid], [request_id], [what the reward function returned besides]}

`step` is the global step, so the policy version. Special tokens are gone from the text; roles are found by their bare
lines (`role_text`). Trainer v1 writes `uid = "{sample}_{rollout}_{output}"`: the group is the part before the last two
underscores. A `uid` of another form, as some forks write it, names the group itself. Trainer v0 writes no id: rows of
one step with identical `input` are a group. A sample number means nothing outside its dump, so group ids hold step and
prompt too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from mcgpo_data.readers import verl_rows, verl_trajectories
from mcgpo_data.readers.base import Report, Rollout
from mcgpo_data.readers.fields import find_id, ident, number, read_or_skip, rest
from mcgpo_data.readers.logfile import Head, LogFile
from mcgpo_data.readers.messages import digest
from mcgpo_data.readers.role_text import prompt_messages, response_messages

ROW_UID = re.compile(r"(.+)_\d+_\d+")
USED = ("input", "output", "score", "step", "uid", "request_id")


class VerlReader:
    """Rows of `trainer.rollout_data_dir` and `trainer.validation_data_dir`."""

    name = "verl"

    def detect(self, head: Head) -> bool:
        """Text under `input` and `output` with a `score`, and no other reader of the family claims it."""
        record = head.first
        texts = isinstance(record.get("input"), str) and isinstance(record.get("output"), str)
        return texts and "score" in record and not any(reader.detect(head) for reader in READERS if reader is not self)

    def read(self, log: LogFile, report: Report) -> Iterator[Rollout]:
        """One rollout per row."""
        for place, record in log.records(report):
            texts = isinstance(record, dict) and all(isinstance(record.get(key), str) for key in ("input", "output"))
            if not texts:
                report.skip("row without input and output", place, record)
            elif (rollout := self._rollout(record, place, report)) is not None:
                yield rollout

    def _rollout(self, record: dict[str, Any], place: int, report: Report) -> Rollout | None:
        shown, said = record["input"], record["output"]
        chat = read_or_skip(response_messages(said), place, report, prompt=prompt_messages(shown))
        if chat is None:
            return None
        version = ident(record.get("step"))
        uid, request = find_id(record, "uid"), find_id(record, "request_id")
        task = digest(shown)
        outcome = number(record.get("score"), place, report)
        rollout = Rollout(
            steps=chat.steps,
            task_id=task,
            row=place,
            rollout_id=_rollout_id(uid, request, version, digest(shown, said)),
            group_id=digest(task, version),
            group_source="initial_hash",
            policy_version=version,
            outcome=outcome,
            outcome_kind="missing" if outcome is None else "terminal",
            final_observation=chat.final_observation,
            metadata=rest(record, *USED),
        )
        if uid is not None:
            row_uid = ROW_UID.fullmatch(uid)
            rollout.group_id = f"{row_uid.group(1) if row_uid else uid}@{version}#{task}"
            rollout.group_source = "explicit"
        return rollout


def _rollout_id(uid: str | None, request: str | None, version: str | None, content: str) -> str | None:
    if uid is not None and ROW_UID.fullmatch(uid):
        return f"{uid}@{version}#{content}"
    return f"{request}@{version}#{content}" if request is not None else None


READERS = (*verl_trajectories.READERS, verl_rows.StepRowReader(), VerlReader())
