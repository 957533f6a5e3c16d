"""The rows a fit sees: distinct, weighted, and in an order that depends on their content only.

Rows of weight zero are dropped and equal rows are merged into one whose weight is the sum. So "weight k" and "repeated
k times" are the same problem by construction, for every solver. Leave-one-out leaves out a row with all its copies:
weights may say how much a row matters as well as how often it was seen, and a penalty chosen with the other copies
still there would interpolate. Sorting by a hash of the columns' ranks makes any later seeded subsample or split
independent of the order in which rows were given, and of the units and origins of the columns.

Values of a column that differ by rounding errors alone are tied, for their ranks and for merging equal rows.

The same quantity computed in two ways differs in its last digits, and so does every column that went through floating
point arithmetic. The rank of a value is therefore a continuous function of all values of its column: values within
`TIE` times the mean absolute deviation of the column are tied, values more than twice as far apart are not, and in
between a part of the other value's weight counts as tied.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._types import Array, IntArray
from .inputs import Inputs
from .rows import Block

NO_WEIGHT = "All sample weights are zero, so there is no row to fit; give at least one row a positive weight."
_ODD = 0x9E3779B97F4A7C15


def plain_rows(X: Array, Y: Array, weights: Array | None = None) -> Block[Array]:
    """Return rows as they are, each standing for itself, with weights that average to one."""
    weights = np.ones(len(X)) if weights is None else weights / weights.mean()
    return Block(X, Y, weights, np.ones(len(X)))


def mix(h: NDArray[np.uint64], column: NDArray[np.uint64]) -> None:
    """Mix one column's numbers into 64-bit hashes (the finaliser constants are those of the splitmix64 generator)."""
    h ^= column
    h *= np.uint64(0xBF58476D1CE4E5B9)
    h ^= h >> np.uint64(29)
    h *= np.uint64(0x94D049BB133111EB)
    h ^= h >> np.uint64(32)


def content_hashes(columns: Sequence[Array], salt: int) -> NDArray[np.uint64]:
    """Return a hash of every row of these columns of numbers, which depends on its content and not on its place."""
    h = np.full(len(columns[0]), (_ODD * (2 * salt + 1)) % 2**64, np.uint64)
    for column in columns:
        mix(h, _bits(column))
    return h


def distinct_rows(
    X: Array,
    Y: Array,
    sample_weight: Array | None = None,
    fold: IntArray | None = None,
    kinds: Inputs | None = None,
) -> Block[Array]:
    """Merge rows that are equal up to rounding (in X, Y and, where given, `fold`) and sort them by content.

    Columns are compared one by one, so that the memory needed beside the rows is a few numbers per row.
    """
    weights = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, np.float64)
    if not weights.any():
        raise ValueError(NO_WEIGHT)
    first, total = _merged([*X.T, *Y.T] + ([] if fold is None else [fold]), weights, tie_numbers)
    own = None if fold is None else fold[first]
    return Block(X[first], Y[first], total * (len(first) / total.sum()), _copies(total), own, kinds)


def merged_in_order(rows: Block) -> Block:
    """Merge equal rows into the first of them, and leave the order as it is: of so many rows that no sample is taken
    from their beginning."""
    X, Y = rows.X, rows.Y
    first, total = _merged([*X.T, *Y.T], rows.weights, _bits)
    order = np.argsort(first, kind="stable")
    first, total = first[order], total[order]
    if len(first) < len(X):
        X, Y = X[first], Y[first]
    return Block(X, Y, total * (len(first) / total.sum()), _copies(total), None, rows.kinds)


def _bits(column: Array) -> NDArray[np.uint64]:
    """Return numbers as they are stored, of both zeros the positive one."""
    return (column + 0.0).view(np.uint64)


