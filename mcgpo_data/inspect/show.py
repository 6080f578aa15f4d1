"""Pairs of a build in the terminal."""

from __future__ import annotations

import polars as pl

from mcgpo_data.inspect.explain import plain
from mcgpo_data.inspect.load import load_pairs
from mcgpo_data.store import Store


def select_pairs(
    store: Store,
    limit: int = 20,
    offset: int = 0,
    sort: str = "weight",
    rule: str | None = None,
    task: str | None = None,
    action: str | None = None,
) -> pl.DataFrame:
    """Some pairs of a build; `sort` other than "order" is from large to small."""
    pairs = load_pairs(store)
    if rule is not None:
        pairs = pairs.filter(pl.col("rule_name") == rule)
    if task is not None:
        pairs = pairs.filter(pl.col("task_id").str.contains(task, literal=True))
    if action is not None:
        either = [pl.col(f"{side}_action").str.contains(action, literal=True) for side in ("chosen", "rejected")]
        pairs = pairs.filter(pl.any_horizontal(either))
    if sort != "order":
        pairs = pairs.sort(sort, "pair_id", descending=[True, False])
    return pairs.slice(offset, limit)


def pair_lines(pairs: pl.DataFrame) -> list[str]:
    """A table, one pair per line."""
    lines = [f"{'pair':16}  {'weight':>7}  {'delta':>6}  {'support':>7}  {'rule':8}  chosen  >  rejected   (task)"]
    lines += [
        f"{p['pair_id']}  {p['weight']:7.4f}  {p['delta']:6.3f}  {p['support']:7.2f}  "
        f"{plain(p['rule_name'], 8):8}  "
        f"{plain(p['chosen_action'], 40)}  >  {plain(p['rejected_action'], 40)}   ({plain(p['task_id'], 30)})"
        for p in pairs.iter_rows(named=True)
    ]
    return lines if len(pairs) else ["no such pairs"]
