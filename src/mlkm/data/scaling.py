"""Inputs and targets are standardised inside every estimator, so that scales, penalties and learning rates mean the
same on all data."""

from dataclasses import dataclass

import numpy as np

from .._types import Array, BoolArray

_LARGEST = 1e300  # magnitude up to which differences, limits and intervals do not overflow
_FURTHEST = 1e100  # standard deviations up to which sums of squares of inputs do not overflow
ROUNDING = 64 * float(np.finfo(np.float64).eps)  # variation, relative to the largest magnitude, that is rounding error


@dataclass(frozen=True)
class Standardiser:
    """z = (x - mean) / sd, column by column.

    A column that does not vary is only centred, or zero whatever comes later where its sd is infinite; `rounded` marks
    those that vary by rounding error only. Columns of a size beyond 1e300 are refused.
    """

    mean: Array
    sd: Array
    rounded: BoolArray

    def __post_init__(self) -> None:
        size = np.where(np.isinf(self.sd), np.abs(self.mean), np.maximum(np.abs(self.mean), self.sd)).max(initial=0.0)
        if not size <= _LARGEST:
            raise ValueError(
                f"Inputs and targets must be of a size up to {_LARGEST:.0e}, since sums of larger numbers overflow;"
                f" got one of {size:.3g}: rescale it."
            )

    def forward(self, X: Array, out: Array | None = None) -> Array:
        """z, written into `out` if given, also where x and its mean are so large that their difference overflows."""
        large = max(X.max(initial=0.0), -X.min(initial=0.0), np.abs(self.mean).max(initial=0.0)) > 1e307
        half = 0.5 if large else 1.0
        Z = np.subtract(half * X if large else X, half * self.mean, out=out)
        Z /= half * self.sd
        return Z

    def backward(self, Z: Array) -> Array:
        return Z * self.sd + self.mean


def check_near(Z: Array, why: str) -> Array:
    """Standardised inputs, refused where kernels would square a number that is too large for it."""
    if (far := max(Z.max(initial=0.0), -Z.min(initial=0.0))) > _FURTHEST:
        raise ValueError(f"X has a number {far:.3g} standard deviations away from the mean of its column, {why}.")
    return Z


@dataclass(frozen=True)
class Stats:
    """Statistics of columns that merge over blocks of rows: the two least and the two largest values of every column
    (2, p), each in increasing order, its weighted mean and standard deviation, and the weight of the rows."""

    low: Array
    high: Array
    mean: Array
    sd: Array
    weight: float

    @property
    def ends(self) -> Array:
        """The two least and the two largest values, in increasing order (4, p)."""
        return np.vstack([self.low, self.high])

    def standardiser(self, constant: float | None = None, left: BoolArray | None = None) -> Standardiser:
        """Return the scaling to mean 0 and standard deviation 1.

        A column that does not vary gets the sd `constant`, by default what rounding error would be. Columns that are to
        be `left` as they are have mean 0 and sd 1.
        """
        low, high = self.low[0], self.high[1]
        size = np.maximum(np.abs(low), np.abs(high))
        unit = np.where(size > 0, size, 1.0)
        varies = high / unit - low / unit > ROUNDING
        none = np.maximum(ROUNDING * np.abs(self.mean), 1e-290) if constant is None else np.full(len(low), constant)
        mean, sd = np.where(low == high, low, self.mean), np.where(varies, self.sd, none)
        rounded = ~varies & (low < high)
        if left is not None:
            mean, sd, rounded = np.where(left, 0.0, mean), np.where(left, 1.0, sd), rounded & ~left
        return Standardiser(mean, sd, rounded)


def standardiser(
    X: Array, weights: Array, constant: float | None = None, left: BoolArray | None = None
) -> Standardiser:
    """Return the scaling of rows in memory, by their weighted mean and standard deviation (`Stats.standardiser`)."""
    return stats_of(np.asarray(X, np.float64), weights).standardiser(constant, left)


def stats_of(X: Array, weights: Array) -> Stats:
    """Return the statistics of the rows of a block.

    Columns are first divided by a power of two near their largest magnitude, which is exact, so that no square
    overflows, and the mean is corrected once, so that no digits are lost where it is far from zero.
    """
    last = len(X) - 1
    places = [0, min(1, last), max(last - 1, 0), last]
    ends = np.partition(X, places, axis=0)[places]
    exponents = np.frexp(np.abs(ends).max(axis=0))[1]
    U, total = np.ldexp(X, -exponents), weights.sum()
    mean = weights @ U / total
    U -= mean
    mean += weights @ U / total
    sd = np.sqrt(weights @ U**2 / total)
    low, high = ends[:2], ends[2:]
    if len(X) == 1:  # there is no second value
        low, high = np.stack([low[0], np.full(len(mean), np.inf)]), np.stack([np.full(len(mean), -np.inf), high[0]])
    return Stats(low, high, np.ldexp(mean, exponents), np.ldexp(sd, exponents), float(total))


def merged_stats(a: Stats, b: Stats) -> Stats:
    """Return the statistics of two sets of rows together: sd^2 is the mean of theirs, and what the difference of their
    means adds."""
    total = a.weight + b.weight
    p, q = a.weight / total, b.weight / total
    low, high = np.sort(np.vstack([a.low, b.low]), axis=0)[:2], np.sort(np.vstack([a.high, b.high]), axis=0)[2:]
    with np.errstate(over="ignore", invalid="ignore"):  # the standardiser refuses such values
        apart = b.mean - a.mean
        within = np.hypot(np.sqrt(p) * a.sd, np.sqrt(q) * b.sd)
        return Stats(low, high, a.mean + q * apart, np.hypot(within, np.sqrt(p * q) * apart), total)


def merged_if_any(a: Stats | None, b: Stats | None) -> Stats | None:
    """Return the statistics of two sets of rows together, where None stands for no rows."""
    return merged_stats(a, b) if a is not None and b is not None else a or b
