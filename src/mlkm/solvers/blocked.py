"""Ridge on features that are computed block by block: memory O(block x D + D^2), whatever the number of rows.

Sums of products are taken in the features' own precision within a block and added in float64. Each candidate penalty costs one Cholesky
factorisation, and is judged by exact leave-one-out errors at a sample of rows.
"""

from collections.abc import Callable

import numpy as np
from scipy.linalg import cho_solve, lapack, solve_triangular

from .._types import Array
from .ridge import RidgeFit

_BLOCK = 4096


def blocked_ridge(
    rows_of_features: Callable[[slice], Array],
    Y: Array,
    weights: Array,
    copies: Array,
    penalty: float,
    *,
    search: bool = True,
    n_left_out: int = 2000,
) -> RidgeFit:
    """Fit Y (n, k) on features given by slices of rows; with `search`, the penalty moves by factors of 3 as long as the leave-one-out error falls."""
    n = len(Y)
    sample = slice(max(0, n - n_left_out), n)
    left = rows_of_features(sample)
    shift = left.mean(axis=0)  # products of shifted features lose no digits to the mean
    y_mean = weights @ Y / n
    A, FY, mean = _products(rows_of_features, Y - y_mean, weights, shift)
    left -= shift + mean.astype(left.dtype)
    w = weights[sample]

    def solve(candidate: float) -> tuple[float, Array, Array, float]:
        """Leave-one-out error, coefficients, residuals; an infinite error where the system cannot be factorised."""
        damped = A.copy()
        damped[np.diag_indices(len(A))] += n * candidate
        L, failed = lapack.dpotrf(damped, lower=1, overwrite_a=1)
        if failed:
            return np.inf, FY, left, candidate
        C = cho_solve((L, True), FY, check_finite=False)
        H = solve_triangular(L.astype(left.dtype), left.T, lower=True, check_finite=False)
        leverage = w / copies[sample] * (np.einsum("dn,dn->n", H, H).astype(np.float64) + 1 / n)
        residuals = (Y[sample] - y_mean - left @ C.astype(left.dtype)) / np.maximum(1 - leverage, 1e-8)[:, None]
        return float((w @ residuals**2).sum()), C, residuals, candidate

    best = solve(penalty)
    if search:
        best = _descend(solve, best)
    error, C, residuals, penalty = best
    if not np.isfinite(error):
        raise np.linalg.LinAlgError(f"The ridge system could not be factorised at penalty {penalty:.3g}; give a larger penalty.")
    return RidgeFit(C, y_mean - (mean + shift) @ C, penalty, w @ residuals**2 / w.sum(), residuals)


def _products(rows_of_features: Callable[[slice], Array], Yc: Array, weights: Array, shift: Array) -> tuple[Array, Array, Array]:
    """F'WF and F'WY of centred features, and the mean of F - shift."""
    n, D = len(Yc), len(shift)
    A, FY, total = np.zeros((D, D)), np.zeros((D, Yc.shape[1])), np.zeros(D)
    for begin in range(0, n, _BLOCK):
        block = slice(begin, min(begin + _BLOCK, n))
        F = rows_of_features(block)
        F -= shift
        w = weights[block].astype(F.dtype)
        total += (w @ F).astype(np.float64)
        FY += (F.T @ (w[:, None] * Yc[block]).astype(F.dtype)).astype(np.float64)
        F *= np.sqrt(w)[:, None]
        A += F.T @ F
    mean = total / n
    A -= n * np.outer(mean, mean)
    A[np.diag_indices(D)] += 8 * np.finfo(shift.dtype).eps * np.trace(A) / D  # rounding of the products must not look like information
    return A, FY, mean


def _descend(
    solve: Callable[[float], tuple[float, Array, Array, float]], best: tuple[float, Array, Array, float]
) -> tuple[float, Array, Array, float]:
    """Step the penalty up or down by factors of 3 while the error falls."""
    begin = best[3]
    for step in (1 / 3, 3.0):
        candidate = begin * step
        while (trial := solve(candidate))[0] < best[0] or not np.isfinite(best[0]):
            best, candidate = trial, candidate * step
            if not 1e-4 < candidate / begin < 1e8:
                break
        if best[3] < begin:
            break
    return best
