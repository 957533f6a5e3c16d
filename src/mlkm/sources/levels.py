"""Levels as numbers where rows come in pieces, as `mlkm.tables.means` has it: indicators, or means of y.

A row's own y must not be among its inputs: in training its levels have the means of rows of the four other folds. A
row's fold depends on what it says, so that it is the same in every pass.
"""

from dataclasses import dataclass

import numpy as np

from .._types import Array, IntArray
from ..rows import Inputs, Standardiser
from ..tables.means import FOLDS, LevelNumbers, LevelValues, drawn_means, indicators, is_few, level_sums
from ..tables.reading import Reader
from .base import Block, Source
from .hashes import parts, row_hashes

_SALT = 1_000_003  # of the hash behind folds, which are not those of the sample


def fold_of(block: Block, n_folds: int = FOLDS, salt: int = _SALT) -> IntArray:
    return parts(row_hashes(block.table, block.Y, salt), n_folds)


@dataclass(frozen=True)
class CrossedNumbers:
    """The numbers of levels for new rows, and for training rows of every fold by the other folds."""

    whole: LevelNumbers
    by_fold: tuple[LevelNumbers, ...]

    def numbers(self, X: Array, block: Block) -> Array:
        """Inputs of training rows."""
        if not self.whole.crossed:
            return self.whole.numbers(X)
        fold = fold_of(block)
        result = np.empty((len(X), len(self.whole.owners)))
        for k, own in enumerate(self.by_fold):
            result[fold == k] = own.numbers(X[fold == k])
        return result


@dataclass(frozen=True)
class LevelSums:
    """For every level input and fold what `drawn_means` needs, of standardised targets, and the largest weight."""

    sums: tuple[tuple[tuple[Array, Array, Array], ...], ...]
    largest: float


@dataclass(frozen=True)
class LevelSumsOf:
    """Of a piece."""

    reader: Reader
    y_scaler: Standardiser
    sizes: tuple[tuple[int, int], ...]  # of every input with many levels its place and their number

    def __call__(self, block: Block) -> LevelSums:
        X, Y, fold = self.reader.encoded(block.table), self.y_scaler.forward(block.Y), fold_of(block)
        sums = []
        for j, size in self.sizes:
            own = []
            for k in range(FOLDS):
                at = (fold == k) & (X[:, j] >= 0)
                own.append(level_sums(X[at, j], Y[at], block.weights[at], size))
            sums.append(tuple(own))
        return LevelSums(tuple(sums), float(block.weights.max(initial=0.0)))


def added(a: LevelSums, b: LevelSums) -> LevelSums:
    sums = tuple(
        tuple(tuple(x + y for x, y in zip(*pair, strict=True)) for pair in zip(own, other, strict=True))
        for own, other in zip(a.sums, b.sums, strict=True)
    )
    return LevelSums(sums, max(a.largest, b.largest))  # type: ignore[arg-type]


def fit_crossed(
    source: Source, reader: Reader, inputs: Inputs, n_levels: dict[int, int], y_scaler: Standardiser
) -> CrossedNumbers:
    """One pass over the rows, where some input has many levels; `n_levels` are those of every input that is a level."""
    many = tuple((j, size) for j, size in n_levels.items() if not is_few(size))
    if not many:
        whole = LevelNumbers(inputs, tuple(indicators(size) for size in n_levels.values()), False)
        return CrossedNumbers(whole, ())
    found = source.reduce(LevelSumsOf(reader, y_scaler, many), added)

    def encoders(without: int | None) -> LevelNumbers:
        values: list[LevelValues] = []
        sums = iter(found.sums)
        for size in n_levels.values():
            if is_few(size):
                values.append(indicators(size))
                continue
            folds = [own for k, own in enumerate(next(sums)) if k != without]
            mass, sums_of_y, squares = (np.sum([own[i] for own in folds], axis=0) for i in range(3))
            values.append(drawn_means(mass, sums_of_y, squares, found.largest))
        return LevelNumbers(inputs, tuple(values), True)

    return CrossedNumbers(encoders(None), tuple(encoders(k) for k in range(FOLDS)))
