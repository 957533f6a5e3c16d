"""A sum of kernels solved on all rows: (K + sigma^2 diag(1/w)) alpha = Y - a.

By a Cholesky factor, which also gives exact leave-one-out residuals alpha_i / [(K + sigma^2/w)^{-1}]_ii. The diagonal
of the inverse at the last m rows is that of the last m rows and columns of the factor alone, inverted: no inverse of
the whole is formed. Kernel and factor are in float32 where the noise allows it, and the solution is refined with
residuals in float64.

Where there are many rows and float32 is precise enough, by conjugate gradients, to a fiftieth of the residuals of the
fit; errors are those at rows that are left out together. The matrix is stored as long as it fits; above, what does not
fit is computed anew for every product (`mlkm.solve.dual_matrix`).

Conjugate gradients are preconditioned by Nystroem's approximation of K at a few rows. With M landmarks, C = K_nM and
K_MM = R R', the approximation is C K_MM^{-1} C' = B B', B = C R^{-T}. Its leading eigenvectors U and eigenvalues l, the
least of them l_0, make the preconditioner P = (l_0 + s) I + U diag(l - l_0) U'.

Directions are projected: to a sum of zero, which is what an intercept without penalty asks for, and to zero at rows
that are left out. With S that projection, S P S is inverted there, not P: where an eigenvector of a large l has much of
its length at the rows left out, the one is far from the other. Up to a factor, with Woodbury's identity,

    (S P S)^{-1} = S - S U (diag((l_0 + s) / (l - l_0)) + U'S U)^{-1} U'S.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import scipy.linalg
from scipy.linalg import get_lapack_funcs, lapack

from .._types import Array
from ..data import Block, Workers, blocks
from ..model.sum_kernel import SumKernel
from ..runtime.progress import advance
from ..runtime.resources import memory_budget, stop_if_asked
from ..runtime.rules import RULES
from ..runtime.sizes import (
    CONJUGATE_STEPS,
    CONJUGATE_TOLERANCE,
    DIRECT_ROWS,
    FACTOR_ROWS,
    FLOAT32_NOISE,
    FLOAT64_FACTOR_ROWS,
    FLOAT64_ROWS,
    GRAM_ROUNDING,
    LOST_EIGENVALUES,
    PRECONDITIONER_ENTRIES,
    PRECONDITIONER_LANDMARKS,
    PRODUCT_ROWS,
    ROWS_PER_LANDMARK,
    STORED_BYTES,
)
from .dual_matrix import ArrayBlocks, Pairs, Strips

Solved = tuple[Array, Array, Array]  # alpha (n, k), the intercept (k,), and Y - K alpha (n, k)


class Matrix(Protocol):
    """K with the ridge on its diagonal: stored (`Strips`) or not (`Pairs`)."""

    def product(self, V: Array) -> Array:
        """Return K V for V (n, k)."""

    def first_rows(self, most: int) -> Array:
        """Return the first rows of K."""


def landmarks(n: int) -> int:
    """Return the number of landmarks of the preconditioner of n rows."""
    return min(max(PRECONDITIONER_LANDMARKS, n // ROWS_PER_LANDMARK), PRECONDITIONER_ENTRIES // n)


@dataclass(frozen=True)
class Preconditioner:
    """U (n, r) and (l_0 + s) / (l - l_0) (r,)."""

    U: Array
    stiffness: Array

    def held(self, rows: int) -> "Held":
        """Return the inverse on directions that sum to zero and are zero from `rows` on."""
        inside, outside = self.U[:rows], self.U[rows:]
        mean = inside.mean(axis=0, dtype=np.float64)
        inner = np.eye(len(self.stiffness)) - outside.T @ outside - rows * np.outer(mean, mean)
        inner[np.diag_indices(len(inner))] += self.stiffness + GRAM_ROUNDING
        return Held(inside, mean, scipy.linalg.cho_factor(inner, lower=True))


@dataclass(frozen=True)
class Held:
    """The inverse of S P S: U at the rows that are not left out, its mean there, and a factor of the inner matrix."""

    U: Array
    mean: Array
    factor: tuple[Array, bool]

    def __call__(self, r: Array) -> Array:
        """Return the product of the inverse with r, which is projected already."""
        rows = len(self.U)
        inner = (self.U.T @ r[:rows].astype(self.U.dtype)).astype(np.float64)
        solved = scipy.linalg.cho_solve(self.factor, inner)
        z = r.copy()
        z[:rows] -= self.U @ solved.astype(self.U.dtype) - self.mean @ solved
        return z


def preconditioner(rows: Array, ridge: Array) -> Preconditioner:
    """Return the preconditioner of a system K with the ridge on its diagonal, whose first rows are given: those of the
    landmarks."""
    M, s = len(rows), float(np.mean(ridge))
    C = np.ascontiguousarray(rows.T)
    C[np.diag_indices(M)] -= ridge[:M].astype(C.dtype)
    A = C[:M].astype(np.float64)
    B = C @ scipy.linalg.solve_triangular(_root(A), np.eye(M), lower=True).T.astype(C.dtype)
    values, V = np.linalg.eigh((B.T @ B).astype(np.float64))
    least = max(values[0], LOST_EIGENVALUES * values[-1])
    informative = values > least
    values, V = values[informative], V[:, informative]
    U = B @ (V / np.sqrt(values)).astype(B.dtype)
    return Preconditioner(U, (least + s) / (values - least))


def _root(A: Array) -> Array:
    """Return the Cholesky factor of A with as little added to its diagonal as makes it positive: it comes from
    float32."""
    added = 1e-5 * float(np.trace(A)) / len(A)
    while True:
        L, failed = lapack.dpotrf(A + added * np.eye(len(A)), lower=1, clean=1)
        if not failed:
            return np.asarray(L)
        added *= 10


@dataclass(frozen=True)
class System:
    """K with the ridge on its diagonal, the ridge, and the preconditioner."""

    matrix: Matrix
    ridge: Array
    preconditioner: Preconditioner

    @classmethod
    def of(cls, strips: Iterable[tuple[slice, Array]], ridge: Array) -> "System":
        """Return the system of a kernel's strips, which are stored."""
        return cls.with_matrix(Strips.of(strips, ridge), ridge)

    @classmethod
    def with_matrix(cls, matrix: Matrix, ridge: Array) -> "System":
        """Return the system of a matrix, stored or not."""
        return cls(matrix, ridge, preconditioner(matrix.first_rows(landmarks(len(ridge))), ridge))

    def solve(self, Y: Array, alpha: Array, rows: int) -> Solved | None:
        """Return a fit to the first `rows` rows of Y, starting from a given alpha; None where conjugate gradients do
        not converge."""
        fits = self._solve(Y, alpha, (rows,))
        return None if fits is None else fits[0]

    def solve_together(self, Y: Array, several: Sequence[int]) -> list[Solved] | None:
        """Return fits to the first rows of Y, for several numbers of them: one product per step serves all."""
        return self._solve(np.hstack([Y] * len(several)), np.zeros((len(Y), len(several) * Y.shape[1])), several)

    def _solve(self, Y: Array, alpha: Array, several: Sequence[int]) -> list[Solved] | None:
        """Iterate on every column until its remaining residual is a small share of the residuals of the fit, ridge
        times alpha.

        Where that is not reached (K, being rounded, may not be positive), None; with more rows than a factor can take,
        what was reached. Steps that are missing smooth as more noise would, and rows left out tell what that costs.
        """
        holds, alpha = [self.preconditioner.held(rows) for rows in several], alpha.copy()
        parts = np.split(np.arange(Y.shape[1]), len(several))

        def held(V: Array) -> Array:
            return np.hstack([_held(V[:, part], rows) for part, rows in zip(parts, several, strict=True)])

        def precondition(V: Array) -> Array:
            return np.hstack([hold(V[:, part]) for part, hold in zip(parts, holds, strict=True)])

        arrived, residual = False, Y - self.matrix.product(alpha) if alpha.any() else Y.copy()
        z = precondition(held(residual))
        direction, size = z.copy(), (residual * z).sum(axis=0)
        for _ in range(CONJUGATE_STEPS):
            stop_if_asked()
            advance()
            image = self.matrix.product(direction)
            curvature = (direction * image).sum(axis=0)
            if not (curvature >= 0).all():
                break
            step = size / np.maximum(curvature, 1e-300)
            alpha += step * direction
            residual -= step * image
            rest = held(residual)
            left = ((self.ridge[:, None] * alpha) ** 2).sum(axis=0)
            arrived = bool(((rest**2).sum(axis=0) <= CONJUGATE_TOLERANCE**2 * left).all())
            if arrived:
                break
            z = precondition(rest)
            new = (rest * z).sum(axis=0)
            direction = z + (new / np.maximum(size, 1e-300)) * direction
            size = new
        if not arrived and len(Y) <= FACTOR_ROWS:
            return None
        return [_solved(alpha[:, part], residual[:, part], rows) for part, rows in zip(parts, several, strict=True)]


