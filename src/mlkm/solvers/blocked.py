"""Ridge on features that are computed block by block: memory O(block x D + D^2), whatever the number of rows.

Each candidate for the penalties costs one Cholesky factorisation, and is judged by exact leave-one-out errors at a
sample of rows.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cho_solve, lapack, solve_triangular

from .._types import Array, BoolArray
from .gram import gram
from .ridge import RidgeFit

_COARSE = (1.0, 1e2, 1e4, 1e6)
_MANY = 1500  # features above which the penalty is chosen to a factor of 5 only, to save factorisations


@dataclass(frozen=True)
class Products:
    """F'WF and F'WY of centred features and targets, their means, and the rows at which leave-one-out errors are
    taken."""

    gram: Array
    FY: Array
    f_mean: Array
    y_mean: Array
    n: int
    left_out: Array
    Y: Array
    weights: Array


def products(rows_of_features: Callable[[slice], Array], Y: Array, weights: Array, n_left_out: int = 1000) -> Products:
    """One pass over the rows, whose features are given by slices."""
    n = len(Y)
    sample = slice(max(0, n - n_left_out), n)
    left = rows_of_features(sample)
    sums = gram(rows_of_features, Y, weights, left.mean(axis=0), lanes=True)
    D = len(sums.FF)
    # Rounding of the products must not look like information.
    sums.FF[np.diag_indices(D)] += 8 * np.finfo(left.dtype).eps * np.trace(sums.FF) / D
    left -= sums.f_mean.astype(left.dtype)
    return Products(sums.FF, sums.FY, sums.f_mean, sums.y_mean, n, left, Y[sample] - sums.y_mean, weights[sample])


def solve(sums: Products, penalty: Array | float) -> RidgeFit | None:
    """The ridge at one penalty, or at one for every feature; None where the system cannot be factorised."""
    D = len(sums.gram)
    damped = sums.gram.copy()
    damped[np.diag_indices(D)] += sums.n * penalty
    L, failed = lapack.dpotrf(damped.T, lower=1, overwrite_a=1)
    if failed:
        return None
    C = cho_solve((L, True), sums.FY, check_finite=False)
    dtype = sums.left_out.dtype
    H = solve_triangular(L.astype(dtype, copy=False), sums.left_out.T, lower=True, check_finite=False)
    leverage = sums.weights * (np.einsum("dn,dn->n", H, H).astype(np.float64) + 1 / sums.n)
    residuals = (sums.Y - sums.left_out @ C.astype(dtype)) / np.maximum(1 - leverage, 1e-8)[:, None]
    error = sums.weights @ residuals**2 / sums.weights.sum()
    return RidgeFit(C, sums.y_mean - sums.f_mean @ C, float(np.max(penalty)), error, residuals)


def restricted(sums: Products, kept: BoolArray) -> Products:
    """The products of some of the features."""
    return replace(
        sums,
        gram=sums.gram[np.ix_(kept, kept)],
        FY=sums.FY[kept],
        f_mean=sums.f_mean[kept],
        left_out=sums.left_out[:, kept],
    )


def line_search(
    objective: Callable[[float], float],
    begin: float,
    steps: tuple[float, ...] = (5.0,),
    most: float = 1e8,
    least: float | None = None,
) -> float:
    """A number near which the objective is least: from `begin` down or up by factors while it falls by a thousandth, by
    each step in turn.

    Where the objective is flat, `begin` is as good as any, and nothing says that it stays flat with more features. It
    moves by a factor of at most `most`, and not below `least` (1/most) times the beginning.
    """
    known = {begin: objective(begin)}

    def value(x: float) -> float:
        if x not in known:
            known[x] = objective(x)
        return known[x]

    best = begin
    while (
        not np.isfinite(value(best)) and best < most * begin
    ):  # where nothing can be factorised a larger number is the only way
        best *= steps[0]
    for step in steps:
        for factor in (1 / step, step):
            moved = False
            while (least or 1 / most) < best * factor / begin < most and value(best * factor) < 0.999 * value(best):
                best, moved = best * factor, True
            if moved:
                break
    return best


def blocked_ridge(
    rows_of_features: Callable[[slice], Array], Y: Array, weights: Array, penalty: float, *, search: bool = True
) -> RidgeFit:
    """Fit Y (n, k) on features given by slices of rows; with `search`, the penalty moves as long as the leave-one-out
    error falls."""
    sums = products(rows_of_features, Y, weights)
    return best_penalty(sums, penalty) if search else solved(sums, penalty)


def best_penalty(sums: Products, begin: float, *, coarse: bool = False) -> RidgeFit:
    """The fit with the least leave-one-out error along the line of penalties, from the beginning, or from the best of a
    coarse grid above it."""
    fits: dict[float, RidgeFit | None] = {}

    def error(penalty: float) -> float:
        fits[penalty] = solve(sums, penalty)
        return loo(fits[penalty])

    steps = (5.0,) if len(sums.gram) > _MANY else (5.0, 2.0)
    if coarse:  # the error may be flat around a guess and fall far from it
        begin = min((begin * factor for factor in _COARSE), key=error)
    best = fits[line_search(error, begin, steps)]
    return solved(sums, begin) if best is None else best


def loo(fit: RidgeFit | None) -> float:
    return np.inf if fit is None else float(fit.loo_error.sum())


def solved(sums: Products, penalty: Array | float) -> RidgeFit:
    """The fit, or an error that says what to do."""
    fit = solve(sums, penalty)
    if fit is None:
        raise np.linalg.LinAlgError(
            f"The ridge system could not be factorised at penalty {np.min(penalty):.3g}; give a larger penalty."
        )
    return fit
