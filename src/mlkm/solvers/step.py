"""One pass of gradient descent over some rows, moving one layer or all of them, and the loss it goes down."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .._types import Array, IntArray
from ..model.machine import Machine, backward, flatten, forward, gradients, positions
from .data import Data


@dataclass(frozen=True)
class Step:
    """eta of every layer, mu, the size of a mini-batch (None: all rows at once), lambda, and passes per visit."""

    rates: tuple[float, ...]
    momentum: float = 0.9
    batch_size: int | None = None
    penalty: float = 0.0
    passes: int = 1

    def visit(
        self,
        machine: Machine,
        velocity: list[Array],
        layer: int | None,
        data: Data,
        rows: IntArray,
        rng: np.random.Generator,
    ) -> None:
        """Passes over `rows`, moving `layer` (or all, if None). Weights and velocity are changed in place."""
        for _ in range(self.passes):
            self._pass(machine, velocity, layer, data, rows, rng)

    def _pass(
        self,
        machine: Machine,
        velocity: list[Array],
        layer: int | None,
        data: Data,
        rows: IntArray,
        rng: np.random.Generator,
    ) -> None:
        matrices, moving = flatten(machine.layers), positions(machine, layer)
        rates = [rate for rate, layer in zip(self.rates, machine.layers, strict=True) for _ in layer]
        size = len(rows) if self.batch_size is None else min(self.batch_size, len(rows))
        order = rows if size == len(rows) else rng.permutation(rows)
        mean_weight = float(data.rows.weights[rows].mean())
        for batch in _chunks(order, size):
            for k, slope in zip(moving, _slopes(machine, moving, data, batch, mean_weight), strict=True):
                W, V = matrices[k], velocity[k]
                V *= self.momentum
                V += slope
                V[:-1] += 2 * self.penalty * W[:-1]
                W -= rates[k] * V


def _chunks(index: IntArray, size: int) -> Iterator[IntArray]:
    return (index[begin : begin + size] for begin in range(0, len(index), size))


def _slopes(machine: Machine, moving: list[int], data: Data, batch: IntArray, mean_weight: float) -> list[Array]:
    """The gradient of the batch's mean squared error, summed over blocks of bounded size."""
    total: list[Array] = []
    for at in _chunks(batch, data.block):
        X, Y, weights = data.rows.X, data.rows.Y, data.rows.weights
        tape = forward(machine, X[at] if machine.linear else X, data.first(at))
        cotangent = tape.output - Y[at]
        cotangent *= (2 / (mean_weight * len(batch)) * weights[at])[:, None]
        factors = backward(machine, tape, cotangent)
        slopes = gradients([factors[k] for k in moving])
        total = [a + b for a, b in zip(total, slopes, strict=True)] if total else slopes
    return total


def loss(machine: Machine, data: Data) -> float:
    """Weighted mean squared error on all rows, summed over outputs."""
    total = 0.0
    for at in data.blocks():
        residuals = forward(machine, data.rows.X[at], data.first(at)).output - data.rows.Y[at]
        total += float(data.rows.weights[at] @ (residuals**2).sum(axis=1))
    return total / len(data)
