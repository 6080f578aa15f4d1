"""Dr.GRPO: GRPO without the division by the deviation, which favours tasks that are nearly always or never solved.

    A_i = R_i - mean_g R

Source: 2503.20783.
Departures: its other half, dividing the loss by a constant length, is the trainer's (`seq-mean-token-sum-norm`).
Edge cases: as GRPO.
Cost: O(rows).
"""

from __future__ import annotations

from dataclasses import dataclass

from mcgpo_data.credit.batch import StepBatch
from mcgpo_data.credit.options import STDS, Options, option
from mcgpo_data.credit.terms import Columns, combined, episode_term


@dataclass(frozen=True, kw_only=True)
class DrGrpoOptions(Options):
    """GRPO's, with another default."""

    std: str = option("none", "Divide the episode term by this standard deviation of the group.", STDS)


def drgrpo(batch: StepBatch, options: DrGrpoOptions) -> Columns:
    """Columns of Dr.GRPO; explained as GRPO's."""
    episode, why = episode_term(batch, options)
    return combined(options, episode, None, why)
