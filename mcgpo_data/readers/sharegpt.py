"""ShareGPT-shaped logs: AgentGym (AgentTraj-L, AgentEvol, AgentGym-RL), AgentInstruct, ETO.

A record holds `conversations`, a list of `{from, value}` (or `{role, content}`), and

* AgentGym: `item_id`; `reward` and `success` in inference files (expert sets have none: unscored); one file per rank
  in AgentGym-RL, where the training step stands in the folder name alone and is not read. The distributed sampler pads
  batches: rows of one file with equal id, conversation and reward are one rollout, counted. A harness error is stored
  as `[{"error": ...}]` with reward 0: no outcome. `conversations` null is an entry of a task list.
* AgentInstruct: `id`, no reward.
* ETO: `meta {steps, reward, finished, success, terminate_reason, error}`, one file per task. `error` holds the
  ALFWorld game file. `success` says that the episode finished: it is left open where the reward is below 1. Without an
  id the first prompt names the task.

Few-shot examples: turns marked `loss: false` and a first "OK" are context. An ETO conversation with more replies than
`meta.steps` begins with examples: its last `meta.steps` replies are the decisions. Examples inside the first message
stay in the prompt, which the policy saw; `observation` and `instruction` are what follows the line with which ETO ends
them. Examples that nothing marks cannot be told from decisions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from mcgpo_data.readers.base import Report, Rollout
from mcgpo_data.readers.chat import Chat
from mcgpo_data.readers.fields import find_id, ident, inner, read_or_skip
from mcgpo_data.readers.generic import is_message, make_rollout, with_system
from mcgpo_data.readers.logfile import Head, LogFile, finite
from mcgpo_data.readers.messages import digest, parsed

MARKER = re.compile(r"\A.*^Now, it's your turn(?: and here is the task)?\.\s*\n", re.DOTALL | re.MULTILINE)
GAME_FILE = re.compile(r"([^/\\]+)[/\\]([^/\\]+)[/\\]game\.tw-pddl$|([^/\\]+)[/\\](trial_[^/\\]+)$")


class ShareGPT:
    """Records with `conversations`."""

    name = "sharegpt"

    def detect(self, head: Head) -> bool:
        """`conversations` with turns; null only beside an item id."""
        for record in head.records:
            if isinstance(record, dict) and "conversations" in record:
                turns = parsed(record["conversations"])
                if isinstance(turns, list) and turns and (is_message(turns[0]) or _is_error(turns)):
                    return True
                if not turns and "item_id" in record:
                    return True
        return False

    def read(self, log: LogFile, report: Report) -> Iterator[Rollout]:
        """One rollout per record; repeated rows of one file once."""
        seen: set[str] = set()
        for row, record in log.records(report):
            if not isinstance(record, dict) or "conversations" not in record:
                report.skip("record without conversations", row, record)
                continue
            turns = parsed(record["conversations"])
            if not turns:
                report.skip("task list entry: no conversation", row)
                continue
            key = digest(find_id(record, "item_id", "id"), turns, record.get("reward"))
            if key in seen:
                report.skip("row repeated by batch padding", row)
                continue
            seen.add(key)
            yield from self._rollout(row, record, turns, report)

    @staticmethod
    def _rollout(row: int, record: dict[str, Any], turns: Any, report: Report) -> Iterator[Rollout]:
        failed = _is_error(turns)
        meta = inner(record, "meta")
        messages = [] if failed else with_system(record, marked(turns, meta))
        chat = read_or_skip(messages, row, report, may_be_empty=failed)
        if chat is None:
            return
        task = shown_task(chat)
        fields = {**record, "error": record.get("error") or "harness error"} if failed else record
        named = task_of(record, meta, turns)
        rollout = make_rollout(fields, chat, turns, row, report, used=("conversations",), task=named)
        rollout.instruction = rollout.instruction or task
        if rollout.rollout_id is None and ident(record.get("item_id")):
            rollout.rollout_id = f"{rollout.task_id}/{digest(turns, rollout.outcome)}"
        if meta and rollout.success and rollout.outcome is not None and rollout.outcome < 1.0:
            rollout.success = None
            report.warn("success says that the episode finished, its reward is below 1: success left open", row)
        yield rollout


def _is_error(turns: object) -> bool:
    return isinstance(turns, list) and any(isinstance(t, dict) and "error" in t and not is_message(t) for t in turns)


def marked(turns: Any, meta: dict[str, Any]) -> Any:
    """The turns, with the replies before the last `meta.steps` ones marked as examples."""
    steps = finite(meta.get("steps"))
    if not isinstance(turns, list) or steps is None or steps < 1:
        return turns
    replies = [
        index
        for index, turn in enumerate(turns)
        if isinstance(turn, dict) and turn.get("from", turn.get("role")) in ("gpt", "assistant")
    ]
    examples = set(replies[: -int(steps)])
    return [{**turn, "loss": False} if index in examples else turn for index, turn in enumerate(turns)]


def shown_task(chat: Chat) -> str | None:
    """The task after the marker line of ETO in the first prompt; also made the first observation."""
    step = chat.steps[0] if chat.steps else None
    if step is None or step.observation is None or not (found := MARKER.match(step.observation)):
        return None
    step.observation = step.observation[found.end() :].strip()
    return step.observation


def task_of(record: dict[str, Any], meta: dict[str, Any], turns: Any) -> str | None:
    """Item id (a bare number: with a digest of the first turn, which names the environment), or ETO's game file."""
    item = find_id(record, "item_id") or (ident(record.get("id")) if not meta else None)
    if item is not None:
        return item if not item.isdigit() else f"{item}@{digest(turns[0])[:8]}"
    game = GAME_FILE.search(str(meta.get("error") or ""))
    return "/".join(part for part in game.groups() if part) if game else None


READERS = (ShareGPT(),)
