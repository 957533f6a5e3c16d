"""Rows in memory, or in a file that NumPy maps into memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._types import Array
from ..rows import blocks, checked_weights
from ..rows.pieces import piece_rows
from ..tables.frames import Table
from .base import Block, LocalSource, checked_targets
from .sample import ROWS


@dataclass(frozen=True)
class TableSource(LocalSource):
    """A table whose columns are in memory, its targets and weights."""

    table: Table
    Y: Array
    weights: Array
    single_output: bool

    @property
    def names(self) -> tuple[str, ...] | None:
        return self.table.names

    @property
    def n_columns(self) -> int:
        return len(self.table.columns)

    def n_blocks(self) -> int:
        return -(-len(self.weights) // piece_rows(self.n_columns))

    def blocks(self) -> Iterator[Block]:
        for at in blocks(len(self.weights), piece_rows(self.n_columns)):
            yield Block(self.table.take(at), self.Y[at], self.weights[at])


@dataclass(frozen=True)
class ArraySource(LocalSource):
    """An array of numbers, which may be a memmap: columns are made a piece at a time."""

    X: NDArray[Any]
    Y: NDArray[Any]
    weights: Array
    single_output: bool
    names: tuple[str, ...] | None = None

    @property
    def n_columns(self) -> int:
        return int(self.X.shape[1])

    def n_blocks(self) -> int:
        return -(-len(self.X) // piece_rows(self.n_columns))

    def blocks(self) -> Iterator[Block]:
        for at in blocks(len(self.X), piece_rows(self.n_columns)):
            # row by row in memory, so that columns are read at once
            columns = np.ascontiguousarray(np.asarray(self.X[at]).T, np.float64)
            Y = np.asarray(self.Y[at], np.float64).reshape(at.stop - at.start, -1)
            yield Block(Table(tuple(columns), self.names), Y, self.weights[at])


def mapped_source(X: Any, y: Any, sample_weight: Any) -> ArraySource | None:
    """An array of numbers in a file as a source, where it has many rows; a smaller one is read as a whole."""
    if X.ndim != 2 or X.dtype.kind not in "fiub" or len(X) <= ROWS or y is None:
        return None
    Y = checked_targets(y)
    if len(Y) != len(X):
        raise ValueError(f"X has {len(X)} rows and y has {len(Y)}; they must be the same.")
    weights = checked_weights(sample_weight, len(X))
    return ArraySource(X, Y, np.ones(len(X)) if weights is None else weights, np.ndim(y) == 1)
