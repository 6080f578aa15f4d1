"""Advantages at scale, as ratios: `python benchmarks/credit.py [--steps 10000000]`.

scan        CPU of the estimator over Parquet buckets, in units of a checksum scan of the same columns (limit 60)
loops       CPU of dict loops over the same steps, in units of ours (at least 4)
distances   CPU of our distances, in units of SciPy's breadth-first search on the block-diagonal graph, both from
            the edges on (at most 1.5)
memory      peak of the worker that goes through all buckets (at most 600 MB)
batch       a training batch of 20,000 rows: time of per-row return loops, each a scan of the batch, in units of ours
            (at least 20), and the time to import and run the first estimator in a process that has NumPy (under 50 ms)
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

BUCKET = 500_000
COLUMNS = ("group", "rollout", "step", "state", "action", "final_state", "success", "valid")


def make_bucket(steps: int, seed: int, first_group: int) -> Any:
    """About `steps` rows of whole groups, as an Arrow table of `COLUMNS`; one step in 40 is invalid."""
    import numpy as np
    import pyarrow as pa
    import world

    raw = world.simulate(math.ceil(steps / 800), seed, first_group=first_group)
    n = len(raw["group"])
    state = world.mix(11, raw["group"], raw["state"])
    last = np.flatnonzero(np.append(np.diff(raw["rollout"]) != 0, True))
    after = world.mix(12, np.arange(len(last)))[np.cumsum(np.append(0, np.diff(raw["rollout"]) != 0))]
    return pa.table(
        {
            "group": raw["group"].astype(np.int64),
            "rollout": raw["rollout"].astype(np.int64) + 100_000 * first_group,
            "step": raw["step"].astype(np.int64),
            "state": state,
            "action": world.mix(20, raw["action"]),
            "final_state": after,
            "success": raw["success"],
            "valid": np.random.default_rng([seed, first_group]).random(n) >= 1 / 40,
        }
    )


def to_batch(table: Any) -> Any:
    """A `StepBatch` of one bucket."""
    import numpy as np

    from mcgpo_data.credit import from_columns

    column = {name: table[name].to_numpy() for name in COLUMNS}
    last = np.append(np.diff(column["rollout"]) != 0, True)
    return from_columns(
        column["group"],
        column["rollout"],
        column["step"],
        state=column["state"],
        action=column["action"],
        next_state=np.ma.masked_array(column["final_state"], ~last),
        success=column["success"],
        valid=column["valid"],
    )


def work(folder: Path, estimator: str) -> dict[str, float]:
    """What a worker does: each bucket in turn, its three advantage columns written beside it."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from mcgpo_data.credit import estimate

    before = time.process_time()
    total = 0.0
    for path in sorted(folder.glob("b*.parquet")):
        columns = estimate(to_batch(pq.read_table(path)), estimator, preset="verl-agent:alfworld").columns
        names = ("episode_advantage", "step_advantage", "advantage")
        pq.write_table(pa.table({name: columns[name] for name in names}), path.with_name(f"out-{path.name}"))
        total += float(np.abs(columns["advantage"]).sum())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"cpu": time.process_time() - before, "peak_mb": peak / 1024, "sum": total}


def scan(folder: Path) -> dict[str, float]:
    """The yardstick: DuckDB's sums over all columns of all buckets, on one thread."""
    import duckdb

    con = duckdb.connect()
    con.execute("SET threads = 1")
    files = [str(path) for path in sorted(folder.glob("b*.parquet"))]
    before = time.process_time()
    sums = ", ".join(f'sum("{name}"::HUGEINT)' for name in COLUMNS)
    con.execute(f"SELECT {sums} FROM read_parquet(?)", [files]).fetchall()
    return {"cpu": time.process_time() - before}


