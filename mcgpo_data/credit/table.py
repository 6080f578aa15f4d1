"""Advantages of the decisions of a build: its tables in, one row per step out. Whole groups, a bucket at a time.

What the tables say becomes what the estimators read:

    score       10 x evidence_outcome: the outcome that the build was told to use; null: unscored, no advantage
    success     the rollout's flag; where the log has none, an evidence outcome of 1
    reward      the score at the last step, or the logged rewards (the score is then their sum)
    state       state_key of the chosen rule; `keys` may add others (progress_key). Unknown states equal no other
    valid       as judged by the rules: the environment took the action. An unknown state is not held against an action
    truncated   the log says that a limit on steps or tokens cut the rollout

A rollout whose order of steps is not trusted counts as unscored for every estimator with a step signal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mcgpo_data.credit import estimate
from mcgpo_data.credit.columns import SUCCESS_REWARD, from_columns
from mcgpo_data.credit.keys import Floats, Ints
from mcgpo_data.errors import DataError

EPISODE_ONLY: Final = ("grpo", "drgrpo", "rloo")


def credit_store(
    decisions: pa.Table,
    rollouts: pa.Table,
    estimator: str,
    options: Mapping[str, Any] | None = None,
    *,
    preset: str | None = None,
    rule: int = 0,
    keys: Sequence[str] = ("state_key",),
    rewards: pa.Table | None = None,
) -> pa.Table:
    """Advantages of every step of whole groups.

    Args:
        decisions: rows of the decisions table; its `state_summary` may be left out where it has no null.
        rollouts: rows of the rollouts table.
        estimator: a name in `mcgpo_data.credit.ESTIMATORS`.
        options: options of the estimator, above those of the preset.
        preset: a name in `mcgpo_data.credit.PRESETS`.
        rule: index of the rule whose states and actions are used, 0 = exact.
        keys: key columns that make a state, combined by exclusive or.
        rewards: columns rollout_id, step_index and reward of the steps table, to use logged rewards. A rollout that
            lacks one is unscored.

    Returns:
        One row per step, sorted by `group_id`, `rollout_id`, `step_index`: these, then the columns of the estimator.

    Raises:
        UsageError: an unknown estimator, preset or option.
        DataError: no decision under the rule, or a decision whose rollout is missing.
    """
    rows = _under(decisions, rule, keys)
    home = _home(rows, rollouts)
    exact = rule == 0 and tuple(keys) == ("state_key",)
    unknown = np.zeros(rows.num_rows, bool)
    if "state_summary" in rows.column_names:
        unknown = rows["state_summary"].is_null().to_numpy()
    state = np.bitwise_xor.reduce([rows[key].to_numpy() for key in keys])
    score, success = _outcomes(rollouts, trusted_only=estimator not in EPISODE_ONLY)
    batch = from_columns(
        rows["group_id"],
        rows["rollout_id"],
        rows["step_index"].to_numpy(),
        state=np.ma.masked_array(state, unknown),
        action=rows["action_key"].to_numpy(),
        next_state=_after(rows, rollouts, home) if exact else None,  # final_state_key is of the exact rule
        reward=None if rewards is None else _logged(rows, rewards),
        score=None if rewards is not None else score[home],
        success=success[home],
        valid=rows["valid"].to_numpy() | unknown,
        truncated=pc.starts_with(rollouts["terminal_status"], "truncated").to_numpy()[home],
    )
    columns = estimate(batch, estimator, preset=preset, **(options or {})).columns
    table = rows.select(["group_id", "rollout_id", "step_index"])
    for name, column in columns.items():
        table = table.append_column(name, pa.array(column))
    return table if batch.order is None else table.take(pa.array(batch.order))


def _under(decisions: pa.Table, rule: int, keys: Sequence[str]) -> pa.Table:
    """The decisions of one rule, columns that are needed alone."""
    names = ["group_id", "rollout_id", "step_index", "action_key", "valid", *keys]
    if "state_summary" in decisions.column_names:
        names.append("state_summary")
    rows = decisions.select(names).filter(pc.equal(decisions["rule"], rule))
    if decisions.num_rows and not rows.num_rows:
        raise DataError(f"no decision under rule {rule}; the last rule of the table is {pc.max(decisions['rule'])}.")
    return rows


def _home(rows: pa.Table, rollouts: pa.Table) -> Ints:
    """Row of each decision's rollout among the rollouts."""
    home = pc.index_in(rows["rollout_id"], value_set=rollouts["rollout_id"])
    if home.null_count:
        lost = rows["rollout_id"].filter(pc.is_null(home))[0]
        raise DataError(f"rollout {lost.as_py()!r} has decisions but is not among the rollouts.")
    found: Ints = home.to_numpy().astype(np.int64)
    return found


def _outcomes(rollouts: pa.Table, trusted_only: bool) -> tuple[Floats, Floats]:
    """(score, success) of each rollout, NaN where it has none that counts."""
    evidence = pc.fill_null(rollouts["evidence_outcome"], np.nan).to_numpy()
    if trusted_only:
        evidence = np.where(rollouts["order_trusted"].to_numpy(), evidence, np.nan)
    solved = pc.fill_null(rollouts["success"], pc.equal(rollouts["evidence_outcome"], 1.0))
    success = pc.fill_null(solved, False).to_numpy().astype(np.float64)
    return SUCCESS_REWARD * evidence, np.where(np.isnan(evidence), np.nan, success)


def _after(rows: pa.Table, rollouts: pa.Table, home: Ints) -> Ints:
    """State after each step, known at last steps alone: elsewhere it is the state before the next one."""
    final = rollouts["final_state_key"]
    known = ~final.is_null().to_numpy()[home]
    last = rows["step_index"].to_numpy() == rollouts["num_steps"].to_numpy()[home] - 1
    after: Ints = np.ma.masked_array(pc.fill_null(final, 0).to_numpy()[home], ~(known & last))
    return after


def _logged(rows: pa.Table, rewards: pa.Table) -> Floats:
    """Reward of each decision, NaN where the log has none."""
    joined = rows.select(["rollout_id", "step_index"]).append_column("row", pa.array(np.arange(rows.num_rows)))
    joined = joined.join(rewards.select(["rollout_id", "step_index", "reward"]), ["rollout_id", "step_index"])
    earned = np.full(rows.num_rows, np.nan)
    earned[joined["row"].to_numpy()] = pc.fill_null(joined["reward"], np.nan).to_numpy()
    return earned
