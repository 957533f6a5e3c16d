"""The kinds of inputs, their scaling and their range, and the weights of rows.

Inputs and targets are standardised inside every estimator, so that scales, penalties and learning rates mean the same
on all data. A cell far beyond all others, in training or later, must not dominate a prediction.

The range of an input is that of its training values. A training value more than ten ranges of the others away from them
is winsorised to that distance, and so are later values on that side. Otherwise later values are used as they are up to
one range beyond the training values, so that a trend continues, and replaced by the value one range beyond up to two.
Further out a value is more likely an error than part of a trend: between two and three ranges beyond, the replacement
moves back to the nearest training value, where it stays (a redescending influence, as in Hampel's estimators).

Predictions may exceed the training targets by half the range of these, since a fit overshoots between its rows or at
inputs that never occurred together, and by one more range for every range by which inputs lie beyond theirs, which a
linear trend needs. `python -m benchmarks.far_out` compares this with other rules.

An input is a number, a level of a category or a coordinate of the text of levels. A level is a whole number that says
only whether two rows have the same one; -1 is a level that no training row has. A column of a table may have several
inputs: a number and whether it is missing, a category and the text of its levels.
"""

from dataclasses import dataclass
from functools import cached_property
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array

from .._types import Array, BoolArray, IntArray
from ..runtime.checks import as_numbers
from ..runtime.rules import RULES
from ..runtime.sizes import FURTHEST_INPUT, LARGEST_NUMBER, LARGEST_WEIGHT, LEAST_WEIGHT, LOST_WEIGHT, ROUNDING


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
        """Refuse columns of a size beyond 1e300."""
        size = np.where(np.isinf(self.sd), np.abs(self.mean), np.maximum(np.abs(self.mean), self.sd)).max(initial=0.0)
        if not size <= LARGEST_NUMBER:
            raise ValueError(
                f"Inputs and targets must be of a size up to {LARGEST_NUMBER:.0e}, since sums of larger numbers"
                f" overflow; got one of {size:.3g}: rescale it."
            )

    def forward(self, X: Array, out: Array | None = None) -> Array:
        """Return z, written into `out` if given, also where x and its mean are so large that their difference
        overflows."""
        large = max(X.max(initial=0.0), -X.min(initial=0.0), np.abs(self.mean).max(initial=0.0)) > 1e307
        half = 0.5 if large else 1.0
        Z = np.subtract(half * X if large else X, half * self.mean, out=out)
        Z /= half * self.sd
        return Z

    def backward(self, Z: Array) -> Array:
        """Return x = z sd + mean."""
        return Z * self.sd + self.mean


def check_near(Z: Array, why: str) -> Array:
    """Return standardised inputs, or refuse them where one is so large that the squares in kernels would overflow."""
    if (far := max(Z.max(initial=0.0), -Z.min(initial=0.0))) > FURTHEST_INPUT:
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
        """Return the two least and the two largest values, in increasing order (4, p)."""
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


@dataclass(frozen=True)
class InputRange:
    """The least and the largest training value of every input, extreme ones winsorised, and the limits to which later
    values are clipped. Only inputs that are `numbers` have limits (None: all of them): a level that no training row had
    counts as one range outside."""

    low: Array
    high: Array
    clip_low: Array
    clip_high: Array
    numbers: BoolArray | None = None

    @classmethod
    def from_ends(cls, ends: Array, winsorise: bool, numbers: BoolArray | None = None) -> "InputRange":
        """Return the range from the two least and the two largest values of every input, in increasing order (4, d)."""
        low, high = ends[0], ends[3]
        least, most = low, high
        if winsorise:
            with np.errstate(over="ignore", invalid="ignore"):
                reach = RULES.believed_ranges * (ends[2] - ends[1])
            doubted = np.isfinite(reach) & (reach > 0)
            low = np.where(doubted, np.maximum(low, ends[1] - reach), low)
            high = np.where(doubted, np.minimum(high, ends[2] + reach), high)
        with np.errstate(over="ignore"):  # the standardiser refuses such values
            beyond = RULES.clipped_ranges * (high - low)
        clip_low, clip_high = np.where(low > least, low, low - beyond), np.where(high < most, high, high + beyond)
        if numbers is None or numbers.all():
            return cls(low, high, clip_low, clip_high)
        low, clip_low = (np.where(numbers, end, -np.inf) for end in (low, clip_low))
        high, clip_high = (np.where(numbers, end, np.inf) for end in (high, clip_high))
        return cls(low, high, clip_low, clip_high, numbers)

    @property
    def steps(self) -> tuple[Array, Array]:
        """Return how far values may be beyond the least and the largest training value, 0 where that was winsorised."""
        with np.errstate(invalid="ignore"):
            return np.nan_to_num(self.low - self.clip_low), np.nan_to_num(self.clip_high - self.high)

    def winsorise(self, X: Array) -> Array:
        """Return training values, none of them outside the range."""
        return np.clip(X, self.low, self.high)

    def clip(self, X: Array) -> Array:
        """Return later values clipped to the limits, and moved back to the training values where they are much further
        out."""
        (down, up), clipped = self.steps, np.clip(X, self.clip_low, self.clip_high)
        with np.errstate(over="ignore"):
            back = np.clip(X - (self.clip_high + up), 0, up) - np.clip((self.clip_low - down) - X, 0, down)
        return np.asarray(clipped - back)

    def outside(self, X: Array) -> Array:
        """Return how far out every row is: the largest distance of an input from its range, in units of that range."""
        far = _ranges_beyond(X, self.low, self.high)
        if self.numbers is not None:
            far = np.where(self.numbers, far, X == -1)
        return np.asarray(far.max(axis=1))

    def room(self, Z: Array, scaler: Standardiser) -> Array:
        """Return by how many ranges predictions at clipped and standardised inputs may exceed the training targets,
        (n, 1)."""
        far = _ranges_beyond(Z, *scaler.forward(np.stack([self.low, self.high])))
        return np.asarray(RULES.overshoot + far.sum(axis=1, keepdims=True))