def _solved(alpha: Array, residual: Array, rows: int) -> Solved:
    return alpha, residual[:rows].mean(axis=0), residual


def _held(V: Array, rows: int) -> Array:
    """Return V projected to a sum of zero over its first `rows` rows, and to zero from there on."""
    held = np.zeros_like(V)
    held[:rows] = V[:rows] - V[:rows].mean(axis=0)
    return held


@dataclass(frozen=True)
class DualFit:
    """A kernel fit: alpha (n, k), the intercept (k,), the leave-one-out residuals of the last m rows (m, k), and the
    weighted means of their squares (k,)."""

    alpha: Array
    intercept: Array
    loo_residuals: Array
    loo_error: Array
    single: bool  # whether float32 was precise enough for the kernel


def solve_dual(kernel: SumKernel, rows: Block, noise: float, workers: Workers | None = None) -> DualFit:
    """Return the fit on all rows with the noise variance given; the intercept is not penalised. The workers of a
    cluster, where there are any, compute products with a matrix that is not stored."""
    mean, ridge = rows.weights @ rows.Y / len(rows), noise / rows.weights
    if len(rows) > FACTOR_ROWS:
        ridge = np.maximum(ridge, _least_ridge(kernel, rows.X))
    single = _rounds(kernel, rows.X, ridge)
    if single and len(rows) > DIRECT_ROWS:
        alpha, shift, loo_residuals = _by_gradients(kernel, rows.X, rows.Y - mean, ridge, workers)
    else:
        alpha, shift, loo_residuals = _by_factor(kernel, rows.X, rows.Y - mean, ridge)
    last = rows.weights[-len(loo_residuals) :]
    return DualFit(alpha, mean + shift, loo_residuals, last @ loo_residuals**2 / last.sum(), single)


