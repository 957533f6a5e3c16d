"""The paper's variance estimator, Section "Variance estimator for MLKM", for any machine:

    sigma_y^2(x) = sigma^2 (g' (F'F + N Lambda)^{-1} g + 1),   sigma^2 = RSS / (N - tr H),   H = F (F'F + N Lambda)^{-1}
    F',

with g the gradient of f at x with respect to the weights, F its rows at the N training rows, and Lambda the ridge in
use. With Lambda = 0 and p < N it is the paper's formula, where N - tr H = N - p. The last intercept is not penalised: g
and F are centred, and 1/N is added. Biases inside hidden layers are damped like the weights beside them: a direction
that the rows do not determine would have no finite variance.

Weights are scaled to a ridge of 1 (`Gradients`), and one side is factorised in float64:

* p not much above N: the p x p matrix F'F + N I, summed over blocks of rows (`Primal`);
* p well above N: the N x N matrix F F' + N I (`Dual`). F is never formed: the gradient with respect to one weight
  matrix is an outer product, so F F' is a sum of elementwise products of two thin products;
* both above `LARGEST_SIDE`: the gradients are brought down to that many numbers by random projection, which keeps inner
  products on average (`Projected`). This is an approximation: leverages come out low by about tr H / `LARGEST_SIDE`.
  Memory stays below 1 GB.

An average of machines (cross-fitting) takes the average of their leverages, each on all rows: every layer of a rotation
saw one part of the rows, and the rotations together saw them all.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

import numpy as np
from scipy.linalg import blas, lapack, solve_triangular

from .._seeds import Purpose, generator
from .._types import Array
from ..model.features import features
from ..model.machine import Factors, Machine, affine, forward, jacobian, last_inputs, output_factors, predict
from ..model.prior import FirstLayer

LARGEST_SIDE = 4096
_FAST_SIDE = 512
_ENTRIES = 2**23  # of a temporary array: 64 MB in float64
_LEAST_PENALTY = 1e-14  # on standardised rows: below it the ridge is lost in rounding
_LEAST_DEGREES = 1.0  # of freedom left for the noise, where a fit interpolates


@dataclass(frozen=True)
class Training:
    """What the variance needs of a fit: standardised rows, what each counts for and how many copies it is, the first
    layer's prior, the ridge, and its leave-one-out error for every output."""

    X: Array
    Y: Array
    counts: Array
    copies: Array
    first: FirstLayer | None
    hidden_penalty: float
    penalty: float
    loo_error: Array


class Gradients(Protocol):
    """Gradients of one output with respect to weights scaled to a ridge of 1, without the last intercept: rows g'T,
    with T the scaling."""

    @property
    def n_parameters(self) -> int: ...

    def rows(self, X: Array) -> tuple[Array, Array]:
        """f (n, k) and the unscaled gradients g (n, p)."""

    def scaled(self, B: Array) -> Array:
        """B T, where the columns of B belong to the unscaled weights."""

    def folded(self, B: Array) -> Array:
        """B T', where the columns of B belong to the scaled weights."""

    def thin(self, X: Array) -> tuple[Array, Factors]:
        """f, and the scaled gradients as pairs (H, G): row i is the outer products H_i G_i, flattened and side by
        side."""


@dataclass(frozen=True)
class OneLayer:
    """The features of one layer, scaled by their prior standard deviations."""

    machine: Machine
    first: FirstLayer
    scale: float

    @property
    def n_parameters(self) -> int:
        return len(self.machine.layers[0][0]) - 1

    def rows(self, X: Array) -> tuple[Array, Array]:
        phi = features(self.machine.maps[0], X)
        F = last_inputs(self.machine, X, phi, phi)
        return affine(self.machine.layers[0][0], F), F

    def scaled(self, B: Array) -> Array:
        return self._by_parts(B, transposed=False)

    def folded(self, B: Array) -> Array:
        return self._by_parts(B, transposed=True)

    def thin(self, X: Array) -> tuple[Array, Factors]:
        f, F = self.rows(X)
        return f, [(self.scaled(F), np.ones((len(F), 1)))]

    def _by_parts(self, B: Array, transposed: bool) -> Array:
        columns, at = [], 0
        for part in self.first.parts:
            own = B[:, at : at + part.phi.n_features]
            factor = self.scale * np.asarray(part.factor)
            columns.append(own @ (factor.T if transposed else factor) if factor.ndim == 2 else own * factor)
            at += part.phi.n_features
        if self.first.linear is not None:
            columns.append(B[:, at:] * (self.scale * self.first.linear))
        return np.hstack(columns)


