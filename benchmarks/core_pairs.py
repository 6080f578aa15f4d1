"""How fast, how small and how right the pair builder is, on logs of any size with planted truth.

    python benchmarks/core_pairs.py [--steps 10000000] [--bucket 200000] [--workers 2] [--quick]

Compared on the same Parquet files of keys: a checksum scan, the builder in buckets over worker processes, and the same
method as loops over dicts. CPU is user and system time of all processes, start-up included; memory is resident memory
summed over them. The files are kept in the folder for temporary files and used again.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]
STEPS_PER_GROUP = 820
LOOP_STEPS = 1_000_000
BASES = (0.1, 0.4, 0.9)


def bucket_files(folder: str) -> list[Path]:
    return sorted(Path(folder).glob("*.decisions.parquet"))


def read(path: Path) -> Any:
    """One bucket as the builder takes it."""
    import pyarrow.parquet as pq

    from mcgpo_data.build.pairs import PairInput

    rollouts = path.with_name(path.name.replace("decisions", "rollouts"))
    return PairInput(*(pq.ParquetFile(p).read(use_threads=False) for p in (path, rollouts)), 2)


def make_bucket(job: tuple[str, int, int]) -> int:
    """Write one bucket; returns its steps."""
    import pyarrow.parquet as pq
    from world import core_tables, simulate

    folder, number, groups = job
    steps = simulate(groups, seed=1, first_group=number * groups)
    for name, table in zip(("decisions", "rollouts"), core_tables(steps, first_rollout=number << 20), strict=True):
        temporary = Path(folder) / f"{number:04d}.{name}.tmp"
        pq.write_table(table, temporary, compression="zstd")
        temporary.rename(temporary.with_suffix(".parquet"))
    return len(steps["step"])


def build_bucket(path: Path) -> tuple[int, int]:
    """(decisions of the finest rule, pairs)."""
    from mcgpo_data.build.database import connect
    from mcgpo_data.build.pairs import build_pairs
    from mcgpo_data.config import BuildConfig

    data = read(path)
    with connect("150MB") as con:
        return data.decisions.num_rows // 2, build_pairs(con, data, BuildConfig()).num_rows


def phase_make(folder: str, steps: int, bucket: int, workers: int) -> dict[str, Any]:
    from mcgpo_data.engines.local import run_buckets

    groups = max(1, bucket // STEPS_PER_GROUP)
    jobs = [(folder, n, groups) for n in range(math.ceil(steps / bucket))]
    missing = [job for job in jobs if not (Path(folder) / f"{job[1]:04d}.rollouts.parquet").exists()]
    list(run_buckets(make_bucket, missing, workers))
    return {"bytes": sum(p.stat().st_size for p in Path(folder).glob("*.parquet"))}


def phase_scan(folder: str) -> dict[str, Any]:
    """Sum of every column (length of every text), the better of three."""
    import duckdb

    con = duckdb.connect(config={"threads": 1})
    con.execute("SET enable_external_file_cache = false")
    decisions = "sum(rule), sum(context), sum(action), sum(rollout_key), sum(step), count_if(valid)"
    rollouts = "sum(rollout_key), sum(length(rollout_id)), sum(length(unit_id)), sum(unit_key), sum(sequence_key), sum(stratum), sum(outcome)"  # noqa: E501
    times = []
    for _ in range(3):
        begin = time.process_time()
        for name, sums in (("decisions", decisions), ("rollouts", rollouts)):
            con.execute(f"SELECT {sums} FROM read_parquet('{folder}/*.{name}.parquet')").fetchall()
        times.append(time.process_time() - begin)
    return {"cpu": min(times)}


def phase_build(folder: str, buckets: int, workers: int) -> dict[str, Any]:
    from mcgpo_data.engines.local import run_buckets

    memory = Memory()
    begin = time.perf_counter()
    results = list(run_buckets(build_bucket, bucket_files(folder)[:buckets], workers))
    wall = time.perf_counter() - begin
    return {
        "wall": wall,
        "cpu": sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)),
        "memory": memory.stop(),
        "steps": sum(steps for steps, _ in results),
        "pairs": sum(pairs for _, pairs in results),
    }


class Memory:
    """Largest sum of the resident memory of this process and its workers, looked at every 20 ms (Linux)."""

    def __init__(self) -> None:
        self.peak, self.over = 0, threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()

    def watch(self) -> None:
        import multiprocessing

        while not self.over.wait(0.02):
            pids = [os.getpid(), *(child.pid for child in multiprocessing.active_children())]
            try:
                pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
                self.peak = max(self.peak, pages * resource.getpagesize())
            except OSError:
                continue  # a worker has just ended

    def stop(self) -> int:
        self.over.set()
        self.thread.join()
        return self.peak


def phase_loops(folder: str, buckets: int) -> dict[str, Any]:
    """The dict loops, bucket by bucket (which suits their caches), on columns that are lists already."""
    from dict_loop import Columns, dict_pairs

    cpu = wall = 0.0
    steps = pairs = 0
    same = None
    for path in bucket_files(folder)[:buckets]:
        data = read(path)
        names = ("rule", "context", "action", "rollout_key", "step", "valid")
        attempts = ("rollout_key", "rollout_id", "unit_key", "sequence_key", "outcome")
        columns = Columns(
            *(data.decisions[name].to_pylist() for name in names),
            list(zip(*(data.rollouts[name].to_pylist() for name in attempts), strict=True)),
        )
        begin = time.process_time(), time.perf_counter()
        found = dict_pairs(columns)
        cpu, wall = cpu + time.process_time() - begin[0], wall + time.perf_counter() - begin[1]
        steps, pairs = steps + data.decisions.num_rows // 2, pairs + len(found)
        same = built_alike(data, found) if same is None else same
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"cpu": cpu, "wall": wall, "steps": steps, "pairs": pairs, "same": same, "memory": peak}


def built_alike(data: Any, found: list[Any]) -> bool:
    """Whether the builder gives the same pairs with the same weights, to the last bit."""
    from mcgpo_data.build.database import connect
    from mcgpo_data.build.pairs import build_pairs
    from mcgpo_data.config import BuildConfig

    with connect() as con:
        t = build_pairs(con, data, BuildConfig()).to_pydict()
    sides = (zip(t[f"{side}_key"], t[f"{side}_step"], strict=True) for side in ("chosen", "rejected"))
    return sorted(found) == sorted(zip(t["rule"], t["context"], *sides, t["weight"], strict=True))


def phase_orientation(groups: int, base: float) -> dict[str, Any]:
    """How often the chosen action is the better one, of pairs in which exactly one action is the best of its state."""
    import numpy as np
    from world import ACTIONS, best_action, core_tables, mix, simulate

    from mcgpo_data.build.database import connect
    from mcgpo_data.build.pairs import PairInput, build_pairs
    from mcgpo_data.config import BuildConfig

    steps = simulate(groups, seed=2, base=base)
    with connect() as con:
        pairs = build_pairs(con, PairInput(*core_tables(steps), 2), BuildConfig())
    pair = {name: column.to_numpy() for name, column in zip(pairs.column_names, pairs.columns, strict=True)}
    keys = mix(mix(1, steps["group"], steps["rollout"]), steps["step"])
    order = np.argsort(keys)
    row = order[np.searchsorted(keys, mix(pair["chosen_key"], pair["chosen_step"]), sorter=order)]
    best = best_action(steps["group"][row], steps["state"][row])
    best_key = np.stack([mix(rule, np.arange(ACTIONS)) for rule in (20, 21)])[pair["rule"], best]
    chosen, rejected = (pair[f"{side}_action_key"] == best_key for side in ("chosen", "rejected"))
    told = chosen != rejected
    right, weight, rule = chosen[told], pair["weight"][told], pair["rule"][told]
    equal = (pair["chosen_mean"] == pair["rejected_mean"])[told]
    return {
        "success": float(steps["success"].mean()),
        "pairs": len(right),
        "all": float(right.mean()),
        "weighted": float(np.average(right, weights=weight)),
        "exact": float(right[rule == 0].mean()),
        "coarse": float(right[rule == 1].mean()),
        "equal": float(right[equal].mean()),
        "equal_weight": float(weight[equal].sum() / weight.sum()),
        "deciles": [float(part.mean()) for part in np.array_split(right[np.argsort(weight, kind="stable")], 10)],
    }


PHASES: dict[str, Callable[..., dict[str, Any]]] = {
    "make": phase_make,
    "scan": phase_scan,
    "build": phase_build,
    "loops": phase_loops,
    "orientation": phase_orientation,
}


def run(phase: str, **arguments: Any) -> dict[str, Any]:
    """One phase in a process of its own."""
    command = [sys.executable, __file__, "--phase", phase, json.dumps(arguments)]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10_000_000)
    parser.add_argument("--bucket", type=int, default=200_000, help="steps per bucket")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="a tenth of the steps")
    options = parser.parse_args()
    steps = options.steps // 10 if options.quick else options.steps
    folder = Path(tempfile.gettempdir()) / f"mcgpo-core-pairs-{steps}-{options.bucket}"
    folder.mkdir(exist_ok=True)

    made = run("make", folder=str(folder), steps=steps, bucket=options.bucket, workers=options.workers)
    buckets = len(bucket_files(str(folder)))
    scan = run("scan", folder=str(folder))
    whole = run("build", folder=str(folder), buckets=buckets, workers=options.workers)
    tenth = run("build", folder=str(folder), buckets=max(1, buckets // 10), workers=options.workers)
    some = max(1, min(buckets, LOOP_STEPS // options.bucket))
    small = run("build", folder=str(folder), buckets=some, workers=options.workers)
    loops = run("loops", folder=str(folder), buckets=some)

    size = f"{whole['steps']:,} steps, {made['bytes'] / 1e6:,.0f} MB, {buckets} buckets, {options.workers} workers"
    print(f"{size}; {whole['pairs']:,} pairs\n")
    print(f"{'':34}{'CPU s':>9}{'wall s':>9}{'MB':>8}{'us/step':>10}")
    for name, result in (
        ("checksum scan", {**scan, "steps": whole["steps"]}),
        ("builder", whole),
        (f"builder, {tenth['steps']:,} steps", tenth),
        (f"builder, {small['steps']:,} steps", small),
        (f"dict loops, {loops['steps']:,} steps", loops),
    ):
        wall = f"{result['wall']:9.2f}" if "wall" in result else " " * 9
        memory = f"{result['memory'] / 1e6:8.0f}" if "memory" in result else " " * 8
        print(f"{name:34}{result['cpu']:9.2f}{wall}{memory}{result['cpu'] / result['steps'] * 1e6:10.2f}")
    per_step = {key: loops[key] / loops["steps"] / (whole[key] / whole["steps"]) for key in ("cpu", "wall")}
    print(f"\nbuilder / scan: {whole['cpu'] / scan['cpu']:.0f} x CPU")
    print(
        f"dict loops / builder: {loops['cpu'] / small['cpu']:.1f} x CPU, {loops['wall'] / small['wall']:.1f} x wall "
        f"on the same steps; {per_step['cpu']:.1f} x and {per_step['wall']:.1f} x per step of the whole; "
        f"same pairs and weights: {'yes' if loops['same'] else 'NO'}"
    )
    exponent = (
        math.log(whole["cpu"] / tenth["cpu"]) / math.log(whole["steps"] / tenth["steps"]) if buckets > 1 else math.nan
    )
    print(f"exponent of CPU in steps: {exponent:.2f}\n")

    orientation(min(steps, 1_000_000) // STEPS_PER_GROUP)


def orientation(groups: int) -> None:
    """The table of planted truth.

    Weights do not order pairs perfectly. Where both means are equal the smaller or larger support alone gives the
    direction, by the shrinking towards the context's mean: such pairs weigh little, and are wrong where all fails. Far
    from one half a lucky or unlucky single rollout makes a large difference.
    """
    print("share of pairs whose chosen action is the better one, of pairs that hold the best action of their state;")
    print("equal: both means equal in the evidence, with their share of all weight; last: by decile of weight\n")
    print(
        f"{'success':>8}{'pairs':>10}{'all':>6}{'weighted':>10}{'exact':>7}{'coarse':>8}{'equal':>7}{'(weight)':>10}"
    )
    for base in BASES:
        t = run("orientation", groups=groups, base=base)
        shares = f"{t['all']:6.2f}{t['weighted']:10.2f}{t['exact']:7.2f}{t['coarse']:8.2f}{t['equal']:7.2f}"
        deciles = " ".join(f"{share:.2f}" for share in t["deciles"])
        print(f"{t['success']:8.2f}{t['pairs']:10,}{shares}{t['equal_weight']:10.3f}   {deciles}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--phase"]:
        print(json.dumps(PHASES[sys.argv[2]](**json.loads(sys.argv[3]))))
    else:
        main()