def usual_steps(n: int) -> int:
    """Return about how many steps `solve_dual` takes for n rows: one by a factor, else those of conjugate gradients in
    two solves."""
    return 1 if n <= DIRECT_ROWS else 30


def solvable_rows(kernel: SumKernel, rows: Block, noise: float) -> Block:
    """Return all rows; where there is so little noise that float32 is not precise enough, no more than a factor in
    float64 can take. Without noise the others would add little, unless they are many: these are solved with as much
    noise as float32 needs."""
    n = len(rows)
    all_of_them = n <= FLOAT64_FACTOR_ROWS or n > FACTOR_ROWS or _rounds(kernel, rows.X, noise / rows.weights)
    return rows if all_of_them else rows.take(slice(0, FLOAT64_FACTOR_ROWS))


def kernel_matrix(kernel: SumKernel, X: Array, ridge: Array, single: bool) -> Array:
    """Return K + diag(ridge), its upper triangle, in float32 where `single`."""
    K = kernel.upper(X.astype(np.float32) if single else X)
    K[np.diag_indices(len(K))] += ridge.astype(K.dtype)
    return K


def _rounds(kernel: SumKernel, X: Array, ridge: Array) -> bool:
    """Return whether there are many rows, and the noise is large enough beside the kernel for float32."""
    return len(X) > FLOAT64_ROWS and bool(ridge.min() >= _least_ridge(kernel, X))


def _least_ridge(kernel: SumKernel, X: Array) -> float:
    """Return the least ridge with which float32 is precise enough."""
    return FLOAT32_NOISE * float(np.mean(kernel.diagonal(X[:200])))


