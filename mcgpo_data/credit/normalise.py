"""Means and standard deviations by key, and values standardised with them: one place for all estimators.

Sums run over the rows in canonical order with `numpy.bincount`, which adds one after another: no sum depends on
other keys. Values are first shifted by the first value of their key, so that a key whose values are all equal has
deviations of exactly 0 (the plain mean of six times 8.57375 is not 8.57375 in floating point, and would leave a
residue where there is no signal). Cost: O(rows).
"""

from __future__ import annotations

import numpy as np

from mcgpo_data.credit.keys import Floats, Ints


def means(values: Floats, key: Ints, size: int) -> Floats:
    """Mean of the values of each key, shape (size,); 0 for a key without rows; exact where all values are equal."""
    base = np.zeros(size)
    base[key[::-1]] = values[::-1]  # the last assignment counts: the first row of each key
    count = np.bincount(key, minlength=size)
    return base + np.bincount(key, values - base[key], size) / np.maximum(count, 1)


def deviations(values: Floats, key: Ints, size: int) -> Floats:
    """Values minus the mean of their key, per row; exactly 0 where all values of the key are equal."""
    base = np.zeros(size)
    base[key[::-1]] = values[::-1]
    shifted = values - base[key]
    count = np.bincount(key, minlength=size)
    return shifted - (np.bincount(key, shifted, size) / np.maximum(count, 1))[key]


def spreads(deviation: Floats, key: Ints, size: int, std: str) -> Floats:
    """Standard deviation of each key from deviations of its rows, shape (size,); 0 for a single row.

    With `std="sample"` the squares are divided by n - 1, else by n.
    """
    count = np.bincount(key, minlength=size)
    degrees = count - 1 if std == "sample" else count
    return np.sqrt(np.bincount(key, deviation * deviation, size) / np.maximum(degrees, 1))


def standardised(values: Floats, key: Ints, size: int, std: str, eps: float) -> Floats:
    """(value - mean) / (std + eps) within each key, per row; a single row gives 0. `std="none"`: undivided."""
    deviation = deviations(values, key, size)
    if std == "none":
        return deviation
    return deviation / (spreads(deviation, key, size, std) + eps)[key]
