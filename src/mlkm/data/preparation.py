"""The preparation of a table: its cells become standardised inputs, and predictions return to the units of the targets.

What is here is applied to every later row by itself; how it is fitted is in `mlkm.data.training`.

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
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import _num_samples

from .._types import Array, BoolArray
from ..runtime.rules import RULES
from ..runtime.sizes import FURTHEST_INPUT, LARGEST_NUMBER, ROUNDING
from .folds import checked_targets, checked_weights
from .level_encoding import LevelNumbers
from .rows import Block, MemoryRows, RowFunction, Rows
from .tables.cells import Table, is_dask
from .tables.columns import Inputs, Reader


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


@dataclass(frozen=True)
class Preparation:
    """The preparation that a fitted model applies to later tables: how cells become standardised inputs, and how
    predictions become numbers in the units of the targets.

    Attributes
    ----------
    reader : what the columns are
    levels : numbers for levels, None where the model takes levels as they are
    input_range : the range of every input
    x_scaler, y_scaler : the scalings of inputs and targets
    low, high : the least and the largest training target of every output
    beyond : by how many ranges of the training targets predictions may exceed these at most; infinite without limit
    automatic : whether scales are automatic; inputs far out are then clipped
    single_output : whether targets are one-dimensional
    """

    reader: Reader
    levels: LevelNumbers | None
    input_range: InputRange
    x_scaler: Standardiser
    y_scaler: Standardiser
    low: Array
    high: Array
    beyond: float
    automatic: bool
    single_output: bool

    @property
    def kinds(self) -> Inputs:
        """Return the kinds of the inputs."""
        return kinds_of(self.reader, self.levels)

    @property
    def n_outputs(self) -> int:
        """Return the number of outputs."""
        return len(self.y_scaler.mean)

    @property
    def limits(self) -> tuple[Array, Array]:
        """Return the least and the largest number that may be predicted for every output, infinite where there is no
        limit."""
        if np.isinf(self.beyond):
            return np.full_like(self.low, -np.inf), np.full_like(self.high, np.inf)
        with np.errstate(over="ignore"):
            reach = self.beyond * (self.high - self.low)
            return self.low - reach, self.high + reach

    def read(self, estimator: Any, X: Any) -> Array:
        """Return the inputs of a later table in their units; messages name the estimator."""
        inputs = self.reader.read(estimator, X)
        return inputs if self.levels is None else self.levels.numbers(inputs)

    def standardised(self, X: Array) -> Array:
        """Return standardised inputs; with automatic scales, values far beyond those of training are first clipped
        (`InputRange.clip`)."""
        if self.automatic:
            return self.x_scaler.forward(self.input_range.clip(X))
        why = "and a fit with given scales allows at most 1e+100; correct it, or fit with automatic scales"
        return check_near(self.x_scaler.forward(X), why)

    def inputs(self, estimator: Any, X: Any) -> Array:
        """Return the standardised inputs of a later table."""
        return self.standardised(self.read(estimator, X))

    def to_units(self, f: Array, Z: Array) -> Array:
        """Return predictions f at standardised inputs Z in the units of y, within their limits: (n,) or (n, k)."""
        return self.shaped(self.within(self.y_scaler.backward(f), Z))

    def within(self, Y: Array, Z: Array) -> Array:
        """Clip predictions (n, ..., k) at standardised inputs to the training targets and the ranges beyond them that
        `InputRange.room` allows; with given scales they are not clipped."""
        least, most = self.limits
        if np.isinf(most).all():
            return Y
        span = (most - least) / (1 + 2 * self.beyond)
        less = np.maximum(self.beyond - self.input_range.room(Z, self.x_scaler), 0) * span
        less = less.reshape(len(Y), *[1] * (Y.ndim - 2), -1)
        return np.clip(Y, least + less, most - less)

    def shaped(self, Y: Array) -> Array:
        """Return numbers of every output (n, k) as (n,) where targets are one-dimensional."""
        return Y[:, 0] if self.single_output else Y

    def rescaled(self, of_inputs: Stats, of_targets: Stats) -> "Preparation":
        """Return the preparation with the scalings by these statistics; inputs that are no numbers are not scaled, and
        those that do not vary are zero."""
        x_scaler = of_inputs.standardiser(np.inf, ~self.kinds.numbers)
        return replace(self, x_scaler=x_scaler, y_scaler=of_targets.standardiser())

    def outside(self, X: Array) -> Array:
        """Return how far every row is outside the training data, in ranges of an input (`InputRange.outside`)."""
        return self.input_range.outside(X)


def kinds_of(reader: Reader, levels: LevelNumbers | None) -> Inputs:
    """Return the kinds of the inputs of a reader, where levels may have become numbers."""
    return reader.inputs if levels is None else Inputs(np.zeros(len(levels.owners), np.intp), levels.owners)


@dataclass(frozen=True)
class GivenRows(Rows[Any]):
    """An array or a frame in memory as it was given, with targets and weights where there are any: one block, which
    models read and check themselves."""

    in_memory: ClassVar[bool] = True
    X: Any
    Y: Array | None = None
    weights: Array | None = None
    single_output: bool = True

    @property
    def n(self) -> int:
        """Return the number of rows."""
        return int(_num_samples(self.X))

    @property
    def weighted(self) -> bool:
        """Return whether weights were given."""
        return self.weights is not None

    def n_blocks(self) -> int:
        """Return 1, since all rows are one block."""
        return 1

    def blocks(self) -> Iterator[Block[Any]]:
        """Yield all rows as one block."""
        Y = np.zeros((self.n, 0)) if self.Y is None else self.Y
        yield Block(self.X, Y, np.ones(len(Y)) if self.weights is None else self.weights)

    def apply(self, f: RowFunction, shapes: Sequence[tuple[int, ...]]) -> tuple[Array, ...]:
        """Return f of the rows as they were given."""
        return f(self.X)

    def together(self, what: str) -> Any:
        """Return the rows as they were given."""
        return self.X


def as_rows(X: Any, y: Any, sample_weight: Any) -> Rows[Table] | None:
    """Return X as rows, where it is an opened table, a collection of dask or a large memmap; None where it is an array
    or a frame in memory, which is checked as scikit-learn does."""
    if isinstance(X, Rows):
        if y is not None or sample_weight is not None:
            raise ValueError("A table that was opened names its target and weights itself; call fit(table) alone.")
        return X
    if any(map(is_dask, (X, y, sample_weight))):
        from .dask import DaskRows

        return DaskRows(X, y, sample_weight)
    return mapped_rows(X, y, sample_weight) if isinstance(X, np.memmap) else None


def given_rows(X: object) -> Rows[Any]:
    """Return inputs as rows: an opened table, a collection of dask, or an array or a frame in memory."""
    rows = as_rows(X, None, None)
    return GivenRows(X) if rows is None else rows


def table_rows(table: Table, y: Array, sample_weight: ArrayLike | None) -> MemoryRows[Table]:
    """Return a table in memory with its targets, one-dimensional or not, and weights as rows."""
    weights = checked_weights(sample_weight, len(table))
    Y = y.astype(np.float64, copy=False).reshape(len(y), -1)
    return MemoryRows(Block(table, Y, np.ones(len(Y)) if weights is None else weights), table.names, y.ndim == 1)


def array_rows(X: NDArray[Any], Y: NDArray[Any], weights: Array, single_output: bool) -> Rows[Table]:
    """Return an array of numbers, which may be a memmap, as rows of a table, whose columns are made a block at a
    time."""
    return MemoryRows(Block(X, Y, weights), None, single_output).map(_with_columns, len(X))


def _with_columns(block: Block) -> Block[Table]:
    # row by row in memory, so that columns are read at once
    columns = np.ascontiguousarray(np.asarray(block.X).T, np.float64)
    Y = np.asarray(block.Y, np.float64).reshape(len(block), -1)
    return Block(Table(tuple(columns), None), Y, block.weights)


def mapped_rows(X: NDArray[Any], y: ArrayLike | None, sample_weight: ArrayLike | None) -> Rows[Table] | None:
    """Return an array of numbers in a file as rows, where it has many; a smaller one is read as a whole."""
    if X.ndim != 2 or X.dtype.kind not in "fiub" or len(X) <= RULES.sample_rows[1] or y is None:
        return None
    Y = checked_targets(y)
    if len(Y) != len(X):
        raise ValueError(f"X has {len(X)} rows and y has {len(Y)}; they must be the same.")
    weights = checked_weights(sample_weight, len(X))
    return array_rows(X, Y, np.ones(len(X)) if weights is None else weights, np.ndim(y) == 1)
