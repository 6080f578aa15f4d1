"""Episodes of verifiers v1 and prime-rl: `traces.jsonl`, one episode per line, or one bare trace per line.

An episode holds the traces of its agents; a trace is a *tree* of messages: `nodes: [{parent, message, sampled,
token_ids, mask, logprobs}]`. Every sampled assistant node is one decision, taken once, in the order in which the nodes
were made: branches share their beginnings, and reading each path from root to leaf as a rollout of its own would count
those decisions several times. A node that continues the decision before it adds its new messages only; one that does
not (compaction, retry, a nested agent) starts a segment with its own complete prompt (`prompt_from` = its own step).
After a retry, where a decision was undone, `order_trusted` is false. Assistant nodes that were not sampled are
context.

Token ids: those along the path up to the sampled tokens of the node are the prompt, those under `mask` the response.

Outcome: sum of score x weight over `rewards`; unscored where one of them is null or the trace is not `ok` (`errors`
may stem from attempts that were repeated; `ok` decides). Traces of agents that are not trained (judges) are left out.
The folders `all` and `effective` hold the same episodes: equal ids, equal content.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from mcgpo_data.readers.base import Report, Rollout, Step
from mcgpo_data.readers.chat import chat_of_turns
from mcgpo_data.readers.fields import ident, inner, logprobs, rest, set_group, status_of, token_ids
from mcgpo_data.readers.logfile import Head, LogFile, finite
from mcgpo_data.readers.messages import NotMessagesError, Turn, digest, normalise


class VerifiersTraces:
    """Lines of `traces.jsonl`."""

    name = "verifiers_traces"

    def detect(self, head: Head) -> bool:
        """An episode: task and traces; or a trace: task and message nodes."""
        first = head.first
        if not isinstance(first.get("task"), dict):
            return False
        traces = first.get("traces")
        return isinstance(first.get("nodes"), list) or (
            isinstance(traces, list) and bool(first.keys() & {"env", "ok"})
        )

    def read(self, log: LogFile, report: Report) -> Iterator[Rollout]:
        """One rollout per trace of a trained agent."""
        for row, record in log.records(report):
            if not isinstance(record, dict) or not isinstance(record.get("task"), dict):
                report.skip("record without task", row, record)
                continue
            bare = isinstance(record.get("nodes"), list)
            episode = {} if bare else record
            traces = [record] if bare else record.get("traces")
            if not isinstance(traces, list) or not traces:
                report.skip("episode without traces", row)
                continue
            for trace in traces:
                yield from self._trace(row, episode, trace, len(traces), report)

    def _trace(
        self, row: int, episode: dict[str, Any], trace: object, count: int, report: Report
    ) -> Iterator[Rollout]:
        if not isinstance(trace, dict) or not isinstance(trace.get("nodes"), list):
            report.skip("trace without nodes", row)
            return
        agent = inner(trace, "agent")
        if agent.get("trainable") is False:
            report.skip("trace of an agent that is not trained", row)
            return
        failed = trace.get("ok") is False
        try:
            steps, final, ordered = tree_steps(trace["nodes"])
        except (NotMessagesError, RecursionError) as error:
            report.skip(str(error) if isinstance(error, NotMessagesError) else "messages are nested too deep", row)
            return
        if not steps and not failed:
            report.skip("no decision in the messages", row)
            return
        task, work = inner(episode or trace, "task"), inner(inner(episode, "run"), "work")
        env = ident(inner(episode, "env").get("name")) or ident(inner(episode, "env").get("id"))
        key = ident(task.get("key")) or ident(task.get("hash")) or digest(task.get("data") or task)
        ids = [i for i in (ident(episode.get("id")), ident(trace.get("id"))) if i]
        rollout = Rollout(
            steps=steps,
            task_id=f"{env}/{key}" if env else key,
            row=row,
            rollout_id="/".join(ids) or digest(trace),
            policy=policy_of(trace),
            policy_version=span(inner(work, "policy")),
            terminal_status=read_end(trace, failed),
            order_trusted=ordered,
            final_observation=final,
            metadata=rest(trace, "nodes", "calls") | {"episode": rest(episode, "traces")},
        )
        group = ident(inner(episode, "group").get("id"))
        if group is not None:
            rollout.group_id, rollout.group_source = group, "explicit"
        set_group(rollout)
        name = ident(agent.get("name"))
        if count > 1 and name:  # several agents solve different parts of one task
            rollout.group_id = f"{rollout.group_id or rollout.task_id}|{name}"
        rollout.outcome = None if failed else total(trace.get("rewards"))
        rollout.outcome_kind = "missing" if rollout.outcome is None else "terminal"
        if rollout.outcome is None:
            report.warn("ended by an error: unscored" if failed else "rewards are missing or null: unscored", row)
        yield rollout


def tree_steps(nodes: list[Any]) -> tuple[list[Step], str | None, bool]:
    """Steps of a message tree, what was seen after the last one, and whether no decision was undone.

    Raises:
        NotMessagesError: a node without message, or a parent that does not come before its child.
    """
    turns, parents = _parse(nodes)
    steps: list[Step] = []
    last: int | None = None  # node of the last decision
    segment, ordered = 0, True
    for index in range(len(nodes)):
        if not _decides(turns[index]):
            continue
        path = path_to(index, parents)
        continues = last is not None and last in path
        if not continues:
            segment = len(steps)
            ordered = ordered and not any(_decides(turns[i]) for i in path[:-1])
        # The response before is given along, as context, for its tool calls.
        known = [i for i in path if last is None or i >= last] if continues else path
        before = [replace(turn, by_policy=False) for i in known[:-1] for turn in turns[i]]
        step = chat_of_turns([*before, *turns[index]]).steps[0]
        step.messages = step.messages[len(turns[known[0]]) :] if continues else step.messages
        step.prompt_from = segment
        add_tokens(step, [nodes[i] for i in path])
        steps.append(step)
        last = index
    if last is None:
        return [], None, True
    after = [i for i in range(last + 1, len(nodes)) if last in path_to(i, parents)]
    texts = [turn.message["content"] for i in after for turn in turns[i] if turn.message["content"]]
    return steps, "\n\n".join(texts) or None, ordered


def _parse(nodes: list[Any]) -> tuple[list[list[Turn]], list[int | None]]:
    """Messages and parent of every node."""
    turns: list[list[Turn]] = []
    parents: list[int | None] = []
    for index, node in enumerate(nodes):
        if not isinstance(node, dict) or not isinstance(node.get("message"), dict):
            raise NotMessagesError("a node has no message")
        parent = node.get("parent")
        if parent is not None and not (type(parent) is int and 0 <= parent < index):
            raise NotMessagesError("a node's parent does not come before it")
        made, _ = normalise([node["message"]])
        turns.append([replace(turn, by_policy=node.get("sampled") is True) for turn in made])
        parents.append(parent)
    return turns, parents


def _decides(turns: list[Turn]) -> bool:
    return any(turn.by_policy and turn.message["role"] == "assistant" for turn in turns)


def path_to(index: int, parents: list[int | None]) -> list[int]:
    """Nodes from the root to `index`."""
    path: list[int] = []
    node: int | None = index
    while node is not None:
        path.append(node)
        node = parents[node]
    return path[::-1]


def add_tokens(step: Step, path: list[dict[str, Any]]) -> None:
    """Token ids of prompt and response, where every node of the path bears its own."""
    parts = [part for node in path if (part := token_ids(node.get("token_ids"))) is not None]
    mask = path[-1].get("mask")
    if len(parts) < len(path) or not isinstance(mask, list) or len(mask) != len(parts[-1]):
        return
    own = parts.pop()
    before = [i for part in parts for i in part]
    step.prompt_token_ids = before + [i for i, sampled in zip(own, mask, strict=True) if not sampled]
    step.response_token_ids = [i for i, sampled in zip(own, mask, strict=True) if sampled]
    step.response_logprobs = logprobs(path[-1].get("logprobs"), step.response_token_ids)


def policy_of(trace: dict[str, Any]) -> str | None:
    """The model: of the agent's configuration, else of the first call."""
    config = inner(inner(trace, "agent"), "config")
    model = config.get("model")
    if isinstance(model, dict):
        model = model.get("name") or model.get("id")
    calls = trace.get("calls")
    first = (
        next((c["model"] for c in calls if isinstance(c, dict) and c.get("model")), None)
        if isinstance(calls, list)
        else None
    )
    return ident(model) or ident(first)


def span(policy: dict[str, Any]) -> str | None:
    """Policy versions that an episode spans: "7", or "7-9"."""
    start, end = ident(policy.get("start")), ident(policy.get("end"))
    return start if end in (None, start) else f"{start}-{end}" if start else end


def total(rewards: object) -> float | None:
    """Sum of score x weight; None where nothing, or not everything, was scored."""
    if not isinstance(rewards, dict) or not rewards:
        return None
    value = 0.0
    for reward in rewards.values():
        score = finite(reward.get("score")) if isinstance(reward, dict) else finite(reward)
        weight = finite(reward.get("weight", 1.0)) if isinstance(reward, dict) else 1.0
        if score is None or weight is None:
            return None
        value += score * weight
    return value


def read_end(trace: dict[str, Any], failed: bool) -> str:
    """How the trace ended."""
    status = status_of(trace.get("stop_condition"))
    if failed:
        return status if status.startswith(("error", "truncated")) else "error_infra"
    if status == "unknown" and trace.get("is_completed") is True:
        return "done"
    return status
