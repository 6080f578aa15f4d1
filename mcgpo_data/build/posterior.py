"""P(theta_a > theta_b) for two Beta posteriors, vectorised.

theta_u ~ Beta(S_u + 1/2, n_u - S_u + 1/2) is the Jeffreys posterior of a success rate after S_u successes in n_u
rollouts. With theta = sin(phi)^2 the density of theta_a is sin(phi)^2S cos(phi)^2(n-S) up to a constant: smooth up to
the ends, and below exp(-n d^2) of its peak at distance d from it, so that it is integrated over 6 / sqrt(n) around
the peak. The distribution function of theta_b that it is weighed with is no steeper than that, because a is taken to
be the action with more rollouts. Hence a fixed number of Gauss-Legendre nodes does for any counts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

NODES = 64
CHUNK = 4096  # comparisons at a time: 2 MB per temporary array


def superiority(s_a: ArrayLike, n_a: ArrayLike, s_b: ArrayLike, n_b: ArrayLike) -> NDArray[np.float64]:
    """Probability that action a has the higher success rate.

    Args:
        s_a: successes of action a; an integer array, as the others, which broadcast to one shape.
        n_a: rollouts of action a.
        s_b: successes of action b.
        n_b: rollouts of action b.

    Returns:
        Array of that shape, values in [0, 1], absolute error below 1e-9.
    """
    counts = np.stack(np.broadcast_arrays(s_a, n_a, s_b, n_b)).astype(np.float64)
    flat = counts.reshape(4, -1)
    swapped = flat[1] < flat[3]
    flat = np.where(swapped, flat[[2, 3, 0, 1]], flat)
    chunks = [_above(*flat[:, i : i + CHUNK, None]) for i in range(0, flat.shape[1], CHUNK)]
    above = np.concatenate(chunks) if chunks else np.zeros(0)
    return np.where(swapped, 1 - above, above).reshape(counts.shape[1:])


def _above(
    s_a: NDArray[np.float64], n_a: NDArray[np.float64], s_b: NDArray[np.float64], n_b: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The same for columns of shape (N, 1) with n_a >= n_b; returns (N,)."""
    from scipy.special import betainc, betaln, xlogy

    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    peak = np.arctan2(np.sqrt(s_a), np.sqrt(n_a - s_a))
    reach = 6 / np.sqrt(np.maximum(n_a, 1))
    low, high = np.maximum(peak - reach, 0), np.minimum(peak + reach, np.pi / 2)
    half = (high - low) / 2
    phi = low + half * (nodes + 1)
    log_density = 2 * xlogy(s_a, np.sin(phi)) + 2 * xlogy(n_a - s_a, np.cos(phi)) + np.log(2)
    density = np.exp(log_density - betaln(s_a + 0.5, n_a - s_a + 0.5))
    below = betainc(s_b + 0.5, n_b - s_b + 0.5, np.sin(phi) ** 2)
    total: NDArray[np.float64] = np.sum(density * below * weights * half, axis=-1)
    return total
