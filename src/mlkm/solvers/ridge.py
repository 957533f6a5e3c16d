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
class _Spectrum:
    """A = sqrt(w)(F - mean) as U diag(s) V', with U'sqrt(w)(Y - mean) at hand."""

    U: Array
    s: Array
    V: Array
    rotated: Array
    f_mean: Array
    y_mean: Array
    Yc: Array
    root_w: Array


def normalised_weights(sample_weight: Array | None, n: int) -> Array:
    """Weights that average to one."""
    return np.ones(n) if sample_weight is None else sample_weight * (n / sample_weight.sum())


def eigen(A: Array) -> tuple[Array, Array]:
    """Eigenvalues and eigenvectors of a symmetric matrix, by divide and conquer; SciPy 1.11 refuses that to a matrix
    of one number."""
    values, V = scipy.linalg.eigh(A, driver="evd" if len(A) > 1 else "ev", check_finite=False)
    return values, V


def _decompose(F: Array, Y: Array, weights: Array) -> _Spectrum:
    """One singular value decomposition. That of the product A'A takes half the time, and has half the digits: of a
    singular value below 1e-8 of the largest, none."""
    n = len(F)
    f_mean, y_mean = weights @ F / n, weights @ Y / n
    root_w = np.sqrt(weights)[:, None]
    A, Yc = root_w * (F - f_mean), Y - y_mean
    U, s, Vt = scipy.linalg.svd(A, full_matrices=False, check_finite=False)
    # Directions whose singular value is rounding error carry no information: drop them.
    kept = s > s.max(initial=0.0) * max(A.shape) * np.finfo(np.float64).eps
    U = U[:, kept]
    return _Spectrum(U, s[kept], Vt[kept].T, U.T @ (root_w * Yc), f_mean, y_mean, Yc, root_w)


def _leave_one_out(spectrum: _Spectrum, penalty: float) -> Array:
    """r_i / (1 - h_i) for every row.

    Both are sums over directions of what the ridge leaves, n lambda / (s_k^2 + n lambda), plus what lies outside all
    directions; 1 - h_i itself would cancel where the fit nearly interpolates. A row that decides its own fit entirely
    (h_i = 1) is predicted by the mean when left out.
    """
    n, weights = len(spectrum.U), spectrum.root_w[:, 0] ** 2
    left = n * penalty / (spectrum.s**2 + n * penalty)
    squares = spectrum.U**2
    beyond = 1 - weights / n - squares.sum(axis=1)
    spanned = beyond < 1e-13  # the directions reproduce this row: what is left beyond them is rounding error
    outside = np.where(spanned[:, None], 0, spectrum.Yc - spectrum.U @ spectrum.rotated / spectrum.root_w)
    residuals = outside + spectrum.U @ (left[:, None] * spectrum.rotated) / spectrum.root_w
    room = np.where(spanned, 0, beyond) + squares @ left
    determined = room < 1e-15
    left_out = residuals / np.where(determined, 1, room)[:, None]
    left_out[determined] = spectrum.Yc[determined]
    return left_out


def ridge(F: Array, Y: Array, sample_weight: Array | None = None, penalty: float | None = None) -> RidgeFit:
    """Fit features F (n, D) to targets Y (n, k); `penalty=None` chooses it by exact leave-one-out."""
    F, Y = np.asarray(F, np.float64), np.asarray(Y, np.float64)
    n = len(F)
    weights = normalised_weights(sample_weight, n)
    spectrum = _decompose(F, Y, weights)

    if penalty is None:
        grid = candidates(spectrum.s.max() ** 2 / n if len(spectrum.s) else 1.0)
        penalty = best_on_grid(grid, lambda value: float((weights @ _leave_one_out(spectrum, value) ** 2).sum()))
    left_out = _leave_one_out(spectrum, penalty)
    error = weights @ left_out**2 / n
    shrink = spectrum.s / (spectrum.s**2 + n * penalty)
    coefficients = spectrum.V @ (shrink[:, None] * spectrum.rotated)
    intercept = spectrum.y_mean - spectrum.f_mean @ coefficients
    return RidgeFit(coefficients, intercept, penalty, error, left_out)
