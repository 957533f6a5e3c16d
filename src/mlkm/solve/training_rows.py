"""The rows that layers are trained on, with the features of layer 1; the loss on them and its gradient."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from .._types import Array, IntArray
from ..data import blocks
from ..data.rows import Block
from ..model.features import Map
from ..model.machine import Machine, backward, forward, gradients
from ..runtime.sizes import BLOCK_ENTRIES


@dataclass(frozen=True)
class TrainingRows:
    """Inputs, targets and weights of rows, with the features phi_1 of layer 1.

    `first` holds phi_1 at all rows, or None where phi_1 is computed again whenever it is needed, `block` rows at a
    time. `part` numbers the subsample of cross-fitting that every row belongs to, and `unit` is what descent multiplies
    the targets by.
    """

    X: Array
    Y: Array
    weights: Array
    phi: Map
    block: int
    first: Array | None = None
    part: IntArray | None = None
    unit: Array | float = 1.0

    def __len__(self) -> int:
        return len(self.X)

    def features(self, at: slice | IntArray) -> Array:
        """Return phi_1 at the given rows."""
        return self.phi.features(self.X[at]) if self.first is None else self.first[at]

    def targets(self, at: slice | IntArray) -> Array:
        """Return the targets of the given rows, times the unit."""
        return self.unit * self.Y[at]

    def take(self, at: slice | IntArray) -> "TrainingRows":
        """Return the given rows, with weights that average to one again."""
        weights = self.weights[at] / self.weights[at].mean()
        first = None if self.first is None else self.first[at]
        part = None if self.part is None else self.part[at]
        return replace(self, X=self.X[at], Y=self.Y[at], weights=weights, first=first, part=part)

    def blocks(self) -> Iterator[slice]:
        """Return slices of at most `block` rows, in order."""
        return blocks(len(self), self.block)


def training_rows(rows: Block, phi: Map, entries: int = BLOCK_ENTRIES, unit: Array | float = 1.0) -> TrainingRows:
    """Return rows with targets times `unit`, in blocks whose features have at most so many entries; phi_1 is kept of
    up to four blocks, and computed a block at a time of more."""
    width = int(phi.n_features)
    first = phi.features(rows.X) if len(rows) * width <= max(entries, 4 * BLOCK_ENTRIES) else None
    return TrainingRows(rows.X, rows.Y, rows.weights, phi, max(1, entries // width), first, rows.fold, unit)


def squared_error(machine: Machine, data: TrainingRows) -> float:
    """Return the weighted sum of squared errors on all rows, summed over outputs."""
    total = 0.0
    for at in data.blocks():
        residuals = forward(machine, data.X[at], data.features(at)).output - data.targets(at)
        total += float(data.weights[at] @ (residuals**2).sum(axis=1))
    return total


def loss(machine: Machine, data: TrainingRows) -> float:
    """Return the weighted mean squared error on all rows, summed over outputs."""
    return squared_error(machine, data) / float(data.weights.sum())


def error_and_gradient(
    machine: Machine, moving: list[int], data: TrainingRows, rows: IntArray | slice, total_weight: float
) -> tuple[float, list[Array]]:
    """Return the squared error at `rows` and its gradient with respect to the matrices that are `moving`, both divided
    by `total_weight`; they are summed up over blocks of bounded size, and are zero without rows."""
    error, total = 0.0, list[Array]()
    for block in blocks(max(n_rows(rows), 1), data.block):
        at = part_of(rows, block.start, block.stop)
        tape = forward(machine, data.X[at] if machine.linear else data.X, data.features(at))
        residuals = tape.output - data.targets(at)
        cotangent = (2 / total_weight * data.weights[at])[:, None] * residuals
        error += float(np.vdot(cotangent, residuals)) / 2
        factors = backward(machine, tape, cotangent)
        of_block = gradients([factors[k] for k in moving])
        total = [a + b for a, b in zip(total, of_block, strict=True)] if total else of_block
    return error, total


def loss_gradient(
    machine: Machine, moving: list[int], data: TrainingRows, rows: IntArray | slice, total_weight: float
) -> list[Array]:
    """Return the gradient alone."""
    return error_and_gradient(machine, moving, data, rows, total_weight)[1]


def n_rows(rows: IntArray | slice) -> int:
    """Return how many rows there are, given by their numbers or by a slice with both ends."""
    return int(rows.stop - rows.start) if isinstance(rows, slice) else len(rows)


def part_of(rows: IntArray | slice, begin: int, end: int) -> IntArray | slice:
    """Return rows number `begin` to `end` of these, as a slice where these are one."""
    return slice(rows.start + begin, rows.start + end) if isinstance(rows, slice) else rows[begin:end]
