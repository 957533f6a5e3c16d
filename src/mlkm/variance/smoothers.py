"""The members of the default's fit as linear smoothers of its rows: a sum of kernels, ridge, and the mean."""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.linalg import lapack, solve_triangular

from .._types import Array
from ..data import Rows
from ..model.sum_kernel import SumKernel
from .functionals import Functionals
from .sides import cholesky


class Smoother(Protocol):
    """A linear smoother: the weights of the training rows at x, and `own`, their leverages."""

    def weights(self, X: Array) -> Array: ...

    @property
    def own(self) -> Array: ...


@dataclass(frozen=True)
class KernelSmoother:
    """C = (K + s diag(1/w))^{-1} by its factor L, and the weights g = C1 / 1'C1 of the rows in the intercept."""

    kernel: SumKernel
    X: Array
    L: Array
    ridge: Array

    @cached_property
    def total(self) -> Array:
        """C 1."""
        ones = np.ones(len(self.X))
        half = solve_triangular(self.L, ones, lower=True, check_finite=False)
        return np.asarray(solve_triangular(self.L, half, lower=True, trans="T", check_finite=False))

    def weights(self, X: Array) -> Array:
        z = solve_triangular(self.L, self.kernel.matrix(self.X, X), lower=True, check_finite=False)
        A: Array = solve_triangular(self.L, z, lower=True, trans="T", check_finite=False).T
        return np.asarray(A + np.outer(1 - A.sum(axis=1), self.total / self.total.sum()))

    @cached_property
    def own(self) -> Array:
        inverse, _ = lapack.dtrtri(self.L, lower=1)
        diagonal = np.einsum("ij,ij->j", inverse, inverse) - self.total**2 / self.total.sum()
        return np.asarray(1 - self.ridge * diagonal)

    def posterior(self, X: Array) -> Array:
        """Return the posterior variance at x, that of the intercept included."""
        k = self.kernel.matrix(self.X, X)
        z = solve_triangular(self.L, k, lower=True, check_finite=False)
        of_kernel = np.maximum(self.kernel.diagonal(X) - np.einsum("mn,mn->n", z, z), 0)
        return np.asarray(of_kernel + (1 - self.total @ k) ** 2 / self.total.sum())

    def covariance(self, of: Functionals) -> Array:
        """Return the posterior covariance of linear functionals of f, (c, c)."""
        k = of.of(lambda X: self.kernel.matrix(X, self.X), len(self.X)).T
        z = solve_triangular(self.L, k, lower=True, check_finite=False)
        rest = of.ones - self.total @ k
        return np.asarray(of.twice(self.kernel.matrix) - z.T @ z + np.outer(rest, rest) / self.total.sum())


@dataclass(frozen=True)
class RidgeSmoother:
    """Ridge on the numeric inputs, as in `mlkm.solve.ridge`; the mean if the penalty is None."""

    rows: Rows
    penalty: float | None

    @cached_property
    def _inverse(self) -> tuple[Array, Array]:
        rows, n, X = self.rows, len(self.rows), self._seen(self.rows.X)
        mean = rows.weights @ X / n
        centred = X - mean
        A = centred.T @ (rows.weights[:, None] * centred) / n
        A[np.diag_indices(len(A))] += self.penalty or 0.0
        return mean, np.asarray(np.linalg.pinv(A, hermitian=True), np.float64)

    def weights(self, X: Array) -> Array:
        share = self.rows.weights / len(self.rows)
        if self.penalty is None:
            return np.tile(share, (len(X), 1))
        mean, inverse = self._inverse
        return np.asarray(share * (1 + (self._seen(X) - mean) @ inverse @ (self._seen(self.rows.X) - mean).T))

    def covariance(self, directions: Array) -> Array:
        """Return the covariance of slopes along directions (c, d), in units of the noise variance of one copy."""
        D = self._seen(directions)
        return np.asarray(D @ self._inverse[1] @ D.T / self.rows.counts.sum())

    def _seen(self, X: Array) -> Array:
        return X[:, self.rows.inputs.numbers]

    @property
    def own(self) -> Array:
        return np.diag(self.weights(self.rows.X))


def factorised(kernel: SumKernel, rows: Rows, noise: float) -> KernelSmoother:
    """Return the smoother of a kernel on rows with a given noise variance."""
    ridge = noise / rows.weights
    K = kernel.gram(rows.X)
    K[np.diag_indices(len(K))] += ridge
    return KernelSmoother(kernel, rows.X, cholesky(K), ridge)
