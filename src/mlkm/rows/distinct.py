"""The rows a fit sees: distinct, weighted, and in an order that depends on their content only.

Rows of weight zero are dropped and equal rows are merged into one whose weight is the sum. So "weight k" and "repeated
k times" are the same problem by construction, for every solver. Leave-one-out leaves out a row with all its copies:
weights may say how much a row matters as well as how often it was seen, and a penalty chosen with the other copies
still there would interpolate. Sorting by a hash of the columns' ranks makes any later seeded subsample or split
independent of the order in which rows were given, and of the units and origins of the columns.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .._types import Array, IntArray


@dataclass(frozen=True)
class Rows:
    """Distinct rows with weights that average to one, how many copies each stands for, and the part each belongs to."""

    X: Array
    Y: Array
    weights: Array
    copies: Array
    fold: IntArray | None = None

    def __len__(self) -> int:
        return len(self.X)

    @property
    def counts(self) -> Array:
        """What every row counts for: weights whose sum is the number of rows with all their copies."""
        return np.asarray(self.weights * (self.copies.sum() / len(self)))

    def take(self, at: slice | IntArray) -> "Rows":
        """Some of the rows, with weights that average to one again."""
        weights, fold = self.weights[at], None if self.fold is None else self.fold[at]
        return Rows(self.X[at], self.Y[at], weights / weights.mean(), self.copies[at], fold)

    def blocks(self, size: int) -> Iterator[slice]:
        """Slices of at most `size` rows each, in order."""
        return blocks(len(self), size)


def blocks(n: int, size: int) -> Iterator[slice]:
    """Slices of at most `size` of n rows, in order."""
    return (slice(begin, min(begin + size, n)) for begin in range(0, n, size))


def plain_rows(X: Array, Y: Array, weights: Array | None = None) -> Rows:
    """Rows as they are, each standing for itself."""
    weights = np.ones(len(X)) if weights is None else weights / weights.mean()
    return Rows(X, Y, weights, np.ones(len(X)))


def _hash(columns: list[NDArray[np.uint64]], n: int) -> NDArray[np.uint64]:
    """A 64-bit mix of each row's numbers (the finaliser constants are those of the splitmix64 generator)."""
    h = np.full(n, 0x9E3779B97F4A7C15, dtype=np.uint64)
    for column in columns:
        h ^= column
        h *= np.uint64(0xBF58476D1CE4E5B9)
        h ^= h >> np.uint64(29)
        h *= np.uint64(0x94D049BB133111EB)
        h ^= h >> np.uint64(32)
    return h


def distinct_rows(X: Array, Y: Array, sample_weight: Array | None = None, fold: IntArray | None = None) -> Rows:
    """Merge equal rows (equal in X, Y and, where given, `fold`) and sort them by content."""
    n = len(X)
    weights = np.ones(n) if sample_weight is None else np.asarray(sample_weight, np.float64)
    kept = np.flatnonzero(weights)
    if len(kept) == 0:
        raise ValueError(
            "All sample weights are zero, so there is no row to fit; give at least one row a positive weight."
        )
    columns = [*X[kept].T, *Y[kept].T] + ([] if fold is None else [fold[kept]])
    h = _hash([np.unique(column, return_inverse=True)[1].astype(np.uint64) for column in columns], len(kept))
    order = np.argsort(h, kind="stable")
    same = h[order][1:] == h[order][:-1]
    for column in columns:  # equal hashes are equal rows but for a collision; look
        same &= column[order][1:] == column[order][:-1]
    group = np.concatenate([[0], np.cumsum(~same)])
    first = kept[order[np.concatenate([[True], ~same])]]
    total = np.bincount(group, weights=weights[kept][order]).astype(np.float64)
    own = None if fold is None else fold[first]
    return Rows(X[first], Y[first], total * (len(first) / total.sum()), _copies(total), own)


def _copies(total: Array) -> Array:
    """Whole weights are numbers of copies, up to a common factor; other weights say how much a row matters, not how
    often it was seen."""
    if total.max() < 2**31 and np.array_equal(total, np.rint(total)):
        return total / float(np.gcd.reduce(total.astype(np.int64)))
    return np.ones(len(total))
