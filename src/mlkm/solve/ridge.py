"""Ridge regression on features in closed form: the whole path of penalties, leave-one-out errors, and the penalty that
they choose.

For weights w_i (normalised to sum to n), centred features F and targets Y, the problem is

    minimise (1/n) sum_i w_i |y_i - c'F_i - a|^2 + lambda |c|^2,

the paper's ridge with an unpenalised intercept a. It is solved in two ways:

* `ridge`, of features in memory, by one singular value decomposition sqrt(w) F = U S V': the fit at every lambda is
  diagonal in that basis, and the leave-one-out residual is r_i / (1 - h_i), where
  h_i = w_i/n + sum_k U_ik^2 s_k^2 / (s_k^2 + n lambda).
* `RidgeSystem`, of products F'WF and F'WY that are summed over blocks of rows: memory O(block x D + D^2), whatever the
  number of rows. Leave-one-out errors are those at a sample of rows: along a path from one eigendecomposition, or by
  one Cholesky factorisation for each penalty.

Along log(penalty) the leave-one-out error is smooth, but it may have a flat stretch or two local minima, so that the
end of a descent from a guess depends on rounding. A grid covers the whole range; where one decomposition gives the
error at every penalty it costs nothing, and otherwise the search starts from a guess that a smaller problem gave. Of
penalties with nearly equal errors the larger is taken: a tenth of it must lower the error by a hundredth of a percent.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
from scipy.linalg import cho_solve, get_lapack_funcs, lapack, solve_triangular

from .._types import Array
from ..data.rows import Block
from ..model.machine import Features
from ..runtime.rules import RULES
from ..runtime.sizes import EXACT_ROWS, PATH_FEATURES
from .sums import Sums, sums_of_slices


def cholesky(A: Array, added: float = 0.0) -> Array:
    """Return L with LL' = A, of which the lower triangle is read, in its precision. A matrix that is singular to
    rounding gets the least multiple of the identity that makes it positive, from `added` on."""
    potrf: Any = get_lapack_funcs("potrf", (A,))
    while len(A):
        L, failed = potrf(A + added * np.eye(len(A), dtype=A.dtype) if added else A, lower=1, clean=1)
        if not failed:
            return np.asarray(L)
        added = 10 * added or len(A) * float(np.finfo(A.dtype).eps) * float(np.abs(np.diagonal(A)).max())
    return A


def candidates(top: float) -> Array:
    """Return candidate penalties, from almost no shrinkage to almost complete shrinkage."""
    low, high = RULES.penalty_decades
    return np.asarray(top * np.logspace(low, high, RULES.penalties_per_decade * (high - low) + 1))


def best_on_grid(grid: Array, error: Callable[[float], float], least: float = 0.0) -> float:
    """Return the global minimum on the grid from `least` on, moved to the vertex of the parabola through it and its
    neighbours."""
    grid = grid[grid >= least] if (grid >= least).any() else grid[-1:]
    values = np.array([_judged(penalty, error) for penalty in grid])
    at = int(np.argmin(values))
    if not 0 < at < len(grid) - 1 or not np.isfinite(values[at - 1 : at + 2]).all():
        return float(grid[at])
    return float(np.exp(_vertex(np.log(grid[at - 1 : at + 2]), values[at - 1 : at + 2])))


def best_near(
    guess: float, error: Callable[[float], float], step: float = 5.0, most: float = 1e8, least: float = 1e-8
) -> float:
    """Return the local minimum near a guess: a bracket is searched by steps, and the vertex of the parabola through it
    is taken. It lies within `least` and `most` times the guess."""
    known: dict[int, float] = {}
    low, high = (int(np.floor(np.log(bound) / np.log(step))) for bound in (least, most))

    def value(k: int) -> float:
        if k not in known:
            known[k] = _judged(guess * step**k, error) if low <= k <= high else np.inf
        return known[k]

    k = 0
    while not np.isfinite(value(k)) and k < high:  # a system that cannot be factorised needs a larger penalty
        k += 1
    while True:
        down, here, up = value(k - 1), value(k), value(k + 1)
        if down < here and down <= up:
            k -= 1
        elif up < here:
            k += 1
        else:
            break
    values, at = np.array([down, here, up]), np.log(guess) + np.log(step) * np.arange(k - 1, k + 2)
    return float(np.exp(_vertex(at, values))) if np.isfinite(values).all() else float(guess * step**k)


def _judged(penalty: float, error: Callable[[float], float]) -> float:
    """Return the logarithm of the error with a small bonus for larger penalties; infinity where it is not finite."""
    value = error(float(penalty))
    return (
        float(np.log(max(value, 1e-300)) - RULES.penalty_tie * np.log(penalty))
        if np.isfinite(value) and penalty > 0
        else np.inf
    )


def _vertex(x: Array, values: Array) -> float:
    """Return the vertex of the parabola through three equally spaced points with the least in the middle."""
    down, here, up = values
    bend = down - 2 * here + up
    return float(x[1] + (0.5 * (x[2] - x[1]) * (down - up) / bend if bend > 0 else 0.0))


@dataclass(frozen=True)
class RidgeFit:
    """Coefficients (D, k), intercept (k,), the penalty used, and at it the leave-one-out residuals (n, k) and their
    weighted mean squares (k,)."""

    coefficients: Array
    intercept: Array
    penalty: float
    loo_error: Array
    loo_residuals: Array


@dataclass(frozen=True)
class Spectrum:
    """The decomposition A = sqrt(w)(F - mean) = U diag(s) V' and `rotated` = U'sqrt(w)(Y - mean): the fit at every
    penalty.

    `outside` (n, k) is the part of Y orthogonal to the columns of U, and `beyond` (n,) the squared length of that part
    of the unit vector of every row.
    """

    U: Array
    s: Array
    V: Array
    rotated: Array
    outside: Array
    beyond: Array
    f_mean: Array
    y_mean: Array
    Yc: Array
    root_w: Array

    def left_out(self, penalty: float, copies: Array | float = 1.0) -> tuple[Array, Array]:
        """Return r_i / (1 - h_i / copies_i) and 1 - h_i / copies_i for every row, of which one copy is left out.

        Both r_i and 1 - h_i are sums over singular directions, with the shares n lambda / (s_k^2 + n lambda) that the
        ridge leaves, plus the part orthogonal to all of them: subtracting h_i from 1 would lose all digits
        where the fit nearly interpolates. A row with leverage h_i = 1 is predicted by the mean when it is left out.
        """
        n = len(self.U)
        left = n * penalty / (self.s**2 + n * penalty)
        residuals = self.outside + self.U @ (left[:, None] * self.rotated) / self.root_w
        room = (self.beyond + self.U**2 @ left + (copies - 1)) / copies
        determined = room < 1e-15
        room = np.where(determined, 1.0, room)
        return np.where(determined[:, None], self.Yc, residuals / room[:, None]), room

    def smoother(self, F: Array, penalty: float) -> Array:
        """Return the weight of every row in the fit at features F: (rows of F, rows)."""
        n, weights = len(self.U), self.root_w[:, 0] ** 2
        directions = (F - self.f_mean) @ self.V * (self.s / (self.s**2 + n * penalty))
        return np.asarray(directions @ self.U.T * self.root_w[:, 0] + weights / n)


def eigen(A: Array) -> tuple[Array, Array]:
    """Return eigenvalues and eigenvectors of a symmetric matrix, by divide and conquer, which SciPy 1.11 refuses to a
    matrix of one number."""
    values, V = scipy.linalg.eigh(A, driver="evd" if len(A) > 1 else "ev", check_finite=False)
    return values, V


def decomposed(F: Array, Y: Array, weights: Array) -> Spectrum:
    """Compute one singular value decomposition. The eigenvalues of A'A take half the time, but have half the digits:
    singular values below 1e-8 of the largest would be lost."""
    n = len(F)
    f_mean, y_mean = weights @ F / n, weights @ Y / n
    root_w = np.sqrt(weights)[:, None]
    A, Yc = root_w * (F - f_mean), Y - y_mean
    # The columns of A are orthogonal to sqrt(w). A reflection of sqrt(w) to the first axis keeps those of U so, too.
    v = root_w / np.sqrt(n)
    v[0] += 1
    U, s, Vt = np.linalg.svd((A - v @ (v.T @ A) / v[0])[1:], full_matrices=False)
    U = np.vstack([np.zeros((1, U.shape[1])), U]) - v @ (v[1:].T @ U) / v[0]
    # Directions whose singular value is within rounding errors of the features, before centring, are dropped.
    largest = max(s.max(initial=0.0), np.abs(root_w * F).max(initial=0.0))
    informative = s > largest * max(A.shape) * np.finfo(np.float64).eps
    U, dropped, targets = U[:, informative], U[:, ~informative], root_w * Yc
    rotated = U.T @ targets
    if n - 1 <= F.shape[1]:  # U and the dropped directions span the whole space
        outside, beyond = dropped @ (dropped.T @ targets) / root_w, (dropped**2).sum(axis=1)
    else:
        beyond = 1 - weights / n - (U**2).sum(axis=1)
        beyond[beyond < 1e-13] = 0  # the directions reproduce this row: the remainder is a rounding error
        outside = np.where(beyond[:, None] > 0, Yc - U @ rotated / root_w, 0)
    return Spectrum(U, s[informative], Vt[informative].T, rotated, outside, beyond, f_mean, y_mean, Yc, root_w)


def ridge(F: Array, Y: Array, sample_weight: Array | None = None, penalty: float | None = None) -> RidgeFit:
    """Fit features F (n, D) to targets Y (n, k); `penalty=None` chooses it by exact leave-one-out."""
    F, Y = np.asarray(F, np.float64), np.asarray(Y, np.float64)
    n = len(F)
    weights = np.ones(n) if sample_weight is None else sample_weight * (n / sample_weight.sum())
    spectrum = decomposed(F, Y, weights)

    if penalty is None:
        grid = candidates(spectrum.s.max() ** 2 / n if len(spectrum.s) else 1.0)
        penalty = best_on_grid(grid, lambda value: float((weights @ spectrum.left_out(value)[0] ** 2).sum()))
    left_out, _ = spectrum.left_out(penalty)
    error = weights @ left_out**2 / n
    shrink = spectrum.s / (spectrum.s**2 + n * penalty)
    coefficients = spectrum.V @ (shrink[:, None] * spectrum.rotated)
    intercept = spectrum.y_mean - spectrum.f_mean @ coefficients
    return RidgeFit(coefficients, intercept, penalty, error, left_out)


@dataclass(frozen=True)
class RidgeSystem:
    """F'WF and F'WY of centred features and targets, with n rows of weights that average to one, and a sample of rows,
    centred likewise, at which leave-one-out errors are computed."""

    FF: Array
    FY: Array
    f_mean: Array
    y_mean: Array
    n: float
    sample: Array
    Y: Array
    weights: Array

    @classmethod
    def of(cls, sums: Sums, sample: Array, Y: Array, weights: Array) -> "RidgeSystem":
        """Make a system of sums, and the features, which are overwritten, targets and weights of sampled rows."""
        FF, FY, _ = sums.centred()
        # Rounding of the products must not look like information.
        FF[np.diag_indices(len(FF))] += 8 * np.finfo(sample.dtype).eps * np.trace(FF) / len(FF)
        sample -= sums.f_mean.astype(sample.dtype)
        return cls(FF, FY, sums.f_mean, sums.y_mean, round(sums.weight), sample, Y - sums.y_mean, weights)

    def fit(self, penalty: float | None) -> RidgeFit:
        """Return the ridge at a penalty, or with the least leave-one-out error over all penalties if that is None."""
        penalty = self.best_penalty() if penalty is None else penalty
        fit = self.solve(penalty)
        if fit is None:
            raise np.linalg.LinAlgError(
                f"The ridge system could not be factorised at penalty {penalty:.3g}; give a larger penalty."
            )
        return fit

    def solve(self, penalty: float) -> RidgeFit | None:
        """Return the ridge at one penalty, None where the system cannot be factorised."""
        damped, dtype = self.FF.copy(), self.sample.dtype
        damped[np.diag_indices(len(damped))] += self.n * penalty
        L, failed = lapack.dpotrf(damped.T, lower=1, overwrite_a=1)
        if failed:
            return None
        C = cho_solve((L, True), self.FY, check_finite=False)
        H = solve_triangular(L.astype(dtype, copy=False), self.sample.T, lower=True, check_finite=False)
        leverage = np.einsum("dn,dn->n", H, H).astype(np.float64)
        residuals = self.loo_residuals_of(self.sample @ C.astype(dtype), leverage)
        return RidgeFit(C, self.y_mean - self.f_mean @ C, penalty, self.mean_squares(residuals), residuals)

    def best_penalty(self) -> float:
        """Return the penalty with the least leave-one-out error; with too many features for a decomposition, the
        minimum near the best penalty of a part of them."""
        D = len(self.FF)
        if D <= PATH_FEATURES:
            return self.best_on_path()
        part = np.arange(D) % -(-D // PATH_FEATURES) == 0
        of_part = replace(
            self,
            FF=self.FF[np.ix_(part, part)],
            FY=self.FY[part],
            f_mean=self.f_mean[part],
            sample=self.sample[:, part],
        )
        share = D / part.sum()  # the variance is proportional to the number of features
        return best_near(of_part.best_on_path() / share, lambda penalty: _total_error(self.solve(penalty)))

    @cached_property
    def _eigen(self) -> tuple[Array, Array, Array, float]:
        """Return the eigenvalues of F'WF = V diag(values) V', V'F'WY, the sampled rows in that basis, and the penalty
        below which products of low precision need not be positive definite."""
        values, V = eigen(self.FF)
        sample = (self.sample @ V.astype(self.sample.dtype)).astype(np.float64)
        return np.maximum(values, 0), V.T @ self.FY, sample, max(0.0, -2 * float(values[0])) / self.n

    def error_on_path(self, penalty: float) -> float:
        """Return the leave-one-out error, summed over outputs, by one decomposition for all penalties."""
        values, FY, sample, _ = self._eigen
        damping = 1 / (values + self.n * penalty)
        residuals = self.loo_residuals_of(sample @ (damping[:, None] * FY), sample**2 @ damping)
        return float(self.mean_squares(residuals).sum())

    def best_on_path(self) -> float:
        """Return the penalty with the least such error among those at which the system can be factorised."""
        values, _, _, least = self._eigen
        return best_on_grid(candidates(float(values[-1]) / self.n or 1.0), self.error_on_path, least)

    def loo_residuals_of(self, predictions: Array, leverage: Array) -> Array:
        """Return r_i / (1 - w_i (h_i + 1 / n)) at the sampled rows, h_i without weight and intercept."""
        left = np.maximum(1 - self.weights * (leverage + 1 / self.n), 1e-8)
        return np.asarray((self.Y - predictions) / left[:, None])

    def mean_squares(self, residuals: Array) -> Array:
        """Return the weighted mean squares of residuals at the sampled rows, for every output."""
        return np.asarray(self.weights @ residuals**2 / self.weights.sum())


def _total_error(fit: RidgeFit | None) -> float:
    return np.inf if fit is None else float(fit.loo_error.sum())


def system_of_rows(features: Features, rows: Block) -> RidgeSystem:
    """Return the system of rows in memory; the last rows are the sample."""
    inputs, last = features.inputs(rows.X), slice(max(0, len(rows) - RULES.loo_rows), len(rows))

    def of_slice(at: slice) -> Array:
        return features.rows_of_features(inputs[at])

    sample = of_slice(last)
    sums = sums_of_slices(of_slice, rows.Y, rows.weights, sample.mean(axis=0), lanes=True)
    return RidgeSystem.of(sums, sample, rows.Y[last], rows.weights[last])


def system_of_sums(sums: Sums, features: Features, sample: Block) -> RidgeSystem:
    """Make a system of sums over all rows, with weights that are made to average to one, and sampled rows."""
    factor = sums.n / sums.weight
    F = features.rows_of_features(features.inputs(sample.X))
    return RidgeSystem.of(sums.times(factor), F, sample.Y, factor * sample.weights)


def ridge_on(features: Features, rows: Block, penalty: float | None, exact_rows: int = EXACT_ROWS) -> RidgeFit:
    """Fit a ridge on features of rows in memory, by one decomposition of up to `exact_rows` rows, and by their sums
    above; a penalty of None is chosen by leave-one-out."""
    if len(rows) <= exact_rows:
        return ridge(features.rows_of_features(rows.X), rows.Y, rows.weights, penalty)
    return system_of_rows(features, rows).fit(penalty)
