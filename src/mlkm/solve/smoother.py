"""One ridge, (1/n) sum_i w_i |y_i - a - c'F_i|^2 + lambda |c|^2 with a free intercept a, as a linear smoother.

It is factorised in one of two ways, whichever matrix is smaller or known:

    Primal   of features F:   R'R = (F'WF / n + lambda I)^{-1}        from sums over rows that may be anywhere
    Dual     of a kernel K:   L L' = K + diag(n lambda / w)           from rows in memory, K = F F'

Both are linear in the targets, f(x) = sum_i s_i(x) y_i, and offer the same methods. Leave-one-out, standard deviations
and covariances of effects are functions of these.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import numpy as np
from scipy.linalg import blas, cho_solve, lapack, solve_triangular

from .._types import Array, IntArray
from ..data import Block, blocks
from ..model.machine import Features
from ..runtime.sizes import (
    FLOAT32_FEATURES,
    FLOAT32_LEVERAGE_ERROR,
    LEAST_PENALTY,
    TEMPORARY_ENTRIES,
)
from .ridge import cholesky
from .sums import Sums, sums_of_rows


def block_size(width: int) -> int:
    """Return how many rows of `width` numbers are held in a temporary array."""
    return int(np.clip(TEMPORARY_ENTRIES // max(width, 1), 16, 4096))


def row_blocks(n: int, width: int) -> Iterator[slice]:
    """Return slices of n rows of `width` numbers each, with temporary arrays of a bounded size."""
    return blocks(n, block_size(width))


@dataclass(frozen=True)
class Functionals:
    """Linear functionals of a function, such as differences of its means over groups of rows.

    They are T (c, G) times the weighted sums over each of G groups of m consecutive rows of X (G m, d), with weights
    (G, m).
    """

    X: Array
    weights: Array
    T: Array

    @property
    def ones(self) -> Array:
        """Return the functionals of the constant function 1, (c,)."""
        return np.asarray(self.T @ self.weights.sum(axis=1))

    def of(self, f: Callable[[Array], Array], width: int) -> Array:
        """Return the functionals of a function with `width` values per row, (c, width), in blocks of groups."""
        (G, m), total = self.weights.shape, np.zeros((len(self.T), width))
        for at in blocks(G, max(1, block_size(width) // m)):
            values = f(self.X[at.start * m : at.stop * m]).reshape(at.stop - at.start, m, width)
            total += self.T[:, at] @ np.einsum("gmw,gm->gw", values, self.weights[at])
        return total

    def twice(self, kernel: Callable[[Array, Array], Array]) -> Array:
        """Return the functionals of a kernel in both of its arguments, (c, c)."""
        return self.of(lambda A: self.of(lambda B: kernel(B, A), len(A)).T, len(self.T))


class SmootherKernel(Protocol):
    """A kernel between rows."""

    def matrix(self, A: Array, B: Array) -> Array:
        """Return K(a, b) for all rows a of A and b of B."""

    def gram(self, X: Array) -> Array:
        """Return K(x, x') for all pairs of rows of X."""

    def diagonal(self, X: Array) -> Array:
        """Return K(x, x) for every row."""


@dataclass(frozen=True)
class Primal:
    """A ridge on features, from sums over its rows with weights that average to one.

    `R` (r, D) is such that R'R is the inverse of F'WF / n + penalty, with F centred. `single` is R in float32 where
    leverages are precise enough with it. Leave-one-out and `weights` need the training rows.
    """

    features: Features
    sums: Sums
    penalty: float
    R: Array
    rows: Block | None = None
    triangular: bool = True
    single: Array | None = None

    @cached_property
    def coefficients(self) -> Array:
        """Return c, (D, k)."""
        return np.asarray(self.R.T @ (self.R @ self.sums.centred()[1]) / self.sums.weight)

    @property
    def intercept(self) -> Array:
        """Return the intercept of features that are not centred, (k,)."""
        return np.asarray(self.sums.y_mean - self.sums.f_mean @ self.coefficients)

    @property
    def residual_squares(self) -> Array:
        """Return the weighted sum of squared residuals of every output, by the sums alone."""
        (FF, FY, YY), C = self.sums.centred(), self.coefficients
        return np.asarray(YY - 2 * (C * FY).sum(axis=0) + (C * (FF @ C)).sum(axis=0))

    @property
    def degrees(self) -> float:
        """Return the degrees of freedom, the sum of the leverages of the training rows."""
        return 1 + len(self.R) - self.penalty * float(np.einsum("ij,ij->", self.R, self.R))

    @property
    def residuals(self) -> Array:
        """Return y - f(x) at the training rows."""
        return np.asarray(self._training.Y - self.predict(self._training.X))

    @cached_property
    def training_leverages(self) -> Array:
        """Return the weight of every training row in its fitted value."""
        return self._training.counts * self.leverage(self._training.X)

    @property
    def _training(self) -> Block:
        if self.rows is None:
            raise ValueError("This smoother was made from sums; its training rows are not in memory.")
        return self.rows

    def predict(self, X: Array) -> Array:
        """Return f at every row of X."""
        return np.asarray((self.features.rows_of_features(X) - self.sums.f_mean) @ self.coefficients + self.sums.y_mean)

    def leverage(self, X: Array) -> Array:
        """Return (|R (F(x) - mean)|^2 + 1) / n in blocks of rows."""
        pieces = [self._leverage(X[at]) for at in row_blocks(len(X), self.R.shape[1])]
        return np.concatenate(pieces) if pieces else np.zeros(0)

    def covariance(self, functionals: Functionals) -> Array:
        """Return the covariances of linear functionals of f, in units of the noise variance."""
        ones, D = functionals.ones, self.R.shape[1]
        F = functionals.of(self.features.rows_of_features, D) - np.outer(ones, self.sums.f_mean)
        z = F @ self.R.T
        return np.asarray((z @ z.T + np.outer(ones, ones)) / self.sums.weight)

    def weights(self, X: Array) -> Array:
        """Return the weight of every training row in the prediction at every row of X."""
        rows, z = self._training, self._centred(X) @ self.R.T
        at_rows = (self._centred(rows.X[at]) @ self.R.T for at in row_blocks(len(rows), self.R.shape[1]))
        return np.hstack([z @ part.T + 1 for part in at_rows]) * (rows.counts / self.sums.weight)

    def _centred(self, X: Array) -> Array:
        return np.asarray(self.features.rows_of_features(X) - self.sums.f_mean)

    def _leverage(self, X: Array) -> Array:
        """Return the leverages of one block of rows, in float32 where that is precise enough."""
        F, R = self._centred(X), self.R
        if self.single is not None:
            F, R = F.astype(np.float32), self.single
        z = _triangular_product(R, F) if self.triangular and R.size else F @ R.T
        return np.asarray((np.einsum("np,np->n", z, z).astype(np.float64) + 1) / self.sums.weight)


def primal(features: Features, sums: Sums, penalty: float, rows: Block | None = None) -> Primal:
    """Factorise the ridge of these sums by a Cholesky factor."""
    penalty = max(penalty, LEAST_PENALTY)
    A = sums.centred()[0] / sums.weight
    A[np.diag_indices(len(A))] += penalty
    return Primal(features, sums, penalty, _inverse(cholesky(A)), rows)


def primal_without_rounding(features: Features, sums: Sums, penalty: float) -> Primal:
    """Factorise by eigenvectors, without the directions whose eigenvalues are rounding errors: these carry no
    information, and with no penalty they would determine the fit."""
    values, V = np.linalg.eigh(sums.centred()[0])
    informative = values > max(values[-1], 0.0) * max(sums.weight, len(values)) * np.finfo(np.float64).eps
    R = (V[:, informative] / np.sqrt(values[informative] / sums.weight + penalty)).T
    return Primal(features, sums, penalty, R, triangular=False)


def primal_of_rows(features: Features, rows: Block, penalty: float) -> Primal:
    """Factorise the ridge of rows in memory. From `FLOAT32_FEATURES` features on leverages are computed in float32 if a
    sample of training rows shows no difference."""
    exact = primal(features, sums_of_rows(features, rows), penalty, rows)
    if len(exact.R) < FLOAT32_FEATURES:
        return exact
    # Processors are slow on denormal numbers.
    single: Any = np.asfortranarray(np.where(np.abs(exact.R) < 1e-20, 0, exact.R), np.float32)
    fast, X = replace(exact, single=single), rows.X[:: max(1, len(rows) // 200)]
    error = (fast.leverage(X) + 1) / (exact.leverage(X) + 1) - 1
    return fast if np.abs(error).max() < FLOAT32_LEVERAGE_ERROR else exact


@dataclass(frozen=True)
class Dual:
    """Kernel ridge regression with a free intercept: C = (K + diag(ridge))^{-1}.

    `ridge` (N,) is `noise` over the weight of every row, so that leverages are in units of the noise variance of a row
    of weight one. Targets (N, k) may have no columns where only leverages are asked for.
    """

    kernel: SmootherKernel
    X: Array
    Y: Array
    ridge: Array
    noise: float

    @cached_property
    def L(self) -> Array:
        """Return the lower Cholesky factor of K + diag(ridge)."""
        K = self.kernel.gram(self.X)
        K[np.diag_indices(len(K))] += self.ridge
        return cholesky(K)

    @cached_property
    def total(self) -> Array:
        """Return C 1, which divided by its sum gives the weights of the rows in the intercept."""
        return np.asarray(cho_solve((self.L, True), np.ones(len(self.X)), check_finite=False))

    @cached_property
    def alpha(self) -> tuple[Array, Array]:
        """Return C (Y - a), (N, k), and the intercept a, (k,)."""
        a = self.total @ self.Y / self.total.sum()
        return np.asarray(cho_solve((self.L, True), self.Y - a, check_finite=False)), a

    @cached_property
    def training_leverages(self) -> Array:
        """Return the weight of every training row in its fitted value."""
        inverse = _inverse(self.L)
        diagonal = np.einsum("ij,ij->j", inverse, inverse) - self.total**2 / self.total.sum()
        return np.asarray(1 - self.ridge * diagonal)

    @property
    def degrees(self) -> float:
        """Return the degrees of freedom, the sum of the leverages of the training rows."""
        return float(self.training_leverages.sum())

    @property
    def residuals(self) -> Array:
        """Return y - f(x) at the training rows."""
        return self.ridge[:, None] * self.alpha[0]

    def predict(self, X: Array) -> Array:
        """Return f at every row of X."""
        alpha, a = self.alpha
        return np.asarray(self.kernel.matrix(X, self.X) @ alpha + a)

    def leverage(self, X: Array) -> Array:
        """Return (k(x, x) - k'C k + (1 - 1'C k)^2 / 1'C 1) / noise, in blocks of rows."""
        pieces = [self._leverage(X[at]) for at in row_blocks(len(X), len(self.X))]
        return np.concatenate(pieces) if pieces else np.zeros(0)

    def covariance(self, functionals: Functionals) -> Array:
        """Return the covariances of linear functionals of f, in units of the noise variance."""
        k = functionals.of(lambda X: self.kernel.matrix(X, self.X), len(self.X)).T
        z = solve_triangular(self.L, k, lower=True, check_finite=False)
        rest = functionals.ones - self.total @ k
        known = z.T @ z - np.outer(rest, rest) / self.total.sum()
        return np.asarray((functionals.twice(self.kernel.matrix) - known) / self.noise)

    def weights(self, X: Array) -> Array:
        """Return the weight of every training row in the prediction at every row of X."""
        A: Array = cho_solve((self.L, True), self.kernel.matrix(self.X, X), check_finite=False).T
        return np.asarray(A + np.outer(1 - A.sum(axis=1), self.total / self.total.sum()))

    def _leverage(self, X: Array) -> Array:
        k = self.kernel.matrix(self.X, X)
        z = solve_triangular(self.L, k, lower=True, check_finite=False)
        left = np.maximum(self.kernel.diagonal(X) - np.einsum("mn,mn->n", z, z), 0)
        return np.asarray((left + (1 - self.total @ k) ** 2 / self.total.sum()) / self.noise)


Smoother: TypeAlias = Primal | Dual  # a fit that is linear in the targets: f(x) = sum_i s_i(x) y_i


def loo_residuals(smoother: Smoother, copies: Array) -> Array:
    """Return the leave-one-out residuals y_i - f_{-i}(x_i), one copy of every distinct row i being left out."""
    return np.asarray(smoother.residuals / np.maximum(1 - smoother.training_leverages / copies, 1e-12)[:, None])


def _inverse(L: Array) -> Array:
    return np.asarray(lapack.dtrtri(L, lower=1)[0]) if len(L) else L


def _triangular_product(R: Array, F: Array) -> Array:
    """Return F R' for a lower triangular R, overwriting F."""
    multiply: Any = blas.strmm if F.dtype == np.float32 else blas.dtrmm
    product: Array = multiply(1.0, R, F.T, lower=1, overwrite_b=1).T
    return product


@dataclass(frozen=True)
class LeftOut:
    """Leave-one-out results at given rows.

    Attributes
    ----------
    residuals : array of shape (n, k)
        y - f_{-i}(x_i).
    std : array of shape (n, k)
        sigma_y(x_i) by the fit without row i.
    place : array of shape (n,)
        The index of each row in `left_out_predictions`, -1 for a row that the fit has not seen.
    """

    residuals: Array
    std: Array
    place: IntArray


def places(rows: Block, X: Array, Y: Array) -> IntArray:
    """Return the index of each row (x, y) among distinct rows, -1 where it is not one of them."""
    known = {row.tobytes(): place for place, row in enumerate(_joined(rows.X, rows.Y))}
    return np.array([known.get(row.tobytes(), -1) for row in _joined(X, Y)], dtype=np.intp)


def _joined(X: Array, Y: Array) -> Array:
    return np.hstack([X, Y]) + 0.0  # adding 0.0 turns -0.0 into 0.0


class StoredFields:
    """A dataclass that is stored by its fields alone: what was factorised is computed again when it is needed."""

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields."""
        return {field.name: self.__dict__[field.name] for field in fields(self)}  # type: ignore[arg-type]
