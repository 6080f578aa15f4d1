"""Dense integer codes for ids, keys and pairs of them: what every other module counts and sums by.

Codes follow the sorted order of the values, never the order of the rows, so that sums by code do not depend on how
a log was written. Cost: one sort per call, O(n log n); for ids, runs of equal ones count once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mcgpo_data.errors import DataError

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Bools: TypeAlias = npt.NDArray[np.bool_]


def dense(values: Ints) -> tuple[Ints, Ints]:
    """(code of each value, the distinct values in ascending order)."""
    order = np.argsort(values)
    ordered = values[order]
    new = np.ones(len(values), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    codes = np.empty(len(values), np.int64)
    codes[order] = np.cumsum(new) - 1
    return codes, ordered[new]


def _is_integers(values: Any) -> bool:
    return isinstance(values, np.ndarray) and values.dtype.kind in "iub"


def _encoded(columns: tuple[Any, ...], name: str) -> tuple[Ints, list[Any]]:
    """(codes over all columns in turn, -1 where null; the distinct values, sorted), by Arrow's hash table."""
    import pyarrow as pa

    try:
        chunks = [
            pa.chunked_array(c) if isinstance(c, pa.ChunkedArray) else pa.chunked_array([pa.array(c)]) for c in columns
        ]
        joined = pa.chunked_array([chunk for c in chunks for chunk in c.chunks], type=chunks[0].type)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataError(f"{name}: not a column of integers or strings ({error}).") from error
    encoded = joined.combine_chunks().dictionary_encode()
    values = encoded.dictionary.to_pylist()
    if any(not isinstance(value, int | str) for value in values):
        raise DataError(f"{name}: must be integers or strings; found {joined.type}.")
    rank = np.empty(len(values) + 1, np.int64)
    rank[sorted(range(len(values)), key=values.__getitem__)] = np.arange(len(values))
    rank[-1] = -1
    return rank[encoded.indices.fill_null(len(values)).to_numpy(zero_copy_only=False)], sorted(values)


def ranked(values: Any, name: str) -> tuple[Ints, npt.NDArray[Any]]:
    """(code of each id, the distinct ids in ascending order).

    Args:
        values: integers or strings: an array, an Arrow column or a list.
        name: what messages call the column.

    Raises:
        DataError: a missing id, or ids that are neither integers nor strings.
    """
    if not _is_integers(values):
        codes, names = _encoded((values,), name)
        if len(codes) and codes.min() < 0:
            raise DataError(f"{name}: row {int(np.argmin(codes))} has none; every row needs one.")
        return codes, np.array(names, dtype=object)
    heads = np.flatnonzero(np.concatenate(([True], values[1:] != values[:-1]))[: len(values)])
    codes, distinct = dense(values[heads].astype(np.int64))
    return np.repeat(codes, np.diff(heads, append=len(values))), distinct


def opaque(*columns: Any, name: str) -> list[Ints]:
    """Codes of columns in which only equality means something; -1 where the key is missing.

    Args:
        columns: integers or strings: arrays, masked arrays, Arrow columns or lists; masked or null where unknown.
        name: what messages call them. Equal keys get equal codes across the columns.
    """
    if all(map(_is_integers, columns)):
        codes = dense(np.concatenate([np.ma.getdata(column) for column in columns]).astype(np.int64, copy=False))[0]
        if any(map(np.ma.isMaskedArray, columns)):
            codes[np.concatenate([np.ma.getmaskarray(column) for column in columns])] = -1
    else:
        codes = _encoded(columns, name)[0]
    return np.split(codes, np.cumsum([len(column) for column in columns])[:-1])


def apart(codes: Ints) -> Ints:
    """The codes with every missing one (-1) replaced by one of its own: what is unknown equals nothing else."""
    missing = codes < 0
    if not missing.any():
        return codes
    return np.where(missing, int(codes.max(initial=-1)) + np.cumsum(missing), codes)


@dataclass(frozen=True)
class Pairs:
    """Dense codes of pairs (a, b), ordered by a, then b.

    Attributes:
        codes: code of each row, shape (n,).
        size: number of distinct pairs.
        keys: a * width + b of each distinct pair, ascending, shape (size,).
        width: larger than every b.
    """

    codes: Ints
    size: int
    keys: Ints
    width: int

    @classmethod
    def of(cls, a: Ints, b: Ints) -> Pairs:
        """Codes of the rows of two columns of codes (>= 0)."""
        width = int(b.max(initial=0)) + 1
        codes, keys = dense(a * width + b)
        return cls(codes, len(keys), keys, width)

    def first(self) -> Ints:
        """The first member of each distinct pair, shape (size,)."""
        return self.keys // self.width

    def find(self, a: Ints, b: Ints) -> Ints:
        """Codes of other pairs; -1 where such a pair was not among the rows."""
        wanted = np.where((b >= 0) & (b < self.width), a * self.width + b, -1)
        place = np.minimum(np.searchsorted(self.keys, wanted), max(self.size - 1, 0))
        return np.where(self.keys[place] == wanted, place, -1) if self.size else np.full(len(wanted), -1)
