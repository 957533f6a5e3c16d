"""Conjugate gradients for (K + diag(ridge)) alpha = Y, preconditioned by Nystroem's approximation of K at some rows.

With M landmarks, C = K_nM and K_MM = R R', the approximation is C K_MM^{-1} C' = B B', B = C R^{-T}. Its leading
eigenvectors U and eigenvalues l, the least of them l_0, make the preconditioner P = (l_0 + s) I + U diag(l - l_0) U'.

Directions are held: to a sum of zero, which is what an intercept without penalty asks for, and to zero at rows that are
left out. With S the projection on such directions, S P S is inverted there, not P: where an eigenvector of a large l
leans on what is left out, the one is far from the other. Up to a factor, with Woodbury's identity,

    (S P S)^{-1} = S - S U (diag((l_0 + s) / (l - l_0)) + U'S U)^{-1} U'S.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from .._types import Array
from ..runtime.progress import advance
from ..runtime.threads import stop_if_asked
from .dual_matrix import Strips

LANDMARKS = 1000  # of the preconditioner at least; n M^2 sums
_SHARE = 20  # rows for a landmark more: steps are dearer the more rows there are
_ENTRIES = 2**28  # of U at most, a gigabyte: 3660 landmarks for 73,000 rows, 2684 for 100,000, 268 for a million
_STEPS = 100  # a factor takes less time than more of them
FACTORS = 20_000  # rows of a factor at most, 8 n^2 bytes; with more rows the last step is what there is
TOLERANCE = 0.02  # what is missing, relative to the residuals of the fit
_LOST = 1e-6  # eigenvalues, relative to the largest, that are lost in the rounding of float32
_ROUNDED = 1e-5  # by which products of columns of U may be wrong


Solved = tuple[Array, Array, Array]  # alpha (n, k), the intercept (k,), and Y - K alpha (n, k)


class Matrix(Protocol):
    """K with the ridge on its diagonal: stored (`Strips`) or not (`Pairs`)."""

    def product(self, V: Array) -> Array: ...

    def first_rows(self, most: int) -> Array: ...


def landmarks(n: int) -> int:
    """Of the preconditioner of n rows."""
    return min(max(LANDMARKS, n // _SHARE), _ENTRIES // n)


@dataclass(frozen=True)
class Preconditioner:
    """U (n, r) and (l_0 + s) / (l - l_0) (r,)."""

    U: Array
    stiffness: Array

    def held(self, rows: int) -> "Held":
        """On directions that sum to zero and are zero from `rows` on."""
        inside, outside = self.U[:rows], self.U[rows:]
        mean = inside.mean(axis=0, dtype=np.float64)
        inner = np.eye(len(self.stiffness)) - outside.T @ outside - rows * np.outer(mean, mean)
        inner[np.diag_indices(len(inner))] += self.stiffness + _ROUNDED
        return Held(inside, mean, scipy.linalg.cho_factor(inner, lower=True))


@dataclass(frozen=True)
class Held:
    """The inverse of S P S: U at the rows that are not left out, its mean there, and a factor of the inner matrix."""

    U: Array
    mean: Array
    factor: tuple[Array, bool]

    def __call__(self, r: Array) -> Array:
        """For r that is held already."""
        rows = len(self.U)
        inner = (self.U.T @ r[:rows].astype(self.U.dtype)).astype(np.float64)
        solved = scipy.linalg.cho_solve(self.factor, inner)
        z = r.copy()
        z[:rows] -= self.U @ solved.astype(self.U.dtype) - self.mean @ solved
        return z


def preconditioner(rows: Array, ridge: Array) -> Preconditioner:
    """For a system K with the ridge on its diagonal, whose first rows are given: those of the landmarks."""
    M, s = len(rows), float(np.mean(ridge))
    C = np.ascontiguousarray(rows.T)
    C[np.diag_indices(M)] -= ridge[:M].astype(C.dtype)
    A = C[:M].astype(np.float64)
    B = C @ scipy.linalg.solve_triangular(_root(A), np.eye(M), lower=True).T.astype(C.dtype)
    values, V = np.linalg.eigh((B.T @ B).astype(np.float64))
    least = max(values[0], _LOST * values[-1])
    kept = values > least
    values, V = values[kept], V[:, kept]
    U = B @ (V / np.sqrt(values)).astype(B.dtype)
    return Preconditioner(U, (least + s) / (values - least))


def _root(A: Array) -> Array:
    """The Cholesky factor of A with as little added to its diagonal as makes it positive: it comes from float32."""
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
        """The system of a kernel's strips, which are kept."""
        return cls.with_matrix(Strips.of(strips, ridge), ridge)

    @classmethod
    def with_matrix(cls, matrix: Matrix, ridge: Array) -> "System":
        """The system of a matrix, stored or not."""
        return cls(matrix, ridge, preconditioner(matrix.first_rows(landmarks(len(ridge))), ridge))

    def solve(self, Y: Array, alpha: Array, rows: int) -> Solved | None:
        """A fit to the first `rows` rows of Y, from an alpha that may be near. None where that is not reached."""
        found = self._solve(Y, alpha, (rows,))
        return None if found is None else found[0]

    def solve_together(self, Y: Array, several: Sequence[int]) -> list[Solved] | None:
        """Fits to the first rows of Y, for several numbers of them: one product per step does for all."""
        return self._solve(np.hstack([Y] * len(several)), np.zeros((len(Y), len(several) * Y.shape[1])), several)

    def _solve(self, Y: Array, alpha: Array, several: Sequence[int]) -> list[Solved] | None:
        """Each column until what is missing is a share of what the fit leaves of Y, ridge times alpha.

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
        for _ in range(_STEPS):
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
            arrived = bool(((rest**2).sum(axis=0) <= TOLERANCE**2 * left).all())
            if arrived:
                break
            z = precondition(rest)
            new = (rest * z).sum(axis=0)
            direction = z + (new / np.maximum(size, 1e-300)) * direction
            size = new
        if not arrived and len(Y) <= FACTORS:
            return None
        return [_solved(alpha[:, part], residual[:, part], rows) for part, rows in zip(parts, several, strict=True)]


def _solved(alpha: Array, residual: Array, rows: int) -> Solved:
    return alpha, residual[:rows].mean(axis=0), residual


def _held(V: Array, rows: int) -> Array:
    """Summing to zero, and zero from `rows` on."""
    held = np.zeros_like(V)
    held[:rows] = V[:rows] - V[:rows].mean(axis=0)
    return held
