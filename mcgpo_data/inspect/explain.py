"""Why is this side chosen? Every rollout that testified, and the weight factor by factor, from the stored tables
alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from mcgpo_data.build.bucket import pair_inputs
from mcgpo_data.build.database import connect
from mcgpo_data.build.pairs import evidence_folds, take_visits
from mcgpo_data.config import BuildConfig
from mcgpo_data.errors import UsageError
from mcgpo_data.inspect.load import build_config_of, find_pair
from mcgpo_data.store import Store, read_parquet

KEYS = [  # all that is needed of decisions: no text
    "rollout_id", "step_index", "rule", "valid", "rollout_key", "action_key",
    "state_key", "progress_key", "history_key",
]  # fmt: skip
TESTIMONY = """
SELECT r.rollout_id, v.step,
       CASE v.action WHEN $chosen THEN 'chosen' WHEN $rejected THEN 'rejected' ELSE 'other' END AS side, v.fold,
       v.outcome / 1e9 AS outcome,
       EXISTS (FROM visits o WHERE o.context = v.context AND o.rollout = v.rollout AND o.action <> v.action
               AND o.action IN ($chosen, $rejected)) AS took_both
FROM visits v JOIN rollouts r USING (rollout)
WHERE v.context = $context
ORDER BY side, v.fold, r.rollout_id
"""


@dataclass(frozen=True)
class Explanation:
    """One pair with its evidence.

    Attributes:
        pair: the row of the preferences table.
        testimony: rollouts that took an action in this context, one row per rollout and action: rollout_id, policy,
            step, side ("chosen", "rejected", "other"), fold, outcome, role. Role is "evidence", "candidate fold" (lies
            in a fold of the pair), "took both", or "unscored". Other actions count for the context mean only.
        factors: name, value and meaning of everything the weight is made of, in the order of the computation.
        options: options of the build.
    """

    pair: dict[str, Any]
    testimony: list[dict[str, Any]]
    factors: list[tuple[str, float, str]]
    options: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for `--json`."""
        return dict(vars(self))

    def lines(self, width: int = 100) -> list[str]:
        """The explanation as text; log text is shortened and inert."""
        p = self.pair
        lines = [
            f"pair {p['pair_id']}   task {plain(p['task_id'], 60)}   rule {p['rule_name']}   weight {p['weight']:.4f}",
            f"  context {p['context'][:20]}: {plain(p['state_summary'] or '', width)}",
        ]
        if p["progress"]:
            lines.append(f"  progress: {plain(p['progress'], width)}")
        for side, mark in (("chosen", "+"), ("rejected", "-")):
            lines.append(
                f"  {mark} {side:8} {plain(p[f'{side}_action'], width)!s}   "
                f"({plain(p[f'{side}_rollout_id'], 40)}, step "
                f"{p[f'{side}_step']}, fold {p[f'{side}_fold']})"
            )
            for t in self.testimony:
                if t["side"] == side:
                    outcome = "unscored" if t["outcome"] is None else f"{t['outcome']:.3g}"
                    lines.append(
                        f"      {t['role']:14} fold {t['fold']}  outcome {outcome:8} "
                        f"{plain(t['rollout_id'], 50)}:{t['step']}"
                        + (f"   ({plain(t['policy'], 40)})" if t["policy"] else "")
                    )
        others = [t["outcome"] for t in self.testimony if t["side"] == "other" and t["role"] == "evidence"]
        if others:
            lines.append(
                f"    other actions: {len(others)} entries in these folds, mean {sum(others) / len(others):.4f}"
            )
        lines += [f"    {name:18} {value:10.4f}   {meaning}" for name, value, meaning in self.factors]
        return lines


def plain(text: str, limit: int) -> str:
    """Log text for a terminal: one line, no control or direction characters, at most `limit` characters."""
    shown = "".join(c if c.isprintable() else " " for c in text[: 4 * limit])
    shown = " ".join(shown.split())
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def explain_pair(store: Store, pair_id: str) -> Explanation:
    """Evidence and weight of one pair.

    Args:
        store: a build from logs.
        pair_id: the id, or the beginning of it if that is unique.

    Raises:
        UsageError: no such pair, or a build from a decisions table (which keeps no rollouts).
    """
    return explain_row(store, *find_pair(store, pair_id))


