"""GAGPO: generalised advantage estimation with the group's mean return of a state as its value.

    V(s)    = mean discounted return over the visits of s in the group;  V(end) = 0
    delta_t = r_t + gamma V(s_{t+1}) - V(s_t)
    G_t     = delta_t + gamma lambda G_{t+1}
    A       = (G - mean_g G) / (std_g G + eps)                       over all steps of the group; no episode term

Source: 2605.13217 as quoted by others; no code was found.
Departures: gamma = lambda = 0.95, V(end) = 0 and the steps that are standardised together are inferred.
`bootstrap=true` gives a rollout that a limit cut the value of its last state instead of 0, where the group has
visited that state.
Edge cases: a group of failures gives 0; a lone rollout has delta = 0 where returns are its own values.
Cost: O(rows log rows), for grouping by state.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mcgpo_data.credit.batch import StepBatch
from mcgpo_data.credit.normalise import means, standardised
from mcgpo_data.credit.options import ReturnOptions, option
from mcgpo_data.credit.terms import Columns, combined, episode_term, returns, rewards, row_penalty, sizes


@dataclass(frozen=True, kw_only=True)
class GagpoOptions(ReturnOptions):
    """Options of GAGPO."""

    episode_weight: float = option(0.0, "Factor of the episode term in `advantage`.", low=-1e6, high=1e6)
    lam: float = option(0.95, "lambda: how far differences are carried back.", low=0.0, high=1.0)
    bootstrap: bool = option(False, "Value the last state of a rollout that a limit cut.")


def gagpo(batch: StepBatch, options: GagpoOptions) -> Columns:
    """Columns of GAGPO; explained by `anchor_size`, `state_value`, `delta` and `gae` (G before it is standardised)."""
    episode, why = episode_term(batch, options)
    anchors = batch.anchors
    value = means(returns(batch, options), anchors.codes, anchors.size)
    after = np.append(value[anchors.codes[1:]], 0.0)[: len(batch)]
    after[batch.last] = 0.0
    if options.bootstrap:
        final = anchors.find(batch.group_of, batch.final_state)
        after[batch.last] = np.where(batch.truncated & ~batch.success & (final >= 0), value[final], 0.0)
    delta = rewards(batch, options) + options.gamma * after - value[anchors.codes]
    gae = batch.backward(delta, options.gamma * options.lam)
    step = standardised(gae - row_penalty(batch, options), batch.group, batch.groups, options.step_std, options.eps)
    why |= {
        "anchor_size": sizes(anchors.codes, anchors.size),
        "state_value": value[anchors.codes],
        "delta": delta,
        "gae": gae,
    }
    return combined(options, episode, step, why)
