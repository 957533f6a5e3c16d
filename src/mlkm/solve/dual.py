"""A sum of kernels solved on all rows: (K + sigma^2 diag(1/w)) alpha = Y - a.

A Cholesky factor gives alpha and exact leave-one-out residuals alpha_i / [(K + sigma^2/w)^{-1}]_ii. The diagonal of the
inverse at the last m rows follows from the last m rows and columns of the factor alone, so that the whole inverse is
not formed. Kernel and factor are in float32 where the noise allows it, and the solution is refined with residuals in
float64.

With many rows, where float32 is precise enough, conjugate gradients reduce the remaining residual to a fiftieth of the
residuals of the fit; errors are then those at rows that are left out together. The matrix is stored as far as it fits
into memory, and the rest is computed anew for every product (`mlkm.solve.dual_matrix`).

Conjugate gradients are preconditioned by Nystroem's approximation of K at a few rows. With M landmarks, C = K_nM and
K_MM = R R', the approximation is C K_MM^{-1} C' = B B', B = C R^{-T}. Its leading eigenvectors U and eigenvalues l, the
least of them l_0, make the preconditioner P = (l_0 + s) I + U diag(l - l_0) U'.

Directions are projected by S to a sum of zero, as an unpenalised intercept requires, and to zero at rows that are left
out. On the range of S the inverse of S P S is used, not that of P: the two differ much if an eigenvector of a large l
has much of its length at the rows left out. Up to a factor, by Woodbury's identity,

    (S P S)^{-1} = S - S U (diag((l_0 + s) / (l - l_0)) + U'S U)^{-1} U'S.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.linalg
from scipy.linalg import get_lapack_funcs

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
from .dual_matrix import Pairs, Strips, code_blocks
from .ridge import cholesky

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

    def held(self, rows: int) -> Callable[[Array], Array]:
        """Return the product with the inverse of S P S, for directions that sum to zero and are zero from `rows` on."""
        inside, outside = self.U[:rows], self.U[rows:]
        mean = inside.mean(axis=0, dtype=np.float64)
        matrix = np.eye(len(self.stiffness)) - outside.T @ outside - rows * np.outer(mean, mean)
        matrix[np.diag_indices(len(matrix))] += self.stiffness + GRAM_ROUNDING
        factor = scipy.linalg.cho_factor(matrix, lower=True)

        def inverse(r: Array) -> Array:
            """Return the product with a direction r, which is projected already."""
            inner = (inside.T @ r[:rows].astype(inside.dtype)).astype(np.float64)
            solved = scipy.linalg.cho_solve(factor, inner)
            z = r.copy()
            z[:rows] -= inside @ solved.astype(inside.dtype) - mean @ solved
            return z

        return inverse


def preconditioner(rows: Array, ridge: Array) -> Preconditioner:
    """Return the preconditioner of a system K with the ridge on its diagonal, whose first rows are given: those of the
    landmarks."""
    M, s = len(rows), float(np.mean(ridge))
    C = np.ascontiguousarray(rows.T)
    C[np.diag_indices(M)] -= ridge[:M].astype(C.dtype)
    A = C[:M].astype(np.float64)
    root = cholesky(A, 1e-5 * float(np.trace(A)) / M)  # A comes from float32
    B = C @ scipy.linalg.solve_triangular(root, np.eye(M), lower=True).T.astype(C.dtype)
    values, V = np.linalg.eigh((B.T @ B).astype(np.float64))
    least = max(values[0], LOST_EIGENVALUES * values[-1])
    informative = values > least
    values, V = values[informative], V[:, informative]
    U = B @ (V / np.sqrt(values)).astype(B.dtype)
    return Preconditioner(U, (least + s) / (values - least))


@dataclass(frozen=True)
class System:
    """K with the ridge on its diagonal, the ridge, and the preconditioner."""

    matrix: Matrix
    ridge: Array
    preconditioner: Preconditioner

    @classmethod
    def of(cls, matrix: Matrix, ridge: Array) -> "System":
        """Return the system of a matrix, stored or not."""
        return cls(matrix, ridge, preconditioner(matrix.first_rows(landmarks(len(ridge))), ridge))

    def solve(self, Y: Array, several: Sequence[int], alpha: Array | None = None) -> list[Solved] | None:
        """Return fits to the first rows of Y, for several numbers of them, starting from a given alpha, or from zero:
        one product per step serves all.

        Iterate on every column until its remaining residual is a small share of the residuals of the fit, ridge
        times alpha.

        If that is not reached (K, being rounded, may not be positive definite), return None, or the last iterate with
        more rows than a factor can take. Stopping early smooths as more noise would, and the errors at rows left out
        include its cost.
        """
        Y = np.hstack([Y] * len(several))
        alpha = np.zeros_like(Y) if alpha is None else alpha.copy()
        holds, parts = [self.preconditioner.held(n) for n in several], np.split(np.arange(Y.shape[1]), len(several))

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
        fits = [(alpha[:, part], residual[:, part]) for part in parts]
        return [(a, r[:rows].mean(axis=0), r) for (a, r), rows in zip(fits, several, strict=True)]


def _held(V: Array, rows: int) -> Array:
    """Return V projected to a sum of zero over its first `rows` rows, and to zero from there on."""
    held = np.zeros_like(V)
    held[:rows] = V[:rows] - V[:rows].mean(axis=0)
    return held


@dataclass(frozen=True)
class DualFit:
    """A kernel fit: alpha (n, k), the intercept (k,), and the leave-one-out residuals of the last m rows (m, k)."""

    alpha: Array
    intercept: Array
    loo_residuals: Array
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
    return DualFit(alpha, mean + shift, loo_residuals, single)


def usual_steps(n: int) -> int:
    """Return about how many steps `solve_dual` takes for n rows: one by a factor, else those of conjugate gradients in
    two solves."""
    return 1 if n <= DIRECT_ROWS else 30


def solvable_rows(kernel: SumKernel, rows: Block, noise: float) -> Block:
    """Return all rows, or where the noise is too small for float32, as many as a factor in float64 can take, since the
    others would add little. If the others are many, all rows are solved on, with as much noise as float32 needs."""
    n = len(rows)
    all_of_them = n <= FLOAT64_FACTOR_ROWS or n > FACTOR_ROWS or _rounds(kernel, rows.X, noise / rows.weights)
    return rows if all_of_them else rows.take(slice(0, FLOAT64_FACTOR_ROWS))


def _rounds(kernel: SumKernel, X: Array, ridge: Array) -> bool:
    """Return whether there are many rows, and the noise is large enough beside the kernel for float32."""
    return len(X) > FLOAT64_ROWS and bool(ridge.min() >= _least_ridge(kernel, X))


def _least_ridge(kernel: SumKernel, X: Array) -> float:
    """Return the least ridge with which float32 is precise enough."""
    return FLOAT32_NOISE * float(np.mean(kernel.diagonal(X[:200])))


def _by_factor(kernel: SumKernel, X: Array, Y: Array, ridge: Array) -> tuple[Array, Array, Array]:
    """Return alpha, the intercept, and the leave-one-out residuals of the last rows, by a Cholesky factor.

    With C the inverse, the intercept is a = 1'CY / 1'C1, alpha = C (Y - 1a), and the leave-one-out residual of row i is
    alpha_i / (C_ii - (C1)_i^2 / 1'C1).
    """
    n, m, single = len(X), min(len(X), RULES.loo_rows), _rounds(kernel, X, ridge)
    K = kernel.upper(X.astype(np.float32) if single else X)
    K[np.diag_indices(n)] += ridge.astype(K.dtype)
    functions: Any = get_lapack_funcs(("potrs", "trtri"), (K,))
    potrs, trtri = functions
    # the upper triangle in C order is, transposed, the lower one in Fortran order
    L, targets = cholesky(K.T), np.hstack([Y, np.ones((n, 1))])
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


def _by_gradients(
    kernel: SumKernel, X: Array, Y: Array, ridge: Array, workers: Workers | None
) -> tuple[Array, Array, Array]:
    """Return the same by conjugate gradients: a fit without the last rows gives the errors there, and another one uses
    all rows. If they do not converge, the system is solved by a factor."""
    single: Array = X.astype(np.float32)
    n, fewer = len(Y), len(Y) - min(RULES.loo_rows, len(Y) // 8)
    if 2 * n**2 <= min(STORED_BYTES, memory_budget() / 2):
        system = System.of(Strips.of(kernel.strips(single), ridge), ridge)
        # One after the other: the fit to all rows starts from the one without the last rows.
        first = system.solve(Y, (fewer,))
        second = None if first is None else system.solve(Y, (n,), first[0][0])
        fits = None if first is None or second is None else first + second
    else:  # both at once: the time of a product is that of the kernels, however many columns there are
        pairs = Pairs(kernel, code_blocks(kernel.codes(single)), ridge, STORED_BYTES, workers)
        fits = System.of(pairs, ridge).solve(Y, (fewer, n))
    if fits is None:
        return _by_factor(kernel, X, Y, ridge)
    (_, shift_of_fewer, residual), (alpha, shift, _) = fits
    return alpha, shift, residual[fewer:] - shift_of_fewer
