"""Last layers in closed form on rows that are seen in pieces, each on its own part of them, and what their rows say of
them: sums for the ridge, errors of rows left out, and errors of the average."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .._types import Array
from ..data import blocks
from ..data.rows import BLOCK, Block, Rows
from ..model.last import Features
from ..model.machine import Machine, predict_average
from .blocked import best_penalty, products_of, solved
from .ridge import RidgeFit
from .sums import Sums, SumsOf, add_in_place, sums_of


@dataclass(frozen=True)
class SumsByPart:
    """Of every layer the sums over its own part and over all other rows; a part of None is all rows."""

    of: tuple[SumsOf, ...]
    own: tuple[int | None, ...]

    def __call__(self, piece: Block) -> list[Sums]:
        piece = piece.counted()
        result = []
        for sums, part in zip(self.of, self.own, strict=True):
            inside = np.full(len(piece), True) if part is None else np.asarray(piece.fold == part)
            result += [sums(piece.rows(inside)), sums(piece.rows(~inside))]
        return result


def _add(a: list[Sums], b: list[Sums]) -> list[Sums]:
    return [add_in_place(x, y) for x, y in zip(a, b, strict=True)]


def sums_by_part(
    layers: Sequence[Features], own: Sequence[int | None], pieces: Rows, X: Array
) -> list[tuple[Sums, Sums]]:
    """Of every layer the sums over its own part and over all rows; X are rows near whose mean features they are
    taken."""
    sums = pieces.map_reduce(SumsByPart(tuple(sums_of(layer, X) for layer in layers), tuple(own)), _add)
    return [(inside, inside + others) for inside, others in zip(sums[::2], sums[1::2], strict=True)]


def solve_by_part(layer: Features, sums: Sums, left: Block, penalty: float | None) -> RidgeFit:
    """The ridge of one part; a penalty of None is chosen by the errors of `left`, rows of that part, left out."""
    factor = sums.n / sums.weight  # weights average to one in the part
    own = Block(left.X, left.Y, factor * left.weights)
    products = products_of(sums.times(factor), layer, own)
    return best_penalty(products) if penalty is None else solved(products, penalty)


@dataclass(frozen=True)
class LeftOut:
    """The ridge on features, ready for errors of rows left out: r_i / (1 - h_i) with h_i = w_i (1/n + |z_i'M|^2), z_i
    the centred features."""

    layer: Features
    C: Array
    f_mean: Array
    y_mean: Array
    M: Array
    n: float

    def errors(self, X: Array, Y: Array, weights: Array) -> Array:
        F = self.layer.rows_of_features(X) - self.f_mean
        leverage = weights * (((F @ self.M) ** 2).sum(axis=1) + 1 / self.n)
        residuals = (Y - self.y_mean - F @ self.C) / np.maximum(1 - leverage, 1e-12)[:, None]
        return np.asarray(weights @ residuals**2)


def left_out(layer: Features, sums: Sums, penalty: float) -> LeftOut:
    """From the sums of all rows."""
    FF, FY, _ = sums.centred()
    n, (values, V) = sums.weight, np.linalg.eigh(FF)
    # Directions whose eigenvalue is rounding error carry no information: drop them.
    kept = values > max(values[-1], 0.0) * max(n, len(values)) * np.finfo(np.float64).eps
    M = V[:, kept] / np.sqrt(values[kept] + n * penalty)
    return LeftOut(layer, M @ (M.T @ FY), sums.f_mean, sums.y_mean, M, n)


@dataclass(frozen=True)
class ErrorsOf:
    """Sums of squared errors over a piece: of the average of machines, and of rows left out of every layer, (1 +
    layers, k)."""

    machines: tuple[Machine, ...]
    layers: tuple[LeftOut, ...]

    def __call__(self, piece: Block) -> Array:
        total = np.zeros((1 + len(self.layers), piece.Y.shape[1]))
        for at in blocks(len(piece), BLOCK):
            X, Y, w = piece.X[at], piece.Y[at], piece.weights[at]
            total[0] += w @ (predict_average(self.machines, X) - Y) ** 2
            for row, layer in zip(total[1:], self.layers, strict=True):
                row += layer.errors(X, Y, w)
        return total


def mean_errors(machines: Sequence[Machine], layers: Sequence[LeftOut], pieces: Rows) -> tuple[Array, Array]:
    """Mean squared errors of the average of machines, and those of rows left out, averaged over layers: (k,) each."""
    total: Array = pieces.map_reduce(ErrorsOf(tuple(machines), tuple(layers)), np.add)
    total = total / pieces.n  # weights average to one
    return total[0], total[1:].mean(axis=0) if layers else np.full(total.shape[1], np.nan)
