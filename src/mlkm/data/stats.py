"""Extremes, means and standard deviations of columns, added up over pieces; numbers of any size."""

from dataclasses import dataclass

import numpy as np

from .._types import Array, BoolArray
from . import Fence, Standardiser, fence_of
from .scaling import ROUNDING


@dataclass(frozen=True)
class Stats:
    """Of every column the two least and the two largest values (2, p), each in increasing order, weighted mean and
    standard deviation, and the weight of the rows."""

    low: Array
    high: Array
    mean: Array
    sd: Array
    weight: float

    def fence(self, careful: bool, numbers: BoolArray) -> Fence:
        return fence_of(np.vstack([self.low, self.high]), careful, numbers)

    def standardiser(self, constant: float | None, left: BoolArray | None = None) -> Standardiser:
        """As `mlkm.data.standardiser` of all rows."""
        low, high = self.low[0], self.high[1]
        size = np.maximum(np.abs(low), np.abs(high))
        with np.errstate(over="ignore"):
            spread = np.where(size > 0, high / np.maximum(size, 1e-300) - low / np.maximum(size, 1e-300), 0.0)
        varies = spread > ROUNDING
        none = np.maximum(ROUNDING * np.abs(self.mean), 1e-290) if constant is None else np.full(len(low), constant)
        mean, sd = np.where(low == high, low, self.mean), np.where(varies, self.sd, none)
        rounded = ~varies & (low < high)
        if left is not None:
            mean, sd, rounded = np.where(left, 0.0, mean), np.where(left, 1.0, sd), rounded & ~left
        return Standardiser(mean, sd, rounded)


def stats_of(X: Array, weights: Array) -> Stats:
    """Of the rows of a piece; columns are first divided by a power of two near their largest magnitude, so that no
    square overflows."""
    ends = np.sort(X, axis=0)[[0, min(1, len(X) - 1), max(-2, -len(X)), -1]]
    exponents = np.frexp(np.abs(ends).max(axis=0))[1]
    U = np.ldexp(X, -exponents)
    mean = weights @ U / weights.sum()
    sd = np.sqrt(weights @ (U - mean) ** 2 / weights.sum())
    return Stats(
        _two(ends[:2], len(X), np.inf), _two(ends[2:], len(X), -np.inf),
        np.ldexp(mean, exponents), np.ldexp(sd, exponents), float(weights.sum()),
    )  # fmt: skip


def _two(ends: Array, n: int, none: float) -> Array:
    """The two of them; of a single row one, and nothing."""
    if n > 1:
        return np.asarray(ends)
    return (
        np.stack([ends[0], np.full(ends.shape[1], none)])
        if none > 0
        else np.stack([np.full(ends.shape[1], none), ends[0]])
    )


def merged_stats(a: Stats, b: Stats) -> Stats:
    """Of the rows of both: sd^2 is the mean of theirs, and what the difference of their means adds."""
    total = a.weight + b.weight
    p, q = a.weight / total, b.weight / total
    low, high = np.sort(np.vstack([a.low, b.low]), axis=0)[:2], np.sort(np.vstack([a.high, b.high]), axis=0)[2:]
    with np.errstate(over="ignore", invalid="ignore"):  # the standardiser refuses such values
        apart = b.mean - a.mean
        within = np.hypot(np.sqrt(p) * a.sd, np.sqrt(q) * b.sd)
        return Stats(low, high, a.mean + q * apart, np.hypot(within, np.sqrt(p * q) * apart), total)


def merged_if_any(a: Stats | None, b: Stats | None) -> Stats | None:
    """Of the rows of both, where None is no rows."""
    return merged_stats(a, b) if a is not None and b is not None else a or b
