"""GiGPO: beside the episode term, each step's discounted return against those of other steps taken in the same state.

    R_t = r_t + gamma R_{t+1}                                        gamma = 0.95
    A^S = (R_t - mean_s R) / (std_s R + eps)                         over all steps of the group in state s
    A   = A^E + omega A^S                                            omega = 1

Source: 2505.10978, equations 3 and 5-8; verl-agent code.
Departures: equal state keys only; the greedy clustering by text similarity of the code depends on row order and is
left out. `step_std="none"` with `std="none"` is the code's `mean_norm`.
Edge cases: a state seen once gives 0, and so does one whose returns are all equal; a rollout that loops counts once
per visit; a group of failures gives 0 apart from steps beside an invalid action, where penalties are on.
Cost: O(rows log rows), for grouping by state.
"""

from __future__ import annotations

from mcgpo_data.credit.batch import StepBatch
from mcgpo_data.credit.options import ReturnOptions
from mcgpo_data.credit.terms import Columns, anchor_term, combined, episode_term, returns, sizes


def gigpo(batch: StepBatch, options: ReturnOptions) -> Columns:
    """Columns of GiGPO; the step term is explained by `anchor_size` (steps in this state) and `return`."""
    episode, why = episode_term(batch, options)
    value = returns(batch, options)
    why |= {"anchor_size": sizes(batch.anchors.codes, batch.anchors.size), "return": value}
    return combined(options, episode, anchor_term(batch, value, options), why)
