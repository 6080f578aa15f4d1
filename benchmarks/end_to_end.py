"""A log of real-length text to pairs: `mcgpo build-prefs` against the customary script and a plain copy to Parquet.

    python benchmarks/end_to_end.py --groups 100 400        two sizes: about 0.7 and 2.7 GB; ratios of one run

CPU is user + system of a command and its workers: on a machine that is shared it says more than the wall clock. Memory
is sampled: `MB` is what all processes of the command hold together, shared libraries counted once (PSS), `MB one` the
largest resident set of any one process. The copy is DuckDB's `COPY` of the same columns, one thread, zstd level 1.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from native_log import write_log

HERE = Path(__file__).resolve().parent
COPY = """
import duckdb, sys
con = duckdb.connect(config={"threads": 1, "memory_limit": "500MB"})
con.execute(f'''COPY (FROM read_json('{sys.argv[1]}', format = 'newline_delimited', columns = {{
    task_id: 'VARCHAR', rollout_id: 'VARCHAR', step: 'INTEGER', observation: 'VARCHAR', action: 'VARCHAR',
    prompt: 'STRUCT(role VARCHAR, content VARCHAR)[]', response: 'VARCHAR', success: 'BOOLEAN'
}})) TO '{sys.argv[2]}' (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1, ROW_GROUP_SIZE 8192)''')
"""


@dataclass
class Cost:
    """Seconds and MB of one command."""

    wall: float
    cpu: float
    together: float
    largest: float


def tree(pid: int) -> list[int]:
    """A process and all below it."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(p for child in children for p in tree(int(child)))]


def pss(pid: int) -> float:
    """MB of a process, pages that it shares counted by its share."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:")), 0.0)


def run(command: list[str]) -> Cost:
    """Run a command to its end."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    together = 0.0
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        together = max(together, sum(map(pss, tree(process.pid))))
        time.sleep(0.1)
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(f"failed: {command}")
    cpu = usage.ru_utime + usage.ru_stime
    return Cost(time.perf_counter() - start, cpu, together, usage.ru_maxrss / 1024)


def measure(groups: int, folder: Path) -> None:
    """All commands on one log."""
    log = folder / "log.jsonl"
    steps = write_log(log, groups)
    size = log.stat().st_size
    build = [sys.executable, "-m", "mcgpo_data", "build-prefs"]
    thin, quiet = ["--form", "thin"], ["--rules", "generic", "-q"]
    rebuild = [*build, str(folder / "thin"), "-o", str(folder / "again"), "-q", *thin]
    jobs = {
        "thin build": [*build, str(log), "-o", str(folder / "thin"), *thin, *quiet],
        "full build": [*build, str(log), "-o", str(folder / "full"), *quiet],
        "rebuild": [*rebuild, "--seed", "1", "--max-pairs-per-class", "2", "--margin", "0.1"],
        "copy": [sys.executable, "-c", COPY, str(log), str(folder / "copy.parquet")],
        "customary script": [sys.executable, str(HERE / "baseline_loops.py"), str(log), str(folder / "pairs.jsonl")],
    }
    cost = {job: run(command) for job, command in jobs.items()}
    script = cost["customary script"]
    print(f"\n{steps:,} steps, {size / 1e9:.2f} GB")
    heads = ("wall s", "CPU s", "us/step", "GB/CPU s", "MB", "MB one", "wall x", "CPU x")
    print(" " * 18 + "".join(map("{:>9}".format, heads)))
    for job, c in cost.items():
        print(
            f"{job:18}{c.wall:9.1f}{c.cpu:9.1f}{c.cpu / steps * 1e6:9.1f}{size / 1e9 / c.cpu:9.3f}{c.together:9.0f}"
            f"{c.largest:9.0f}{script.wall / c.wall:9.1f}{script.cpu / c.cpu:9.1f}"
        )
    text = cost["full build"].cpu - cost["thin build"].cpu
    print(f"text of steps and pairs, full less thin: {text:.1f} CPU s, {text / cost['copy'].cpu:.1f} times the copy")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, nargs="+", default=[100])
    for groups in parser.parse_args().groups:
        with tempfile.TemporaryDirectory() as name:
            measure(groups, Path(name))


if __name__ == "__main__":
    main()
