"""Integer arrays in place of tables."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcgpo_data.build.arrays.crossing import diagonal
from mcgpo_data.build.arrays.ints import codes, find, number_runs, pack, ranks, spans, starts_of_runs, sums

BOUNDS = st.sampled_from([1, 3, 2**31, 2**62])


@given(st.lists(BOUNDS, min_size=1, max_size=4), st.integers(0, 40), st.randoms(use_true_random=False))
def test_a_packed_key_orders_rows_as_their_columns_do_however_wide(
    bounds: list[int], size: int, rng: np.random.Generator
) -> None:
    rows = [tuple(rng.randrange(bound) for bound in bounds) for _ in range(size)]
    rows += rows[: size // 3]
    columns = [np.array([row[i] for row in rows], np.int64) for i in range(len(bounds))]
    keys = pack(*columns).tolist()
    assert [rows[i] for i in sorted(range(len(rows)), key=keys.__getitem__)] == sorted(rows)
    assert len(set(keys)) == len(set(rows))


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_codes_stand_for_values_and_are_found_again(values: list[int]) -> None:
    array = np.array(values, np.int64)
    code, distinct = codes(array)
    assert distinct[code].tolist() == values
    assert sorted(set(code.tolist())) == list(range(len(set(values))))
    assert find(array, distinct).tolist() == code.tolist()
    assert find(array, distinct[1:]).tolist() == (code - 1).tolist()


@given(st.lists(st.integers(0, 5)))
def test_spans_count_up_within_each_owner(counts: list[int]) -> None:
    owner, offset = spans(np.array(counts, np.int64))
    expected = [(i, k) for i, count in enumerate(counts) for k in range(count)]
    assert list(zip(owner.tolist(), offset.tolist(), strict=True)) == expected


@given(st.lists(st.integers(0, 2)).map(sorted))
def test_runs_of_equal_rows_are_numbered_and_summed(values: list[int]) -> None:
    array = np.array(values, np.int64)
    starts = starts_of_runs(array)
    distinct = sorted(set(values))
    assert array[starts].tolist() == distinct
    assert number_runs(starts, len(array)).tolist() == [distinct.index(value) for value in values]
    assert sums(array, starts).tolist() == [value * values.count(value) for value in distinct]
    assert sums(array == 1, starts).tolist() == [values.count(value) * (value == 1) for value in distinct]


@given(st.permutations(range(8)))
def test_ranks_are_the_places_of_rows_in_an_order(order: list[int]) -> None:
    assert ranks(np.array(order)).tolist() == [order.index(row) for row in range(8)]


@pytest.mark.parametrize("wins", range(1, 9))
@pytest.mark.parametrize("losses", range(1, 9))
def test_positions_run_along_diagonals(wins: int, losses: int) -> None:
    size = wins * losses
    found = diagonal(np.arange(size), np.full(size, wins), np.full(size, losses))
    every = [(w, l) for w in range(wins) for l in range(losses)]  # noqa: E741
    by_diagonal = sorted(every, key=lambda pair: ((pair[1] - pair[0]) % max(wins, losses), pair[0]))
    assert list(zip(*(ranks.tolist() for ranks in found), strict=True)) == by_diagonal
