"""A log of real-length text to pairs: `mcgpo-build-prefs` against the customary script, rebuilds, reading speed,
memory.

    python benchmarks/end_to_end.py --groups 250        about 2e5 steps, 1.5 GB; prints ratios of one run

CPU is user + system of the process and its workers, memory the largest resident set of any one process of a command.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from native_log import write_log

HERE = Path(__file__).resolve().parent


def run(command: list[str]) -> tuple[float, float, float]:
    """(wall s, CPU s, MB of the largest process)."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(f"failed: {command}")
    return time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=250)
    groups = parser.parse_args().groups
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = folder / "log.jsonl"
        steps = write_log(log, groups)
        size = log.stat().st_size
        print(f"{steps:,} steps, {size / 1e9:.2f} GB")
        build = [sys.executable, "-m", "mcgpo_data", "build-prefs"]
        thin, quiet = ["--form", "thin"], ["--rules", "generic", "-q"]
        script = [sys.executable, str(HERE / "baseline_loops.py")]
        jobs = {
            "thin build": [*build, str(log), "-o", str(folder / "thin"), *thin, *quiet],
            "full build": [*build, str(log), "-o", str(folder / "full"), *quiet],
            "rebuild, seed 1": [*build, str(folder / "thin"), "-o", str(folder / "re"), "--seed", "1", *thin, *quiet],
            "customary script": [*script, str(log), str(folder / "pairs.jsonl")],
        }
        found = {job: run(command) for job, command in jobs.items()}
        wall_script, cpu_script, _ = found["customary script"]
        print(f"{'':18}{'wall s':>9}{'CPU s':>9}{'MB':>8}{'GB/s CPU':>10}{'us/step':>9}{'wall x':>8}{'CPU x':>8}")
        for job, (wall, cpu, memory) in found.items():
            print(
                f"{job:18}{wall:9.1f}{cpu:9.1f}{memory:8.0f}{size / 1e9 / cpu:10.3f}{cpu / steps * 1e6:9.1f}"
                f"{wall_script / wall:8.1f}{cpu_script / cpu:8.1f}"
            )


if __name__ == "__main__":
    main()
