"""The variances of the kernels of a sum, and of the noise, by leave-one-out: a smooth minimum.

The leave-one-out residual of row i is e_i = alpha_i / C_ii, with C = (sum_t v_t K_t + s^2 diag(1/w))^{-1} and
alpha = C y. Its mean square has a gradient in every variance at the cost of the value. The kernels were learned from
other rows where there are enough, so that overfitting there is not rewarded here.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.optimize

from .._types import Array
from ..runtime.deadline import fit_is_late
from ..runtime.progress import advance
from ..runtime.sizes import FACTOR_LOGS, NOISE_VARIANCES
from ..runtime.threads import stop_if_asked
from ..solve.penalty import best_on_grid
from .evidence import IMPOSSIBLE, factor, inverse_of


def weigh(kernels: Sequence[Array], Y: Array, weights: Array, begin: Array, steps: int) -> Array:
    """Return factors of the kernels and the noise variance with the least leave-one-out error, from `begin`: the noise
    first, over its whole range, then all of them."""
    begin = np.asarray(begin, np.float64).copy()
    begin[-1] = best_noise(_sum(kernels, begin), Y, weights)
    low, high = np.log(NOISE_VARIANCES)
    taken: list[float] = []

    def step(intermediate_result: scipy.optimize.OptimizeResult) -> None:
        """End the descent when time is up."""
        taken.append(float(intermediate_result.fun))
        advance()
        if fit_is_late():
            raise StopIteration

    options: Any = {"maxiter": steps}
    result = scipy.optimize.minimize(
        leave_one_out(kernels, Y, weights),
        np.log(begin),
        jac=True,
        method="L-BFGS-B",
        bounds=[FACTOR_LOGS] * len(kernels) + [(low, high)],
        callback=step,
        options=options,
    )
    advance(steps - len(taken))
    return np.asarray(np.exp(result.x))


def _sum(kernels: Sequence[Array], factors: Array) -> Array:
    total = factors[0] * kernels[0]
    for f, K in zip(factors[1:], kernels[1:], strict=False):
        total += f * K
    return np.asarray(total, np.float64)


def best_noise(K: Array, Y: Array, weights: Array) -> float:
    """Return the noise variance with the least leave-one-out error, over ten decades, from one decomposition."""
    root = np.sqrt(weights)[:, None]
    values, U = np.linalg.eigh(root * K * root.T)
    values, squares, rotated = np.maximum(values, 0), U**2, U.T @ (root * Y)

    def error(noise: float) -> float:
        """Return the sum of squared leave-one-out errors."""
        inverse = 1 / (values + noise)
        return float((((U @ (inverse[:, None] * rotated)) / (squares @ inverse)[:, None]) ** 2).sum())

    low, high = np.log10(NOISE_VARIANCES)
    return best_on_grid(np.logspace(low, high, 4 * int(high - low) + 1), error)


def leave_one_out(kernels: Sequence[Array], Y: Array, weights: Array) -> Callable[[Array], tuple[float, Array]]:
    """Return the function from the logarithms of the factors and of the noise to the logarithm of the mean squared
    leave-one-out error and its gradient."""

    def objective(logs: Array) -> tuple[float, Array]:
        """Return the logarithm of the error, and its gradient."""
        stop_if_asked()
        factors = np.exp(logs)
        K = _sum(kernels, factors)
        K[np.diag_indices(len(K))] += factors[-1] / weights
        L = factor(K)
        if L is None:
            return IMPOSSIBLE, np.zeros(len(logs))
        C = inverse_of(L)
        alpha, diagonal = C @ Y, np.diag(C).copy()[:, None]
        errors = alpha / diagonal
        value = float((weights @ errors**2).sum())
        slope = 2 * weights[:, None] * errors / diagonal
        # d e_i = (d alpha_i - e_i d C_ii) / C_ii, with d alpha = -C dK alpha and d C = -C dK C
        G = (C * (slope * errors).sum(axis=1)) @ C - (C @ slope) @ alpha.T
        gradient = [f * float(np.vdot(G, kernel)) for f, kernel in zip(factors, kernels, strict=False)]
        gradient.append(factors[-1] * float(np.diag(G) @ (1 / weights)))
        return float(np.log(max(value, 1e-300))), np.array(gradient) / max(value, 1e-300)

    return objective
