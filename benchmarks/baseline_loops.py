"""The customary script: json.loads, dicts of rows, pairs with their text as JSON lines.

The same generic contexts, opposite-fold evidence, estimates, weights and caps as a build with one rule; decisions of a
side are taken in log order.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections import defaultdict
from itertools import combinations


def fold_of(rollouts: list[str]) -> dict[str, int]:
    ranked = sorted(rollouts, key=lambda r: hashlib.sha256(f"0{r}".encode()).hexdigest())
    return {r: i % 2 for i, r in enumerate(ranked)}


def main(log: str, out: str) -> None:
    rollouts: dict[str, dict[str, list[dict]]] = defaultdict(lambda: defaultdict(list))
    with open(log, encoding="utf-8") as stream:
        for line in stream:
            row = json.loads(line)
            rollouts[row["task_id"]][row["rollout_id"]].append(row)
    count = 0
    with open(out, "w", encoding="utf-8") as stream:
        for group in rollouts.values():
            fold = fold_of(list(group))
            visits: dict[str, dict[str, dict[str, dict]]] = defaultdict(lambda: defaultdict(dict))
            for rollout, rows in group.items():
                for row in sorted(rows, key=lambda r: r["step"]):
                    visits[row["observation"]][row["action"]].setdefault(rollout, row)
            for actions in visits.values():
                means = [mean(actions, f, fold) for f in (0, 1)]
                for a, b in combinations(sorted(actions), 2):
                    both = set(actions[a]) & set(actions[b])
                    for f in (0, 1):
                        count += compare(actions, a, b, f, fold, both, means[f], stream)
    print(count)


def mean(actions, f, fold) -> float | None:
    entries = [row["success"] for visits in actions.values() for r, row in visits.items() if fold[r] != f]
    return sum(entries) / len(entries) if entries else None


def compare(actions, a, b, f, fold, both, mu, stream) -> int:
    n, p = {}, {}
    for u in (a, b):
        mine = [row["success"] for r, row in actions[u].items() if fold[r] != f and r not in both]
        if not mine:
            return 0
        n[u], p[u] = len(mine), (sum(mine) + mu) / (len(mine) + 1)
    delta = p[a] - p[b]
    if abs(delta) < 1e-12:
        return 0
    w, l = (a, b) if delta > 0 else (b, a)
    chosen = [row for r, row in actions[w].items() if fold[r] == f][:32]
    rejected = [row for r, row in actions[l].items() if fold[r] == f][:32]
    pairs = [
        (x, y)
        for d in range(32)
        for x, y in zip(chosen, rejected[d:], strict=False)
        if x["rollout_id"] != y["rollout_id"]
    ]
    h = 2 * n[a] * n[b] / (n[a] + n[b])
    for x, y in pairs[:4]:
        weight = abs(delta) * h / (h + 2) / min(4, len(pairs))
        pair = {"weight": weight, "delta": abs(delta), "chosen": x, "rejected": y}
        stream.write(json.dumps(pair) + "\n")
    return min(4, len(pairs))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
