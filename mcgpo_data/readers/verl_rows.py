"""verl-agent dumps with one row per environment step, in no particular order.

    {input: full prompt of the step, output: <think>..</think><action>..</action>, gts, score, step}

`score` is the reward of the whole *episode*, repeated on each of its rows; `step` is the global step. Forks add
`traj_uid`, `uid` (the group), `is_action_valid` and more. The batch was padded with copies of random rows, thinned out
or reordered before it was written: rows are put in the order that their prompts count ("You are now at step 4").

Rows without a trajectory id are put together by what their prompts repeat (`verl_threads`), or skipped and counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from mcgpo_data.readers.base import Report, Rollout
from mcgpo_data.readers.fields import find_id, number
from mcgpo_data.readers.logfile import Head, LogFile
from mcgpo_data.readers.messages import digest
from mcgpo_data.readers.verl_prompt import parse_prompt
from mcgpo_data.readers.verl_step import ACTION_MARK, agent_step, rollout_name, settle_scores, unite_tasks
from mcgpo_data.readers.verl_threads import PENALTY, Row, thread_rows

TRAJECTORY_KEYS = ("traj_uid", "traj_id", "trajectory_uid", "trajectory_id")
ROW_COLUMNS = ("input", "output", "score", "step", "gts")


class StepRowReader:
    """verl-agent step rows, with or without ids."""

    name = "verl_agent"

    def detect(self, head: Head) -> bool:
        """`input` and `output` of single steps: a trajectory id beside them, or a step prompt and an action tag."""
        return any(_is_step_row(record) for record in head.records)

    def read(self, log: LogFile, report: Report) -> Iterator[Rollout]:
        """All rollouts of one dump; rows of one trajectory are in one file."""
        rows = [row for place, record in log.records(report) if (row := _read(record, place, report))]
        named: dict[str, list[Row]] = defaultdict(list)
        nameless: dict[str, list[Row]] = defaultdict(list)
        for row in rows:
            if (name := find_id(row.record, *TRAJECTORY_KEYS)) is not None:
                named[name].append(row)
            else:
                nameless[find_id(row.record, "step") or ""].append(row)
        rollouts = [_of_named(items, report) for items in named.values()]
        for items in nameless.values():
            rollouts += [_rollout(chain, trusted=True, report=report) for chain in thread_rows(items, report)]
        settle_scores(rollouts)
        unite_tasks(rollouts)
        yield from rollouts


def _is_step_row(record: object) -> bool:
    if not isinstance(record, dict) or "steps" in record:
        return False
    shown, said = record.get("input"), record.get("output")
    if not isinstance(shown, str) or not isinstance(said, str):
        return False
    if find_id(record, *TRAJECTORY_KEYS) is not None:
        return True
    return parse_prompt(shown) is not None and (bool(ACTION_MARK.search(said)) or "<action>" in shown)


def _read(record: object, place: int, report: Report) -> Row | None:
    made = agent_step(record) if isinstance(record, dict) else None
    if made is None or not isinstance(record, dict):
        report.skip("row without input and output", place, record)
        return None
    step, prompt = made
    step.metadata = {k: v for k, v in (step.metadata or {}).items() if k not in ROW_COLUMNS} or None
    return Row(place, record, step, prompt, number(record.get("score"), place, report))


def _of_named(rows: list[Row], report: Report) -> Rollout:
    seen: set[tuple[str, str]] = set()
    distinct: list[Row] = []
    for row in rows:
        if row.text in seen:
            report.skip("identical row of one trajectory dropped as padding", row.place)
        else:
            seen.add(row.text)
            distinct.append(row)
    counted = [row.prompt.step for row in distinct if row.prompt]
    trusted = len(set(counted)) == len(distinct)
    if trusted:
        distinct.sort(key=lambda row: row.prompt.step if row.prompt else 0)
        if counted and max(counted) - min(counted) + 1 != len(distinct):
            report.warn("steps of a trajectory are missing", distinct[0].place)
    else:
        report.warn("no step number in the prompts: order not trusted", distinct[0].place)
    return _rollout(distinct, trusted=trusted, report=report)


def _rollout(rows: list[Row], *, trusted: bool, report: Report) -> Rollout:
    first = rows[0]
    version = find_id(first.record, "step", "global_step")
    scores = [row.score for row in rows if row.score is not None]
    if scores:  # a penalty for an invalid action lowers the score of its own row only
        top = max(scores)
        for row in rows:
            if row.score is not None and 0 < top - row.score <= PENALTY and row.step.action_valid is None:
                row.step.action_valid = False
    task = next((row.prompt.task for row in rows if row.prompt and row.prompt.task), None)
    begins = trusted and (first.prompt is None or first.prompt.step <= 1)
    opening = first.step.observation if begins else None
    steps = [row.step for row in rows]
    rollout = Rollout(
        steps=steps,
        task_id=find_id(first.record, "task_id", "gamefile") or digest(task, opening),
        row=first.place,
        rollout_id=rollout_name(find_id(first.record, *TRAJECTORY_KEYS), version, [s.messages for s in steps]),
        policy_version=version,
        instruction=task,
        outcome=max(scores) if scores else None,
        outcome_kind="terminal" if scores else "missing",
        order_trusted=trusted,
        metadata={"gts": first.record["gts"]} if first.record.get("gts") is not None else {},
    )
    group = find_id(first.record, "uid", "group_uid", "group_id")
    if group is not None:
        rollout.group_id, rollout.group_source = group, "explicit"
    else:
        rollout.group_id, rollout.group_source = digest(rollout.task_id, version), "initial_hash"
        if opening is None:
            report.warn("grouped by the task text alone: the first observation is not known", first.place)
    return rollout
