"""A sum of kernels solved on all rows: (K + sigma^2 diag(1/w)) alpha = Y - a.

By a Cholesky factor, which also gives exact leave-one-out residuals: without row i the fit misses y_i by
alpha_i / [(K + sigma^2/w)^{-1}]_ii, and the diagonal of the inverse at the last m rows is that of the last m rows and
columns of the factor alone, inverted: no inverse of the whole is formed. Kernel and factor are in float32 where the
noise allows it, and the solution is refined with residuals in float64.

Where there are many rows and float32 will do, by conjugate gradients (`mlkm.solve.conjugate`) to a fiftieth of what
the fit leaves of y; errors are those of some rows that are left out together. The matrix is stored as long as it fits;
above, what does not fit is computed anew for every product (`mlkm.solve.dual_matrix`).
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import get_lapack_funcs

from .._types import Array
from ..data import Block, Workers, blocks
from ..model.sum_kernel import SumKernel
from ..runtime.memory import memory_budget
from .conjugate import FACTORS, Solved, System
from .dual_matrix import ArrayBlocks, Pairs

EXACT = 8000  # rows of a factor in float64 at most; n^3/3
DIRECT = 4000  # rows up to which a factor in float32 takes less time than conjugate gradients
STORED = 4e9  # bytes of a matrix in memory at most; 2 n^2 for the whole of it, up to 44,700 rows
_LEFT_OUT = 1000  # rows at which errors are measured
DOUBLE = 1000  # rows up to which float64 costs next to nothing
_ROUNDED = 1e-4  # noise variance, relative to the kernel's, from which float32 will do
_TALL = 512  # rows of a product in float64 at a time


@dataclass(frozen=True)
class DualFit:
    """alpha (n, k), the intercept (k,), what is missed of the last rows by fits without them (m, k), and the weighted
    means of its squares (k,)."""

    alpha: Array
    intercept: Array
    missed: Array
    loo_error: Array
    single: bool  # whether float32 was precise enough for the kernel


def solve_dual(kernel: SumKernel, rows: Block, noise: float, workers: Workers | None = None) -> DualFit:
    """Return the fit on all rows with the noise variance given; the intercept is not penalised. The workers of a
    cluster, where there are any, compute products with a matrix that is not stored."""
    mean, ridge = rows.weights @ rows.Y / len(rows), noise / rows.weights
    if len(rows) > FACTORS:
        ridge = np.maximum(ridge, _least_ridge(kernel, rows.X))
    single = _rounds(kernel, rows.X, ridge)
    if single and len(rows) > DIRECT:
        alpha, shift, missed = _by_gradients(kernel, rows.X, rows.Y - mean, ridge, workers)
    else:
        alpha, shift, missed = _by_factor(kernel, rows.X, rows.Y - mean, ridge)
    last = rows.weights[-len(missed) :]
    return DualFit(alpha, mean + shift, missed, last @ missed**2 / last.sum(), single)


def usual_steps(n: int) -> int:
    """Steps of `solve_dual` for n rows, about: one by a factor, else those of conjugate gradients in two solves."""
    return 1 if n <= DIRECT else 30


def solvable_rows(kernel: SumKernel, rows: Block, noise: float) -> Block:
    """All rows; where there is so little noise that float32 will not do, no more than a factor in float64 can take.
    Without noise the others would add little, unless they are many: these are solved with as much as float32 needs."""
    n = len(rows)
    all_of_them = n <= EXACT or n > FACTORS or _rounds(kernel, rows.X, noise / rows.weights)
    return rows if all_of_them else rows.take(slice(0, EXACT))


def kernel_matrix(kernel: SumKernel, X: Array, ridge: Array, single: bool) -> Array:
    """K + diag(ridge), its upper triangle, in float32 where `single`."""
    K = kernel.upper(X.astype(np.float32) if single else X)
    K[np.diag_indices(len(K))] += ridge.astype(K.dtype)
    return K


def _rounds(kernel: SumKernel, X: Array, ridge: Array) -> bool:
    """Return whether there are many rows, and the noise is large enough beside the kernel for float32."""
    return len(X) > DOUBLE and bool(ridge.min() >= _least_ridge(kernel, X))


def _least_ridge(kernel: SumKernel, X: Array) -> float:
    """With which float32 will do."""
    return _ROUNDED * float(np.mean(kernel.diagonal(X[:200])))


def _by_factor(kernel: SumKernel, X: Array, Y: Array, ridge: Array) -> tuple[Array, Array, Array]:
    """alpha, the intercept, and what the fit without each of the last rows misses of it.

    With C the inverse, the intercept is a = 1'CY / 1'C1, alpha = C (Y - 1a), and without row i the fit misses y_i by
    alpha_i / (C_ii - (C1)_i^2 / 1'C1).
    """
    n, m, single = len(X), min(len(X), _LEFT_OUT), _rounds(kernel, X, ridge)
    K = kernel_matrix(kernel, X, ridge, single)
    kept = K.copy() if single else K
    functions: Any = get_lapack_funcs(("potrf", "potrs", "trtri"), (K,))
    potrf, potrs, trtri = functions
    L, targets = _factor(K, potrf), np.hstack([Y, np.ones((n, 1))])
    solved = potrs(L, targets.astype(K.dtype), lower=1)[0].astype(np.float64)
    if single:
        for _ in range(2):
            solved += potrs(L, (targets - _times(kept, solved)).astype(K.dtype), lower=1)[0]
    corner = trtri(np.asfortranarray(L[n - m :, n - m :]), lower=1)[0]
    diagonal = np.einsum("ij,ij->j", corner, corner, dtype=np.float64)
    ones = solved[:, -1:]
    shift = ones.T @ Y / ones.sum()
    alpha = solved[:, :-1] - ones * shift
    own = diagonal - ones[n - m :, 0] ** 2 / ones.sum()
    return alpha, shift[0], alpha[n - m :] / np.maximum(own, 1e-12 / ridge[n - m :])[:, None]


def _factor(K: Array, potrf: Any) -> Array:
    """The lower Cholesky factor. K has its upper triangle in C order, its transpose the lower one in Fortran order; a
    matrix that is singular to rounding gets the least multiple of the identity that makes it positive."""
    jitter, most = 0.0, float(np.abs(np.diagonal(K)).max())
    while True:
        L, failed = potrf((K if jitter == 0 else K + jitter * np.eye(len(K), dtype=K.dtype)).T, lower=1, clean=1)
        if not failed:
            return np.asarray(L)
        jitter = 10 * jitter or len(K) * float(np.finfo(K.dtype).eps) * most


def _times(K: Array, alpha: Array) -> Array:
    """K alpha with sums in float64, from the upper triangle of K."""
    total = np.zeros_like(alpha)
    for at in blocks(len(K), _TALL):
        right = K[at, at.start :].astype(np.float64)
        square = right[:, : at.stop - at.start]
        square[:] = np.triu(square) + np.triu(square, 1).T
        total[at] += right @ alpha[at.start :]
        total[at.stop :] += right[:, at.stop - at.start :].T @ alpha[at]
    return total


def room_for_matrix() -> float:
    """Bytes of a matrix that may be stored: some, and no more than half of the memory that may be taken."""
    return min(STORED, memory_budget() / 2)


def _by_gradients(
    kernel: SumKernel, X: Array, Y: Array, ridge: Array, workers: Workers | None
) -> tuple[Array, Array, Array]:
    """Return the same by conjugate gradients, without the last rows, which gives the errors there, and with all of
    them. Where they do not converge, it is solved by a factor after all."""
    fewer = len(Y) - min(_LEFT_OUT, len(Y) // 8)
    solve = _stored if 2 * len(Y) ** 2 <= room_for_matrix() else partial(_by_pairs, workers=workers)
    found = solve(kernel, X.astype(np.float32), Y, ridge, fewer)
    if found is None:
        return _by_factor(kernel, X, Y, ridge)
    (_, shift_of_some, residual), (alpha, shift, _) = found
    return alpha, shift, residual[fewer:] - shift_of_some


def _stored(kernel: SumKernel, X: Array, Y: Array, ridge: Array, fewer: int) -> list[Solved] | None:
    """One after the other: on all rows from the solution without the last ones."""
    system = System.of(kernel.strips(X), ridge)
    first = system.solve(Y, np.zeros_like(Y), fewer)
    second = None if first is None else system.solve(Y, first[0], len(Y))
    return None if first is None or second is None else [first, second]


def _by_pairs(
    kernel: SumKernel, X: Array, Y: Array, ridge: Array, fewer: int, workers: Workers | None
) -> list[Solved] | None:
    """Solve both at once: a product takes its time by the kernels, however many columns there are."""
    matrix = Pairs.of(kernel, ArrayBlocks(kernel.codes(X)), ridge, STORED, workers)
    return System.with_matrix(matrix, ridge).solve_together(Y, (fewer, len(Y)))