def in_worker(what: str, *arguments: str) -> dict[str, float]:
    """One of the functions above in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--worker", what, *arguments], capture_output=True, text=True, check=True
    )
    result: dict[str, float] = json.loads(done.stdout)
    return result


def discounted(rewards: list[float], gamma: float = 0.95) -> list[float]:
    """Returns of one rollout."""
    out, carried = [], 0.0
    for reward in reversed(rewards):
        carried = reward + gamma * carried
        out.append(carried)
    return out[::-1]


def normalised(buckets: dict[Any, list[int]], values: list[float]) -> list[float]:
    """(value - mean) / (sample deviation + 1e-6) within each bucket of rows; 0 for one alone."""
    out = [0.0] * len(values)
    for rows in buckets.values():
        if len(rows) > 1:
            mean = sum(values[row] for row in rows) / len(rows)
            std = math.sqrt(sum((values[row] - mean) ** 2 for row in rows) / (len(rows) - 1))
            for row in rows:
                out[row] = (values[row] - mean) / (std + 1e-6)
    return out


def loops(rows: dict[str, list[Any]], estimator: str, omega: float = 0.1) -> list[float]:
    """GiGPO or GraphGPO with options of `verl-agent:alfworld` over sorted rows, as most write them: dicts of lists."""
    n = len(rows["group"])
    groups, anchors, rollouts = defaultdict(list), defaultdict(list), defaultdict(list)
    for row, (group, rollout, state) in enumerate(zip(rows["group"], rows["rollout"], rows["state"], strict=True)):
        groups[group].append(row)
        anchors[group, state].append(row)
        rollouts[group, rollout].append(row)
    penalty = [0.0 if valid else 0.1 for valid in rows["valid"]]
    score = [10.0 * won - p for won, p in zip(rows["success"], penalty, strict=True)]
    value = [0.0] * n
    if estimator == "gigpo":
        for members in rollouts.values():
            rewards = [0.0] * len(members)
            rewards[-1] = 10.0 * rows["success"][members[0]]
            for row, got in zip(members, discounted(rewards), strict=True):
                value[row] = got
    else:
        into: dict[Any, dict[Any, set[Any]]] = defaultdict(lambda: defaultdict(set))
        after: list[Any] = [None] * n
        for (group, _), members in rollouts.items():
            for row, following in itertools.pairwise(members):
                after[row] = rows["state"][following]
            last = members[-1]
            after[last] = "success" if rows["success"][last] else rows["final_state"][last]
            for row in members:
                into[group][after[row]].add(rows["state"][row])
        for group, members in groups.items():
            distance, frontier = {"success": 0}, ["success"]
            while frontier:
                found = []
                for node in frontier:
                    for before in into[group].get(node, ()):
                        if before not in distance:
                            distance[before] = distance[node] + 1
                            found.append(before)
                frontier = found
            far = max(distance.values()) + 1
            for row in members:
                value[row] = 10.0 * omega ** distance.get(after[row], far)
    step = normalised(anchors, [v - p for v, p in zip(value, penalty, strict=True)])
    return [a + b for a, b in zip(normalised(groups, score), step, strict=True)]


def scipy_distances(source: Any, target: Any, success: Any, size: int) -> Any:
    """Steps to the nearest success node by SciPy: from a node before all of them, along the edges turned round."""
    import numpy as np
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import breadth_first_order

    heads, tails = np.concatenate([target, np.full(len(success), size)]), np.concatenate([source, success])
    matrix = coo_array((np.ones(len(heads), np.int8), (heads, tails)), shape=(size + 1, size + 1)).tocsr()
    order, before = breadth_first_order(matrix, size)
    place = np.empty(size + 1, np.int64)
    place[order] = np.arange(len(order))
    parent = place[before[order[1:]]]
    distance = np.full(size + 1, -1)
    low, high, level = 0, 1, -1
    while low < high:
        distance[order[low:high]] = level
        low, high, level = high, 1 + int(np.searchsorted(parent, high)), level + 1
    return distance[:size]


def quadratic_returns(rollout: Any, step: Any, reward: Any, gamma: float = 0.95) -> Any:
    """Returns with one scan of the whole batch per row."""
    import numpy as np

    out = np.zeros(len(reward))
    for row in range(len(reward)):
        later = np.flatnonzero((rollout == rollout[row]) & (step >= step[row]))
        out[row] = (reward[later] * gamma ** (step[later] - step[row])).sum()
    return out


def best(function: Any, *arguments: Any, tries: int = 3) -> tuple[float, Any]:
    """(least CPU seconds, result)."""
    seconds, result = math.inf, None
    for _ in range(tries):
        before = time.process_time()
        result = function(*arguments)
        seconds = min(seconds, time.process_time() - before)
    return seconds, result


def start_up() -> dict[str, float]:
    """Wall milliseconds until the first advantages of 20,000 rows, in a process that has loaded NumPy."""
    import numpy as np

    n = 20_000
    group, rollout = np.arange(n) // 400, np.arange(n) // 50
    before = time.perf_counter()
    from mcgpo_data.credit import estimate, from_columns

    batch = from_columns(group, rollout, np.arange(n) % 50, state=np.arange(n) % 97, success=rollout % 3 == 0)
    estimate(batch, "graphgpo")
    first = time.perf_counter() - before
    before = time.perf_counter()
    batch = from_columns(group, rollout, np.arange(n) % 50, state=np.arange(n) % 97, success=rollout % 3 == 0)
    estimate(batch, "graphgpo")
    return {"first_ms": 1000 * first, "again_ms": 1000 * (time.perf_counter() - before)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10_000_000)
    parser.add_argument("--loop-steps", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--worker", nargs="*")
    options = parser.parse_args()
    if options.worker:
        what, *rest = options.worker
        jobs = {"work": lambda: work(Path(rest[0]), rest[1]), "scan": lambda: scan(Path(rest[0])), "start": start_up}
        print(json.dumps(jobs[what]()))
        return

    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from mcgpo_data.credit import estimate
    from mcgpo_data.credit.graph import hops, state_graph

    with tempfile.TemporaryDirectory() as name:
        folder, rows, number = Path(name), 0, 0
        while rows < options.steps:
            bucket = make_bucket(min(BUCKET, options.steps - rows), options.seed, 1000 * number)
            pq.write_table(bucket, folder / f"b{number:04d}.parquet", compression="zstd", compression_level=1)
            rows, number = rows + bucket.num_rows, number + 1
        yardstick = min(in_worker("scan", name)["cpu"] for _ in range(3))
        print(f"{rows:,} steps in {number} buckets; checksum scan {yardstick:.2f} CPU s")
        for estimator in ("gigpo", "graphgpo"):
            done = in_worker("work", name, estimator)
            print(
                f"scan       {estimator:9} {done['cpu'] / yardstick:6.1f} x ({done['cpu']:.2f} CPU s), limit 60; "
                f"memory {done['peak_mb']:.0f} MB, limit 600"
            )

        files = sorted(folder.glob("b*.parquet"))
        tables: list[Any] = []
        while files and sum(table.num_rows for table in tables) < options.loop_steps:
            tables.append(pq.read_table(files.pop(0)))
    table = pa.concat_tables(tables)
    lists = {column: table[column].to_pylist() for column in COLUMNS}
    for estimator in ("gigpo", "graphgpo"):
        ours, columns = best(lambda e=estimator: estimate(to_batch(table), e, preset="verl-agent:alfworld").columns)
        slow, theirs = best(loops, lists, estimator, tries=1)
        worst = float(np.abs(np.array(theirs) - columns["advantage"]).max())
        print(
            f"loops      {estimator:9} {slow / ours:6.1f} x ({table.num_rows:,} steps), at least 4; off by {worst:.0e}"
        )

    graph = state_graph(to_batch(table))
    ours, distance = best(hops, graph)
    theirs_s, reference = best(scipy_distances, graph.source, graph.target, graph.success, graph.size)
    assert np.array_equal(distance, reference)
    print(f"distances  {ours / theirs_s:16.2f} x ({len(graph.source):,} edges), at most 1.5; equal")

    small = table.slice(0, 20_000)
    batch = to_batch(small)
    seconds, got = best(quadratic_returns, batch.rollout, np.arange(len(batch)), batch.reward, tries=1)
    ours, columns = best(lambda: estimate(to_batch(small), "gigpo").columns)
    assert np.allclose(got, columns["return"])
    start = min((in_worker("start") for _ in range(3)), key=lambda result: result["first_ms"])
    print(
        f"batch      {seconds / ours:16.1f} x ({len(batch):,} rows, an estimator against returns), at least 20; "
        f"start-up {start['first_ms']:.0f} ms, limit 50; again {start['again_ms']:.1f} ms"
    )


if __name__ == "__main__":
    main()