def _merged(
    columns: list[NDArray[Any]], weights: Array, numbers: Callable[[NDArray[Any]], NDArray[np.uint64]]
) -> tuple[IntArray, Array]:
    """Return the index of one row of each kind, in the order of the hashes of their numbers, and the total weight of
    each kind."""
    kept = np.flatnonzero(weights)
    h = np.full(len(kept), _ODD, dtype=np.uint64)
    for column in columns:
        mix(h, numbers(column[kept]))
    order = np.argsort(h, kind="stable")
    h, at = h[order], kept[order]
    same = h[1:] == h[:-1]
    if not same.any():
        return at, weights[at]
    for column in columns:  # equal hashes are equal rows but for a collision; look
        number = numbers(column[kept])[order]
        same &= number[1:] == number[:-1]
    begins = np.flatnonzero(np.concatenate([[True], ~same]))
    return at[begins], np.add.reduceat(weights[at], begins)


def _copies(total: Array) -> Array:
    """Whole weights are numbers of copies, up to a common factor; other weights say how much a row matters, not how
    often it was seen."""
    if total.max() < 2**31 and np.array_equal(total, np.rint(total)):
        return total / float(np.gcd.reduce(total.astype(np.int64)))
    return np.ones(len(total))


TIE = 1e-9  # in units of the mean absolute deviation


def midranks(x: Array, weights: Array) -> tuple[Array, Array, IntArray]:
    """Return the distinct values in increasing order, their midranks (the weight below and half of the tied weight, as
    a share of the total weight), and the index of every x among them.

    r(v) = sum_i w_i s(v - x_i) / sum_i w_i, with s = 0, 1/2 and 1 below -2t, within t of 0 and above 2t, and linear in
    between.

    >>> midranks(np.array([3.0, 1.0, 2.0, 1.0 + 1e-15]), np.ones(4))[1].tolist()
    [0.25, 0.25, 0.625, 0.875]
    """
    points, place = np.unique(x, return_inverse=True)
    mass = np.bincount(place, weights).astype(np.float64)
    v = _scaled(points)
    t = _width(v, mass)
    below, moment = (np.concatenate([[0.0], np.cumsum(m)]) for m in (mass, mass * v))
    first, lower = np.searchsorted(v, v - 2 * t), np.searchsorted(v, v - t)
    upper, last = np.searchsorted(v, v + t, "right"), np.searchsorted(v, v + 2 * t, "right")
    rank = below[first] + (below[last] - below[first]) / 2
    for begin, end, sign in ((first, lower, 1), (upper, last, -1)):
        has = end > begin
        m, s = (sums[end[has]] - sums[begin[has]] for sums in (below, moment))
        rank[has] += ((v[has] - sign * t) * m - s) / (2 * t)
    return points, np.maximum.accumulate(rank) / below[-1], place


def tie_numbers(x: NDArray[np.generic]) -> NDArray[np.uint64]:
    """Number the ties in increasing order, and return the number of every value's tie. If neighbours form a chain that
    is wider than a tie may be, they are not tied: each value of the chain has its own number.

    >>> tie_numbers(np.array([3.0, 1.0, 2.0, 1.0 + 1e-15])).tolist()
    [2, 0, 1, 0]
    """
    points, place = np.unique(x, return_inverse=True)
    v = _scaled(points.astype(np.float64))
    t = _width(v, np.bincount(place).astype(np.float64))
    apart = np.concatenate([[True], np.diff(v) > t])
    chain, first = np.cumsum(apart) - 1, v[apart]
    last = v[np.concatenate([apart[1:], [True]])]
    apart |= (last - first > t)[chain]
    return (np.cumsum(apart) - 1).astype(np.uint64)[place]


def _scaled(points: Array) -> Array:
    """Scale by a power of two, which is exact, so that no difference overflows."""
    return np.asarray(np.ldexp(points, -int(np.frexp(np.abs(points).max(initial=0.0))[1]) - 1))


def _width(v: Array, mass: Array) -> float:
    """Return how far apart tied values may be."""
    share = mass / mass.sum()
    return TIE * float(share @ np.abs(v - share @ v))
