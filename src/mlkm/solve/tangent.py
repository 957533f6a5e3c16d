"""The gradient of a machine's output with respect to its weights, as features of a ridge.

Linearised at its weights a machine is a ridge on these features (the delta method). The gradient with respect to one
weight matrix is an outer product, so that inner products of gradients are sums of elementwise products of two thin
products, and the p numbers of a row are formed only where the p x p matrix is the smaller one.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from .._types import Array
from ..data import Block
from ..model.machine import Factors, Features, Machine, forward, output_factors
from ..runtime.resources import Purpose, generator
from ..runtime.sizes import DAMPED_PENALTY, FACTOR_SIDE, LEAST_PENALTY
from .smoother import Dual, Primal, primal_of_rows


class OuterProducts(ABC):
    """Features that are outer products of thin factors, flattened and side by side. A subclass has the factors, or the
    features themselves, which are then outer products with 1."""

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Return D."""

    def inputs(self, X: Array) -> Array:
        """Return X as it is."""
        return X

    def rows_of_features(self, X: Array) -> Array:
        """Return the features at every row of X, (n, D)."""
        return np.hstack([(H[:, :, None] * G[:, None, :]).reshape(len(X), -1) for H, G in self.factors(X)])

    def factors(self, X: Array) -> Factors:
        """Return pairs (H, G): row i of the features consists of the outer products of H_i and G_i."""
        return [(self.rows_of_features(X), np.ones((len(X), 1)))]


@dataclass(frozen=True)
class Flat(OuterProducts):
    """Any features as outer products with 1."""

    features: Features
    width: int

    @property
    def n_features(self) -> int:
        """Return the number of features."""
        return self.width

    def inputs(self, X: Array) -> Array:
        """Return X in the precision of the features."""
        return self.features.inputs(X)

    def rows_of_features(self, X: Array) -> Array:
        """Return the features at every row of X."""
        return self.features.rows_of_features(X)


@dataclass(frozen=True)
class Tangent(OuterProducts):
    """The gradient of one output with respect to all weights that it depends on but the last intercept, those of hidden
    layers multiplied by `hidden_scale`: with it one penalty stands for two."""

    machine: Machine
    output: int
    hidden_scale: float

    @property
    def n_features(self) -> int:
        """Return the number of weights that the output depends on, without the last intercept."""
        hidden = self.machine.n_parameters - self.machine.layers[-1][0].size
        return hidden + len(self.machine.layers[-1][0]) - 1

    def factors(self, X: Array) -> Factors:
        """Return the gradient as pairs of thin factors, one per weight matrix."""
        *hidden, (H, _) = output_factors(self.machine, forward(self.machine, X), self.output)
        one = np.ones((len(X), 1))
        return [*((self.hidden_scale * np.hstack([h, one]), g) for h, g in hidden), (H, one)]


@dataclass(frozen=True)
class Projected(OuterProducts):
    """Random combinations of features, which keep inner products on average.

    For outer products the combinations are products (H R)(G S) of normal combinations of each factor, so that no row of
    p numbers is formed.
    """

    features: OuterProducts
    directions: tuple[tuple[Array, Array], ...]

    @property
    def n_features(self) -> int:
        """Return the number of combinations."""
        return int(self.directions[0][0].shape[1])

    def rows_of_features(self, X: Array) -> Array:
        """Return the combinations at every row of X."""
        total = np.zeros((len(X), self.n_features))
        for (H, G), (R, S) in zip(self.features.factors(X), self.directions, strict=True):
            total += (H @ R) * (G @ S)
        return total


def projected(features: OuterProducts, X: Array, n_features: int) -> Projected:
    """Draw the combinations; `X` is any row."""
    directions = []
    for k, (H, G) in enumerate(features.factors(X[:1])):
        rng = generator(0, Purpose.PROJECTION, k)
        R = rng.standard_normal((H.shape[1], n_features)) / np.sqrt(n_features)
        S = np.ones((1, n_features)) if G.shape[1] == 1 else rng.standard_normal((G.shape[1], n_features))
        directions.append((R, S))
    return Projected(features, tuple(directions))


@dataclass(frozen=True)
class InnerProducts:
    """The kernel of features: their inner product."""

    features: OuterProducts

    def matrix(self, A: Array, B: Array) -> Array:
        """Return the inner products of all rows of A with all rows of B."""
        total = np.zeros((len(A), len(B)))
        for (H, G), (H2, G2) in zip(self.features.factors(A), self.features.factors(B), strict=True):
            product = H @ H2.T
            product *= G @ G2.T
            total += product
        return total

    def gram(self, X: Array) -> Array:
        """Return the inner products of all pairs of rows of X."""
        return self.matrix(X, X)

    def diagonal(self, X: Array) -> Array:
        """Return the squared length of the features at every row of X."""
        return np.asarray(sum((H**2).sum(axis=1) * (G**2).sum(axis=1) for H, G in self.features.factors(X)))


def factorised(features: OuterProducts, rows: Block, penalty: float, largest_side: int = FACTOR_SIDE) -> Primal | Dual:
    """Return the smoother of a ridge on rows in memory, by its smaller matrix, after random projection where both are
    larger than `largest_side`.

    Projection is an approximation: leverages come out low by about tr H / `largest_side`. Memory stays below 1 GB.
    """
    n = len(rows)
    if min(n, features.n_features) > largest_side:
        features = projected(features, rows.X, largest_side)
    # Up to p = 2n the primal is cheaper to apply at new rows, p^2 against 2 p n + n^2, if the ridge makes up for the
    # missing rank.
    p = features.n_features
    if p <= n or (p <= min(2 * n, largest_side) and penalty > DAMPED_PENALTY):
        return primal_of_rows(features, rows, penalty)
    noise = float(rows.counts.sum()) * max(penalty, LEAST_PENALTY)
    return Dual(InnerProducts(features), rows.X, rows.Y, noise / rows.counts, noise)
