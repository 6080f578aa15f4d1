"""Builds that are killed, interrupted or starved: the output is absent or complete, and a rerun is as good as new."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcgpo_data.build import run
from mcgpo_data.store import open_store

from ..build_path.logs import build, make_rows, table_bytes, write_log

ROWS = make_rows(seed=41, tasks=4, text=True)
ROOT = Path(__file__).resolve().parents[2]
# One process loads everything and forks a child for each build, so that a kill falls into the build.
SERVER = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
from mcgpo_data.build import run
from mcgpo_data.config import BuildConfig
import scipy.special
run.BUCKET_STEPS = {len(ROWS) / 4}
for line in sys.stdin:
    log, out, overwrite = line.rstrip().split("\\t")
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            options = run.BuildOptions(workers=1, rules="generic", overwrite=overwrite == "True")
            run.build_preferences([log], out, BuildConfig(), options)
            code = 0
        except KeyboardInterrupt:
            code = 130
        finally:
            os._exit(code)
    print(pid, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


class Builder:
    """Starts builds in processes of their own."""

    def __init__(self) -> None:
        self.server = subprocess.Popen(
            [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def close(self) -> None:
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        self.server.stdin.close()
        self.server.wait(60)
        self.server.stdout.close()

    def run(self, log: Path, out: Path, *, kill: int = 0, after: float = 0.0, overwrite: bool = False) -> int:
        """Exit code of a build that is sent the signal `kill` after some seconds (0: it is left alone)."""
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        self.server.stdin.write(f"{log}\t{out}\t{overwrite}\n")
        self.server.stdin.flush()
        pid = int(self.server.stdout.readline())
        if kill:
            time.sleep(after)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, kill)
        return int(self.server.stdout.readline())


@pytest.fixture(scope="module")
def builder() -> Iterator[Builder]:
    made = Builder()
    yield made
    made.close()


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def complete(out: Path, wanted: dict[str, bytes]) -> bool:
    if not out.exists():
        return False
    open_store(out).verify()
    assert table_bytes(open_store(out)) == wanted
    return True


@pytest.fixture(scope="module")
def whole(builder: Builder, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes], float]:
    """The log, the bytes of its build, and about how long a build takes."""
    folder = tmp_path_factory.mktemp("whole")
    log = write_log(folder / "log.jsonl", ROWS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "BUCKET_STEPS", len(ROWS) / 4)
        wanted = table_bytes(build(log, folder / "here"))
    began = time.monotonic()
    assert builder.run(log, folder / "out") == 0
    seconds = time.monotonic() - began
    assert complete(folder / "out", wanted)
    return log, wanted, seconds


def test_a_build_killed_at_any_moment_leaves_nothing_or_everything(
    tmp_path: Path, builder: Builder, whole: tuple[Path, dict[str, bytes], float]
) -> None:
    log, wanted, seconds = whole
    out, rng, killed = tmp_path / "out", random.Random(0), 0
    for number in range(26):
        after = seconds * (number + rng.random()) / 26
        killed += builder.run(log, out, kill=signal.SIGKILL, after=after) == -signal.SIGKILL
        if complete(out, wanted):
            out.rename(tmp_path / f"done-{number}")
        assert sum(name.endswith(".partial") for name in names(tmp_path)) <= 1  # the next build clears the last one's
    assert killed >= 13
    assert builder.run(log, out) == 0
    assert complete(out, wanted)
    assert [name for name in names(tmp_path) if not name.startswith("done")] == ["out"]


def test_an_overwriting_build_killed_at_any_moment_loses_neither_old_nor_new(
    tmp_path: Path, builder: Builder, whole: tuple[Path, dict[str, bytes], float]
) -> None:
    log, wanted, seconds = whole
    out, rng = tmp_path / "out", random.Random(1)
    old = table_bytes(build(write_log(tmp_path / "other.jsonl", ROWS[:40]), out))
    for number in range(6):
        after = seconds * (0.7 + 0.4 * (number + rng.random()) / 6)  # about when folders are renamed
        builder.run(log, out, kill=signal.SIGKILL, after=after, overwrite=True)
        found = out if out.exists() else next(p for p in tmp_path.iterdir() if p.name.endswith(".old"))
        assert table_bytes(open_store(found)) in (old, wanted)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])
def test_an_interrupted_build_leaves_nothing(
    tmp_path: Path, builder: Builder, whole: tuple[Path, dict[str, bytes], float], share: float
) -> None:
    log, wanted, seconds = whole
    code = builder.run(log, tmp_path / "out", kill=signal.SIGINT, after=0.01 + seconds * share)
    assert code in (0, 130)
    assert complete(tmp_path / "out", wanted) == (code == 0)
    assert names(tmp_path) == (["out"] if code == 0 else [])


def test_the_command_line_interrupted_with_workers_leaves_nothing(tmp_path: Path) -> None:
    parts = [write_log(tmp_path / "logs" / f"{i}.jsonl", make_rows(seed=i, tasks=250, text=True)) for i in range(2)]
    command = [sys.executable, "-m", "mcgpo_data", "build-prefs", *map(str, parts), "-o", str(tmp_path / "out")]
    process = subprocess.Popen(
        [*command, "--workers", "2"], cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    deadline = time.monotonic() + 60
    while not any(name.endswith(".partial") for name in names(tmp_path)) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)  # as ctrl-C does
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted; nothing was written" in told
    assert "Traceback" not in told
    assert names(tmp_path) == ["logs"]


LIMITED = f"""
import resource, sys
sys.path.insert(0, {str(ROOT)!r})
from mcgpo_data.build.run import BuildOptions, build_preferences
from mcgpo_data.config import BuildConfig
from mcgpo_data.errors import ResourceError
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), int(sys.argv[3])))
try:
    build_preferences([sys.argv[1]], sys.argv[2], BuildConfig(), BuildOptions(workers=1, rules="generic"))
except ResourceError as error:
    print("resource error", error)
"""


@pytest.mark.parametrize("size", [0, 3_000, 12_000])
def test_a_full_disk_is_a_resource_error_and_leaves_nothing(tmp_path: Path, size: int) -> None:
    log = write_log(tmp_path / "log.jsonl", ROWS)
    command = [sys.executable, "-c", LIMITED, str(log), str(tmp_path / "out"), str(size)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.startswith("resource error"), done.stderr
    assert names(tmp_path) == ["log.jsonl"]
