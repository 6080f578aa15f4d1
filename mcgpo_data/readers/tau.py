"""tau-bench and tau2-bench runs.

tau-bench: an array, or JSON lines, of `{task_id, trial, reward, info, traj: [messages]}`. A harness exception is
stored as `reward 0.0, traj [], info.error`: read as a rollout without steps, without outcome, `error_infra`.

tau2-bench: `{info, tasks, simulations: [...]}`, or a folder with an index `results.json` and one
`simulations/<id>.json` per simulation; the index alone holds no rollouts. Here the user calls tools too: these calls
are no decisions and the agent never saw their results. The first assistant message is a scripted greeting. The system
prompt is not part of this log.

No `instruction`: the one that tau-bench logs was shown to the simulated user only. Rewards lie in [0, 1]; a reward of
1 is a success. Runs cut by a limit keep the reward that the benchmark gave them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from mcgpo_data.errors import McgpoError
from mcgpo_data.readers.base import Report, Rollout
from mcgpo_data.readers.chat import Chat
from mcgpo_data.readers.fields import ident, inner, number, read_or_skip, rest, set_group, status_of, unscore_errors
from mcgpo_data.readers.logfile import Head, LogFile
from mcgpo_data.readers.messages import digest

MAX_INDEX_BYTES = 256 * 2**20
STOP = "###STOP###"  # what the simulated user of tau-bench says when it is satisfied
TRANSFER = '"name":"transfer_to_human_agents"'  # the call that ends an episode of tau-bench
NO_ROLLOUT = ("user_error", "unexpected_error", "infrastructure_error")  # tau2: the agent is not to blame


def scored(rollout: Rollout, reward: object, report: Report) -> Rollout:
    """Fills in the outcome, on the scale that both benchmarks fix."""
    rollout.outcome_min, rollout.outcome_max = 0.0, 1.0
    if rollout.terminal_status != "error_infra":
        rollout.outcome = number(reward, rollout.row, report)
    if rollout.outcome is not None:
        rollout.outcome_kind, rollout.success = "terminal", rollout.outcome == 1.0
    unscore_errors(rollout, report)
    return rollout


class TauBench:
    """`{task_id, trial, reward, info, traj}` records."""

    name = "tau_bench"

    def detect(self, head: Head) -> bool:
        """A task id and a reward beside `traj`, a list."""
        return isinstance(head.first.get("traj"), list) and {"task_id", "reward"} <= head.first.keys()

    def read(self, log: LogFile, report: Report) -> Iterator[Rollout]:
        """One rollout per record."""
        for row, record in log.records(report):
            if not isinstance(record, dict) or ident(record.get("task_id")) is None:
                report.skip("record without task_id", row, record)
                continue
            failed = inner(record, "info").get("error") is not None
            chat = read_or_skip(record.get("traj"), row, report, may_be_empty=failed)
            if chat is not None:
                yield scored(self._rollout(row, record, chat, failed), record.get("reward"), report)

    @staticmethod
    def _rollout(row: int, record: dict[str, Any], chat: Chat, failed: bool) -> Rollout:
        info = inner(record, "info")
        # Task numbers start at 0 in every domain and no domain is named: what the task asks for tells them apart.
        task = f"{ident(record['task_id'])}@{digest(info.get('task'))[:8]}"
        last = chat.steps[-1].action_text or "" if chat.steps else ""
        ended = STOP in (chat.final_observation or "") or TRANSFER in last
        # No model is named either: equal trials of two models differ by what was said.
        said = digest(record.get("traj"), info.get("error"))
        return Rollout(
            steps=chat.steps,
            task_id=task,
            row=row,
            rollout_id=f"{task}/{ident(record.get('trial')) or 0}/{said}",
            terminal_status="error_infra" if failed else "done" if ended else "truncated_steps",
            final_observation=chat.final_observation,
            metadata=rest(record, "traj", "reward") | {"initial_hash": chat.initial_hash},
        )


class Tau2Bench:
    """Whole runs, or single simulations of a run stored as a folder."""

    name = "tau2_bench"

    def detect(self, head: Head) -> bool:
        """A list of simulations (or their index) beside tasks, or one simulation."""
        keys = head.first.keys()
        if "tasks" in keys and keys & {"simulations", "simulation_index"}:
            return True
        return {"termination_reason", "task_id"} <= keys and bool(keys & {"messages", "ticks"})

    def read(self, log: LogFile, report: Report) -> Iterator[Rollout]:
        """One rollout per simulation."""
        for row, record in log.records(report):
            if not isinstance(record, dict):
                report.skip("record is not an object", row, record)
            elif "simulations" in record or "simulation_index" in record:
                simulations = record.get("simulations")
                if not isinstance(simulations, list) or not simulations:
                    report.skip("index without simulations: give the files in simulations/ too", row)
                    continue
                report.records += len(simulations) - 1
                for index, simulation in enumerate(simulations):
                    yield from self._simulation(index, simulation, inner(record, "info"), report)
            else:
                yield from self._simulation(row, record, run_info(log.path), report)

    @staticmethod
    def _simulation(row: int, simulation: object, run: dict[str, Any], report: Report) -> Iterator[Rollout]:
        if not isinstance(simulation, dict) or (task_number := ident(simulation.get("task_id"))) is None:
            report.skip("simulation without task_id", row, simulation)
            return
        messages, reason = simulation.get("messages"), simulation.get("termination_reason")
        if not messages and simulation.get("ticks"):
            report.skip("full-duplex ticks are not read", row)
            return
        status = "error_infra" if reason in NO_ROLLOUT else status_of(reason)
        chat = read_or_skip(messages, row, report, may_be_empty=status.startswith("error"))
        if chat is None:
            return
        domain = ident(inner(run, "environment_info").get("domain_name"))
        task = f"{domain}/{task_number}" if domain else task_number
        trial = ident(simulation.get("trial")) or "0"
        rollout = Rollout(
            steps=chat.steps,
            task_id=task,
            row=row,
            rollout_id=ident(simulation.get("id")) or f"{task}/{trial}/{digest(messages)}",
            policy=ident(inner(run, "agent_info").get("llm")),
            terminal_status=status,
            final_observation=chat.final_observation,
            metadata=rest(simulation, "messages", "ticks") | {"initial_hash": chat.initial_hash},
        )
        set_group(rollout)
        yield scored(rollout, inner(simulation, "reward_info").get("reward"), report)


def run_info(path: Path) -> dict[str, Any]:
    """`info` of the run of a single simulation, from the index one folder up; empty where there is none."""
    index = path.parent.parent / "results.json"
    try:
        stamp = index.stat()
    except OSError:
        return {}
    return _run_info(index, stamp.st_mtime_ns) if stamp.st_size <= MAX_INDEX_BYTES else {}


@lru_cache(maxsize=4)
def _run_info(index: Path, stamp: int) -> dict[str, Any]:
    try:
        document = LogFile(index).document()
    except (McgpoError, ValueError, RecursionError):
        return {}
    return inner(document, "info") if isinstance(document, dict) else {}


READERS = (TauBench(), Tau2Bench())
