"""Small worlds for the tests of the pair builders: rows of plain values, and all builders behind one signature."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from mcgpo_data.build.arrays.builder import array_pairs
from mcgpo_data.build.database import connect
from mcgpo_data.build.pair_input import SCALE, PairInput
from mcgpo_data.build.reference import reference_pairs
from mcgpo_data.build.sql_pairs import sql_pairs
from mcgpo_data.config import BuildConfig

Row = dict[str, Any]  # group_id, rollout_id, step, rule, context, action, valid, outcome, version
Pair = dict[str, Any]

DECISIONS = pa.schema(
    {
        "rule": pa.int16(),
        "context": pa.int64(),
        "action": pa.int64(),
        "rollout_key": pa.int64(),
        "step": pa.int32(),
        "valid": pa.bool_(),
    }
)
ROLLOUTS = pa.schema(
    {
        "rollout_key": pa.int64(),
        "rollout_id": pa.string(),
        "unit_id": pa.string(),
        "unit_key": pa.int64(),
        "sequence_key": pa.int64(),
        "stratum": pa.int64(),
        "outcome": pa.int64(),
    }
)


def key(*parts: object) -> int:
    """60 bits of sha256."""
    return int(hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:15], 16)


def make_rows(
    group: str,
    rollouts: dict[str, Sequence[Sequence[tuple[str, str]] | None]],
    outcomes: dict[str, float | None],
    version: str = "v",
) -> list[Row]:
    """Rows of one group. A step is a list of (context, action), finest rule first."""
    return [
        {
            "group_id": group,
            "rollout_id": rollout,
            "step": step,
            "rule": rule,
            "context": context,
            "action": action,
            "valid": True,
            "outcome": outcomes[rollout],
            "version": version,
        }
        for rollout, steps in rollouts.items()
        for step, rules in enumerate(steps)
        for rule, (context, action) in enumerate(rules or [])
    ]


def pair_input(rows: Sequence[Row]) -> PairInput:
    """Tables of the SQL builder, in the order of `rows`."""
    sequences: dict[tuple[str, str], dict[int, str | None]] = {}
    rollouts: dict[tuple[str, str], Row] = {}
    for row in rows:
        rollouts[row["group_id"], row["rollout_id"]] = row
        if row["rule"] == 0:
            action = row["action"] if row["valid"] else None
            sequences.setdefault((row["group_id"], row["rollout_id"]), {})[row["step"]] = action
    decisions = [
        {
            "rule": row["rule"],
            "context": key(row["rule"], row["context"]),
            "action": key(row["action"]),
            "rollout_key": key(row["rollout_id"]),
            "step": row["step"],
            "valid": row["valid"],
        }
        for row in rows
    ]
    attempts = [
        {
            "rollout_key": key(rollout),
            "rollout_id": rollout,
            "unit_id": group,
            "unit_key": key(group),
            "sequence_key": key(sorted(sequences[group, rollout].items())),
            "stratum": key(row.get("version")),
            "outcome": None if row["outcome"] is None else round(row["outcome"] * SCALE),
        }
        for (group, rollout), row in rollouts.items()
    ]
    return PairInput(
        pa.Table.from_pylist(decisions, DECISIONS),
        pa.Table.from_pylist(attempts, ROLLOUTS),
        1 + max((row["rule"] for row in rows), default=0),
    )


def built_table(builder: str, rows: Sequence[Row], config: BuildConfig) -> pa.Table:
    """What the builder "arrays" or "sql" returns."""
    with connect() as con:
        return {"arrays": array_pairs, "sql": sql_pairs}[builder](con, pair_input(rows), config)


def named(table: pa.Table, rows: Sequence[Row]) -> list[Pair]:
    """Built pairs with names in place of keys, in the reference's order."""
    contexts = {
        key(row["rule"], row["context"]) ^ key(row["group_id"]): (row["group_id"], row["context"]) for row in rows
    }
    actions = {key(row["action"]): row["action"] for row in rows}
    pairs = table.to_pylist()
    for pair in pairs:
        pair["group_id"], pair["context"] = contexts[pair["context"]]
        for side in ("chosen", "rejected"):
            pair[f"{side}_action"] = actions[pair.pop(f"{side}_action_key")]
            assert pair.pop(f"{side}_key") == key(pair[f"{side}_rollout_id"])
    return sorted(
        pairs,
        key=lambda p: (
            p["group_id"],
            p["rule"],
            p["context"],
            (f"{p['chosen_rollout_id']}:", str(p["chosen_step"])),
            (f"{p['rejected_rollout_id']}:", str(p["rejected_step"])),
        ),
    )


BUILDERS: dict[str, Callable[[list[Row], BuildConfig], list[Pair]]] = {
    "reference": reference_pairs,
    "arrays": lambda rows, config: named(built_table("arrays", rows, config), rows),
    "sql": lambda rows, config: named(built_table("sql", rows, config), rows),
}


def load_vectors(shared: Path) -> list[dict[str, Any]]:
    """Worked worlds: name, options, rollouts, folds and pairs."""
    loaded: list[dict[str, Any]] = json.loads((shared / "vectors" / "mcgpo_small.json").read_text(encoding="utf-8"))
    return loaded
