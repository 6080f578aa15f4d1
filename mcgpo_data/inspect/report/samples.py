"""Pairs with everything a reader needs to judge them: both sides, what was said, who testified."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from mcgpo_data.inspect.explain import explain_row
from mcgpo_data.inspect.load import part_of, read_pair
from mcgpo_data.inspect.page import shorten
from mcgpo_data.store import Store

WITNESSES = 12  # shown per side
RESPONSE = 1_500  # characters
PROMPT = 3_000
MESSAGES = 6  # of a prompt: the last ones


def sample_rows(weight: pl.Series, count: int) -> list[int]:
    """Rows of `count` pairs evenly spaced from the heaviest to the lightest."""
    order = pl.DataFrame({"weight": weight}).with_row_index("row").sort("weight", "row", descending=[True, False])
    picked = np.unique(np.linspace(0, len(order) - 1, min(count, len(order))).round().astype(int))
    return [order["row"][int(i)] for i in picked]


def sampled_pairs(store: Store, weight: pl.Series, count: int = 20) -> list[dict[str, Any]]:
    """Views of sampled pairs, the heaviest first. `weight`: of all pairs, in the order of the build."""
    files = [(store.path / f["path"], f["rows"]) for f in store.manifest["tables"]["preferences"]["files"]]
    starts = [0, *accumulate(rows for _, rows in files)]
    found = []
    for row in sample_rows(weight, count):
        at = bisect_right(starts, row) - 1
        found.append(pair_view(store, files[at][0], row - starts[at]))
    return found


def pair_view(store: Store, path: Path, index: int) -> dict[str, Any]:
    """One pair as the template `pair.html` shows it.

    Args:
        store: a build.
        path: a file of its preferences.
        index: row of that file.
    """
    pair = read_pair(path, index)
    explained = "decisions" in store.manifest["tables"]
    found = explain_row(store, pair, part_of(path)) if explained else None
    sides = [_side(pair, side, found.testimony if found else []) for side in ("chosen", "rejected")]
    return {
        **{name: pair[name] for name in ("pair_id", "task_id", "rule_name", "context", "weight", "delta", "support")},
        "state": pair["state_summary"] or "",
        "progress": pair["progress"] or "",
        "sides": sides,
        "factors": found.factors if found else [],
        "explained": explained,
    }


def _side(pair: dict[str, Any], side: str, testimony: list[dict[str, Any]]) -> dict[str, Any]:
    names = ("rollout_id", "step", "action", "outcome", "fold", "support", "mean", "estimate")
    prompt, response = pair.get(f"{side}_prompt"), pair.get(f"{side}_response")
    witnesses = [t for t in testimony if t["side"] == side]
    witnesses.sort(key=lambda t: (t["role"] != "evidence", t["role"], t["rollout_id"]))
    return {
        "name": side,
        **{name: pair[f"{side}_{name}"] for name in names},
        "text": prompt is not None,
        "left_out": max(0, len(prompt or []) - MESSAGES),
        "prompt": [
            {"role": m["role"], "text": shorten(message_text(m), PROMPT, end=True)} for m in (prompt or [])[-MESSAGES:]
        ],
        "response": "\n".join(shorten(message_text(m), RESPONSE) for m in response or []),
        "witnesses": witnesses[:WITNESSES],
        "more_witnesses": max(0, len(witnesses) - WITNESSES),
    }


def message_text(message: dict[str, Any]) -> str:
    """Content of a message, then its tool calls as `name(arguments)`."""
    calls = [call["function"] or {} for call in message["tool_calls"] or []]
    lines = [message["content"] or "", *(f"{call.get('name')}({call.get('arguments')})" for call in calls)]
    return "\n".join(line for line in lines if line)
