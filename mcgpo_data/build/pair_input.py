"""What the pair builders take and give."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import pyarrow as pa

from mcgpo_data.config import BuildConfig

SCALE = 10**9
"""An outcome of 1: outcomes are counted in units of 1e-9, so that all sums are sums of integers."""

COLUMNS = (
    "rule", "context", "chosen_key", "rejected_key", "chosen_rollout_id", "chosen_step", "rejected_rollout_id",
    "rejected_step", "chosen_action_key", "rejected_action_key", "chosen_outcome", "rejected_outcome", "chosen_fold",
    "rejected_fold", "chosen_support", "rejected_support", "chosen_mean", "rejected_mean", "chosen_estimate",
    "rejected_estimate", "context_mean", "delta", "support", "class_weight", "class_pairs", "weight",
)  # fmt: skip
"""Columns of a table of pairs, named as in the preferences table; `chosen_key` is the key of the chosen rollout."""


@dataclass(frozen=True)
class PairInput:
    """One bucket.

    Attributes:
        decisions: one row per decision and rule: rule int16 (0 = finest), context int64, action int64, rollout_key
            int64, step int32, valid bool. `context` need not identify the group: it is combined with unit_key.
        rollouts: one row per rollout: rollout_key int64, rollout_id string, unit_id string and unit_key int64 (group
            or task), sequence_key int64, stratum int64 (policy version; used with scope = task), outcome int64 in
            units of 1e-9 (null: unscored).
        num_rules: number of rules.
    """

    decisions: pa.Table
    rollouts: pa.Table
    num_rules: int


def evidence_folds(config: BuildConfig) -> list[tuple[int, int, int]]:
    """(f, g, e): outcomes of fold e may judge candidates in folds f and g. Of two folds both candidates share one."""
    every = range(config.folds)
    rows = []
    for f, g in product(every, every):
        if config.folds == 2 and f != g:
            continue
        allowed = {"opposite-fold": set(every) - {f, g}, "same-fold": {f, g}, "all-folds": set(every)}
        rows += [(f, g, e) for e in sorted(allowed[config.orientation])]
    return rows