@dataclass(frozen=True)
class Layered:
    """All weights of a machine as far as they bear on one output."""

    machine: Machine
    output: int
    hidden_scale: float
    scale: float

    @property
    def n_parameters(self) -> int:
        hidden = self.machine.n_parameters - self.machine.layers[-1][0].size
        return hidden + len(self.machine.layers[-1][0]) - 1

    def rows(self, X: Array) -> tuple[Array, Array]:
        f, (*hidden, (H, _)) = self._pairs(X)
        return f, np.hstack([jacobian(hidden), H]) if hidden else H

    def scaled(self, B: Array) -> Array:
        n_hidden = B.shape[1] + 1 - len(self.machine.layers[-1][0])
        return np.hstack([B[:, :n_hidden] * self.hidden_scale, B[:, n_hidden:] * self.scale])

    def folded(self, B: Array) -> Array:
        return self.scaled(B)

    def thin(self, X: Array) -> tuple[Array, Factors]:
        f, (*hidden, (H, G)) = self._pairs(X)
        ones = np.ones((len(X), 1))
        return f, [(self.hidden_scale * np.hstack([h, ones]), g) for h, g in hidden] + [(self.scale * H, G)]

    def _pairs(self, X: Array) -> tuple[Array, Factors]:
        tape = forward(self.machine, X)
        *hidden, (H, G) = output_factors(self.machine, tape, self.output)
        return tape.output, [*hidden, (H, G[:, self.output : self.output + 1])]


@dataclass(frozen=True)
class Projected:
    """`n_parameters` random combinations of scaled gradients, which keep inner products on average.

    For outer products the combinations are products (H R)(G S) of normal combinations of each side, so that no row of p
    numbers is formed.
    """

    gradients: Gradients
    sides: tuple[tuple[Array, Array], ...]

    @property
    def n_parameters(self) -> int:
        return int(self.sides[0][0].shape[1])

    def rows(self, X: Array) -> tuple[Array, Array]:
        f, pairs = self.gradients.thin(X)
        total = np.zeros((len(X), self.n_parameters))
        for (H, G), (R, S) in zip(pairs, self.sides, strict=True):
            total += (H @ R) * (G @ S)
        return f, total

    def scaled(self, B: Array) -> Array:
        return B

    def folded(self, B: Array) -> Array:
        return B

    def thin(self, X: Array) -> tuple[Array, Factors]:
        f, F = self.rows(X)
        return f, [(F, np.ones((len(F), 1)))]


