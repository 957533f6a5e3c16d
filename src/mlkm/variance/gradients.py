"""Gradients of a machine's output with respect to its weights, scaled to a ridge of 1: what leverages are made of."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from .._types import Array
from ..model.machine import Factors, Machine, affine, forward, jacobian, last_inputs, output_factors
from ..model.prior import Prior
from ..runtime.seeds import Purpose, generator


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
    first: Prior
    scale: float

    @property
    def n_parameters(self) -> int:
        return len(self.machine.layers[0][0]) - 1

    def rows(self, X: Array) -> tuple[Array, Array]:
        phi = self.machine.maps[0].features(X)
        F = last_inputs(self.machine, X, phi, phi)
        return affine(self.machine.layers[0][0], F), F

    def scaled(self, B: Array) -> Array:
        return self.scale * self.first.scaled(B)

    def folded(self, B: Array) -> Array:
        return self.scale * self.first.scaled(B, transposed=True)

    def thin(self, X: Array) -> tuple[Array, Factors]:
        f, F = self.rows(X)
        return f, [(self.scaled(F), np.ones((len(F), 1)))]


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
