"""Builds that are killed, interrupted or starved: the output is absent or complete, and a rerun is as good as new."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mcgpo_data.store import open_store

from ..build_path.logs import build, make_rows, table_bytes, write_log

ROWS = make_rows(seed=41, tasks=4, text=True)
ROOT = Path(__file__).resolve().parents[2]
# Everything is loaded before the word to start, so that a kill falls into the build.
SERVER = f"""
import os, sys, signal
sys.path.insert(0, {str(ROOT)!r})
from mcgpo_data.build import run
import mcgpo_data.build.rebuild, scipy.special, zstandard
from mcgpo_data.config import BuildConfig
run.BUCKET_STEPS = {len(ROWS) / 4}
log, out, overwrite = sys.argv[1], sys.argv[2], sys.argv[3] == "1"
try:
    sys.stdout.write("ready\\n"); sys.stdout.flush()
    sys.stdin.readline()
    run.build_preferences([log], out, BuildConfig(), run.BuildOptions(workers=1, rules="generic", overwrite=overwrite))
except KeyboardInterrupt:
    sys.exit(130)
"""


class Child:
    """A build in a process of its own that waits for the word to start."""

    def __init__(self, log: Path, out: Path, overwrite: bool = False) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER, str(log), str(out), str(int(overwrite))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip

    def start(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"
        self.process.stdin.write("go\n")
        self.process.stdin.close()

    def wait(self) -> int:
        code = self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def complete(out: Path, wanted: dict[str, bytes]) -> bool:
    if not out.exists():
        return False
    open_store(out).verify()
    assert table_bytes(open_store(out)) == wanted
    return True


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The log, the bytes of its build, and about how long a build takes in a child."""
    from mcgpo_data.build import run

    folder = tmp_path_factory.mktemp("whole")
    log = write_log(folder / "log.jsonl", ROWS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "BUCKET_STEPS", len(ROWS) / 4)
        wanted = table_bytes(build(log, folder / "here"))
    child = Child(log, folder / "out")
    child.start()
    began = time.monotonic()
    assert child.wait() == 0
    assert complete(folder / "out", wanted)
    return log, wanted, time.monotonic() - began


def test_a_build_killed_at_any_moment_leaves_nothing_or_everything(tmp_path: Path, whole: Any) -> None:
    log, wanted, seconds = whole
    out, rng, killed = tmp_path / "out", random.Random(0), 0
    ready = Child(log, out)
    for number in range(26):
        child, ready = ready, Child(log, out)  # the next one loads its libraries meanwhile
        child.start()
        time.sleep(seconds * (number + rng.random()) / 26)
        child.process.send_signal(signal.SIGKILL)
        killed += child.wait() == -signal.SIGKILL
        if complete(out, wanted):
            out.rename(tmp_path / f"done-{number}")
        assert sum(name.endswith(".partial") for name in names(tmp_path)) <= 1  # the next build clears the last one's
    assert killed >= 13
    ready.start()
    assert ready.wait() == 0
    assert complete(out, wanted)
    assert [name for name in names(tmp_path) if not name.startswith("done")] == ["out"]


def test_an_overwriting_build_killed_at_any_moment_loses_neither_old_nor_new(tmp_path: Path, whole: Any) -> None:
    log, wanted, seconds = whole
    out, rng = tmp_path / "out", random.Random(1)
    other = build(write_log(tmp_path / "other.jsonl", ROWS[:40]), out)
    old = table_bytes(other)
    for number in range(5):
        child = Child(log, out, overwrite=True)
        child.start()
        time.sleep(seconds * (0.7 + 0.4 * (number + rng.random()) / 5))  # about when folders are renamed
        child.process.send_signal(signal.SIGKILL)
        child.wait()
        found = [p for p in tmp_path.iterdir() if p.name.endswith(".old")] or [out]
        assert table_bytes(open_store(found[0])) in (old, wanted)


@pytest.mark.parametrize("share", [0.0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8])
def test_an_interrupted_build_leaves_nothing(tmp_path: Path, whole: Any, share: float) -> None:
    log, wanted, seconds = whole
    child = Child(log, tmp_path / "out")
    child.start()
    time.sleep(seconds * share)
    child.process.send_signal(signal.SIGINT)
    code = child.wait()
    done = complete(tmp_path / "out", wanted)
    assert code == 130 or done  # too late for the build, perhaps in the middle of the end of the process
    assert names(tmp_path) == (["out"] if done else [])


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
