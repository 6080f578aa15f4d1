"""ECPO: the mean return of an action in a state, shrunken to the state's mean, gated by how much actions explain.

    mean_u    = mean return of the n_u steps that took action u in state s;  mu = mean of all n steps in s
    mu~_u     = (n_u mean_u + kappa mu) / (n_u + kappa)                               kappa = 2
    A_act     = (mu~_u - mu) / (sigma + eps)                 sigma: deviation of the raw returns in s
    rho       = tanh(n / tau) B / (B + W + eps)                                       tau = 4
    B, W      = sum_u n_u/n (mean_u - mu)^2,  1/n sum (R - mean_u)^2                  between, within actions
    A         = A^E + omega rho A_act                                                 omega = 1

Source: 2606.05885 as quoted by others; no code was released.
Departures: tau, omega, eps, the denominator of A_act, the weights in B and W and the discount are not published;
those above are inferred. `sigma="calibrated"` standardises the shrunken means themselves instead: that undoes the
shrinkage wherever a state has two actions, since two values always standardise to scores that depend on their
counts alone. It is there for comparison. `kappa=0, gate=false` is the plain action mean.
Edge cases: one action, one step or equal returns in a state: 0. Invalid actions form one class of their own.
Cost: O(rows log rows), for grouping by state and action.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mcgpo_data.credit.batch import StepBatch
from mcgpo_data.credit.normalise import deviations, means, spreads
from mcgpo_data.credit.options import ReturnOptions, option
from mcgpo_data.credit.terms import Columns, combined, episode_term, returns, row_penalty, sizes


@dataclass(frozen=True, kw_only=True)
class EcpoOptions(ReturnOptions):
    """Options of ECPO."""

    kappa: float = option(2.0, "Pseudo-count that pulls an action's mean towards its state's.", low=0.0, high=1e6)
    tau: float = option(4.0, "Steps in a state at which the gate is three quarters open.", low=1e-6, high=1e6)
    sigma: str = option("raw", "Deviation that A_act is divided by.", ("raw", "calibrated"))
    gate: bool = option(True, "Multiply by rho.")


def ecpo(batch: StepBatch, options: EcpoOptions) -> Columns:
    """Columns of ECPO.

    Explained by `anchor_size` and `action_size` (steps in this state, and with this action), `anchor_mean`,
    `action_mean`, `shrunken_mean`, and `gate` (rho, or 1).
    """
    episode, why = episode_term(batch, options)
    value = returns(batch, options) - row_penalty(batch, options)
    anchors, choices = batch.anchors, batch.choices
    state, action = anchors.codes, choices.codes
    n, n_action = sizes(state, anchors.size), sizes(action, choices.size)
    centre = means(value, state, anchors.size)[state]
    action_mean = means(value, action, choices.size)[action]
    pull = n_action / (n_action + options.kappa)
    shrunken = centre + pull * (action_mean - centre)
    if options.sigma == "raw":
        lift, spread_of = pull * (action_mean - centre), deviations(value, state, anchors.size)
    else:
        lift = spread_of = deviations(shrunken, state, anchors.size)
    if options.step_std != "none":
        lift = lift / (spreads(spread_of, state, anchors.size, options.step_std)[state] + options.eps)
    gate = np.ones(len(batch))
    if options.gate:
        between = means((action_mean - centre) ** 2, state, anchors.size)
        within = means((value - action_mean) ** 2, state, anchors.size)
        gate = (between / (between + within + options.eps))[state] * np.tanh(n / options.tau)
    why |= {
        "anchor_size": n,
        "action_size": n_action,
        "anchor_mean": centre,
        "action_mean": action_mean,
        "shrunken_mean": shrunken,
        "gate": gate,
    }
    return combined(options, episode, gate * lift, why)
