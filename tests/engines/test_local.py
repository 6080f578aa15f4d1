"""Worker processes: order, errors, deaths, interruptions."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from mcgpo_data.engines.local import Pool, run_buckets
from mcgpo_data.errors import DataError, ResourceError

JOBS = """
    import os, pathlib, signal, sys, time
    from mcgpo_data.errors import DataError

    def late_first(item):
        time.sleep(0.3 if item == 0 else 0)
        return item, os.getpid()

    def fails_from_two(item):
        if item >= 2:
            raise DataError(f"item {item} is bad")
        return item

    def fails_late_at_one_and_at_once_at_two(item):
        time.sleep(0.5 if item == 1 else 0)
        if item:
            raise DataError(f"item {item} is bad")

    def marks(path):
        pathlib.Path(path).write_text("")
        if path.endswith("0"):
            raise DataError("the first one is bad")
        time.sleep(0.1)

    def exits(item):
        os._exit(item)

    def is_killed(item):
        os.kill(os.getpid(), signal.SIGKILL)

    def threads(item):
        import polars
        import pyarrow
        return polars.thread_pool_size(), pyarrow.cpu_count()

    def sleeps(path):
        pathlib.Path(path).write_text(str(os.getpid()))
        time.sleep(float(os.environ["SLEEP"]))

    def heavy_modules(item):
        return sorted({"numpy", "polars", "duckdb", "pyarrow", "scipy"} & set(sys.modules))
"""

PARENT = """
    import sys
    from jobs_for_workers import sleeps
    from mcgpo_data.engines.local import run_buckets

    if __name__ == "__main__":
        list(run_buckets(sleeps, sys.argv[1:], 2))
"""


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module that workers can import."""
    (tmp_path / "jobs_for_workers.py").write_text(textwrap.dedent(JOBS))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "jobs_for_workers", raising=False)
    return importlib.import_module("jobs_for_workers")


def test_results_come_in_the_order_of_the_items_from_other_processes(jobs: ModuleType) -> None:
    results = list(run_buckets(jobs.late_first, range(5), 2))
    assert [item for item, _ in results] == [0, 1, 2, 3, 4]
    pids = {pid for _, pid in results}
    assert len(pids) == 2
    assert os.getpid() not in pids


@pytest.mark.parametrize("count, workers", [(1, 4), (3, 1), (0, 2)])
def test_one_item_or_one_worker_runs_here(jobs: ModuleType, count: int, workers: int) -> None:
    results = list(run_buckets(jobs.late_first, range(count), workers))
    assert results == [(item, os.getpid()) for item in range(count)]


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_of_an_item_is_raised_in_its_turn_with_its_class(jobs: ModuleType, workers: int) -> None:
    results = run_buckets(jobs.fails_from_two, range(6), workers)
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(DataError, match="item 2 is bad"):
        next(results)


def test_the_error_of_the_first_failed_item_wins_whichever_came_first(jobs: ModuleType) -> None:
    with pytest.raises(DataError, match="item 1 is bad") as caught:
        list(run_buckets(jobs.fails_late_at_one_and_at_once_at_two, range(3), 3))
    assert "fails_late_at_one" in caught.value.__notes__[0]


def test_nothing_new_is_started_after_an_error(jobs: ModuleType, tmp_path: Path) -> None:
    paths = [str(tmp_path / f"mark-{n}") for n in [0, *range(1001, 1100)]]
    with pytest.raises(DataError, match="the first one"):
        list(run_buckets(jobs.marks, paths, 2))
    assert len(list(tmp_path.glob("mark-*"))) < 20


@pytest.mark.parametrize("name, message", [("exits", "exit code 7"), ("is_killed", "memory")])
def test_a_worker_that_dies_is_a_resource_error(jobs: ModuleType, name: str, message: str) -> None:
    function: Callable[[int], None] = getattr(jobs, name)
    with pytest.raises(ResourceError, match=message) as caught:
        list(run_buckets(function, [7, 7, 7], 2))
    assert caught.value.exit_code == 6


def test_a_worker_that_never_starts_is_a_resource_error() -> None:
    unimportable = ModuleType("module_without_a_file")
    exec("def function(item): return item", unimportable.__dict__)  # no file to import it from in a worker
    sys.modules[unimportable.__name__] = unimportable
    try:
        with pytest.raises(ResourceError, match="Use one worker"):
            list(run_buckets(unimportable.function, [1, 2], 2))
    finally:
        del sys.modules[unimportable.__name__]


def test_libraries_in_workers_use_one_thread(jobs: ModuleType) -> None:
    assert list(run_buckets(jobs.threads, range(2), 2)) == [(1, 1), (1, 1)]


def test_workers_import_only_what_the_function_needs(jobs: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "parent.py").write_text(
        textwrap.dedent(PARENT).replace("sleeps", "heavy_modules").replace("list(", "print(*")
    )
    done = subprocess.run(
        [sys.executable, str(tmp_path / "parent.py"), "a", "b"],
        capture_output=True, text=True, check=True, env=environment(tmp_path),
    )  # fmt: skip
    assert done.stdout.split() == ["[]", "[]"]


def test_a_pool_keeps_its_workers_for_the_next_run(jobs: ModuleType) -> None:
    with Pool(2) as pool:
        first, second = ({pid for _, pid in pool.run(jobs.late_first, range(4))} for _ in range(2))
        assert os.getpid() not in first
        assert first == second
    assert not any(map(alive, first))


def test_a_pool_has_no_worker_left_from_a_run_that_failed(jobs: ModuleType) -> None:
    with Pool(2) as pool:
        before = [pid for _, pid in pool.run(jobs.late_first, range(2))]
        with pytest.raises(DataError):
            list(pool.run(jobs.fails_from_two, range(6)))
        assert not any(map(alive, before))
        assert len(list(pool.run(jobs.late_first, range(3)))) == 3


def test_no_worker_is_left_when_the_caller_stops_early(jobs: ModuleType) -> None:
    results = run_buckets(jobs.late_first, [1, 2, 3, 4], 2)
    _, pid = next(results)
    results.close()
    assert not alive(pid)


@pytest.mark.parametrize("number, sleep", [(signal.SIGINT, 60), (signal.SIGTERM, 1), (signal.SIGKILL, 1)])
def test_no_worker_outlives_its_caller(jobs: ModuleType, tmp_path: Path, number: signal.Signals, sleep: int) -> None:
    """On an interrupt workers are ended at once; where the caller cannot act, after their current item."""
    (tmp_path / "parent.py").write_text(textwrap.dedent(PARENT))
    marks = [tmp_path / "mark-a", tmp_path / "mark-b", tmp_path / "mark-c"]
    with subprocess.Popen(
        [sys.executable, str(tmp_path / "parent.py"), *map(str, marks)],
        stderr=subprocess.PIPE, env={**environment(tmp_path), "SLEEP": str(sleep)},
    ) as parent:  # fmt: skip
        until(lambda: all(mark.exists() and mark.read_text() for mark in marks[:2]))
        parent.send_signal(number)
        parent.communicate(timeout=30)
    assert parent.returncode == -number
    until(lambda: not any(alive(int(mark.read_text())) for mark in marks[:2]))
    assert not marks[2].exists()


def environment(folder: Path) -> dict[str, str]:
    root = Path(__file__).resolve().parent.parent.parent
    return {**os.environ, "PYTHONPATH": f"{folder}:{root}"}


def alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()  # a zombie is over
    except FileNotFoundError:
        return False


def until(condition: Callable[[], bool]) -> None:
    """Wait for it, 30 s at most."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
