"""How many steps of real logs get a step signal, per estimator and kind of anchor: the tables of docs/credit.md.

    python benchmarks/credit_coverage.py FOLDER

reads rollouts.jsonl.gz in FOLDER/env_alfworld and FOLDER/env_webshop. A group is the rollouts of one task by one
policy. Anchors: `observation`, the last text that was seen, whole; `exact` and `coarse`, the state summaries of the
task rules. AUC is the probability that a step on which the expert acted has a larger step advantage than one on which
a random one was drawn, among steps with a signal: 0.5 says nothing. (A random action may be as good as the expert's:
1 is out of reach.)
"""

from __future__ import annotations

import argparse
import gzip
import sys
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import polars as pl

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from mcgpo_data.credit import ESTIMATORS, estimate, from_columns  # noqa: E402
from mcgpo_data.credit.compare import SILENT, signal, signal_counts  # noqa: E402
from mcgpo_data.rules.registry import load_rules  # noqa: E402

STEP_ESTIMATORS = [name for name in ESTIMATORS if name not in ("grpo", "drgrpo", "rloo")]
ANCHORS = {
    "observation": ("observation", "action_0"),
    "exact": ("state_0", "action_0"),
    "coarse": ("state_1", "action_1"),
}


def read(path: Path, family: str) -> pl.DataFrame:
    """Steps of a log with states and actions of its task rules; the last row of each is what was seen at the end."""
    with gzip.open(path, "rb") as lines:
        steps = [orjson.loads(line) for line in lines]
    rows = []
    for i, step in enumerate(steps):
        shared = {
            "task_id": step["task_id"],
            "rollout_id": step["rollout_id"],
            "group": f"{step['task_id']} {step['policy_p']}",
            "instruction": step["task"],
        }
        rows.append(
            shared
            | {
                "step_index": step["step"],
                "is_final": False,
                "observation": step["observation"],
                "action_text": step["action"],
                "action_kind": "env_command",
                "action_valid": step.get("valid"),
                "admissible_actions": step["admissible"],
                "by_expert": step["by_expert"],
                "won": False,
            }
        )
        if i + 1 == len(steps) or steps[i + 1]["rollout_id"] != step["rollout_id"]:
            rows.append(
                shared
                | {
                    "step_index": step["step"] + 1,
                    "is_final": True,
                    "observation": step["next_observation"],
                    "won": step["won"],
                }
            )
    frame = pl.DataFrame(rows, infer_schema_length=None).with_columns(pl.col("step_index").cast(pl.Int32))
    frame = frame.sort("rollout_id", "step_index").with_columns(won=pl.col("won").any().over("rollout_id"))
    return load_rules(family).apply(frame)


def tables(frame: pl.DataFrame, anchor: str) -> dict[str, Any]:
    """Estimator -> its table, under one kind of anchor."""
    state, action = ANCHORS[anchor]
    frame = frame.with_columns(after=pl.col(state).shift(-1).over("rollout_id")).filter(~pl.col("is_final"))
    batch = from_columns(
        frame["group"].to_list(),
        frame["rollout_id"].to_list(),
        frame["step_index"].to_numpy(),
        state=frame[state].to_list(),
        action=frame[action].to_list(),
        next_state=frame["after"].to_list(),
        success=frame["won"].to_numpy(),
        valid=frame["valid"].fill_null(True).to_numpy() if "valid" in frame.columns else None,
    )
    ids = {"group_id": frame["group"].to_arrow(), "by_expert": frame["by_expert"].to_arrow()}
    done = {}
    for name in STEP_ESTIMATORS:
        table = estimate(batch, name).to_arrow()
        for column, values in ids.items():
            table = table.append_column(column, values)
        done[name] = table
    return done


def auc(table: Any) -> float:
    """Probability that an expert's step has a larger step advantage than a random one; ties count half."""
    value, expert = table["step_advantage"].to_numpy(), table["by_expert"].to_numpy()
    loud = np.abs(value) > SILENT
    value, expert = value[loud], expert[loud]
    _, code, count = np.unique(value, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(count) - (count - 1) / 2)[code]
    wins = int(expert.sum())
    return float((ranks[expert].sum() - wins * (wins + 1) / 2) / (wins * (len(value) - wins)))


def said(table: Any) -> dict[str, Any]:
    """Where an estimator says something."""
    return signal(signal_counts(table))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    for family in ("alfworld", "webshop"):
        frame = read(folder / f"env_{family}" / "rollouts.jsonl.gz", family)
        found = {anchor: tables(frame, anchor) for anchor in ANCHORS}
        first = said(next(iter(found["observation"].values())))
        silent = f"{first['collapsed']:.0%} of them without any advantage"
        print(f"\n{family}: {first['steps']:,} steps, {first['groups']:,} groups, {silent}\n")
        alone = {anchor: said(done["gigpo"])["alone"] for anchor, done in found.items()}
        print("| estimator | " + " | ".join(f"{anchor}: signal | AUC" for anchor in ANCHORS) + " |")
        print("|---|" + "---:|" * 2 * len(ANCHORS))
        for name in STEP_ESTIMATORS:
            cells = [
                f"{said(found[anchor][name])['with_step_signal']:.1%} | {auc(found[anchor][name]):.3f}"
                for anchor in ANCHORS
            ]
            print(f"| `{name}` | " + " | ".join(cells) + " |")
        print("| steps alone in their state | " + " | ".join(f"{alone[anchor]:.1%} | " for anchor in ANCHORS) + " |")


if __name__ == "__main__":
    main()
