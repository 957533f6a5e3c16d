"""Values of a column that differ by rounding errors alone are tied, for their ranks and for merging equal rows.

The same quantity computed in two ways differs in its last digits, and so does every column that went through floating
point arithmetic. The rank of a value is therefore a continuous function of all values of its column: values within
`TIE` times the mean absolute deviation of the column are tied, values more than twice as far apart are not, and in
between a part of the other value's weight counts as tied.
"""

import numpy as np
from numpy.typing import NDArray

from .._types import Array, IntArray

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
