"""What the estimators share: the episode term, the comparison within a state, penalties, and their sum.

    A^E = (R - mean_g R) / (std_g R + eps)

`episode_stats="rollouts"` counts a rollout once (the textbook); `"rows"` counts it once per step, as the reference
code of verl-agent does by default. An invalid action costs `invalid_penalty`: with `penalty_place="row"` its own
row alone, in episode score and step value (verl-agent; with `rows` it then also moves mean and std), with
`"reward"` its reward, and thereby the score of its rollout and the returns of the steps before it. Cost: O(rows).

A penalty that is not part of the deviation (place `"row"`, statistics over `"rollouts"`) is divided by itself where
the deviation is smaller: it costs one deviation at most. (Divided by the deviation of a group of failures, 0 + eps,
a penalty of 0.1 would weigh 100,000.)
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mcgpo_data.credit.batch import StepBatch
from mcgpo_data.credit.keys import Floats, Ints
from mcgpo_data.credit.normalise import deviations, means, spreads, standardised
from mcgpo_data.credit.options import Options, ReturnOptions, StepOptions

Columns: TypeAlias = dict[str, npt.NDArray[Any]]


def row_penalty(batch: StepBatch, options: Options) -> Floats | float:
    """What is subtracted from each row's episode score and step value, shape (N,)."""
    if options.penalty_place != "row" or not options.invalid_penalty:
        return 0.0
    return np.where(batch.valid, 0.0, options.invalid_penalty)


def scores(batch: StepBatch, options: Options) -> Floats:
    """Episode score of each rollout, less penalties on rewards, shape (M,)."""
    if options.penalty_place != "reward" or not options.invalid_penalty:
        return batch.score
    return batch.score - options.invalid_penalty * np.bincount(batch.rollout, ~batch.valid, len(batch.start))


def rewards(batch: StepBatch, options: Options) -> Floats:
    """Reward of each step, less the penalty where it belongs there, shape (N,)."""
    if options.penalty_place != "reward" or not options.invalid_penalty:
        return batch.reward
    return batch.reward - options.invalid_penalty * ~batch.valid


def returns(batch: StepBatch, options: ReturnOptions) -> Floats:
    """R_t = r_t + gamma R_{t+1} of each step, shape (N,); penalties on rows are not in it."""
    return batch.backward(rewards(batch, options), options.gamma)


def episode_term(batch: StepBatch, options: Options, *, leave_one_out: bool = False) -> tuple[Floats, Columns]:
    """(A^E of each row, what explains it).

    With `leave_one_out`, a score is compared with the mean of the others, n/(n-1) (R - mean), and not divided.
    """
    value, penalty = scores(batch, options), row_penalty(batch, options)
    apart: Floats | float = 0.0  # what the deviation does not know of
    if options.episode_stats == "rows":
        key, value = batch.group, value[batch.rollout] - penalty
        deviation = deviations(value, key, batch.groups)
        term = deviation
    else:
        key = batch.group_of
        deviation = deviations(value, key, batch.groups)
        term, apart = deviation[batch.rollout], penalty
    count = np.bincount(key, minlength=batch.groups)
    spread = spreads(deviation, key, batch.groups, "population" if options.std == "population" else "sample")
    centre = means(value, key, batch.groups)
    if leave_one_out:
        factor = fine = count / np.maximum(count - 1, 1)
    elif options.std == "none":
        factor = fine = np.ones(batch.groups)
    else:
        unit = np.where((count == 1) & (options.singleton == "raw"), 1.0, spread)
        factor, fine = 1 / (unit + options.eps), 1 / (np.maximum(unit, options.invalid_penalty) + options.eps)
    if options.singleton == "raw":  # as if a lone rollout stood beside a group of mean 0 and deviation 1
        term = np.where((count == 1)[batch.group], term + centre[batch.group], term)
    return term * factor[batch.group] - apart * fine[batch.group], {
        "group_size": batch.group_size[batch.group],
        "group_mean": centre[batch.group],
        "group_std": spread[batch.group],
    }


def anchor_term(batch: StepBatch, values: Floats, options: StepOptions) -> Floats:
    """Values, less penalties on rows, standardised among the steps in the same state of a group; one step alone: 0."""
    anchors = batch.anchors
    return standardised(
        values - row_penalty(batch, options), anchors.codes, anchors.size, options.step_std, options.eps
    )


def sizes(key: Ints, size: int) -> Ints:
    """Number of rows with the same key, per row."""
    return np.bincount(key, minlength=size)[key]


def combined(options: Options, episode: Floats, step: Floats | None, explained: Columns) -> Columns:
    """The three advantage columns, then what explains them."""
    total = options.episode_weight * episode
    if step is None:
        step = np.zeros(len(episode))
    elif isinstance(options, StepOptions):
        total = total + options.step_weight * step
    return {"episode_advantage": episode, "step_advantage": step, "advantage": total, **explained}


def powers(base: float, highest: int) -> Floats:
    """base^0 .. base^highest by repeated multiplication, the same on every platform."""
    return np.concatenate([[1.0], np.cumprod(np.full(highest, base))])
