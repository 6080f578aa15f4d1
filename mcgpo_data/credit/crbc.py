"""CRBC: the Bellman equation of the group's own moves, closed over all its rollouts.

    P(x|s,a) = N(s,a,x) / N(s,a);  mu(a|s) = N(s,a) / N(s);  V(solved) = 1, V(failed or cut) = 0
    V(s)     = beta sum_a mu(a|s) sum_x P(x|s,a) V(x);   Q(s,a) = beta sum_x P(x|s,a) V(x)            beta = 0.98
    A^S      = (Q - V) / max(sigma(s), sigma_min)  where s has two actions or more, else 0             sigma_min = 0.1
    sigma^2  = sum_a mu(a|s) (Q - V)^2
    A        = w_G A^E + w_S A^S                                                                       w_G, w_S = 1, 5

Source: the CRBC paper.
Departures: invalid actions form one class of their own; the paper says nothing of them. No penalty enters V.
Edge cases: one action in a state: 0; equal Q: 0; a group of failures has V = 0 everywhere.
Cost: the equations of all groups are one sparse system. It is solved by repeated substitution, a contraction with
factor below beta; a group stops when no value of it moves any more, after a number of rounds that only its own
rollouts decide, so that its values do not depend on the other groups to the last bit (a factorisation of the whole
system orders sums by what else is in it).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mcgpo_data.credit.batch import StepBatch
from mcgpo_data.credit.keys import Floats
from mcgpo_data.credit.normalise import deviations, means
from mcgpo_data.credit.options import StepOptions, option
from mcgpo_data.credit.terms import Columns, combined, episode_term, sizes


@dataclass(frozen=True, kw_only=True)
class CrbcOptions(StepOptions):
    """Options of CRBC. The deviation sigma is its own: `step_std` has no effect."""

    step_weight: float = option(5.0, "Factor of the step term in `advantage`: w_S.", low=-1e6, high=1e6)
    beta: float = option(0.98, "Discount per step.", low=0.0, high=0.999)
    sigma_min: float = option(0.1, "Smallest deviation that a step term is divided by.", low=1e-6, high=1e6)


def crbc(batch: StepBatch, options: CrbcOptions) -> Columns:
    """Columns of CRBC.

    Explained by `anchor_size`, `anchor_actions` (different actions in this state), `state_value` and `action_value`.
    """
    episode, why = episode_term(batch, options)
    anchors, choices = batch.anchors, batch.choices
    state, action = anchors.codes, choices.codes
    solved = bellman(batch, options.beta)
    after = np.append(solved[state[1:]], 0.0)[: len(batch)]
    after[batch.last] = batch.success
    q = options.beta * means(after, action, choices.size)[action]
    lift = deviations(q, state, anchors.size)
    sigma = np.sqrt(means(lift * lift, state, anchors.size))
    actions = np.bincount(choices.first(), minlength=anchors.size)[state]
    step = np.where(actions > 1, lift / np.maximum(sigma, options.sigma_min)[state], 0.0)
    why |= {
        "anchor_size": sizes(state, anchors.size),
        "anchor_actions": actions,
        "state_value": solved[state],
        "action_value": q,
    }
    return combined(options, episode, step, why)


def bellman(batch: StepBatch, beta: float) -> Floats:
    """V of every state, shape (number of anchors,), to 1e-11."""
    from scipy.sparse import coo_array

    state, size = batch.anchors.codes, batch.anchors.size
    visits = np.maximum(np.bincount(state, minlength=size), 1)
    inner = np.ones(len(batch), bool)
    inner[batch.last] = False
    rows = np.flatnonzero(inner)
    moves = coo_array((np.ones(len(rows)), (state[rows], state[rows + 1])), shape=(size, size)).tocsr()
    moves.data *= np.repeat(beta / visits, np.diff(moves.indptr))
    ended = beta * np.bincount(state[batch.last], batch.success, size) / visits
    owner = batch.anchors.first()
    starts = np.flatnonzero(np.diff(owner, prepend=-1))
    value, moving = ended, np.ones(batch.groups, bool)
    while moving.any():
        update = ended + moves @ value
        moving = np.maximum.reduceat(np.abs(update - value), starts) > 1e-11 * (1 - beta)
        value = np.where(moving[owner], update, value)
    return value
