"""G2PO: the value of the next state, within its state; and its gain over this state, within the group.

    V(s) = mean over the visits of s of gamma^(T - t) R_i, t from 0: the last step is discounted once
    q_t  = V(s_{t+1});  10 after the last step of a success, 0 after that of a failure
    A1   = (q - mean_s q) / (std_s q + eps)          over the steps in state s, q less the penalty of its row
    A2   = (e - mean_g e) / (std_g e + eps),         e_t = q_t - V(s_t), over all steps of the group
    A    = A^E + A1 + A2

Source: 2606.22995 and its code.
Departures: success is the rollout's flag, not a reward of exactly 10; a group of one step has A2 = 0 (the code
divides by a missing deviation).
Edge cases: a state with one step has A1 = 0; a group of failures has only what penalties make.
Cost: O(rows log rows), for grouping by state.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mcgpo_data.credit.batch import StepBatch
from mcgpo_data.credit.normalise import means, standardised
from mcgpo_data.credit.options import ReturnOptions, option
from mcgpo_data.credit.terms import Columns, anchor_term, combined, episode_term, powers, scores, sizes


@dataclass(frozen=True, kw_only=True)
class G2poOptions(ReturnOptions):
    """Options of G2PO."""

    success_value: float = option(10.0, "Value after the last step of a success.", low=0.0, high=1e6)


def g2po(batch: StepBatch, options: G2poOptions) -> Columns:
    """Columns of G2PO; explained by `anchor_size`, `state_value`, `next_value`, `anchor_term` A1, `group_term` A2."""
    episode, why = episode_term(batch, options)
    anchors = batch.anchors
    left = batch.last[batch.rollout] - np.arange(len(batch)) + 1
    discounted = powers(options.gamma, int(left.max(initial=0)))[left] * scores(batch, options)[batch.rollout]
    value = means(discounted, anchors.codes, anchors.size)[anchors.codes]
    after = np.append(value[1:], 0.0)[: len(batch)]
    after[batch.last] = np.where(batch.success, options.success_value, 0.0)
    within_state = anchor_term(batch, after, options)
    within_group = standardised(after - value, batch.group, batch.groups, options.step_std, options.eps)
    why |= {
        "anchor_size": sizes(anchors.codes, anchors.size),
        "state_value": value,
        "next_value": after,
        "anchor_term": within_state,
        "group_term": within_group,
    }
    return combined(options, episode, within_state + within_group, why)