def projected(gradients: Gradients, X: Array, n_parameters: int) -> Projected:
    """Draw the combinations; `X` is any row."""
    sides = []
    for k, (H, G) in enumerate(gradients.thin(X[:1])[1]):
        rng = generator(0, Purpose.PROJECTION, k)
        R = rng.standard_normal((H.shape[1], n_parameters)) / np.sqrt(n_parameters)
        S = np.ones((1, n_parameters)) if G.shape[1] == 1 else rng.standard_normal((G.shape[1], n_parameters))
        sides.append((R, S))
    return Projected(gradients, tuple(sides))


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

    def leverage(self, X: Array) -> tuple[Array, Array]:
        f, g = self.gradients.rows(X)
        g = np.subtract(
            g, self.mean, out=np.empty(g.shape, np.float32 if self.fast else np.float64), casting="same_kind"
        )
        z = _triangular_product(self.M, g) if self.triangular else g @ self.M.T
        return f, np.einsum("np,np->n", z, z).astype(np.float64) + 1 / self.n

    def smoother(self, X: Array, training: Training) -> Array:
        """The weight of every training row in the fit at X: (rows of X, training rows)."""
        z = (self.gradients.rows(X)[1] - self.mean) @ self.M.T
        columns = [
            z @ ((self.gradients.rows(training.X[at])[1] - self.mean) @ self.M.T).T
            for at in _blocks(len(training.X), len(self.mean))
        ]
        return np.asarray((np.hstack(columns) + 1 / self.n) * training.counts)


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

    def leverage(self, X: Array) -> tuple[Array, Array]:
        f, k, own = self._centred(X)
        z = solve_triangular(self.L, k.T, lower=True, check_finite=False)
        return f, (np.maximum(own - np.einsum("mn,mn->n", z, z), 0) + 1) / self.n

    def smoother(self, X: Array, training: Training) -> Array:
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


class Variance:
    """sigma_y(x) of an average of machines, factorised once."""

    def __init__(self, machines: Sequence[Machine], training: Training, largest_side: int = LARGEST_SIDE) -> None:
        self.training = training
        self.sides = [
            [factorise(gradients, training, largest_side) for gradients in _gradients(machine, training)]
            for machine in machines
        ]
        fitted = np.mean([predict(machine, training.X) for machine in machines], axis=0)
        self.residuals = training.Y - fitted
        n = training.counts.sum()
        degrees = np.mean([[side.trace for side in of_machine] for of_machine in self.sides], axis=0)
        self.noise = training.counts @ self.residuals**2 / np.maximum(n - degrees, _LEAST_DEGREES)
        # A fit that interpolates has no residuals, and its leave-one-out error is all that tells of its errors.
        self.least = np.nan_to_num(np.minimum(degrees / n, 1.0) ** 2 * training.loo_error, nan=0.0, posinf=0.0)

    def predict(self, X: Array) -> tuple[Array, Array]:
        """f and sigma_y, both (n, k), in blocks of rows."""
        widest = max(_width(side) for of_machine in self.sides for side in of_machine)
        f, leverage = zip(*(self._block(X[at]) for at in _blocks(len(X), widest)), strict=True)
        return np.vstack(f), np.sqrt(np.maximum(self.noise * (np.vstack(leverage) + 1), self.least))

    def _block(self, X: Array) -> tuple[Array, Array]:
        means, leverages = [], []
        for of_machine in self.sides:
            results = [side.leverage(X) for side in of_machine]
            means.append(results[0][0])
            leverages.append(np.column_stack([leverage for _, leverage in results]))
        return np.mean(means, axis=0), np.mean(leverages, axis=0)


def _gradients(machine: Machine, training: Training) -> list[Gradients]:
    """One for all outputs of a single layer, where outputs do not share weights; else one per output."""
    scale = 1 / np.sqrt(max(training.penalty, _LEAST_PENALTY))
    if training.first is not None:
        return [OneLayer(machine, training.first, scale)]
    hidden_scale = 1 / np.sqrt(max(training.hidden_penalty, _LEAST_PENALTY))
    outputs = range(1 if machine.depth == 1 else training.Y.shape[1])
    return [Layered(machine, output, hidden_scale, scale) for output in outputs]


def factorise(gradients: Gradients, training: Training, largest_side: int = LARGEST_SIDE) -> Side:
    """The side that is cheaper, after random projection where both are too large."""
    n, p = len(training.X), gradients.n_parameters
    if min(n, p) > largest_side:
        gradients = projected(gradients, training.X, largest_side)
        p = largest_side
    # Up to p = 2n the primal is cheaper to apply at new rows, p^2 against 2 p n + n^2, if the ridge makes up for the
    # missing rank.
    return (
        _primal(gradients, training)
        if p <= n or (p <= min(2 * n, largest_side) and training.penalty > 1e-8)
        else _dual(gradients, training)
    )


