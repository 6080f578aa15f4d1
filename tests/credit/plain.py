"""The formulas once more, slow and obvious: dicts and loops over one group at a time, no code shared with the package.

Each function takes the rows of one group, rollout by rollout, as dicts with state, after (the state after the
action), action (INVALID where it was), won, valid and penalty, and returns one step advantage per row.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

Row = dict[str, Any]
Rollouts = list[list[Row]]
EPS = 1e-6


def rows_of(rollouts: Rollouts) -> list[Row]:
    return [row for rollout in rollouts for row in rollout]


def zscores(values: list[float], keys: Iterable[Any], population: bool = False) -> list[float]:
    """Standardised within equal keys; 0 where all values are equal."""
    buckets = defaultdict(list)
    for i, key in enumerate(keys):
        buckets[key].append(i)
    out = [0.0] * len(values)
    for members in buckets.values():
        part = [values[i] for i in members]
        if len(set(part)) > 1:
            std = statistics.pstdev(part) if population else statistics.stdev(part)
            for i in members:
                out[i] = (values[i] - math.fsum(part) / len(part)) / (std + EPS)
    return out


def returns(rollouts: Rollouts, gamma: float = 0.95) -> list[float]:
    out = []
    for rollout in rollouts:
        out += [10.0 * rollout[0]["won"] * gamma ** (len(rollout) - 1 - t) for t in range(len(rollout))]
    return out


def mean_by(values: list[float], keys: list[Any]) -> dict[Any, float]:
    buckets = defaultdict(list)
    for key, value in zip(keys, values, strict=True):
        buckets[key].append(value)
    return {key: math.fsum(part) / len(part) for key, part in buckets.items()}


def states_of(rollouts: Rollouts) -> list[Any]:
    return [row["state"] for row in rows_of(rollouts)]


def penalised(values: list[float], rollouts: Rollouts) -> list[float]:
    return [value - row["penalty"] for value, row in zip(values, rows_of(rollouts), strict=True)]


def gigpo(rollouts: Rollouts) -> list[float]:
    return zscores(penalised(returns(rollouts), rollouts), states_of(rollouts))


def distance_to_success(rollouts: Rollouts) -> dict[Any, int]:
    edges = {
        (row["state"], "SUCCESS" if row is rollout[-1] and row["won"] else row["after"])
        for rollout in rollouts
        for row in rollout
    }
    nodes = {node for edge in edges for node in edge}
    distance = {"SUCCESS": 0}
    for _ in nodes:  # Bellman-Ford
        for before, after in edges:
            if after in distance:
                distance[before] = min(distance.get(before, 10**9), distance[after] + 1)
    far = max(distance.values()) + 1
    return {node: distance.get(node, far) for node in nodes}


def graphgpo(rollouts: Rollouts, omega: float = 0.1) -> list[float]:
    distance = distance_to_success(rollouts)
    values = []
    for rollout in rollouts:
        for row in rollout:
            after = "SUCCESS" if row is rollout[-1] and row["won"] else row["after"]
            values.append(10.0 * omega ** distance[after])
    return zscores(penalised(values, rollouts), states_of(rollouts))


def ecpo(rollouts: Rollouts, kappa: float = 2.0, tau: float = 4.0) -> list[float]:
    values, rows = penalised(returns(rollouts), rollouts), rows_of(rollouts)
    out = [0.0] * len(rows)
    for state in set(states_of(rollouts)):
        here = [i for i, row in enumerate(rows) if row["state"] == state]
        n = len(here)
        mu = math.fsum(values[i] for i in here) / n
        if n == 1 or len({values[i] for i in here}) == 1:
            continue
        sigma = statistics.stdev([values[i] for i in here])
        mean, count = {}, {}
        for action in {rows[i]["action"] for i in here}:
            taken = [values[i] for i in here if rows[i]["action"] == action]
            mean[action], count[action] = math.fsum(taken) / len(taken), len(taken)
        between = math.fsum(count[a] / n * (mean[a] - mu) ** 2 for a in mean)
        within = math.fsum((values[i] - mean[rows[i]["action"]]) ** 2 for i in here) / n
        rho = math.tanh(n / tau) * between / (between + within + EPS)
        for i in here:
            a = rows[i]["action"]
            calibrated = (count[a] * mean[a] + kappa * mu) / (count[a] + kappa)
            out[i] = rho * (calibrated - mu) / (sigma + EPS)
    return out


def hgpo(rollouts: Rollouts, history: int = 2, alpha: float = 1.0) -> list[float]:
    values = penalised(returns(rollouts), rollouts)
    total, weights = [0.0] * len(values), [0.0] * len(values)
    for k in range(1, history + 2):
        keys: list[Any] = []
        for r, rollout in enumerate(rollouts):
            for t in range(len(rollout)):
                seen = tuple(row["state"] for row in rollout[max(0, t - k + 1) : t + 1])
                keys.append(seen if len(seen) == k else ("too short", r, t))
        for i, a in enumerate(zscores(values, keys, population=True)):
            if abs(a) > 1e-9:
                total[i] += (k + 1) ** alpha * a
                weights[i] += (k + 1) ** alpha
    return [t / (w + 1e-6) for t, w in zip(total, weights, strict=True)]


def g2po(rollouts: Rollouts) -> list[float]:
    discounted = [10.0 * r[0]["won"] * 0.95 ** (len(r) - t) for r in rollouts for t in range(len(r))]
    value = mean_by(discounted, states_of(rollouts))
    after = []
    for rollout in rollouts:
        after += [value[row["state"]] for row in rollout[1:]] + [10.0 * rollout[0]["won"]]
    gain = [q - value[s] for q, s in zip(after, states_of(rollouts), strict=True)]
    first, second = zscores(penalised(after, rollouts), states_of(rollouts)), zscores(gain, [0] * len(gain))
    return [a + b for a, b in zip(first, second, strict=True)]


def gagpo(rollouts: Rollouts, gamma: float = 0.95, lam: float = 0.95) -> list[float]:
    value = mean_by(returns(rollouts), states_of(rollouts))
    out: list[float] = []
    for rollout in rollouts:
        part, carried = [], 0.0
        for t in reversed(range(len(rollout))):
            last = t == len(rollout) - 1
            after = 0.0 if last else value[rollout[t + 1]["state"]]
            delta = 10.0 * rollout[0]["won"] * last + gamma * after - value[rollout[t]["state"]]
            carried = delta + gamma * lam * carried
            part.append(carried)
        out += part[::-1]
    return zscores(penalised(out, rollouts), [0] * len(out))


def crbc(rollouts: Rollouts, beta: float = 0.98, least: float = 0.1) -> list[float]:
    rows = rows_of(rollouts)
    ends = [
        1.0 * row["won"] if row is rollout[-1] else rollout[t + 1]["state"]
        for rollout in rollouts
        for t, row in enumerate(rollout)
    ]
    value = dict.fromkeys(states_of(rollouts), 0.0)
    for _ in range(3000):
        q = [beta * (end if isinstance(end, float) else value[end]) for end in ends]
        value = mean_by(q, states_of(rollouts))
    by_action = mean_by(q, [(row["state"], row["action"]) for row in rows])
    out = []
    for row in rows:
        here = [other for other in rows if other["state"] == row["state"]]
        lift = by_action[row["state"], row["action"]] - value[row["state"]]
        variance = math.fsum((by_action[o["state"], o["action"]] - value[row["state"]]) ** 2 for o in here) / len(here)
        several = len({other["action"] for other in here}) > 1
        out.append(lift / max(math.sqrt(variance), least) if several else 0.0)
    return out


ESTIMATORS: dict[str, Callable[[Rollouts], list[float]]] = {
    "gigpo": gigpo,
    "graphgpo": graphgpo,
    "ecpo": ecpo,
    "hgpo": hgpo,
    "g2po": g2po,
    "gagpo": gagpo,
    "crbc": crbc,
}
