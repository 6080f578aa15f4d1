"""Prompts and responses joined to pairs, last and without copying more than is asked for.

The messages of sorted steps are one flat Arrow array; a prompt is a contiguous slice of it (see `schema`), so that
building prompts is one `take` over ranges, in chunks of bounded size.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mcgpo_data.schema import MESSAGES

CHUNK_BYTES = 32 * 2**20


def with_text(pairs: pa.Table, steps: pa.Table) -> Iterator[pa.Table]:
    """Chunks of `pairs` with `chosen_prompt`, `chosen_response`, `rejected_prompt`, `rejected_response`.

    Args:
        pairs: thin pairs, any order; all their decisions are in `steps`.
        steps: `rollout_id, step_index, prompt_from, messages`, whole rollouts, sorted, step_index dense from 0.
    """
    messages = steps["messages"].combine_chunks()
    messages = messages if isinstance(messages, pa.ListArray) else pa.concat_arrays(messages.chunks)
    flat = messages.flatten()
    lengths = pc.fill_null(pc.list_value_length(messages), 0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    sizes = pc.fill_null(pc.binary_length(flat.field("content")), 0).to_numpy(zero_copy_only=False)
    weight = np.concatenate([[0], np.cumsum(sizes.astype(np.int64) + 64)])
    back = steps["step_index"].to_numpy() - steps["prompt_from"].to_numpy()
    row_of = (
        pl.DataFrame({"rollout_id": pl.Series(steps["rollout_id"])})
        .with_row_index("row")
        .unique("rollout_id", keep="first")
    )

    sides = {side: _rows(pairs, side, row_of) for side in ("chosen", "rejected")}
    begin = {side: offsets[rows - back[rows]] for side, rows in sides.items()}
    end = {side: offsets[rows + 1] - 1 for side, rows in sides.items()}  # the last message is the response
    cost = sum(weight[end[s] + 1] - weight[begin[s]] for s in sides)
    chunk = np.cumsum(cost) // CHUNK_BYTES if pairs.num_rows else np.zeros(0, np.int64)
    bounds = np.concatenate([[0], np.flatnonzero(np.diff(chunk)) + 1, [pairs.num_rows]]).astype(np.int64)
    for low, high in itertools.pairwise(bounds):
        table = pairs.slice(low, high - low)
        for side in sides:
            a, b = begin[side][low:high], end[side][low:high]
            table = table.append_column(f"{side}_prompt", _slices(flat, a, b))
            table = table.append_column(f"{side}_response", _slices(flat, b, b + 1))
        yield table


def _rows(pairs: pa.Table, side: str, row_of: pl.DataFrame) -> NDArray[np.int64]:
    """Row in the steps table of each pair's decision."""
    ids = pl.DataFrame({"rollout_id": pl.Series(pairs[f"{side}_rollout_id"])})
    first = ids.join(row_of, on="rollout_id", how="left", maintain_order="left")["row"].to_numpy()
    rows: NDArray[np.int64] = first.astype(np.int64) + pairs[f"{side}_step"].to_numpy()
    return rows


def _slices(flat: pa.Array, begin: NDArray[np.int64], end: NDArray[np.int64]) -> pa.Array:
    """List array whose i-th value is flat[begin[i]:end[i]]."""
    lengths = end - begin
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    indices = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths) + np.repeat(begin, lengths)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), flat.take(pa.array(indices))).cast(MESSAGES)
