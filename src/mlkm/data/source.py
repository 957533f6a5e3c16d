"""What a source of rows is: columns with names, and pieces of rows one after the other, as often as asked.

Rows in memory, or in a file that NumPy maps into memory.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from .._types import Array
from . import blocks, checked_weights
from .pieces import in_order, piece_rows, tree_sum
from .tables.frames import Table
from .tables.odd import one_warning

T = TypeVar("T")

NO_TARGET = "The table has no target; name it, as in open_table(path, target='price'), or pass y."

ROWS = 20_000  # as many as kernels are solved on


@dataclass(frozen=True)
class Block:
    """Rows of a table, or unconverted cells of a frame or an array (`as_cells`), their targets (n, k), k being 0 where
    there are none, and their weights."""

    table: Any
    Y: Array
    weights: Array

    def __len__(self) -> int:
        return len(self.weights)


class Source(Protocol):
    """Rows that need not fit into memory."""

    @property
    def names(self) -> tuple[str, ...] | None: ...

    @property
    def n_columns(self) -> int: ...

    @property
    def single_output(self) -> bool: ...

    def reduce(self, f: Callable[[Block], T], add: Callable[[T, T], T]) -> T:
        """f of every piece, added up in the order of `Tree`; f is called where the rows are."""

    def blocks(self) -> Iterator[Block]:
        """The pieces, in order."""


def is_source(X: Any) -> bool:
    """Whether X is a source of rows rather than rows. What has an attribute of any name, as a Delayed of dask, has no
    number of columns."""
    return callable(getattr(X, "reduce", None)) and isinstance(getattr(X, "n_columns", None), int)


class LocalSource:
    """A source whose pieces are read here, in order, and worked on by threads."""

    def blocks(self) -> Iterator[Block]:
        raise NotImplementedError

    def n_blocks(self) -> int | None:
        """How many pieces there are, where that is known without reading them."""
        return None

    def reduce(self, f: Callable[[Block], T], add: Callable[[T, T], T]) -> T:
        with one_warning():
            return tree_sum(in_order(f, self.blocks()), add, self.n_blocks())


def checked_targets(Y: Any) -> Array:
    """Targets of a block as finite numbers (n, k)."""
    result = np.asarray(Y, np.float64)
    if np.isnan(result).any():
        raise ValueError("Input y contains NaN; every row needs a target that is a number.")
    if not np.isfinite(result).all():
        raise ValueError("Input y contains infinity; every row needs a target that is a number.")
    return result.reshape(len(result), -1)


def check_predicted(Y: Array, f: Array) -> None:
    """Refuse targets of a block that are none, or not as many as a model predicts."""
    if not Y.shape[1]:
        raise ValueError(NO_TARGET)
    if Y.shape[1] != f.shape[1]:
        raise ValueError(
            f"Targets must be those that the model predicts, which are {f.shape[1]}; got {Y.shape[1]} of every row."
        )


def checked_block_weights(weights: Any, n: int) -> Array:
    """Weights of a block: numbers, none negative."""
    if weights is None:
        return np.ones(n)
    result = np.asarray(weights, np.float64)
    if not np.isfinite(result).all() or (result < 0).any():
        raise ValueError("Sample weights must be finite numbers, none negative.")
    return result


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


def table_source(table: Table, y: Array, weights: Array | None) -> TableSource:
    """Return a table in memory with its targets, one-dimensional or not, and weights as rows."""
    Y = y.astype(np.float64).reshape(len(y), -1)
    return TableSource(table, Y, np.ones(len(Y)) if weights is None else weights, y.ndim == 1)


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
