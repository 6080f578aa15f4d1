"""Tables of a build, made from a small log."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa

from mcgpo_data.schema import DECISIONS, ROLLOUTS

from .logs import Log


def key(text: object) -> int:
    return int(hashlib.sha256(str(text).encode()).hexdigest()[:15], 16)


def decisions_of(rows: Log, seed: int | None = None) -> pa.Table:
    """Two rules: exact, and one in which all states are one and all actions are one. A seed shuffles the rows."""
    out = []
    for rule, name in enumerate(("exact", "coarse")):
        for i in range(len(rows)):
            state = rows.state[i] if rule == 0 or rows.state[i] is None else "anywhere"
            action = rows.action[i] if rule == 0 else "something"
            out.append(
                {
                    "group_id": str(rows.group[i]),
                    "rollout_id": str(rows.rollout[i]),
                    "step_index": rows.step[i],
                    "rule": rule,
                    "rule_name": name,
                    "state_summary": None if state is None else str(state),
                    "progress": str(rows.step[i]),
                    "action": str(action),
                    "valid": rows.valid[i] and state is not None,
                    "rollout_key": key(rows.rollout[i]),
                    "state_key": key(("s", rule, state)),
                    "progress_key": key(("p", rule, rows.step[i])),
                    "history_key": 0,
                    "action_key": key(("a", rule, action)),
                }
            )
    table = pa.Table.from_pylist(out, schema=DECISIONS)
    if seed is None:
        return table
    return table.take(pa.array(np.random.default_rng(seed).permutation(table.num_rows)))


def rollouts_of(rows: Log, **changed: list[Any]) -> pa.Table:
    """One row per rollout, in order; `changed` replaces columns."""
    out = []
    for i in range(len(rows)):
        if i + 1 < len(rows) and rows.rollout[i + 1] == rows.rollout[i]:
            continue
        after = rows.next_state[i]
        out.append(
            {
                "rollout_id": str(rows.rollout[i]),
                "task_id": str(rows.group[i]),
                "group_id": str(rows.group[i]),
                "group_source": "task",
                "success": rows.success[i],
                "outcome_kind": "terminal",
                "evidence_outcome": float(rows.success[i]),
                "terminal_status": "done",
                "order_trusted": True,
                "num_steps": rows.step[i] + 1,
                "final_state_key": None if after is None else key(("s", 0, after)),
                "action_sequence_key": 0,
                "source_format": "native",
            }
        )
    for name, values in changed.items():
        for row, value in zip(out, values, strict=True):
            row[name] = value
    return pa.Table.from_pylist(out, schema=ROLLOUTS)
