"""A sample of distinct rows by their hashes: those with the least ones. Samples of two sets of rows make that of both,
and however the rows are cut, the sample is the same."""

from dataclasses import dataclass

import numpy as np

from .._types import Array
from ..tables.cells import RawColumn
from ..tables.frames import Table, is_words
from .hashes import Hashes

ROWS = 20_000  # as many as kernels are solved on
_ENTRIES = 20_000_000
_LEAST = 6000  # what a search looks at


def sample_size(n_columns: int) -> int:
    """How many rows a sample has at most; fewer where columns are many."""
    return int(np.clip(_ENTRIES // max(n_columns, 1), _LEAST, ROWS))


@dataclass(frozen=True)
class Sample:
    """Distinct rows in the order of their hashes, and the weight of all that are equal to each."""

    hashes: Hashes
    table: Table
    Y: Array
    weights: Array

    def __len__(self) -> int:
        return len(self.weights)


def sample_of(hashes: Hashes, table: Table, Y: Array, weights: Array, most: int) -> Sample:
    """Of the rows given."""
    order = np.argsort(hashes, kind="stable")
    h = hashes[order]
    begins = np.flatnonzero(np.concatenate([[True], h[1:] != h[:-1]]))
    total = np.add.reduceat(weights[order], begins)[:most]
    at = order[begins[:most]]
    return Sample(hashes[at], table.take(at), Y[at], total)


def merged_samples(a: Sample, b: Sample, most: int) -> Sample:
    """Of the rows of both."""
    pairs = zip(a.table.columns, b.table.columns, strict=True)
    table = Table(tuple(_joined(x, y) for x, y in pairs), a.table.names, a.table.zones)
    hashes, weights = np.concatenate([a.hashes, b.hashes]), np.concatenate([a.weights, b.weights])
    return sample_of(hashes, table, np.vstack([a.Y, b.Y]), weights, most)


def _joined(a: RawColumn, b: RawColumn) -> RawColumn:
    """One column; of two forms where one has nothing but missing values."""
    if is_words(a) != is_words(b) or a.dtype.kind != b.dtype.kind:
        a, b = (as_form_of(x, y) for x, y in ((a, b), (b, a)))
    return np.concatenate([a, b])


def nothing_there(column: RawColumn) -> bool:
    """Whether a column of words has nothing but missing values: its form is that of other pieces."""
    return is_words(column) and all(x is None for x in column)


def as_form_of(column: RawColumn, other: RawColumn) -> RawColumn:
    """A column of nothing in the form of another."""
    if not nothing_there(column) or is_words(other):
        return column
    return np.full(len(column), np.datetime64("NaT", "us") if other.dtype.kind == "M" else np.nan)
