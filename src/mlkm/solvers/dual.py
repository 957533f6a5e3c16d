"""A sum of kernels solved on all rows: (K + sigma^2 diag(1/w)) alpha = Y - a.

Up to `EXACT` rows by a Cholesky factor, which also gives exact leave-one-out residuals: without row i the fit misses
y_i by alpha_i / [(K + sigma^2/w)^{-1}]_ii, and the diagonal of the inverse at the last m rows is that of the last m
rows and columns of the factor alone, inverted: no inverse of the whole is formed. Kernel and factor are in float32
where the noise allows it, and the solution is refined with residuals in float64.

Above, by conjugate gradients (`mlkm.solvers.conjugate`), with the diagonal of the inverse estimated by random signs.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import get_lapack_funcs

from .._seeds import Purpose, generator
from .._types import Array
from ..model.sum_kernel import SumKernel
from ..rows import Rows, blocks
from .conjugate import conjugate_gradients, preconditioner

EXACT = 8000  # rows up to which a factor takes seconds; n^3/3
_LEFT_OUT = 1000  # rows at which errors are measured
_ROUNDED = 1e-4  # noise variance, relative to the kernel's, from which float32 will do
_TALL = 512  # rows of a product in float64 at a time
_ROUGHLY = 0.1  # to which share of its residuals each of them is solved
_SIGNS = 6  # right-hand sides from which the diagonal of an inverse is estimated


@dataclass(frozen=True)
class DualFit:
    """alpha (n, k), the intercept (k,), and squared errors of rows left out: their weighted means (k,)."""

    alpha: Array
    intercept: Array
    loo_error: Array
    loo_residuals: Array  # of the last rows, (m, k)


def solve_dual(kernel: SumKernel, rows: Rows, noise: float) -> DualFit:
    """The fit on all rows with the noise variance given; the intercept is not penalised.

    With C the inverse, the intercept is a = 1'CY / 1'C1, alpha = C (Y - 1a), and without row i the fit misses y_i by
    alpha_i / (C_ii - (C1)_i^2 / 1'C1).
    """
    n, weights = len(rows), rows.weights
    ridge, m = noise / weights, min(n, _LEFT_OUT)
    targets = np.hstack([rows.Y - rows.weights @ rows.Y / n, np.ones((n, 1))])
    solve = _by_factor if n <= EXACT else _by_gradients
    solved, diagonal = solve(kernel, rows.X, targets, ridge, m)
    ones = solved[:, -1:]
    shift = ones.T @ targets[:, :-1] / ones.sum()
    alpha = solved[:, :-1] - ones * shift
    own = diagonal - ones[n - m :, 0] ** 2 / ones.sum()
    left_out = alpha[n - m :] / np.maximum(own, 1e-12 / ridge[n - m :])[:, None]
    last = weights[n - m :]
    return DualFit(alpha, (weights @ rows.Y / n) + shift[0], last @ left_out**2 / last.sum(), left_out)


def solvable_rows(kernel: SumKernel, rows: Rows, noise: float) -> Rows:
    """All rows; where there is so little noise that float32 will not do, no more than a factor in float64 can take.
    Without noise the others would add little."""
    few = len(rows) <= EXACT or _rounds(kernel, rows.X, noise / rows.weights)
    return rows if few else rows.take(slice(0, EXACT))


def kernel_matrix(kernel: SumKernel, X: Array, ridge: Array, single: bool) -> Array:
    """K + diag(ridge), in float32 where `single`."""
    K = kernel.gram(X.astype(np.float32) if single else X)
    K[np.diag_indices(len(K))] += ridge.astype(K.dtype)
    return K


def _rounds(kernel: SumKernel, X: Array, ridge: Array) -> bool:
    """Whether the noise is large enough beside the kernel for float32."""
    return bool(ridge.min() > _ROUNDED * float(np.mean(kernel.diagonal(X[:200]))))


def _by_factor(kernel: SumKernel, X: Array, Y: Array, ridge: Array, m: int) -> tuple[Array, Array]:
    """C Y, and the diagonal of C at the last m rows."""
    n, single = len(X), _rounds(kernel, X, ridge)
    K = kernel_matrix(kernel, X, ridge, single)
    kept = K.copy() if single else K
    functions: Any = get_lapack_funcs(("potrf", "potrs", "trtri"), (K,))
    potrf, potrs, trtri = functions
    L = _factor(K, potrf)
    alpha = potrs(L, Y.astype(K.dtype), lower=1)[0].astype(np.float64)
    if single:
        for _ in range(2):
            missing = Y - _times(kept, alpha)
            alpha += potrs(L, missing.astype(K.dtype), lower=1)[0]
    corner = trtri(np.asfortranarray(L[n - m :, n - m :]), lower=1)[0]
    return alpha, np.einsum("ij,ij->j", corner, corner, dtype=np.float64)


def _factor(K: Array, potrf: Any) -> Array:
    """The lower Cholesky factor. K is symmetric and in C order, so that its transpose is itself in Fortran order; a
    matrix that is singular to rounding gets the least multiple of the identity that makes it positive."""
    jitter, most = 0.0, float(np.abs(np.diagonal(K)).max())
    while True:
        L, failed = potrf((K if jitter == 0 else K + jitter * np.eye(len(K), dtype=K.dtype)).T, lower=1, clean=1)
        if not failed:
            return np.asarray(L)
        jitter = 10 * jitter or len(K) * float(np.finfo(K.dtype).eps) * most


def _times(K: Array, alpha: Array) -> Array:
    """K alpha with sums in float64."""
    return np.vstack([K[at].astype(np.float64) @ alpha for at in blocks(len(K), _TALL)])


def _by_gradients(kernel: SumKernel, X: Array, Y: Array, ridge: Array, m: int) -> tuple[Array, Array]:
    """C Y by conjugate gradients, and with it the diagonal of C at the last m rows: for signs z drawn at random, the
    mean of z times the solution for z."""
    n = len(Y)
    K = kernel_matrix(kernel, X, ridge, single=True)
    precondition = preconditioner(K, ridge)
    alpha = conjugate_gradients(K, Y, ridge, precondition)
    signs = np.where(generator(0, Purpose.SIGNS).integers(0, 2, (n, _SIGNS)) == 1, 1.0, -1.0)
    diagonal = (conjugate_gradients(K, signs, ridge, precondition, _ROUGHLY) * signs).mean(axis=1)
    # 1 - h_i lies between 0 and 1, and is not below what a draw of signs may make of it
    return alpha, np.clip(diagonal, 0.05 / ridge, 1 / ridge)[n - m :]
