"""GRPO: an episode's score against its group's mean, in units of the group's standard deviation.

    A_i = (R_i - mean_g R) / (std_g R + eps)

Source: 2402.03300; verl-agent and TRL code for the choices that are options here.
Departures: none. Defaults are the textbook's (each rollout once, sample deviation, no penalty); verl-agent counts
rows.
Edge cases: a group whose scores are all equal gives 0; so does a lone rollout, unless `singleton="raw"`.
Cost: O(rows).
"""

from __future__ import annotations

from mcgpo_data.credit.batch import StepBatch
from mcgpo_data.credit.options import Options
from mcgpo_data.credit.terms import Columns, combined, episode_term


def grpo(batch: StepBatch, options: Options) -> Columns:
    """Columns of GRPO; explained by `group_size`, `group_mean`, `group_std` of the scores."""
    episode, why = episode_term(batch, options)
    return combined(options, episode, None, why)