def units_of(low: Array, high: Array) -> Array:
    """Return the ranges of inputs; 1 where an input has no finite, positive range."""
    with np.errstate(over="ignore"):
        span = high - low
    return np.where((span > 0) & np.isfinite(span), span, 1.0)


def _ranges_beyond(X: Array, low: Array, high: Array) -> Array:
    """Return how far every input is beyond its range, in units of that range."""
    with np.errstate(over="ignore"):
        return np.maximum(np.maximum(low - X, X - high) / units_of(low, high), 0)


NUMBER, LEVEL, TEXT = 0, 1, 2


@dataclass(frozen=True)
class Inputs:
    """The kind of every input, and the column that it belongs to."""

    kinds: IntArray
    owners: IntArray

    @classmethod
    def numbers_only(cls, d: int) -> "Inputs":
        """Return d inputs that are numbers, each of its own column."""
        return cls(np.zeros(d, np.intp), np.arange(d))

    @cached_property
    def levels(self) -> BoolArray:
        """Return which inputs are levels."""
        return np.asarray(self.kinds == LEVEL)

    @cached_property
    def numbers(self) -> BoolArray:
        """Return which inputs are numbers."""
        return np.asarray(self.kinds == NUMBER)

    @cached_property
    def texts(self) -> BoolArray:
        """Return which inputs are coordinates of text."""
        return np.asarray(self.kinds == TEXT)

    @property
    def plain(self) -> bool:
        """Return whether all inputs are numbers."""
        return bool(self.numbers.all())

    def of(self, kept: IntArray) -> "Inputs":
        """Return the inputs at these places."""
        return Inputs(self.kinds[kept], self.owners[kept])


def checked_weights(sample_weight: ArrayLike | None, n: int) -> Array | None:
    """Return sample weights as an array of n numbers, none negative, of a size whose sums neither overflow nor vanish.

    Only ratios of weights matter, save that whole weights are numbers of copies. Weights of an ordinary size are left
    as they are; where the largest is above 2^53, from where on not every whole number is one, or below 1e-100, all are
    divided by it. Weights below 1e-30 of the largest count as zero.

    >>> checked_weights([3, 1, 0], 3).tolist()
    [3.0, 1.0, 0.0]
    >>> checked_weights([1e306, 5e305, 1e-300], 3).tolist()
    [1.0, 0.5, 0.0]
    """
    weights = given_weights(sample_weight, n)
    return (
        None if weights is None else np.where(weights < LOST_WEIGHT * weights.max(), 0.0, weights / scale_of(weights))
    )


def given_weights(sample_weight: ArrayLike | None, n: int) -> Array | None:
    """Return sample weights as an array of n numbers, none negative, as they are."""
    if sample_weight is None:
        return None
    if isinstance(sample_weight, Real):
        sample_weight = np.full(n, sample_weight)
    given = as_numbers("sample_weight", sample_weight)
    weights: Array = check_array(given, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
    if weights.shape != (n,):
        raise ValueError(f"sample_weight must have one entry per row, shape ({n},); got shape {weights.shape}.")
    if (weights < 0).any():
        raise ValueError(f"Sample weights must not be negative; the smallest is {weights.min():.3g}.")
    return weights


def scale_of(weights: Array) -> float:
    """Return the number by which weights are divided to be of an ordinary size: the largest, or 1 where that is
    ordinary or zero."""
    largest = float(weights.max(initial=0.0))
    return 1.0 if largest == 0 or LEAST_WEIGHT <= largest <= LARGEST_WEIGHT else largest


def checked_targets(Y: ArrayLike) -> Array:
    """Return the targets of a block as finite numbers (n, k)."""
    result = np.asarray(Y, np.float64)
    if np.isnan(result).any():
        raise ValueError("Input y contains NaN; every row needs a target that is a number.")
    if not np.isfinite(result).all():
        raise ValueError("Input y contains infinity; every row needs a target that is a number.")
    return result.reshape(len(result), -1)


NO_TARGET = "The table has no target; name it, as in open_table(path, target='price'), or pass y."


def check_predicted(Y: Array, f: Array) -> None:
    """Refuse targets of a block that are none, or not as many as a model predicts."""
    if not Y.shape[1]:
        raise ValueError(NO_TARGET)
    if Y.shape[1] != f.shape[1]:
        raise ValueError(
            f"Targets must be those that the model predicts, which are {f.shape[1]}; got {Y.shape[1]} of every row."
        )


def checked_block_weights(weights: ArrayLike | None, n: int) -> Array:
    """Return the weights of a block, which are finite numbers, none negative."""
    if weights is None:
        return np.ones(n)
    result = np.asarray(weights, np.float64)
    if not np.isfinite(result).all() or (result < 0).any():
        raise ValueError("Sample weights must be finite numbers, none negative.")
    return result
