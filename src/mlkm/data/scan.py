"""One pass over the rows, which counts them, describes their columns and draws a sample; and the distinct rows of a
fit.

Every row has a hash of its content. It chooses samples and puts rows into parts: the same rows are chosen whatever the
blocks, files or workers they come from, and equal rows are chosen together. A sample consists of the distinct rows with
the least hashes; the samples of two sets of rows make that of both.

The rows that a fit sees are distinct, weighted, and in an order that depends on their content only.

Rows of weight zero are dropped and equal rows are merged into one whose weight is the sum. So "weight k" and "repeated
k times" are the same problem by construction, for every solver. Leave-one-out leaves out a row with all its copies:
weights may say how much a row matters as well as how often it was seen, and a penalty chosen with the other copies
still there would interpolate. Sorting by a hash of the columns' ranks makes any later seeded subsample or split
independent of the order in which rows were given, and of the units and origins of the columns.

Values of a column that differ by rounding errors alone are tied, for their ranks and for merging equal rows. The same
quantity computed in two ways differs in its last digits, and so does every column that went through floating point
arithmetic. The rank of a value is therefore a continuous function of all values of its column: values within `RANK_TIE`
times the mean absolute deviation of the column are tied, values more than twice as far apart are not, and in between a
part of the other value's weight counts as tied.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._types import Array, IntArray
from ..runtime.rules import RULES
from ..runtime.sizes import RANK_TIE
from .folds import Hashes, bits, mixed, row_hashes
from .preparation import Stats, merged_stats, stats_of
from .rows import NO_WEIGHT, Block, Rows
from .tables.cells import Table, check_finite
from .tables.columns import Column, Inputs
from .tables.reading import ColumnSummary, joined_columns


def plain_rows(X: Array, Y: Array, weights: Array | None = None) -> Block[Array]:
    """Return rows as they are, each standing for itself, with weights that average to one."""
    weights = np.ones(len(X)) if weights is None else weights / weights.mean()
    return Block(X, Y, weights, np.ones(len(X)))


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
    first, total = _merged([*X.T, *Y.T], rows.weights, bits)
    order = np.argsort(first, kind="stable")
    first, total = first[order], total[order]
    if len(first) < len(X):
        X, Y = X[first], Y[first]
    return Block(X, Y, total * (len(first) / total.sum()), _copies(total), None, rows.kinds)


def _merged(
    columns: list[NDArray[Any]], weights: Array, numbers: Callable[[NDArray[Any]], Hashes]
) -> tuple[IntArray, Array]:
    """Return the index of one row of each kind, in the order of the hashes of their numbers, and the total weight of
    each kind."""
    kept = np.flatnonzero(weights)
    h = mixed((numbers(column[kept]) for column in columns), len(kept), 0)
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
    return RANK_TIE * float(share @ np.abs(v - share @ v))


@dataclass(frozen=True)
class PartOf:
    """The rows of a block whose hashes, as shares of the largest, lie in [begin, end): a row belongs to the same part
    in every pass, whatever its place."""

    salt: int
    begin: float
    end: float

    def __call__(self, block: Block[Table]) -> Block[Table]:
        share = row_hashes(block.X, block.Y, self.salt) / 2.0**64
        return block.rows((self.begin <= share) & (share < self.end))


def sample_size(n_columns: int) -> int:
    """Return how many rows a sample has at most, fewer where there are many columns."""
    return int(np.clip(RULES.sample_entries // max(n_columns, 1), *RULES.sample_rows))


@dataclass(frozen=True)
class Sample:
    """Distinct rows in the order of their hashes, with the weight of all that are equal to each."""

    hashes: Hashes
    block: Block[Table]


def sample_of(hashes: Hashes, block: Block[Table], most: int) -> Sample:
    """Return the sample of the rows of a block."""
    order = np.argsort(hashes, kind="stable")
    h = hashes[order]
    begins = np.flatnonzero(np.concatenate([[True], h[1:] != h[:-1]]))
    total = np.add.reduceat(block.weights[order], begins)[:most]
    at = order[begins[:most]]
    return Sample(hashes[at], Block(block.X[at], block.Y[at], total))


def merged_samples(a: Sample, b: Sample, most: int) -> Sample:
    """Return the sample of the rows of two samples together."""
    one, other = a.block, b.block
    pairs = zip(one.X.columns, other.X.columns, strict=True)
    table = Table(tuple(joined_columns([*pair]) for pair in pairs), one.X.names, one.X.zones)
    both = Block(table, np.vstack([one.Y, other.Y]), np.concatenate([one.weights, other.weights]))
    return sample_of(np.concatenate([a.hashes, b.hashes]), both, most)


@dataclass(frozen=True)
class Scan:
    """The number of rows that count, their weight, what was seen of every column, statistics of the columns where all
    are numbers and none is missing, statistics of the targets, and a sample."""

    n: int
    weight: float
    columns: tuple[ColumnSummary, ...]
    numbers: Stats | None
    targets: Stats
    sample: Sample

    def fitted_columns(self) -> tuple[Column, ...]:
        """Return what every column is."""
        table, weights = self.sample.block.X, self.sample.block.weights
        return tuple(
            seen.column(raw, weights, table.zone(j))
            for j, (seen, raw) in enumerate(zip(self.columns, table.columns, strict=True))
        )


def _scanned(categorical: tuple[bool, ...], seed: int, block: Block[Table]) -> Scan:
    """Return the scan of a block of rows with weights."""
    table, Y, weights = check_finite(block.X), block.Y, block.weights
    columns = tuple(ColumnSummary.of(x, level) for x, level in zip(table.columns, categorical, strict=True))
    plain = all(seen.form == "numbers" and not seen.missing for seen in columns)
    numbers = stats_of(np.stack(table.columns, axis=1), weights) if plain else None
    sample = sample_of(row_hashes(table, Y, seed), block, sample_size(len(columns)))
    return Scan(len(weights), float(weights.sum()), columns, numbers, stats_of(Y, weights), sample)


def scan(rows: Rows[Table], categorical: Sequence[bool], seed: int) -> Scan:
    """Return what one pass over all rows tells; `categorical` columns are categories though they hold numbers, and the
    seed is that of the sample."""
    scanned, merged = partial(_scanned, tuple(categorical), seed), partial(_merged_scans, names=rows.names)
    found: Scan = rows.counted().map_reduce(scanned, merged)
    return found


def _merged_scans(a: Scan, b: Scan, names: tuple[str, ...] | None) -> Scan:
    """Return the scan of two sets of rows together."""
    called = [repr(name) for name in names] if names is not None else [str(j) for j in range(len(a.columns))]
    columns = tuple(_both(*pair) for pair in zip(a.columns, b.columns, called, strict=True))
    numbers = merged_stats(a.numbers, b.numbers) if a.numbers and b.numbers else None
    targets = merged_stats(a.targets, b.targets)
    sample = merged_samples(a.sample, b.sample, sample_size(len(columns)))
    return Scan(a.n + b.n, a.weight + b.weight, columns, numbers, targets, sample)


def _both(a: ColumnSummary, b: ColumnSummary, name: str) -> ColumnSummary:
    if a.form and b.form and a.form != b.form:
        raise ValueError(f"Column {name} holds {a.form} in some blocks and {b.form} in others; give it one type.")
    return ColumnSummary(a.form or b.form, a.words | b.words, a.missing or b.missing)
