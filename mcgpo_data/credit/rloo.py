"""RLOO: a rollout's score against the mean score of the others of its group.

    A_i = R_i - 1/(N-1) sum_{j != i} R_j = N/(N-1) (R_i - mean_g R)

Source: 2402.14740; verl-agent code.
Departures: none. `std` and `eps` have no effect.
Edge cases: a lone rollout has nothing to be compared with: 0, or its score with `singleton="raw"` (verl-agent).
Cost: O(rows).
"""

from __future__ import annotations

from mcgpo_data.credit.batch import StepBatch
from mcgpo_data.credit.options import Options
from mcgpo_data.credit.terms import Columns, combined, episode_term


def rloo(batch: StepBatch, options: Options) -> Columns:
    """Columns of RLOO; explained as GRPO's."""
    episode, why = episode_term(batch, options, leave_one_out=True)
    return combined(options, episode, None, why)
