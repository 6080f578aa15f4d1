"""What the weight is spread over: rules, tasks, rollouts, log files, actions, texts. A few of anything that hold most
of the weight decide what is learnt.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from mcgpo_data.inspect.report.lengths import Lengths
from mcgpo_data.store import Store


@dataclass(frozen=True)
class Concentration:
    """Shares of the weight of one kind of thing.

    Attributes:
        kind: what.
        distinct: how many of them.
        effective: inverse of the sum of squared shares: as if so many had equal weight.
        first: share of the largest.
        ten: share of the ten largest.
        largest: the largest, as text of the log.
    """

    kind: str
    distinct: int
    effective: float
    first: float
    ten: float
    largest: str


def concentration(kind: str, names: pl.Series, weight: pl.Series) -> Concentration | None:
    """Concentration of weights over names; None where all weight is zero."""
    total = weight.sum()
    if not total:
        return None
    shares = (
        pl.DataFrame({"name": names, "weight": weight})
        .group_by("name")
        .agg((pl.col("weight").sum() / total).round(9))  # the order of a sum may vary, what is printed may not
        .sort("weight", "name", descending=[True, False])
    )
    held = shares["weight"]
    effective = 1.0 / float((held * held).sum())
    largest = shares["name"][0]
    ten = min(1.0, float(held.head(10).sum()))
    return Concentration(kind, len(shares), effective, float(held[0]), ten, "" if largest is None else str(largest))


def concentrations(store: Store, pairs: pl.DataFrame, lengths: Lengths | None) -> list[Concentration]:
    """Concentration of the weight of `pairs` over everything that is worth a look."""
    sides = pl.concat(
        pairs.select(rollout=f"{side}_rollout_id", weight=pl.col("weight") / 2) for side in ("chosen", "rejected")
    )
    rows = [
        concentration("task", pairs["task_id"], pairs["weight"]),
        concentration("rollout (either side)", sides["rollout"], sides["weight"]),
        concentration("context", pairs["context"], pairs["weight"]),
        concentration("chosen action", pairs["chosen_action"], pairs["weight"]),
        concentration("rejected action", pairs["rejected_action"], pairs["weight"]),
    ]
    if store.files("sources"):
        sources = pl.DataFrame(store.read("sources", ["rollout_id", "source_file"])).unique("rollout_id", keep="first")
        home = sides.join(sources, left_on="rollout", right_on="rollout_id", how="left")
        rows.append(concentration("log file (either side)", home["source_file"], home["weight"]))
    if lengths is not None:
        read = lengths.pairs
        rows += [
            concentration(f"{side} response text", read[f"{side}_text"], read["weight"])
            for side in ("chosen", "rejected")
        ]
    return [row for row in rows if row is not None]


def by_rule(pairs: pl.DataFrame) -> list[dict[str, object]]:
    """Per rule: pairs, shares of pairs and of weight, means of support and delta."""
    table = (
        pairs.group_by("rule", "rule_name")
        .agg(
            pairs=pl.len(),
            weight=pl.col("weight").sum(),
            support=pl.col("support").mean(),
            delta=pl.col("delta").mean(),
        )
        .sort("rule")
    )
    total = max(float(table["weight"].sum()), 1e-300)
    return table.with_columns(
        share=pl.col("pairs") / max(len(pairs), 1), weight_share=pl.col("weight") / total
    ).to_dicts()


def by_task(store: Store, pairs: pl.DataFrame) -> pl.DataFrame | None:
    """Per task, heaviest first: rollouts, graded, mean outcome, pairs, share of weight. None without rollouts."""
    if not store.files("rollouts"):
        return None
    rollouts = pl.DataFrame(store.read("rollouts", ["task_id", "evidence_outcome"]))
    total = max(float(pairs["weight"].sum()), 1e-300)
    weights = pairs.group_by("task_id").agg(pairs=pl.len(), weight=(pl.col("weight").sum() / total).round(9))
    return (
        rollouts.group_by("task_id")
        .agg(rollouts=pl.len(), graded=pl.col("evidence_outcome").count(), outcome=pl.col("evidence_outcome").mean())
        .join(weights, on="task_id", how="left")
        .with_columns(pl.col("pairs", "weight").fill_null(0))
        .sort("weight", "task_id", descending=[True, False])
    )
