"""HGPO: a step's return against steps with the same last k observations; longer histories weigh more.

    a_k = (R_t - mean) / (std + eps)      over steps with equal (o_{t-k+1} .. o_t), k = 1 .. K+1; population deviation
    A_t = sum_k w_k a_k,   w_k = (k+1)^alpha / (sum (k'+1)^alpha + 1e-6)                      over the k with a_k != 0

Source: 2602.22817; verl-agent code (`recipe/hgpo`). K = 2, alpha = 1, no episode term.
Departures: that a_k = 0 leaves a level out of the average (as a state seen once does) also drops returns equal to
their mean; here up to rounding (|a_k| <= 1e-9), in the code where rounding happens to leave 0. `base_group=true` adds
the episode term as level k = 0, weight 1.
Edge cases: the first steps of a rollout have fewer levels; histories seen once have none; nothing left: 0.
Cost: O(K rows log rows).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from mcgpo_data.credit.batch import StepBatch
from mcgpo_data.credit.keys import Pairs
from mcgpo_data.credit.normalise import standardised
from mcgpo_data.credit.options import STDS, ReturnOptions, option
from mcgpo_data.credit.terms import Columns, combined, episode_term, returns, row_penalty, sizes

TOTAL_EPS: Final = 1e-6  # of the code, in the sum of the weights
TIE: Final = 1e-9  # a level with no more than this is what rounding leaves of 0: it would bring its weight, no signal


@dataclass(frozen=True, kw_only=True)
class HgpoOptions(ReturnOptions):
    """Options of HGPO."""

    step_std: str = option("population", "Divide the step term by this standard deviation.", STDS)
    history: int = option(2, "K: observations before the current one that may have to be equal.", low=0, high=64)
    alpha: float = option(1.0, "Exponent of the weight of longer histories.", low=0.0, high=16.0)
    base_group: bool = option(False, "Take the episode term in as level 0.")


def hgpo(batch: StepBatch, options: HgpoOptions) -> Columns:
    """Columns of HGPO; explained by `anchor_size` (steps in this state) and `levels` (how many have a say)."""
    episode, why = episode_term(batch, options)
    value = returns(batch, options) - row_penalty(batch, options)
    anchors = batch.anchors
    total, weights, levels = np.zeros(len(batch)), np.zeros(len(batch)), np.zeros(len(batch), np.int64)
    if options.base_group:
        weights += np.abs(episode) > TIE
    base = weights.copy()
    rows, codes, size = np.arange(len(batch)), anchors.codes, anchors.size
    position = rows - batch.start[batch.rollout]
    window = codes.copy()  # code of the last k observations of each row
    for k in range(1, options.history + 2):
        if k > 1:
            rows = rows[position[rows] >= k - 1]
            longer = Pairs.of(window[rows - 1], anchors.codes[rows])
            codes, size = longer.codes, longer.size
            window[rows] = codes
        a = standardised(value[rows], codes, size, options.step_std, options.eps)
        speaks = np.abs(a) > TIE
        weight = (k + 1.0) ** options.alpha * speaks
        total[rows] += weight * a
        weights[rows] += weight
        levels[rows] += speaks
    share = 1 / (weights + TOTAL_EPS)
    why |= {"anchor_size": sizes(anchors.codes, anchors.size), "levels": levels}
    return combined(options, base * episode * share, total * share, why)
