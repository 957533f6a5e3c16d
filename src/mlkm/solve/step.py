"""One pass of gradient descent over some rows, moving one layer or all of them, and the loss it goes down."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .._types import Array, IntArray
from ..data import blocks
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
        rows: IntArray | None,
        rng: np.random.Generator,
    ) -> None:
        """Passes over `rows`, moving `layer`; None stands for all of either. Weights and velocity are changed in
        place."""
        for _ in range(self.passes):
            self._pass(machine, velocity, layer, data, rows, rng)

    def _pass(
        self,
        machine: Machine,
        velocity: list[Array],
        layer: int | None,
        data: Data,
        rows: IntArray | None,
        rng: np.random.Generator,
    ) -> None:
        moving = positions(machine, layer)
        n, weights = (len(data) if rows is None else len(rows)), data.rows.weights
        size = n if self.batch_size is None else min(self.batch_size, n)
        order = rows if size == n else rng.permutation(n if rows is None else rows)
        mean_weight = float((weights if rows is None else weights[rows]).mean())
        for batch in _chunks(order, n, size):
            self.move(machine, velocity, moving, slopes(machine, moving, data, batch, mean_weight))

    def move(self, machine: Machine, velocity: list[Array], moving: list[int], gradient: list[Array]) -> None:
        """One step of the matrices that move, with the gradient of the mean squared error."""
        matrices = flatten(machine.layers)
        rates = [rate for rate, layer in zip(self.rates, machine.layers, strict=True) for _ in layer]
        for k, slope in zip(moving, gradient, strict=True):
            W, V = matrices[k], velocity[k]
            V *= self.momentum
            V += slope
            V[:-1] += 2 * self.penalty * W[:-1]
            W -= rates[k] * V


def _chunks(index: IntArray | slice | None, n: int, size: int) -> Iterator[IntArray | slice]:
    """At most `size` of n rows at a time, given by their numbers, or all of them or a slice of them in order."""
    first = index.start if isinstance(index, slice) else 0
    for part in blocks(n, size):
        yield index[part] if isinstance(index, np.ndarray) else slice(first + part.start, first + part.stop)


def slopes(machine: Machine, moving: list[int], data: Data, batch: IntArray | slice, mean_weight: float) -> list[Array]:
    """The gradient of the batch's mean squared error, summed over blocks of bounded size."""
    total: list[Array] = []
    X, weights = data.rows.X, data.rows.weights
    n = batch.stop - batch.start if isinstance(batch, slice) else len(batch)
    for at in _chunks(batch, n, data.block):
        tape = forward(machine, X[at] if machine.linear else X, data.first(at))
        cotangent = tape.output - data.targets(at)
        cotangent *= (2 / (mean_weight * n) * weights[at])[:, None]
        factors = backward(machine, tape, cotangent)
        own = gradients([factors[k] for k in moving])
        total = [a + b for a, b in zip(total, own, strict=True)] if total else own
    return total


def loss(machine: Machine, data: Data) -> float:
    """Weighted mean squared error on all rows, summed over outputs."""
    total = 0.0
    for at in data.blocks():
        residuals = forward(machine, data.rows.X[at], data.first(at)).output - data.targets(at)
        total += float(data.rows.weights[at] @ (residuals**2).sum(axis=1))
    return total / len(data)
