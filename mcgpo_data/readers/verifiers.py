"""verifiers results: `results.jsonl` of an evaluation; with the episodes of v1 (`verifiers_traces`) one family.

One rollout per line, `prompt` and `completion` are message lists. The problem is `example_id` (`id` in old files).
Model and environment stand in the `metadata.json` beside it. A failed rollout has `reward` 0.0, which is the default
of the field: `error` decides. With a `trajectory` the token ids of every step are taken from it, and, where its
prompts are no continuation of each other (compaction), the prompts too.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from mcgpo_data.errors import McgpoError
from mcgpo_data.readers.base import Report, Rollout, Step
from mcgpo_data.readers.chat import Chat, read_chat
from mcgpo_data.readers.fields import (
    as_messages,
    ident,
    inner,
    logprobs,
    number,
    read_error,
    read_or_skip,
    rest,
    set_group,
    status_of,
    status_of_error,
    token_ids,
    unscore_errors,
)
from mcgpo_data.readers.logfile import Head, LogFile, finite
from mcgpo_data.readers.messages import NotMessagesError, digest, parsed
from mcgpo_data.readers.verifiers_traces import VerifiersTraces

MARKS = {  # any of these beside prompt, completion and reward: no other writer of such rows has them
    "example_id", "generation_ms", "total_ms", "timing", "is_completed", "stop_condition", "metrics", "token_usage"
}  # fmt: skip


class VerifiersResults:
    """Rows of `results.jsonl`, old and current."""

    name = "verifiers"

    def detect(self, head: Head) -> bool:
        """Prompt, completion and reward beside a field that only verifiers writes."""
        keys = head.first.keys()
        if not {"prompt", "completion", "reward"} <= keys or not keys & MARKS:
            return False
        return isinstance(head.first["prompt"], list | None) or bool(keys & {"example_id", "generation_ms"})

    def read(self, log: LogFile, report: Report) -> Iterator[Rollout]:
        """One rollout per line."""
        run = run_metadata(log.path)
        for row, record in log.records(report):
            if not isinstance(record, dict) or not {"prompt", "completion"} & record.keys():
                report.skip("record without prompt and completion", row, record)
                continue
            yield from self._rollout(row, record, run, report)

    @staticmethod
    def _rollout(row: int, record: dict[str, Any], run: dict[str, Any], report: Report) -> Iterator[Rollout]:
        example = ident(record.get("example_id")) or ident(record.get("id"))
        if example is None:
            report.skip("record without example_id", row)
            return
        status, failed = read_stop(record), read_error(record) is not None
        prompt = as_messages(record.get("prompt"), "user")
        completion = as_messages(record.get("completion"), "assistant")
        chat = read_or_skip(completion, row, report, prompt=prompt, may_be_empty=failed)
        if chat is None:
            return
        trajectory = parsed(record.get("trajectory"))
        if isinstance(trajectory, list) and trajectory:
            take_trajectory(chat, trajectory, row, report)
        env = ident(run.get("env_id")) or ident(run.get("env"))
        named = ident(record.get("task"))
        # Numbers start at 0 in every environment; where none is named, the prompt tells the problems apart.
        place = env or (named if named not in (None, "default") else digest(prompt)[:8])
        rollout = Rollout(
            steps=chat.steps,
            task_id=f"{place}/{example}",
            row=row,
            # Rollouts of one example bear no number; their content, timing included, tells them apart.
            rollout_id=f"{place}/{example}/{digest(rest(record))}",
            policy=ident(run.get("model")),
            terminal_status=status,
            final_observation=chat.final_observation,
            metadata=rest(record, "prompt", "completion", "trajectory", "reward")
            | {"initial_hash": chat.initial_hash},
        )
        set_group(rollout)
        rollout.outcome = None if failed else number(record.get("reward"), row, report)
        rollout.outcome_kind = "missing" if rollout.outcome is None else "terminal"
        unscore_errors(rollout, report, failed=failed)
        yield rollout


def read_stop(record: dict[str, Any]) -> str:
    """How the rollout ended: `error` before `stop_condition` before the flags."""
    if error := parsed(read_error(record)):
        return status_of_error(error.get("error") if isinstance(error, dict) else error)
    reason = status_of(record.get("stop_condition"))
    if reason in ("unknown", "done") and record.get("is_truncated") is True:
        return "truncated_tokens"
    if reason == "unknown" and record.get("is_completed") is True:
        return "done"
    return reason


def take_trajectory(chat: Chat, trajectory: list[Any], row: int, report: Report) -> None:
    """Adds token ids and step rewards; replaces the steps where the logged prompts do not continue each other."""
    entries = [entry for entry in trajectory if isinstance(entry, dict)]
    if len(entries) != len(chat.steps):
        try:
            chat.steps = own_prompt_steps(entries)
        except (NotMessagesError, RecursionError):
            report.warn("trajectory does not fit the completion: token ids left out", row)
            return
    for step, entry in zip(chat.steps, entries, strict=False):
        step.reward = finite(entry.get("reward"))
        tokens = inner(entry, "tokens")
        step.prompt_token_ids = token_ids(tokens.get("prompt_ids"))
        step.response_token_ids = token_ids(tokens.get("completion_ids"))
        step.response_logprobs = logprobs(tokens.get("completion_logprobs"), step.response_token_ids)
        if inner(entry, "extras"):
            step.metadata = {"extras": entry["extras"]}


def own_prompt_steps(entries: list[dict[str, Any]]) -> list[Step]:
    """One step per entry with its own complete prompt.

    Raises:
        NotMessagesError: an entry does not hold a prompt and one response.
    """
    steps: list[Step] = []
    for entry in entries:
        made = read_chat(
            as_messages(entry.get("completion"), "assistant"), as_messages(entry.get("prompt"), "user")
        ).steps
        if len(made) != 1:
            raise NotMessagesError("trajectory entry without one response")
        made[0].prompt_from = None
        steps.extend(made)
    return steps


def run_metadata(path: Path) -> dict[str, Any]:
    """The `metadata.json` of a results file (`x.results.jsonl`: `x.metadata.json`); empty where there is none."""
    beside = path.with_name(path.name.partition("results")[0] + "metadata.json")
    try:
        stamp = beside.stat().st_mtime_ns
    except OSError:
        return {}
    return _run_metadata(beside, stamp)


@lru_cache(maxsize=16)
def _run_metadata(path: Path, stamp: int) -> dict[str, Any]:
    try:
        document = LogFile(path).document()
    except (McgpoError, ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


READERS = (VerifiersResults(), VerifiersTraces())
