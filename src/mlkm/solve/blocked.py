"""Ridge on features that are computed block by block: memory O(block x D + D^2), whatever the number of rows.

Penalties are judged by exact leave-one-out errors at a sample of rows: along a path from one eigendecomposition, or one
Cholesky factorisation each where penalties differ between features.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cho_solve, lapack, solve_triangular

from .._types import Array, BoolArray
from ..data.rows import Block, Rows
from ..model.last import Features
from .penalty import best_near, best_on_grid, candidates
from .ridge import RidgeFit, eigen
from .sums import Sums, add_in_place, gram, sums_of

PATH_FEATURES = 1500  # up to which one eigendecomposition costs less than a search by factorisations


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


def summed(prior: Features, pieces: Rows, left: Block) -> tuple[Products, Sums]:
    """The same of rows that are seen in pieces, with the sums behind it; `left` are the rows at which errors are
    taken."""
    sums = pieces.map_reduce(sums_of(prior, left.X), add_in_place)
    return products_of(sums, prior, left), sums


def products_of(sums: Sums, prior: Features, left: Block) -> Products:
    """From sums over all rows, weights averaging to one."""
    F = prior.rows_of_features(prior.inputs(left.X))
    F -= sums.f_mean.astype(F.dtype)
    FF, FY, _ = sums.centred()
    FF[np.diag_indices(len(FF))] += 8 * np.finfo(F.dtype).eps * np.trace(FF) / len(FF)  # as in `products`
    return Products(FF, FY, sums.f_mean, sums.y_mean, round(sums.weight), F, left.Y - sums.y_mean, left.weights)


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


@dataclass(frozen=True)
class Path:
    """The errors of one system at every penalty, from one eigendecomposition: G = V diag(s) V'."""

    values: Array
    rotated: Array  # V'FY
    left_out: Array  # the left-out rows in that basis
    sums: Products
    least: float = 0.0  # the penalty below which products of low precision need not be positive definite

    def error(self, penalty: float) -> float:
        """As `loo(solve(sums, penalty))`."""
        sums, damping = self.sums, 1 / (self.values + self.sums.n * penalty)
        leverage = sums.weights * (self.left_out**2 @ damping + 1 / sums.n)
        residuals = sums.Y - self.left_out @ (damping[:, None] * self.rotated)
        residuals /= np.maximum(1 - leverage, 1e-8)[:, None]
        return float((sums.weights @ residuals**2 / sums.weights.sum()).sum())


def path(sums: Products) -> Path:
    values, V = eigen(sums.gram)
    left_out = (sums.left_out @ V.astype(sums.left_out.dtype)).astype(np.float64)
    return Path(np.maximum(values, 0), V.T @ sums.FY, left_out, sums, max(0.0, -2 * float(values[0])) / sums.n)


def scaled(sums: Products, relative: Array) -> Products:
    """The system whose single penalty stands for `relative` times it at every feature."""
    root = 1 / np.sqrt(relative)
    left_out = (sums.left_out * root).astype(sums.left_out.dtype)
    gram = root[:, None] * sums.gram * root
    return replace(sums, gram=gram, FY=root[:, None] * sums.FY, f_mean=root * sums.f_mean, left_out=left_out)


def global_penalty(sums: Products, least: float = 0.0) -> float:
    """The penalty with the least leave-one-out error of all that the system can be factorised at, not below `least`."""
    every = path(sums)
    return best_on_grid(candidates(float(every.values[-1]) / sums.n or 1.0), every.error, max(least, every.least))


def blocked_ridge(
    rows_of_features: Callable[[slice], Array], Y: Array, weights: Array, penalty: float | None
) -> RidgeFit:
    """Fit Y (n, k) on features given by slices of rows; a penalty of None is chosen by leave-one-out."""
    sums = products(rows_of_features, Y, weights)
    return best_penalty(sums) if penalty is None else solved(sums, penalty)


def best_penalty(sums: Products) -> RidgeFit:
    """The fit with the least leave-one-out error over all penalties; of more features than one decomposition can be
    afforded for, from the best penalty of a part of them."""
    D = len(sums.gram)
    if D <= PATH_FEATURES:
        return solved(sums, global_penalty(sums))
    part = np.arange(D) % -(-D // PATH_FEATURES) == 0
    share = D / part.sum()  # with so many times the features, so many times the variance
    guess = global_penalty(restricted(sums, part)) / share
    return solved(sums, best_near(guess, lambda penalty: loo(solve(sums, penalty))))


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
