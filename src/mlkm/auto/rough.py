"""The rough part of the default model: the l1-Laplacian kernel, its relevances by the evidence of an exact fit to some
hundred rows."""

from dataclasses import dataclass

import numpy as np

from .._types import Array
from .climb import climb
from .evidence import kernel_evidence
from .policy import Policy

_LEAST_NOISE = 1e-5


@dataclass(frozen=True)
class Rough:
    """Relevances gamma (d,), variance of the kernel, noise variance, and the value of the negative log evidence per
    row."""

    relevance: Array
    variance: float
    noise: float
    value: float


def learn(X: Array, Y: Array, weights: Array, policy: Policy, *, warm: Rough | None = None) -> Rough:
    """Climb the evidence of K(x, x') = v exp(-sum_j gamma_j |x_j - x'_j|) plus noise, exactly; distances in float32,
    factors in float64."""
    n, d = X.shape
    Z = X.astype(np.float32)
    target = Y - weights @ Y / weights.sum()
    gaps = [np.abs(Z[:, [j]] - Z[:, j]) for j in range(d)]
    per_weight = 1 / weights
    origin = np.concatenate([np.full(d, -np.log(d) - 0.5), [0.0, -1.0]])
    begin = (
        origin
        if warm is None
        else np.concatenate([np.log(warm.relevance), [np.log(warm.variance) / 2, np.log(warm.noise) / 2]])
    )

    def objective(vector: Array) -> tuple[float, Array]:
        gamma, variance, noise = np.exp(vector[:d]), float(np.exp(2 * vector[d])), float(np.exp(2 * vector[d + 1]))
        K: Array = np.zeros((n, n), np.float32)
        for g, gap in zip(gamma, gaps, strict=True):
            K -= np.float32(g) * gap
        np.exp(K, out=K)
        K *= np.float32(variance)
        noisy = K.astype(np.float64)
        noisy[np.diag_indices(n)] += (noise + _LEAST_NOISE) * per_weight
        value, inverse = kernel_evidence(noisy, target)
        d_noise = float(np.diag(inverse) @ per_weight)
        dK = inverse.astype(np.float32)
        dK *= K
        gradient = [-g * float(np.vdot(dK, gap)) for g, gap in zip(gamma, gaps, strict=True)]
        gradient += [2 * float(dK.sum(dtype=np.float64)), 2 * noise * d_noise]
        away = vector - origin
        return value + policy.rough_prior * float(away @ away), np.array(gradient) + 2 * policy.rough_prior * away

    bounds = [(-12.0, 4.0)] * d + [(-3.0, 4.0), (-6.0, 1.0)]
    x, value = climb(objective, begin, bounds, policy.rough_steps[warm is not None], policy.least_gain, policy)
    return Rough(np.exp(x[:d]), float(np.exp(2 * x[d])), float(np.exp(2 * x[d + 1])) + _LEAST_NOISE, value)