def explain_row(store: Store, pair: dict[str, Any], part: str) -> Explanation:
    """`explain_pair` of a row of the preferences table, and the part that holds its rollouts."""
    config = build_config_of(store)
    if "decisions" not in store.manifest["tables"]:
        raise UsageError(
            f"{store.path}: was built from a decisions table and holds no rollouts; only logs can be explained."
        )
    unit = "task_id" if config.scope == "task" else "group_id"
    rollouts = pl.DataFrame(read_parquet(store.path / "rollouts" / f"part-{part}.parquet"))
    rollouts = rollouts.filter(pl.col(unit) == pair["group_id"])
    decisions = read_parquet(store.path / "decisions" / f"part-{part}.parquet", KEYS)
    decisions = decisions.filter(
        pc.is_in(decisions["rollout_id"], pa.array(rollouts["rollout_id"].to_list(), pa.string()))
    )
    con = connect("500MB")
    data = pair_inputs(decisions, rollouts, config)
    take_visits(con, data, config)
    key = pl.DataFrame(decisions.select(["rule", "rollout_id", "step_index", "action_key"])).filter(
        pl.col("rule") == pair["rule"]
    )

    def action_key(side: str) -> int:
        row = key.filter(
            (pl.col("rollout_id") == pair[f"{side}_rollout_id"]) & (pl.col("step_index") == pair[f"{side}_step"])
        )
        return int(row["action_key"][0])

    values = {"context": int(pair["context"], 16), "chosen": action_key("chosen"), "rejected": action_key("rejected")}
    found = con.sql(TESTIMONY, params=values).to_arrow_table().to_pylist()
    policy = dict(zip(rollouts["rollout_id"].to_list(), rollouts["policy"].to_list(), strict=True))
    judging = {e for f, g, e in evidence_folds(config) if (f, g) == (pair["chosen_fold"], pair["rejected_fold"])}
    for row in found:
        if row["fold"] not in judging:
            row["role"] = "candidate fold"
        elif row["outcome"] is None:
            row["role"] = "unscored"
        else:
            row["role"] = "took both" if row["took_both"] and row["side"] != "other" else "evidence"
        del row["took_both"]
        row["policy"] = policy[row["rollout_id"]]
    con.close()
    options = dict(store.manifest["config"].items())
    return Explanation(pair, found, _factors(pair, config), options)


def _factors(pair: dict[str, Any], config: BuildConfig) -> list[tuple[str, float, str]]:
    n_w, n_l = pair["chosen_support"], pair["rejected_support"]
    kappa, prior = config.kappa, config.support_prior
    discount = math.prod([config.discount] * pair["rule"])
    h = pair["support"]
    factors = [
        ("context mean", pair["context_mean"], "mean outcome of all evidence in this context, folds that judge"),
        ("chosen mean", pair["chosen_mean"], f"of {n_w} evidence rollouts"),
        ("rejected mean", pair["rejected_mean"], f"of {n_l} evidence rollouts"),
        ("chosen estimate", pair["chosen_estimate"], f"shrunken towards the context mean with kappa {kappa:g}"),
        ("rejected estimate", pair["rejected_estimate"], "likewise"),
        ("delta", pair["delta"], f"difference of the estimates (margin {config.margin:g})"),
        ("support", h, f"harmonic mean 2*{n_w}*{n_l}/({n_w}+{n_l})"),
        ("discount", discount, f"{config.discount:g} to the power of the rule's index {pair['rule']}"),
    ]
    meaning = {
        "uniform": "1",
        "support": f"discount * support/(support+{prior:g})",
        "support_margin": f"discount * delta * support/(support+{prior:g})",
        "posterior": "discount * (2 P(chosen better) - 1), Beta(S+1/2, n-S+1/2) each",
    }[config.weight]
    return [
        *factors,
        ("class weight", pair["class_weight"], meaning),
        ("weight", pair["weight"], f"class weight shared by {pair['class_pairs']} pair(s) of this class"),
    ]
