"""Tables as integer arrays: codes, one sort key for many columns, and runs of sorted rows.

Codes, numbers of rows and steps are 32-bit integers, keys and counts 64-bit ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Ints = NDArray[np.signedinteger[Any]]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


def column(table: pa.Table, name: str, null: int | None = None) -> Ints:
    """A column of integers, with `null` in place of missing values."""
    values = table[name].combine_chunks()
    return np.asarray(values if null is None else values.fill_null(null))


def codes(values: Ints) -> tuple[Ints, Ints]:
    """(code of each value, the value of each code); codes have no gaps and follow the order of first appearance."""
    encoded = pc.dictionary_encode(pa.array(values))
    return np.asarray(encoded.indices), np.asarray(encoded.dictionary)


def combine(high: Ints, low: Ints, size: int) -> Ints:
    """One integer for two: high * size + low, where low < size."""
    return high.astype(np.int64) * size + low


def pack(*columns: Ints) -> Ints:
    """One integer per row that orders rows as the columns do, the first column first. Columns hold integers >= 0."""
    packed, room = columns[0].astype(np.int64), _room(columns[0])
    for values in columns[1:]:
        size = _room(values)
        if room * size > 2**63:
            packed, room = _ranks(packed)
        if room * size > 2**63:
            values, size = _ranks(values)
        packed, room = packed * size + values, room * size
    return packed


def _room(values: Ints) -> int:
    return int(values.max(initial=0)) + 1


def _ranks(values: Ints) -> tuple[Ints, int]:
    distinct, ranks = np.unique(values, return_inverse=True)
    return ranks, len(distinct)


def starts_of_runs(*columns: Ints) -> Ints:
    """Where runs of equal rows begin."""
    size = len(columns[0])
    begins = np.zeros(size, bool)
    begins[:1] = True
    for values in columns:
        begins[1:] |= values[1:] != values[:-1]
    return np.flatnonzero(begins)


def number_runs(starts: Ints, size: int) -> Ints:
    """The number of the run that each of `size` rows belongs to."""
    return np.repeat(np.arange(len(starts), dtype=np.int32), np.diff(starts, append=size))


def sums(values: Ints | Bools, starts: Ints) -> Ints:
    """Integer sums over runs."""
    return np.add.reduceat(values, starts, dtype=np.int64) if len(starts) else np.zeros(0, np.int64)


def spans(counts: Ints) -> tuple[Ints, Ints]:
    """(owner, offset) for `counts[owner]` rows of each owner, in order; offsets run from 0."""
    owner = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    begin = np.cumsum(counts) - counts
    return owner, np.arange(len(owner), dtype=np.int32) - begin.astype(np.int32)[owner]


def find(values: Ints, among: Ints) -> Ints:
    """Position of each value in `among`, -1 where it is not there."""
    return np.asarray(pc.index_in(pa.array(values), value_set=pa.array(among)).fill_null(-1))


def ranks(order: Ints) -> Ints:
    """The place of each row in `order`, a permutation of rows."""
    result = np.empty(len(order), np.int32)
    result[order] = np.arange(len(order), dtype=np.int32)
    return result
