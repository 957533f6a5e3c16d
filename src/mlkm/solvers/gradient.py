"""Gradient descent on the weighted mean of squared errors plus lambda |W|^2, with momentum and mini-batches.

The update is W <- W - eta V, V <- mu V + gradient. Biases are not penalised. Which layers move, and on which rows, is
the caller's choice: all layers on all rows is the paper's joint descent; one layer on its own subsample is one step of
ADDS.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from .._types import Array, IntArray
from ..model.machine import Machine, backward, flatten, forward, gradients

Data: TypeAlias = tuple[Array, Array, Array, Array]  # X, phi_1(X), Y, weights


@dataclass(frozen=True)
class GradientDescent:
    """eta, mu, the size of a mini-batch (None: all rows at once) and lambda."""

    learning_rate: float
    momentum: float
    batch_size: int | None
    penalty: float

    def epoch(
        self,
        machine: Machine,
        velocity: list[Array],
        layer: int | None,
        data: Data,
        rows: IntArray,
        rng: np.random.Generator,
    ) -> None:
        """One pass over `rows`, moving `layer` (or all, if None). Weights and velocity are changed in place.

        `data` is (X, phi_1(X), Y, weights) of all rows.
        """
        X, first, Y, weights = data
        matrices = flatten(machine.layers)
        moving = positions(machine, layer)
        size = len(rows) if self.batch_size is None else min(self.batch_size, len(rows))
        order = rows if size == len(rows) else rng.permutation(rows)
        first, Y, weights = first[order], Y[order], weights[order]
        X = X[order] if machine.linear else X
        mean_weight = weights.mean()
        for start in range(0, len(order), size):
            batch = slice(start, start + size)
            tape = forward(machine, X[batch] if machine.linear else X, first[batch])
            cotangent = tape.output - Y[batch]
            cotangent *= (2 / (mean_weight * len(cotangent)) * weights[batch])[:, None]
            factors = backward(machine, tape, cotangent)
            for k, slope in zip(moving, gradients([factors[k] for k in moving]), strict=True):
                W, V = matrices[k], velocity[k]
                V *= self.momentum
                V += slope
                V[:-1] += 2 * self.penalty * W[:-1]
                W -= self.learning_rate * V


def positions(machine: Machine, layer: int | None) -> list[int]:
    """Where the matrices of a layer stand in `flatten(machine.layers)`."""
    sizes = [len(weights) for weights in machine.layers]
    if layer is None:
        return list(range(sum(sizes)))
    start = sum(sizes[:layer])
    return list(range(start, start + sizes[layer]))


def loss(machine: Machine, data: Data) -> float:
    """Weighted mean squared error on all rows, summed over outputs."""
    X, first, Y, weights = data
    residuals = forward(machine, X, first).output - Y
    return float(weights @ (residuals**2).sum(axis=1)) / len(Y)
