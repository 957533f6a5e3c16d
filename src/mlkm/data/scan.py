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
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._types import Array, IntArray
from ..runtime.rules import RULES
from ..runtime.sizes import RANK_TIE
from .rows import NO_WEIGHT, Block, Rows
from .scaling import Inputs, Stats, merged_stats, stats_of
from .tables.cells import RawColumn, Table, as_words, check_finite, is_dates, is_words
from .tables.columns import Column, column_of, distinct

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


Hashes = NDArray[np.uint64]


def row_hashes(table: Table, Y: Array, seed: int) -> Hashes:
    """Return a hash of every row with its targets."""
    h = np.full(len(Y), (_ODD * (2 * seed + 1)) % 2**64, np.uint64)
    for column in (*table.columns, *Y.T):
        mix(h, _numbers(column))
    return h


def parts(hashes: Hashes, n_parts: int) -> NDArray[np.intp]:
    """Return the part that every row belongs to, of `n_parts` parts of about equal size."""
    return (hashes % np.uint64(n_parts)).astype(np.intp)


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


def _numbers(column: RawColumn) -> Hashes:
    """Return the bits of numbers and dates, and hashes of words; all missing values of a column have the same
    number."""
    if is_words(column):
        words, place = distinct(column)
        return np.array([_of_word(word) for word in words], np.uint64)[place]
    if column.dtype.kind == "M":
        return column.astype("datetime64[us]").view(np.uint64)
    return np.where(np.isnan(column), np.nan, column + 0.0).astype(np.float64).view(np.uint64)  # of one zero


def _of_word(word: str | None) -> int:
    return 0 if word is None else int.from_bytes(blake2b(word.encode(), digest_size=8).digest(), "little")


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


def nothing_there(column: RawColumn) -> bool:
    """Return whether a column of words holds missing values only, so that other pieces decide its form."""
    return is_words(column) and all(x is None for x in column)


def as_form_of(column: RawColumn, other: RawColumn) -> RawColumn:
    """Return a column of missing values in the form of another; any other column is returned as it is."""
    if not nothing_there(column) or is_words(other):
        return column
    return np.full(len(column), np.datetime64("NaT", "us") if other.dtype.kind == "M" else np.nan)


@dataclass(frozen=True)
class ColumnSummary:
    """The form of a column (words, levels, dates or numbers, or nothing so far), its words, and whether any value is
    missing."""

    form: str
    words: frozenset[str]
    missing: bool


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
            column_of(raw, seen.form == "levels", weights, sorted(seen.words), seen.missing, table.zone(j))
            for j, (seen, raw) in enumerate(zip(self.columns, table.columns, strict=True))
        )


def _scanned(categorical: tuple[bool, ...], seed: int, block: Block[Table]) -> Scan:
    """Return the scan of a block of rows with weights."""
    table, Y, weights = check_finite(block.X), block.Y, block.weights
    columns = tuple(_seen(x, level) for x, level in zip(table.columns, categorical, strict=True))
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


def _seen(column: RawColumn, as_level: bool) -> ColumnSummary:
    """Return what a column of a block holds; `as_level` says that its values are levels whatever they look like."""
    if as_level or is_words(column):
        words = distinct(as_words(column))[0]
        form = "" if nothing_there(column) else "words" if is_words(column) else "levels"
        return ColumnSummary(form, frozenset(word for word in words if word is not None), None in words)
    gone = np.isnat(column) if is_dates(column) else np.isnan(column)
    return ColumnSummary("dates" if is_dates(column) else "numbers", frozenset(), bool(gone.any()))


def _both(a: ColumnSummary, b: ColumnSummary, name: str) -> ColumnSummary:
    if a.form and b.form and a.form != b.form:
        raise ValueError(f"Column {name} holds {a.form} in some blocks and {b.form} in others; give it one type.")
    return ColumnSummary(a.form or b.form, a.words | b.words, a.missing or b.missing)


def joined_columns(parts: list[RawColumn]) -> RawColumn:
    """Return the parts of a column in several blocks as one column, in the form of those that hold a value."""
    form = next((part for part in parts if not nothing_there(part)), parts[0])
    return np.concatenate([as_form_of(part, form) for part in parts])