def _primal(gradients: Gradients, training: Training) -> Primal:
    X, counts = training.X, training.counts
    n, p = float(counts.sum()), gradients.n_parameters
    shift = gradients.rows(X[: max(1, min(len(X), _ENTRIES // p, 1000))])[1].mean(
        axis=0
    )  # products of shifted gradients lose no digits to the mean
    A, total = np.zeros((p, p)), np.zeros(p)
    for at in _blocks(len(X), p):
        g = gradients.rows(X[at])[1] - shift
        total += counts[at] @ g
        g *= np.sqrt(counts[at])[:, None]
        A += g.T @ g
    A -= np.outer(total, total) / n
    A = gradients.scaled(gradients.scaled(A).T)
    A[np.diag_indices(p)] += n
    L = _cholesky(A)
    inverse, _ = lapack.dtrtri(L, lower=1, overwrite_c=1)
    degrees = p - n * float(np.einsum("ij,ij->", inverse, inverse))
    M = gradients.folded(inverse)
    exact = Primal(gradients, M, shift + total / n, n, degrees + 1, triangular=not np.triu(M, 1).any())
    return exact if p < _FAST_SIDE else _in_float32(exact, X[:: max(1, len(X) // 200)])


def _in_float32(exact: Primal, X: Array) -> Primal:
    """The same in float32, unless a sample of rows tells the difference."""
    M: Any = np.asfortranarray(
        np.where(np.abs(exact.M) < 1e-20, 0, exact.M), np.float32
    )  # processors are slow on denormal numbers
    fast = replace(exact, M=M, fast=True)
    a, b = exact.leverage(X)[1] + 1, fast.leverage(X)[1] + 1
    return fast if np.abs(b / a - 1).max() < 1e-4 else exact


def _triangular_product(M: Array, g: Array) -> Array:
    """g M' for lower triangular M, in place."""
    multiply: Any = blas.strmm if g.dtype == np.float32 else blas.dtrmm
    product: Array = multiply(1.0, M, g.T, lower=1, overwrite_b=1).T
    return product


def _dual(gradients: Gradients, training: Training) -> Dual:
    counts = training.counts
    n = float(counts.sum())
    shares = counts / n
    pairs = gradients.thin(training.X)[1]
    K = _gram(pairs, pairs)
    means = K @ shares
    K -= means
    K -= means[:, None]
    K += shares @ means
    K[np.diag_indices(len(K))] += n / counts
    L = _cholesky(K)
    inverse, _ = lapack.dtrtri(L, lower=1)
    degrees = len(K) - float((inverse**2).sum(axis=0) @ (n / counts))
    return Dual(gradients, L, pairs, means, n, shares, degrees + 1)


def _cholesky(A: Array) -> Array:
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


def _width(side: Side) -> int:
    return (
        side.gradients.n_parameters
        if isinstance(side, Primal)
        else max(len(side.L), max(H.shape[1] for H, _ in side.pairs))
    )


def _blocks(n: int, width: int) -> Iterator[slice]:
    size = int(np.clip(_ENTRIES // max(width, 1), 16, 4096))
    return (slice(begin, min(begin + size, n)) for begin in range(0, n, size))


def leave_one_out(variance: Variance) -> Array:
    """For one layer, layers below held fixed: y - f(x) at every training row when one copy of it is left out, (n,
    k)."""
    training = variance.training
    (side,) = variance.sides[0]
    leverage = np.concatenate([side.leverage(training.X[at])[1] for at in _blocks(len(training.X), _width(side))])
    room = np.maximum(1 - leverage * training.counts / training.copies, 1e-12)
    return np.asarray(variance.residuals / room[:, None])


def left_out_fits(variance: Variance, X: Array) -> tuple[Array, Array]:
    """For one layer: f at X, (b, k), and what one copy of every training row adds to it per unit of its leave-one-out
    residual, (b, n)."""
    side, training = variance.sides[0][0], variance.training
    return side.leverage(X)[0], side.smoother(X, training) / training.copies
