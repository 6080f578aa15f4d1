"""Whole trajectories of the verl family, several layouts of one idea: an id and a list of steps.

    {global_step, trajectories: [{traj_id, success, episode_reward, steps: [{step, observation, action, ..}]}]}
    {traj_uid, task, outcome, steps: [..]}                                one record per trajectory (verl-agent forks)
    {traj_id, steps: [{observation, action, step_reward, advantage}]}     the same
    {trajectory_uid, input, output, gts, score, step, num_steps, steps: [{step_index, input, output, ..}]}   Agent-R1

verl-agent writes its steps after the batch was padded with copies of random rows and balanced over devices, so `step`
is an enumeration of rows, not time. Identical (observation, action) rows of one trajectory are taken for padding and
dropped; the order is trusted only where the prompts count the steps ("You are now at step 4"). Agent-R1 writes its
steps in order.

Group: a `uid` or `group_id` if there is one; else the task text with the first observation where the order is trusted;
else the task text; else, with no task named at all, clusters of the responses' words (`text_cluster`) among the
trajectories of one file and policy version.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mcgpo_data.readers.base import Report, Rollout, Step
from mcgpo_data.readers.fields import find_id, number
from mcgpo_data.readers.logfile import Head, LogFile, finite
from mcgpo_data.readers.messages import digest
from mcgpo_data.readers.text_cluster import MAX_TEXTS, cluster, profile
from mcgpo_data.readers.verl_prompt import Prompt
from mcgpo_data.readers.verl_step import agent_step, is_tagged, pick, rollout_name, settle_scores, truth, unite_tasks

ID_KEYS = ("trajectory_uid", "traj_uid", "traj_id", "trajectory_id")
GROUP_KEYS = ("uid", "group_uid", "group_id")
TASK_KEYS = ("task", "task_description", "instruction", "question", "goal")
TASK_ID_KEYS = ("task_id", "gamefile", "game_file", "env_id")
OUTCOME_KEYS = ("episode_reward", "episode_rewards", "outcome", "score", "reward")
SUCCESS_KEYS = ("success", "won", "is_success")
VERSION_KEYS = ("global_step", "step", "training_step")
USED = {*ID_KEYS, *GROUP_KEYS, *TASK_KEYS, *TASK_ID_KEYS, *OUTCOME_KEYS, *SUCCESS_KEYS, *VERSION_KEYS, "steps"}


@dataclass
class TrajectoryReader:
    """verl-agent and Agent-R1 trajectories; the two differ in whether each step holds its own prompt."""

    name: str
    prompted: bool  # steps are {input, output} in time order

    def detect(self, head: Head) -> bool:
        """An id and a list of steps, in the record or in its list of trajectories."""
        for record in head.records:
            for item in _items(record):
                steps = [s for s in item["steps"] if isinstance(s, dict)]
                if steps:
                    return self.prompted == all("input" in s and "output" in s for s in steps)
        return False

    def read(self, log: LogFile, report: Report) -> Iterator[Rollout]:
        """All trajectories, in file order except that those whose group has to be inferred come last."""
        drafts = [rollout for where, record in log.records(report) for rollout in self._record(record, where, report)]
        settle_scores(drafts)
        unite_tasks(drafts)
        yield from (r for r in drafts if r.group_id is not None)
        yield from _grouped_by_text([r for r in drafts if r.group_id is None], report)

    def _record(self, record: object, where: int, report: Report) -> Iterator[Rollout]:
        items = _items(record)
        if not items:
            report.skip("no trajectory with an id and steps", where, record)
            return
        whole = isinstance(record, dict) and items[0] is record
        outer = {} if whole or not isinstance(record, dict) else record
        report.records += len(items) - 1
        for index, item in enumerate(items):
            rollout = self._rollout(item, outer, where if whole else index, report)
            if rollout is not None:
                yield rollout

    def _rollout(self, item: dict[str, Any], outer: dict[str, Any], row: int, report: Report) -> Rollout | None:
        steps, prompts = _steps(item["steps"], row, report)
        if not steps:
            report.skip("trajectory without usable steps", row, item.get("steps"))
            return None
        counted = [p.step for p in prompts if p is not None]
        trusted = self.prompted
        if len(counted) == len(steps) and len(set(counted)) == len(counted) and max(counted) > 1:
            order = sorted(range(len(steps)), key=lambda i: counted[i])
            steps, trusted = [steps[i] for i in order], True
        if (declared := item.get("num_steps", item.get("n_steps"))) is not None and declared != len(item["steps"]):
            report.warn("number of steps is not the declared one", row, declared)
        task = pick(item, TASK_KEYS) or next((p.task for p in prompts if p and p.task), None)
        task = str(task) if task is not None else None
        version = find_id({**item, **outer}, *VERSION_KEYS)
        rollout = Rollout(
            steps=steps,
            task_id="",
            row=row,
            rollout_id=rollout_name(find_id(item, *ID_KEYS), version, [step.messages for step in steps]),
            policy_version=version,
            instruction=task,
            order_trusted=trusted,
            metadata={key: value for key, value in item.items() if key not in USED and not _long(value)},
        )
        _outcome(rollout, item, row, report)
        _group(rollout, item, row, report)
        return rollout


def _outcome(rollout: Rollout, item: dict[str, Any], row: int, report: Report) -> None:
    raw = pick(item, OUTCOME_KEYS)
    said = truth(raw) if isinstance(raw, str | bool) else None
    success = truth(pick(item, SUCCESS_KEYS))
    rollout.success = said if success is None else success
    rollout.outcome = finite(raw if said is None else said)
    if rollout.outcome is not None:
        rollout.outcome_kind = "terminal"
    elif raw is None and rollout.success is not None:
        rollout.outcome, rollout.outcome_kind = float(rollout.success), "terminal"
    elif raw is None and all(step.reward is not None for step in rollout.steps):
        rollout.outcome = sum(step.reward for step in rollout.steps if step.reward is not None)
        rollout.outcome_kind = "sum_of_steps"
    else:
        number(raw, row, report)


def _items(record: object) -> list[dict[str, Any]]:
    """The trajectories of one record."""
    if not isinstance(record, dict):
        return []
    several = record.get("trajectories")
    items = several if isinstance(several, list) else [record]
    return [i for i in items if isinstance(i, dict) and find_id(i, *ID_KEYS) and isinstance(i.get("steps"), list)]


def _steps(raw: list[Any], row: int, report: Report) -> tuple[list[Step], list[Prompt | None]]:
    """Steps without padding, sorted by `step_index` where all have one."""
    usable = [s for s in raw if isinstance(s, dict)]
    indices = [s.get("step_index") for s in usable]
    if indices and all(isinstance(i, int) for i in indices):
        usable.sort(key=lambda s: int(s["step_index"]))
    tagged = is_tagged(usable)
    steps: list[Step] = []
    prompts: list[Prompt | None] = []
    seen: set[tuple[str, ...]] = set()
    broken = len(raw) - len(usable)
    for item in usable:
        made = agent_step(item, tagged=tagged)
        if made is None:
            broken += 1
            continue
        key = tuple(str(m["content"]) for m in made[0].messages)
        if key in seen:
            report.warn("identical row of one trajectory dropped as padding", row)
            continue
        seen.add(key)
        steps.append(made[0])
        prompts.append(made[1])
    if broken:
        report.warn("step without observation and response dropped", row, count=broken)
    return steps, prompts


def _long(value: object) -> bool:
    return isinstance(value, str) and len(value) > 1000  # input and output of Agent-R1 repeat the text of the steps


def _group(rollout: Rollout, item: dict[str, Any], row: int, report: Report) -> None:
    first = rollout.steps[0].observation if rollout.order_trusted else None
    given = find_id(item, *TASK_ID_KEYS)
    if given is not None:
        rollout.task_id = given
    elif rollout.instruction is not None or first is not None:
        rollout.task_id = digest(rollout.instruction, first)
    group = find_id(item, *GROUP_KEYS)
    if group is not None:
        rollout.group_id, rollout.group_source = group, "explicit"
        rollout.task_id = rollout.task_id or group
    elif rollout.task_id:
        rollout.group_id = digest(rollout.task_id, rollout.policy_version)
        rollout.group_source = "task" if given is not None else "initial_hash"
        if given is None and first is None:
            report.warn("grouped by the task text alone: the first observation is not known", row)


def _grouped_by_text(drafts: list[Rollout], report: Report) -> Iterator[Rollout]:
    """The rollouts, each with the cluster of its text as task and group."""
    for version in sorted({r.policy_version or "" for r in drafts}):
        rollouts = [r for r in drafts if (r.policy_version or "") == version]
        if len(rollouts) > MAX_TEXTS:
            report.skip("too many trajectories without task or group to compare", rollouts[0].row, count=len(rollouts))
            continue
        labels = cluster([profile(str(step.messages[-1]["content"]) for step in r.steps) for r in rollouts])
        report.warn("no task and no group: inferred from the words of the responses", count=len(rollouts))
        members: dict[int, list[str]] = {}
        for rollout, label in zip(rollouts, labels, strict=True):
            members.setdefault(label, []).append(str(rollout.rollout_id))
        for rollout, label in zip(rollouts, labels, strict=True):
            rollout.group_id = rollout.task_id = f"text-{digest(sorted(members[label]))}"
            rollout.group_source = "text_cluster"
            yield rollout


READERS = (TrajectoryReader("agent_r1", prompted=True), TrajectoryReader("verl_agent_trajectories", prompted=False))
