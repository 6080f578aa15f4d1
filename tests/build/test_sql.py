"""The SQL builder's own: one table whatever the threads, the order of rows and the memory; limits and errors."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from mcgpo_data.build.database import connect
from mcgpo_data.build.pairs import PairInput, build_pairs
from mcgpo_data.config import BuildConfig
from mcgpo_data.errors import DataError, ResourceError

from .harness import make_rows, pair_input

CONFIGS = [
    BuildConfig(),
    BuildConfig(folds=3, scope="task", weight="posterior", max_pairs_per_class=64, seed=5),
]


def simulated(groups: int) -> PairInput:
    """A log of the benchmark world: about 800 steps per group."""
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "world.py"
    spec = importlib.util.spec_from_file_location("world", path)
    assert spec is not None
    assert spec.loader is not None
    world = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(world)
    decisions, rollouts = world.core_tables(world.simulate(groups, seed=3))
    return PairInput(decisions, rollouts, 2)


@pytest.fixture(scope="module")
def data() -> PairInput:
    return simulated(25)


@pytest.fixture(scope="module", params=CONFIGS, ids=["default", "all_options"])
def expected(request: pytest.FixtureRequest, data: PairInput) -> tuple[BuildConfig, pa.Table]:
    table = build(data, request.param)
    assert table.num_rows > 1000
    return request.param, table


def build(
    data: PairInput, config: BuildConfig, threads: int = 1, memory: str = "1GB", spill: Path | None = None
) -> pa.Table:
    with connect(memory, spill, threads) as con:
        return build_pairs(con, data, config)


@pytest.mark.parametrize("threads", [2, 4])
def test_threads_do_not_change_the_table(
    data: PairInput, expected: tuple[BuildConfig, pa.Table], threads: int
) -> None:
    config, table = expected
    chunked = PairInput(*(pa.Table.from_batches(t.to_batches(500)) for t in (data.decisions, data.rollouts)), 2)
    assert build(chunked, config, threads).equals(table)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_order_of_rows_does_not_change_the_table(
    data: PairInput, expected: tuple[BuildConfig, pa.Table], seed: int
) -> None:
    config, table = expected
    rng = np.random.default_rng(seed)
    shuffled = PairInput(*(t.take(rng.permutation(t.num_rows)) for t in (data.decisions, data.rollouts)), 2)
    assert build(shuffled, config, threads=2).equals(table)


def test_memory_that_is_too_small_is_made_up_for_by_a_folder_to_spill_to(tmp_path: Path) -> None:
    data = simulated(150)
    with pytest.raises(ResourceError, match="memory"):
        build(data, CONFIGS[0], memory="60MB")
    assert build(data, CONFIGS[0], memory="60MB", spill=tmp_path).equals(build(data, CONFIGS[0]))


def test_rows_of_rollouts_given_twice_count_once(data: PairInput, expected: tuple[BuildConfig, pa.Table]) -> None:
    config, table = expected
    twice = PairInput(*(pa.concat_tables([t, t]) for t in (data.decisions, data.rollouts)), 2)
    assert build(twice, config).equals(table)


def test_one_rollout_with_two_outcomes_is_an_error() -> None:
    rows = make_rows("g", {"r1": [[("s", "a")]], "r2": [[("s", "b")]]}, {"r1": 1.0, "r2": 0.0})
    data = pair_input(rows)
    other = data.rollouts.set_column(6, "outcome", pa.array([0, 0], pa.int64()))
    with pytest.raises(DataError, match="'r1'"):
        build(PairInput(data.decisions, pa.concat_tables([data.rollouts, other]), 1), BuildConfig())


def test_no_cap_on_pairs_keeps_all_of_w_times_l() -> None:
    arms = {f"r{n}": "ab"[n % 2] for n in range(40)}
    rows = make_rows(
        "g", {r: [[("s", arm)], [(r, r)]] for r, arm in arms.items()}, {r: float(arms[r] == "a") for r in arms}
    )
    config = BuildConfig(max_pairs_per_class=2**31, max_decisions_per_side=4096)
    pairs = build(pair_input(rows), config).to_pylist()
    folds = [pair["chosen_fold"] for pair in pairs]
    assert [pair["class_pairs"] for pair in pairs] == [folds.count(fold) for fold in folds]
    a, b = ({p[f"{side}_rollout_id"] for p in pairs if p["chosen_fold"] == 0} for side in ("chosen", "rejected"))
    assert folds.count(0) == len(a) * len(b) > 64


def test_a_log_without_decisions_has_no_pairs() -> None:
    data = pair_input([])
    assert build(data, BuildConfig()).num_rows == 0
    assert build(data, BuildConfig(scope="task", weight="posterior")).num_rows == 0
