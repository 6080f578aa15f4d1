"""The states of each group, merged over its rollouts into a graph, and the distance of each state to success.

All groups of a batch form one block-diagonal graph: their nodes are numbered through, and one backward search from
all success nodes at once visits each edge once. No rollout of one group can reach a node of another.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mcgpo_data.credit.batch import StepBatch
from mcgpo_data.credit.keys import Bools, Ints


@dataclass(frozen=True)
class Graph:
    """One edge per step. Nodes: states before an action, one success per group, one dead end per rollout.

    Attributes:
        source, target: node before and after each step, shape (N,).
        success: success node of each group, shape (G,).
        size: number of nodes.
        states: number of nodes that are states before an action; they come first, ascending by group.
    """

    source: Ints
    target: Ints
    success: Ints
    size: int
    states: int


def state_graph(batch: StepBatch) -> Graph:
    """The graph of a batch: the last step of a solved rollout leads to success, whatever was seen after it."""
    anchors, last = batch.anchors, batch.last
    success = anchors.size + np.arange(batch.groups)
    ends = anchors.size + batch.groups + np.arange(len(last))
    final = anchors.find(batch.group_of, batch.final_state)
    target = np.empty(len(batch), np.int64)
    target[:-1] = anchors.codes[1:]
    target[last] = np.where(batch.success, success[batch.group_of], np.where(final >= 0, final, ends))
    return Graph(anchors.codes, target, success, anchors.size + batch.groups + len(last), anchors.size)


def hops(graph: Graph) -> Ints:
    """Fewest steps from each node to success, shape (size,); -1 where success was never reached from it.

    A breadth-first search against the direction of the edges, one level at a time. Cost: O(N log N) to sort the
    edges by target, then O(N) in as many array operations as the farthest node is away.
    """
    inwards = graph.source[np.argsort(graph.target)]
    offsets = np.zeros(graph.size + 1, np.int64)
    np.cumsum(np.bincount(graph.target, minlength=graph.size), out=offsets[1:])
    distance = np.full(graph.size, -1)
    distance[graph.success] = 0
    claimed = np.empty(graph.size, np.int64)
    frontier, level = graph.success, 0
    while len(frontier):
        level += 1
        begin = offsets[frontier]
        count = offsets[frontier + 1] - begin
        edges = np.repeat(begin - np.cumsum(count) + count, count) + np.arange(int(count.sum()))
        found = inwards[edges]
        found = found[distance[found] < 0]
        distance[found] = level
        claimed[found] = np.arange(len(found))  # the last of several equal nodes stays
        frontier = found[claimed[found] == np.arange(len(found))]
    return distance


def distances(batch: StepBatch, graph: Graph) -> tuple[Ints, Bools]:
    """(distance of each node, whether success can be reached from it).

    Where it cannot, the distance is one more than the largest finite one of the group (success itself being 0), as
    in the paper.
    """
    distance = hops(graph)
    reached = distance >= 0
    starts = np.flatnonzero(np.diff(batch.anchors.first(), prepend=-1))
    far = np.maximum(np.maximum.reduceat(distance[: graph.states], starts), 0) + 1 if len(starts) else starts
    owner = np.concatenate([batch.anchors.first(), np.arange(batch.groups), batch.group_of])
    return np.where(reached, distance, far[owner]), reached
