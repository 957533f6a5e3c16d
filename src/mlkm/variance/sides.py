"""One side of a factorisation, by which leverages and the weights of training rows are computed: the p x p matrix of
gradients or the N x N matrix of rows."""

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from scipy.linalg import blas, lapack, solve_triangular

from .._types import Array
from ..data.distinct import Rows
from ..model.machine import Factors
from ..solve.sums import gram
from .functionals import Functionals
from .gradients import Gradients, projected
from .pieces import block_size, row_blocks

LARGEST_SIDE = 4096
_FAST_SIDE = 512


@dataclass(frozen=True)
class Primal:
    """M = L^{-1}T' with LL' = T'F'FT + N I, so that the leverage is |M (g - mean)|^2 + 1/N.

    M is triangular where T is, which halves the work. From `_FAST_SIDE` weights on it is applied in float32 if
    leverages + 1 at a sample of training rows agree with float64 to 1e-4.
    """

    gradients: Gradients
    M: Array
    mean: Array
    n: float
    trace: float
    triangular: bool = False
    fast: bool = False

    @property
    def width(self) -> int:
        """How many numbers a row needs while its leverage is computed."""
        return self.gradients.n_parameters

    def leverage(self, X: Array) -> tuple[Array, Array]:
        f, g = self.gradients.rows(X)
        g = np.subtract(
            g, self.mean, out=np.empty(g.shape, np.float32 if self.fast else np.float64), casting="same_kind"
        )
        z = _triangular_product(self.M, g) if self.triangular else g @ self.M.T
        return f, np.einsum("np,np->n", z, z).astype(np.float64) + 1 / self.n

    def covariance(self, of: Functionals) -> Array:
        """What the rows leave of linear functionals of f, (c, c), in units of the noise."""
        g = of.of(lambda X: self.gradients.rows(X)[1], len(self.mean)) - np.outer(of.ones, self.mean)
        z = g @ self.M.T.astype(np.float64)
        return np.asarray(z @ z.T + np.outer(of.ones, of.ones) / self.n)

    def smoother(self, X: Array, rows: Rows) -> Array:
        """The weight of every training row in the fit at X: (rows of X, training rows)."""
        z = (self.gradients.rows(X)[1] - self.mean) @ self.M.T
        columns = [
            z @ ((self.gradients.rows(rows.X[at])[1] - self.mean) @ self.M.T).T
            for at in row_blocks(len(rows), len(self.mean))
        ]
        return np.asarray((np.hstack(columns) + 1 / self.n) * rows.counts)


@dataclass(frozen=True)
class Dual:
    """LL' = K + N / counts with K = F F' centred, so that the leverage is (k(x, x) - |L^{-1} k(x)|^2 + 1) / N."""

    gradients: Gradients
    L: Array
    pairs: Factors
    means: Array
    n: float
    shares: Array
    trace: float

    @property
    def width(self) -> int:
        """How many numbers a row needs while its leverage is computed."""
        return max(len(self.L), *(int(H.shape[1]) for H, _ in self.pairs))

    def leverage(self, X: Array) -> tuple[Array, Array]:
        f, k, own = self._centred(X)
        z = solve_triangular(self.L, k.T, lower=True, check_finite=False)
        return f, (np.maximum(own - np.einsum("mn,mn->n", z, z), 0) + 1) / self.n

    def covariance(self, of: Functionals) -> Array:
        """What the rows leave of linear functionals of f, (c, c), in units of the noise."""
        ones, within = of.ones, float(self.shares @ self.means)
        k = of.of(lambda X: _gram(self.gradients.thin(X)[1], self.pairs), len(self.L))
        to_mean = k @ self.shares
        k += np.outer(ones, within - self.means) - to_mean[:, None]
        twice = of.twice(lambda A, B: _gram(self.gradients.thin(A)[1], self.gradients.thin(B)[1]))
        twice += within * np.outer(ones, ones) - np.outer(to_mean, ones) - np.outer(ones, to_mean)
        z = solve_triangular(self.L, k.T, lower=True, check_finite=False)
        return np.asarray((twice - z.T @ z + np.outer(ones, ones)) / self.n)

    def smoother(self, X: Array, rows: Rows) -> Array:
        """The weight of every training row in the fit at X: (rows of X, training rows)."""
        z = solve_triangular(self.L, self._centred(X)[1].T, lower=True, check_finite=False)
        weights: Array = solve_triangular(self.L, z, lower=True, trans="T", check_finite=False).T
        # Centring took the weighted mean out of every row's gradient: put what that row contributes to the mean back.
        return np.asarray(weights - self.shares * weights.sum(axis=1, keepdims=True) + self.shares)

    def _centred(self, X: Array) -> tuple[Array, Array, Array]:
        """f, k(x, rows) and k(x, x) of gradients less their mean over the training rows."""
        f, pairs = self.gradients.thin(X)
        k = _gram(pairs, self.pairs)
        to_mean = k @ self.shares
        within = float(self.shares @ self.means)
        own = _squares(pairs) - 2 * to_mean + within
        k -= to_mean[:, None]
        k -= self.means
        k += within
        return f, k, own


