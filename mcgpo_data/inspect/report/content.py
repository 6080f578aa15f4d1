"""Everything the report says, as numbers and words: a store in, plain values out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from mcgpo_data.config import BuildConfig
from mcgpo_data.credit.compare import signal
from mcgpo_data.inspect.load import build_config_of, load_pairs
from mcgpo_data.inspect.report.lengths import Lengths, pair_lengths
from mcgpo_data.inspect.report.losses import input_losses
from mcgpo_data.inspect.report.spread import Concentration, by_rule, by_task, concentrations
from mcgpo_data.inspect.report.trust import Share, classes, fold_agreement, own_outcomes
from mcgpo_data.store import Store

COLUMNS = [
    "group_id", "task_id", "rule", "rule_name", "context", "delta", "support", "class_weight", "weight",
    *(f"{side}_{name}" for side in ("chosen", "rejected")
      for name in ("rollout_id", "step", "action", "outcome", "fold", "support")),
]  # fmt: skip


@dataclass(frozen=True)
class Content:
    """See `make_content`; names are those of the sections of the page."""

    config: BuildConfig
    records: int
    counts: dict[str, int]
    advice: list[str]
    input_losses: list[dict[str, Any]]
    pairs: pl.DataFrame
    classes: int
    rules: list[dict[str, Any]]
    single_support: float
    folds_agree: list[Share] | None
    own: list[Share] | None
    own_by_weight: pl.DataFrame | None
    tasks: pl.DataFrame | None
    concentration: list[Concentration]
    lengths: Lengths | None
    length_table: list[dict[str, Any]]
    longer: float | None
    advantages: list[dict[str, Any]]


def make_content(store: Store) -> Content:
    """Numbers of a build.

    Args:
        store: any build, also one without pairs, without text, or from a decisions table.
    """
    config, funnel = build_config_of(store), store.manifest["funnel"]
    pairs = load_pairs(store, COLUMNS)
    lengths = pair_lengths(store, pairs) if store.files("steps") and len(pairs) else None
    own = own_outcomes(pairs, config)
    return Content(
        config=config,
        records=funnel["records"],
        counts=funnel["counts"],
        advice=funnel["advice"],
        input_losses=input_losses(funnel, store.manifest["inputs"]),
        pairs=pairs,
        classes=len(classes(pairs)),
        rules=by_rule(pairs),
        single_support=single_support(pairs),
        folds_agree=fold_agreement(pairs, config),
        own=own[0] if own else None,
        own_by_weight=own[1] if own else None,
        tasks=by_task(store, pairs),
        concentration=concentrations(store, pairs, lengths),
        lengths=lengths,
        length_table=length_table(lengths) if lengths else [],
        longer=chosen_longer(lengths) if lengths else None,
        advantages=advantages(store),
    )


def single_support(pairs: pl.DataFrame) -> float:
    """Share of the weight of pairs with a side that has one evidence rollout."""
    weight = pairs["weight"].to_numpy()
    weaker = np.minimum(pairs["chosen_support"].to_numpy(), pairs["rejected_support"].to_numpy())
    return float(weight[weaker == 1].sum() / max(weight.sum(), 1e-300))


def length_table(lengths: Lengths) -> list[dict[str, Any]]:
    """Median, ninth decile and maximum of prompts and responses, in characters."""
    rows = []
    for part in ("prompt", "response"):
        for side in ("chosen", "rejected"):
            values = lengths.pairs[f"{side}_{part}"].to_numpy()
            if len(values):
                middle, high = np.quantile(values, [0.5, 0.9])
                rows.append(
                    {"name": f"{side} {part}", "median": int(middle), "high": int(high), "max": int(values.max())}
                )
    return rows


def chosen_longer(lengths: Lengths) -> float | None:
    """Share of the weight of pairs whose chosen response is longer, among those that differ in length."""
    differ = lengths.pairs.filter(pl.col("chosen_response") != pl.col("rejected_response"))
    total = float(differ["weight"].sum())
    if not total:
        return None
    longer = differ.filter(pl.col("chosen_response") > pl.col("rejected_response"))
    return round(float(longer["weight"].sum()) / total, 9)


def advantages(store: Store) -> list[dict[str, Any]]:
    """Coverage of each table of advantages in the build: what `signal` says, and all steps."""
    rows = []
    for name, entry in sorted(store.manifest.get("credit", {}).get("estimators", {}).items()):
        if f"advantages_{name}" in store.manifest["tables"]:
            rows.append({"name": name, "all_steps": entry["counts"]["all_steps"], **signal(entry["counts"])})
    return rows
