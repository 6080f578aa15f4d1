"""How long prompts and responses of pairs are, in characters, and the text of responses, from the steps table.

Text is read one file at a time and only as much as `BUDGET`; a larger build is judged by evenly spread files.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mcgpo_data.store import Store, read_parquet

BUDGET = 256 * 2**20  # bytes of Parquet
SHOWN = 300  # characters of a response that are kept


@dataclass(frozen=True)
class Lengths:
    """Sizes of both sides of the pairs whose text was read.

    Attributes:
        pairs: one row per pair: `weight`, then `chosen_` and `rejected_` each of `prompt`, `response` (characters) and
            `text` (beginning of the response).
        read: files read, of `files`.
    """

    pairs: pl.DataFrame
    read: int
    files: int


def pair_lengths(store: Store, pairs: pl.DataFrame) -> Lengths | None:
    """Lengths of the sides of `pairs`; None for a build that holds no text."""
    paths = store.files("steps")
    chosen = _spread(paths, BUDGET)
    wanted = pl.concat(
        pairs.select(rollout_id=f"{side}_rollout_id", step_index=f"{side}_step") for side in ("chosen", "rejected")
    ).unique()
    parts = [part for path in chosen if (part := step_lengths(path, wanted)) is not None]
    if not parts:
        return None
    steps = pl.concat(parts)
    found = pairs.select("weight", "chosen_rollout_id", "chosen_step", "rejected_rollout_id", "rejected_step")
    for side in ("chosen", "rejected"):
        ours = steps.rename({name: f"{side}_{name}" for name in ("prompt", "response", "text")})
        found = found.join(
            ours,
            left_on=[f"{side}_rollout_id", f"{side}_step"],
            right_on=["rollout_id", "step_index"],
            maintain_order="left",
        )
    return Lengths(found, len(chosen), len(paths))


def _spread(paths: list[Path], budget: int) -> list[Path]:
    sizes = [path.stat().st_size for path in paths]
    step = max(1, -(-sum(sizes) // budget))
    return paths[::step]


def step_lengths(path: Path, wanted: pl.DataFrame) -> pl.DataFrame | None:
    """`rollout_id, step_index, prompt, response, text` of the wanted steps of one file; None if it holds no text."""
    steps = read_parquet(path, ["rollout_id", "step_index", "prompt_from", "messages"])
    messages = steps["messages"].combine_chunks()
    if messages.null_count == len(messages):
        return None
    flat = messages.flatten()
    counts = pc.fill_null(pc.list_value_length(messages), 0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    sizes = _characters(flat)
    before = np.concatenate([[0], np.cumsum(sizes)])
    step = steps["step_index"].to_numpy()
    first = np.arange(len(step)) - step + steps["prompt_from"].to_numpy()
    last = offsets[1:] - 1  # the response
    frame = pl.DataFrame(
        {
            "rollout_id": pl.Series(steps["rollout_id"]),
            "step_index": step,
            "prompt": before[last] - before[offsets[first]],
            "response": sizes[last],
            "at": last,
        }
    ).join(wanted, on=["rollout_id", "step_index"], how="semi", maintain_order="left")
    return frame.with_columns(text=_text(flat.take(pa.array(frame["at"].to_numpy())))).drop("at")


def _characters(flat: pa.StructArray) -> NDArray[np.int64]:
    """Characters of each message: its content, and names and arguments of its tool calls."""
    sizes = pc.fill_null(pc.utf8_length(flat.field("content")), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    calls = flat.field("tool_calls")
    function = calls.flatten().field("function")
    if len(function):
        size = np.zeros(len(function), np.int64)
        for part in ("name", "arguments"):
            size += pc.fill_null(pc.utf8_length(function.field(part)), 0).to_numpy(zero_copy_only=False)
        np.add.at(sizes, pc.list_parent_indices(calls).to_numpy(), size)
    found: NDArray[np.int64] = sizes
    return found


def _text(responses: pa.StructArray) -> pl.Series:
    """Beginning of each response: its content, else its first tool call."""
    content = pc.fill_null(responses.field("content"), "")
    calls = responses.field("tool_calls")
    function = calls.flatten().field("function")
    name, arguments = (pc.fill_null(function.field(part), "") for part in ("name", "arguments"))
    call = pl.DataFrame(
        {
            "at": pl.Series(pc.list_parent_indices(calls), dtype=pl.Int64),
            "call": pl.Series(pc.binary_join_element_wise(name, arguments, " "), dtype=pl.String),
        }
    ).unique("at", keep="first")
    frame = pl.DataFrame({"content": pl.Series(content, dtype=pl.String)}).with_row_index("at")
    frame = frame.with_columns(pl.col("at").cast(pl.Int64)).join(call, on="at", how="left", maintain_order="left")
    shown = pl.when(pl.col("content") == "").then(pl.col("call").fill_null("")).otherwise("content")
    return frame.select(text=shown.str.slice(0, SHOWN))["text"]
