"""Variances of the kernels of a sum and of the noise, and weights of the members of a stack, each by rows that are left
out.

The leave-one-out residual of row i is e_i = alpha_i / C_ii, with C = (sum_t v_t K_t + s^2 diag(1/w))^{-1} and
alpha = C y. Its mean square has a gradient in every variance at the cost of the value. The kernels were learned from
other rows where there are enough, so that overfitting there is not rewarded here.

The weights of a stack are non-negative and sum to one. They are averaged over Bayesian bootstraps of the rows (weights
from the exponential law), so that members between which the rows can hardly decide share the weight.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.optimize
from numpy.linalg import LinAlgError
from scipy.optimize import lsq_linear, nnls

from .._types import Array
from ..runtime.deadline import fit_is_late
from ..runtime.progress import advance
from ..runtime.sizes import FACTOR_LOGS, FAILED_VALUE, NOISE_VARIANCES, UNIT_SUM_PENALTY
from ..runtime.threads import stop_if_asked
from ..solve.ridge import best_on_grid
from .evidence import factor, inverse_of


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
            return FAILED_VALUE, np.zeros(len(logs))
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


def convex_weights(predictions: Array, Y: Array, weights: Array, rng: np.random.Generator, bootstraps: int) -> Array:
    """Return weights (members,) for predictions (members, rows, outputs) of Y (rows, outputs); the last member is the
    mean.

    Chance lets a member look better than the mean, the more so the fewer the rows. With s the mean square by which the
    combination leaves the mean and e its error, chance is worth about e / m per member, and the combination is shrunk
    towards the mean as much as that asks for: not noticeably where e is small beside s.
    """
    shares = _averaged(predictions, Y, weights, rng, bootstraps, 0.0)
    combined, mean, share = np.tensordot(shares, predictions, axes=1), predictions[-1], weights / weights.sum()
    left, moved = (float((share @ part**2).sum()) for part in (Y - combined, combined - mean))
    if moved == 0:
        return shares
    return _averaged(predictions, Y, weights, rng, bootstraps, 3 * len(predictions) * left / (len(Y) * moved))


def shared_weights(predictions: Array, Y: Array, weights: Array, rng: np.random.Generator, bootstraps: int) -> Array:
    """Return weights for members none of which is to be preferred."""
    return _averaged(predictions, Y, weights, rng, bootstraps, 0.0)


def _averaged(
    predictions: Array, Y: Array, weights: Array, rng: np.random.Generator, bootstraps: int, shrinkage: float
) -> Array:
    """Return the average over bootstraps of the weights with the least error, plus `shrinkage` times the mean squared
    distance of the combination from the mean."""
    total, mean = np.zeros(len(predictions)), predictions[-1]
    for _ in range(bootstraps):
        root = np.sqrt(weights * rng.exponential(size=len(weights)))[:, None]
        A = np.stack([(root * (f - mean)).ravel() for f in predictions], axis=1)
        b = (root * (Y - mean)).ravel()
        held = UNIT_SUM_PENALTY * (np.abs(A).max() or 1.0)
        rows = [A, np.sqrt(shrinkage) * A, np.full((1, A.shape[1]), held)]
        shares = _non_negative(np.vstack(rows), np.concatenate([b, np.zeros(len(A)), [held]]))
        total += shares / (shares.sum() or 1.0)
    return np.asarray(total / bootstraps)


def _non_negative(A: Array, b: Array) -> Array:
    """Return the x >= 0 with the least ||A x - b||. Where two members predict nearly the same, `nnls` of SciPy 1.13,
    which squares A, runs into its limit of iterations or a singular matrix; `lsq_linear` is slower and does not
    square."""
    try:
        return np.asarray(nnls(A, b)[0])
    except (RuntimeError, LinAlgError):
        return np.asarray(lsq_linear(A, b, (0, np.inf), method="bvls").x)
