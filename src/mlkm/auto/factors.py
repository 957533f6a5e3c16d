"""The variances of kernels and noise that explain targets best."""

from collections.abc import Sequence

import numpy as np
import scipy.optimize

from .._types import Array
from .evidence import kernel_evidence


def best_factors(kernels: Sequence[Array], Y: Array, begin: Sequence[float], max_iter: int) -> tuple[float, Array]:
    """Non-negative factors of a sum of kernels with the largest evidence of Y, and the negative log evidence there."""

    def objective(logs: Array) -> tuple[float, Array]:
        factors = np.exp(logs)
        value, dK = kernel_evidence(np.tensordot(factors, kernels, axes=1), Y)
        return value, np.array([f * float(np.vdot(dK, K)) for f, K in zip(factors, kernels, strict=True)])

    logs = np.log(np.maximum(begin, 1e-12))
    bounds = [(-16.0, 3.0)] * (len(logs) - 1) + [
        (logs[-1] - 2, 1.0)
    ]  # the last is the noise, which a search has already seen
    result = scipy.optimize.minimize(
        objective, logs, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": max_iter}
    )
    return float(result.fun), np.exp(result.x)


def best_two_factors(kernel: Array, Y: Array, weights: Array, noise: float) -> tuple[float, Array]:
    """As `best_factors` for one kernel and noise of variance proportional to 1/weights: one eigendecomposition, then
    sums over eigenvalues."""
    root = np.sqrt(weights)
    eigenvalues, U = np.linalg.eigh(root[:, None] * kernel * root)
    eigenvalues = np.maximum(eigenvalues, 0)
    squares = ((U.T @ (root[:, None] * Y)) ** 2).mean(axis=1)
    n, shift = len(Y), float(np.log(weights).sum())

    def objective(logs: Array) -> tuple[float, Array]:
        factor, s2 = np.exp(logs)
        total = factor * eigenvalues + s2
        slope = 0.5 * (1 / total - squares / total**2) / n
        return 0.5 * (float((np.log(total) + squares / total).sum()) - shift) / n, np.array(
            [factor * slope @ eigenvalues, s2 * slope.sum()]
        )

    begin = np.array([0.0, np.log(max(noise, 1e-12))])
    bounds = [(-16.0, 3.0), (begin[1] - 2, 1.0)]
    result = scipy.optimize.minimize(objective, begin, jac=True, method="L-BFGS-B", bounds=bounds)
    return float(result.fun), np.exp(result.x)