Side: TypeAlias = Primal | Dual


def factorise(gradients: Gradients, rows: Rows, penalty: float, largest_side: int = LARGEST_SIDE) -> Side:
    """The side that is cheaper, after random projection where both are too large."""
    n, p = len(rows), gradients.n_parameters
    if min(n, p) > largest_side:
        gradients = projected(gradients, rows.X, largest_side)
        p = largest_side
    # Up to p = 2n the primal is cheaper to apply at new rows, p^2 against 2 p n + n^2, if the ridge makes up for the
    # missing rank.
    primal = p <= n or (p <= min(2 * n, largest_side) and penalty > 1e-8)
    return _primal(gradients, rows) if primal else _dual(gradients, rows)


def _primal(gradients: Gradients, rows: Rows) -> Primal:
    n, nothing = float(rows.counts.sum()), np.zeros((len(rows), 0))
    block = block_size(gradients.n_parameters)
    sums = gram(lambda at: gradients.rows(rows.X[at])[1], nothing, rows.counts, block=block)
    A = gradients.scaled(gradients.scaled(sums.FF).T)
    p = len(A)  # fewer than parameters where several of them share one
    A[np.diag_indices(p)] += n
    inverse, _ = lapack.dtrtri(cholesky(A), lower=1, overwrite_c=1)
    degrees = p - n * float(np.einsum("ij,ij->", inverse, inverse))
    M = gradients.folded(inverse)
    exact = Primal(gradients, M, sums.f_mean, n, degrees + 1, triangular=not np.triu(M, 1).any())
    return exact if p < _FAST_SIDE else _in_float32(exact, rows.X[:: max(1, len(rows) // 200)])


def _in_float32(exact: Primal, X: Array) -> Primal:
    """The same in float32, unless a sample of rows tells the difference."""
    # processors are slow on denormal numbers
    M: Any = np.asfortranarray(np.where(np.abs(exact.M) < 1e-20, 0, exact.M), np.float32)
    fast = replace(exact, M=M, fast=True)
    a, b = exact.leverage(X)[1] + 1, fast.leverage(X)[1] + 1
    return fast if np.abs(b / a - 1).max() < 1e-4 else exact


def _triangular_product(M: Array, g: Array) -> Array:
    """g M' for lower triangular M, in place."""
    multiply: Any = blas.strmm if g.dtype == np.float32 else blas.dtrmm
    product: Array = multiply(1.0, M, g.T, lower=1, overwrite_b=1).T
    return product


def _dual(gradients: Gradients, rows: Rows) -> Dual:
    counts = rows.counts
    n = float(counts.sum())
    shares = counts / n
    pairs = gradients.thin(rows.X)[1]
    K = _gram(pairs, pairs)
    means = K @ shares
    K -= means
    K -= means[:, None]
    K += shares @ means
    K[np.diag_indices(len(K))] += n / counts
    L = cholesky(K)
    inverse, _ = lapack.dtrtri(L, lower=1)
    degrees = len(K) - float((inverse**2).sum(axis=0) @ (n / counts))
    return Dual(gradients, L, pairs, means, n, shares, degrees + 1)


def cholesky(A: Array) -> Array:
    """L with LL' = A, in float64; a matrix that is singular to rounding gets the least multiple of the identity that
    makes it positive."""
    jitter = 0.0
    while True:
        L, failed = lapack.dpotrf(A + jitter * np.eye(len(A)) if jitter else A, lower=1, clean=1)
        if not failed:
            return np.asarray(L)
        jitter = 10 * jitter or len(A) * np.finfo(np.float64).eps * float(np.abs(np.diagonal(A)).max())


def _gram(a: Factors, b: Factors) -> Array:
    """Inner products of all rows of a with all rows of b."""
    total = np.zeros((len(a[0][0]), len(b[0][0])))
    for (H, G), (H2, G2) in zip(a, b, strict=True):
        product = H @ H2.T
        product *= G @ G2.T
        total += product
    return total


def _squares(a: Factors) -> Array:
    """|g|^2 of every row."""
    return np.asarray(sum((H**2).sum(axis=1) * (G**2).sum(axis=1) for H, G in a))
