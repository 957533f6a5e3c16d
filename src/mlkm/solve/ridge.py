"""Ridge regression on features in closed form: the whole path, exact leave-one-out errors and the penalty they choose,
from one decomposition.

For weights w_i (normalised to sum to n), centred features F and targets Y, the problem is

    minimise (1/n) sum_i w_i |y_i - c'F_i - a|^2 + lambda |c|^2,

the paper's ridge with an unpenalised intercept a. With A = sqrt(w) F = U S V', the fit at every lambda is diagonal in
that basis, and the leave- one-out residual is r_i / (1 - h_i), where h_i = w_i/n + sum_k U_ik^2 s_k^2 / (s_k^2 + n
lambda).
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from .._types import Array
from .penalty import best_on_grid, candidates

EXACT_ROWS = 1500  # up to which one eigendecomposition in float64 is cheap; above, features are summed block by block


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


def normalised_weights(sample_weight: Array | None, n: int) -> Array:
    """Weights that average to one."""
    return np.ones(n) if sample_weight is None else sample_weight * (n / sample_weight.sum())


def eigen(A: Array) -> tuple[Array, Array]:
    """Eigenvalues and eigenvectors of a symmetric matrix, by divide and conquer; SciPy 1.11 refuses that to a matrix
    of one number."""
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
    kept = s > max(s.max(initial=0.0), np.abs(root_w * F).max(initial=0.0)) * max(A.shape) * np.finfo(np.float64).eps
    U, dropped, targets = U[:, kept], U[:, ~kept], root_w * Yc
    rotated = U.T @ targets
    if n - 1 <= F.shape[1]:  # U and the dropped directions span the whole space
        outside, beyond = dropped @ (dropped.T @ targets) / root_w, (dropped**2).sum(axis=1)
    else:
        beyond = 1 - weights / n - (U**2).sum(axis=1)
        beyond[beyond < 1e-13] = 0  # the directions reproduce this row: the remainder is a rounding error
        outside = np.where(beyond[:, None] > 0, Yc - U @ rotated / root_w, 0)
    return Spectrum(U, s[kept], Vt[kept].T, rotated, outside, beyond, f_mean, y_mean, Yc, root_w)


def ridge(F: Array, Y: Array, sample_weight: Array | None = None, penalty: float | None = None) -> RidgeFit:
    """Fit features F (n, D) to targets Y (n, k); `penalty=None` chooses it by exact leave-one-out."""
    F, Y = np.asarray(F, np.float64), np.asarray(Y, np.float64)
    n = len(F)
    weights = normalised_weights(sample_weight, n)
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
