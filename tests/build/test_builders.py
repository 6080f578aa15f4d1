"""Both builders on whole tables: one result whatever builder, threads, order of rows and memory; limits, errors."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from mcgpo_data.build import pairs
from mcgpo_data.build.database import connect, statement
from mcgpo_data.build.pairs import COLUMNS, PairInput, build_pairs
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


@pytest.fixture(scope="module", params=CONFIGS, ids=["default", "other_options"])
def expected(request: pytest.FixtureRequest, data: PairInput) -> tuple[BuildConfig, pa.Table]:
    """Options, and the table that they must give."""
    table = build(data, request.param)
    assert table.num_rows > 1000
    return request.param, table


@pytest.fixture(params=["arrays", "sql"])
def builder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Makes `build_pairs` use this builder."""
    if request.param == "sql":
        monkeypatch.setattr(pairs, "ARRAY_ROWS", -1)
    return str(request.param)


def build(
    data: PairInput, config: BuildConfig, threads: int = 1, memory: str = "1GB", spill: Path | None = None
) -> pa.Table:
    with connect(memory, spill, threads) as con:
        return build_pairs(con, data, config)


@pytest.mark.usefixtures("builder")
@pytest.mark.parametrize("threads", [2, 4])
def test_threads_and_chunks_do_not_change_the_table(
    data: PairInput, expected: tuple[BuildConfig, pa.Table], threads: int
) -> None:
    config, table = expected
    chunked = PairInput(*(pa.Table.from_batches(t.to_batches(500)) for t in (data.decisions, data.rollouts)), 2)
    assert build(chunked, config, threads).equals(table)


@pytest.mark.usefixtures("builder")
@pytest.mark.parametrize("seed", [0, 1])
def test_the_order_of_rows_does_not_change_the_table(
    data: PairInput, expected: tuple[BuildConfig, pa.Table], seed: int
) -> None:
    config, table = expected
    rng = np.random.default_rng(seed)
    shuffled = PairInput(*(t.take(rng.permutation(t.num_rows)) for t in (data.decisions, data.rollouts)), 2)
    assert build(shuffled, config, threads=2).equals(table)


def test_the_funnel_is_told_the_same_by_both(data: PairInput, monkeypatch: pytest.MonkeyPatch) -> None:
    told = []
    for rows in (data.decisions.num_rows, -1):
        monkeypatch.setattr(pairs, "ARRAY_ROWS", rows)
        with connect() as con:
            table = build_pairs(con, data, CONFIGS[0])
            told.append(con.sql(statement("funnel")).to_arrow_table())
        assert sum(told[-1]["pairs"].to_pylist()) == table.num_rows
    assert told[0].equals(told[1])


def test_large_buckets_spill_what_does_not_fit_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = simulated(150)
    whole = build(data, CONFIGS[0])
    monkeypatch.setattr(pairs, "ARRAY_ROWS", data.decisions.num_rows - 1)
    with pytest.raises(ResourceError, match="memory"):
        build(data, CONFIGS[0], memory="60MB")
    assert build(data, CONFIGS[0], memory="60MB", spill=tmp_path).equals(whole)


def test_arrays_that_do_not_fit_are_a_resource_error(data: PairInput, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise MemoryError("Unable to allocate 1 TiB")

    monkeypatch.setattr(np, "argsort", full)
    with pytest.raises(ResourceError, match="1 TiB"):
        build(data, CONFIGS[0])


@pytest.mark.usefixtures("builder")
def test_rows_of_rollouts_given_twice_count_once(data: PairInput, expected: tuple[BuildConfig, pa.Table]) -> None:
    config, table = expected
    twice = PairInput(*(pa.concat_tables([t, t]) for t in (data.decisions, data.rollouts)), 2)
    assert build(twice, config).equals(table)


@pytest.mark.usefixtures("builder")
def test_decisions_of_unknown_rollouts_are_left_out(data: PairInput) -> None:
    known = data.rollouts.slice(0, data.rollouts.num_rows // 2)
    ours = np.isin(data.decisions["rollout_key"].to_numpy(), known["rollout_key"].to_numpy())
    expected = build(PairInput(data.decisions.filter(pa.array(ours)), known, 2), CONFIGS[0])
    assert expected.num_rows > 1000
    assert build(PairInput(data.decisions, known, 2), CONFIGS[0]).equals(expected)


def test_one_rollout_with_two_outcomes_is_an_error() -> None:
    rows = make_rows("g", {"r1": [[("s", "a")]], "r2": [[("s", "b")]]}, {"r1": 1.0, "r2": 0.0})
    data = pair_input(rows)
    other = data.rollouts.set_column(6, "outcome", pa.array([0, 0], pa.int64()))
    with pytest.raises(DataError, match="'r1'"):
        build(PairInput(data.decisions, pa.concat_tables([data.rollouts, other]), 1), BuildConfig())


def test_graded_outcomes_have_no_posterior_weight() -> None:
    rows = make_rows("g", {f"r{n}": [[("s", f"a{n % 2}")]] for n in range(8)}, {f"r{n}": 0.5 for n in range(8)})
    with pytest.raises(DataError, match="--weight posterior"):
        build(pair_input(rows), BuildConfig(weight="posterior"))


@pytest.mark.usefixtures("builder")
def test_no_cap_on_pairs_keeps_all_of_w_times_l() -> None:
    arms = {f"r{n}": "ab"[n % 2] for n in range(40)}
    rows = make_rows(
        "g", {r: [[("s", arm)], [(r, r)]] for r, arm in arms.items()}, {r: float(arms[r] == "a") for r in arms}
    )
    config = BuildConfig(max_pairs_per_class=2**31, max_decisions_per_side=4096)
    found = build(pair_input(rows), config).to_pylist()
    folds = [pair["chosen_fold"] for pair in found]
    assert [pair["class_pairs"] for pair in found] == [folds.count(fold) for fold in folds]
    a, b = ({p[f"{side}_rollout_id"] for p in found if p["chosen_fold"] == 0} for side in ("chosen", "rejected"))
    assert folds.count(0) == len(a) * len(b) > 64


@pytest.mark.usefixtures("builder")
@pytest.mark.parametrize("config", [BuildConfig(), BuildConfig(scope="task", weight="posterior", folds=3)])
def test_a_log_without_decisions_has_no_pairs(config: BuildConfig) -> None:
    table = build(pair_input([]), config)
    assert table.num_rows == 0
    assert tuple(table.column_names) == COLUMNS
