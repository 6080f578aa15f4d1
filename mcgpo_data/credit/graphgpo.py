"""GraphGPO: beside the episode term, how near an action leads to success on the graph of all states of the group.

    d(success) = 0;  d(s) = 1 + min d(s') over the observed steps s -> s';  unreachable: d = d_max + 1
    V   = 10 omega^d(s')                                             omega = 0.1 ALFWorld, 0.2 WebShop, 0.8 Sokoban
    A^G = (V - mean_s V) / (std_s V + eps)                           over all steps of the group in state s
    A   = A^E + A^G

Source: 2605.26684; verl-agent code (`recipe/GraphGPO`).
Departures: success is the rollout's flag, not a positive reward (in Sokoban a partial reward is positive).
`value="code"` is the formula above, `"paper"` has omega^(d(s') + 1) (the factor cancels apart from eps and a
penalty), `"progress"` omega^(d(s') - d(s) + 1), the code's `normalize_distance`.
Edge cases: in a group of failures all distances are 1 and A^G is 0, unless a penalty sets an invalid action apart;
then it has full size. A state with one step: 0. A loop is an edge like others and never shortens a distance. An
invalid action that changes nothing is a loop. With omega = 0.1 a value is below a penalty of 0.1 from distance 3
on: one invalid action then sets the scale of its state.
Cost: O(rows log rows); see `graph.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from mcgpo_data.credit.batch import StepBatch
from mcgpo_data.credit.graph import distances, state_graph
from mcgpo_data.credit.options import StepOptions, option
from mcgpo_data.credit.terms import Columns, anchor_term, combined, episode_term, powers, sizes


@dataclass(frozen=True, kw_only=True)
class GraphGpoOptions(StepOptions):
    """Options of GraphGPO."""

    omega: float = option(0.1, "Value per step of distance.", low=0.0, high=1.0)
    success_value: float = option(10.0, "Value of success itself.", low=0.0, high=1e6)
    value: str = option("code", "Form of the exponent.", ("code", "paper", "progress"))


def graphgpo(batch: StepBatch, options: GraphGpoOptions) -> Columns:
    """Columns of GraphGPO.

    Explained by `distance` and `next_distance` of the states before and after the step, `reachable` (success was
    reached by some rollout
    from the state after it), `value` and `anchor_size`.
    """
    episode, why = episode_term(batch, options)
    graph = state_graph(batch)
    distance, reached = distances(batch, graph)
    before, after = distance[graph.source], distance[graph.target]
    exponent = {"code": after, "paper": after + 1, "progress": after - before + 1}[options.value]
    value = options.success_value * powers(options.omega, int(exponent.max(initial=0)))[exponent]
    why |= {
        "anchor_size": sizes(batch.anchors.codes, batch.anchors.size),
        "distance": before,
        "next_distance": after,
        "reachable": reached[graph.target],
        "value": value,
    }
    return combined(options, episode, anchor_term(batch, value, options), why)
