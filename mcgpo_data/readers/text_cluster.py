"""Finds which texts belong to one task, for dumps that name neither task nor group.

Each text is a rollout's word profile: the share of its steps in which a word occurs. The words of the task (product,
attributes, price bound) stand in nearly every thought of its rollouts, all others come and go. Profiles are weighted
by rarity, log(1 + n / n_w)^2 for a word that occurs in n_w of n texts, and compared by cosine; a word of a single
text says nothing about likeness and is left out. Clusters are joined by average linkage until one is left.

Where to cut the tree: rollout groups of one dump have equal sizes, so a cut into two or more clusters of equal size
(two or more texts each) goes before all others; among equals the cut with the widest gap between the height below and
the height above it. Dumps whose groups differ in size are cut at the widest gap alone, which may leave everything in
one cluster.

The result depends on the set of texts only, not on their order.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

MAX_TEXTS = 4096  # the matrix of distances has the square of this: 128 MiB
WORD = re.compile(r"[^\W\d_]+|\d+(?:\.\d+)?")

Profile = Mapping[str, float]
Cut = tuple[float, list[list[int]]]


def profile(steps: Iterable[str]) -> dict[str, float]:
    """Share of the steps, in (0, 1], in which each word occurs. Numbers are compared as numbers: 40 = 40.00."""
    counts: Counter[str] = Counter()
    total = 0
    for text in steps:
        total += 1
        counts.update({_number(word) if word[0].isdigit() else word for word in WORD.findall(text.lower())})
    return {word: count / total for word, count in counts.items()}


def _number(word: str) -> str:
    whole, _, fraction = word.partition(".")
    fraction = fraction.rstrip("0")
    return f"{whole.lstrip('0') or '0'}.{fraction}" if fraction else whole.lstrip("0") or "0"


def cluster(profiles: Sequence[Profile]) -> list[int]:
    """Cluster of each text, as the index of its first member in `profiles`.

    Raises:
        ValueError: more than MAX_TEXTS texts.
    """
    if len(profiles) > MAX_TEXTS:
        raise ValueError(f"{len(profiles)} texts are too many to compare all with all; the limit is {MAX_TEXTS}")
    order = sorted(range(len(profiles)), key=lambda i: sorted(profiles[i].items()))
    labels = list(range(len(profiles)))
    for members in _best_cut([profiles[i] for i in order]):
        originals = sorted(order[m] for m in members)
        for i in originals:
            labels[i] = originals[0]
    return labels


def _best_cut(profiles: list[Profile]) -> list[list[int]]:
    if len(profiles) < 3:  # nothing to compare a likeness with
        return [[i] for i in range(len(profiles))]
    cuts = _cuts(_merges(1.0 - _cosines(profiles)), len(profiles))
    even = [cut for cut in cuts if len(cut[1]) > 1 and len({len(c) for c in cut[1]}) == 1 and len(cut[1][0]) > 1]
    return max(even or cuts, key=lambda cut: cut[0])[1]


def _cosines(profiles: list[Profile]) -> NDArray[np.float64]:
    """(n, n) cosines of the weighted profiles, rounded so that the order of additions cannot decide a tie."""
    spread = Counter(word for p in profiles for word in p)
    column = {word: i for i, word in enumerate(sorted(w for w, n in spread.items() if n > 1))}
    rows = np.zeros((len(profiles), max(len(column), 1)))
    for row, p in zip(rows, profiles, strict=True):
        for word, share in p.items():
            if word in column:
                row[column[word]] = share * math.log1p(len(profiles) / spread[word]) ** 2
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    rows /= np.where(norms > 0, norms, 1.0)
    return np.round(rows @ rows.T, 9)


def _merges(distance: NDArray[np.float64]) -> list[tuple[float, int, int]]:
    """Average-linkage tree as (height, member, member), lowest first, by chains of nearest neighbours in O(n^2)."""
    n = len(distance)
    d = distance.copy()
    np.fill_diagonal(d, np.inf)
    size = np.ones(n)
    alive = np.ones(n, dtype=bool)
    merges: list[tuple[float, int, int]] = []
    chain: list[int] = []
    while len(merges) < n - 1:
        if not chain:
            chain = [int(np.flatnonzero(alive)[0])]
        here = chain[-1]
        near = int(np.argmin(d[here]))
        if len(chain) > 1 and d[here, chain[-2]] <= d[here, near]:  # at a tie go back, or the chain may never end
            near = chain[-2]
        if len(chain) < 2 or near != chain[-2]:
            chain.append(near)
            continue
        keep, gone = sorted((here, near))
        merges.append((float(d[here, near]), keep, gone))
        joined = (size[keep] * d[keep] + size[gone] * d[gone]) / (size[keep] + size[gone])
        joined[keep] = np.inf
        d[keep], d[:, keep] = joined, joined
        d[gone], d[:, gone] = np.inf, np.inf
        size[keep] += size[gone]
        alive[gone] = False
        chain = chain[:-2]
    return sorted(merges)


def _cuts(merges: list[tuple[float, int, int]], n: int) -> list[Cut]:
    """(gap above, clusters) after each merge; the tree ends below 1, the distance of texts with nothing in common."""
    clusters = {i: [i] for i in range(n)}
    owner = list(range(n))
    cuts: list[Cut] = []
    for step, (height, a, b) in enumerate(merges):
        keep, gone = owner[a], owner[b]
        for member in clusters[gone]:
            owner[member] = keep
        clusters[keep] = clusters[keep] + clusters.pop(gone)
        above = merges[step + 1][0] if step + 1 < len(merges) else 1.0
        cuts.append((above - height, [list(c) for c in clusters.values()]))
    return cuts