def _by_factor(kernel: SumKernel, X: Array, Y: Array, ridge: Array) -> tuple[Array, Array, Array]:
    """Return alpha, the intercept, and the leave-one-out residuals of the last rows, by a Cholesky factor.

    With C the inverse, the intercept is a = 1'CY / 1'C1, alpha = C (Y - 1a), and without row i the fit misses y_i by
    alpha_i / (C_ii - (C1)_i^2 / 1'C1).
    """
    n, m, single = len(X), min(len(X), RULES.loo_rows), _rounds(kernel, X, ridge)
    K = kernel_matrix(kernel, X, ridge, single)
    functions: Any = get_lapack_funcs(("potrf", "potrs", "trtri"), (K,))
    potrf, potrs, trtri = functions
    L, targets = _factor(K, potrf), np.hstack([Y, np.ones((n, 1))])
    solved = potrs(L, targets.astype(K.dtype), lower=1)[0].astype(np.float64)
    if single:
        for _ in range(2):
            solved += potrs(L, (targets - _times(K, solved)).astype(K.dtype), lower=1)[0]
    corner = trtri(np.asfortranarray(L[n - m :, n - m :]), lower=1)[0]
    diagonal = np.einsum("ij,ij->j", corner, corner, dtype=np.float64)
    ones = solved[:, -1:]
    shift = ones.T @ Y / ones.sum()
    alpha = solved[:, :-1] - ones * shift
    inverse_diagonal = diagonal - ones[n - m :, 0] ** 2 / ones.sum()
    return alpha, shift[0], alpha[n - m :] / np.maximum(inverse_diagonal, 1e-12 / ridge[n - m :])[:, None]


def _factor(K: Array, potrf: Any) -> Array:
    """Return the lower Cholesky factor. K has its upper triangle in C order, its transpose the lower one in Fortran
    order; a matrix that is singular to rounding gets the least multiple of the identity that makes it positive."""
    jitter, most = 0.0, float(np.abs(np.diagonal(K)).max())
    while True:
        L, failed = potrf((K if jitter == 0 else K + jitter * np.eye(len(K), dtype=K.dtype)).T, lower=1, clean=1)
        if not failed:
            return np.asarray(L)
        jitter = 10 * jitter or len(K) * float(np.finfo(K.dtype).eps) * most


def _times(K: Array, alpha: Array) -> Array:
    """Return K alpha with sums in float64, from the upper triangle of K."""
    total = np.zeros_like(alpha)
    for at in blocks(len(K), PRODUCT_ROWS):
        right = K[at, at.start :].astype(np.float64)
        square = right[:, : at.stop - at.start]
        square[:] = np.triu(square) + np.triu(square, 1).T
        total[at] += right @ alpha[at.start :]
        total[at.stop :] += right[:, at.stop - at.start :].T @ alpha[at]
    return total


def room_for_matrix() -> float:
    """Return how many bytes of a matrix may be stored: no more than half of the memory that may be taken."""
    return min(STORED_BYTES, memory_budget() / 2)


def _by_gradients(
    kernel: SumKernel, X: Array, Y: Array, ridge: Array, workers: Workers | None
) -> tuple[Array, Array, Array]:
    """Return the same by conjugate gradients, without the last rows, which gives the errors there, and with all of
    them. Where they do not converge, it is solved by a factor after all."""
    fewer = len(Y) - min(RULES.loo_rows, len(Y) // 8)
    solve = _stored if 2 * len(Y) ** 2 <= room_for_matrix() else partial(_by_pairs, workers=workers)
    fits = solve(kernel, X.astype(np.float32), Y, ridge, fewer)
    if fits is None:
        return _by_factor(kernel, X, Y, ridge)
    (_, shift_of_fewer, residual), (alpha, shift, _) = fits
    return alpha, shift, residual[fewer:] - shift_of_fewer


def _stored(kernel: SumKernel, X: Array, Y: Array, ridge: Array, fewer: int) -> list[Solved] | None:
    """Solve one after the other: the fit to all rows starts from the one without the last rows."""
    system = System.of(kernel.strips(X), ridge)
    first = system.solve(Y, np.zeros_like(Y), fewer)
    second = None if first is None else system.solve(Y, first[0], len(Y))
    return None if first is None or second is None else [first, second]


def _by_pairs(
    kernel: SumKernel, X: Array, Y: Array, ridge: Array, fewer: int, workers: Workers | None
) -> list[Solved] | None:
    """Solve both at once: a product takes its time by the kernels, however many columns there are."""
    matrix = Pairs.of(kernel, ArrayBlocks(kernel.codes(X)), ridge, STORED_BYTES, workers)
    return System.with_matrix(matrix, ridge).solve_together(Y, (fewer, len(Y)))
