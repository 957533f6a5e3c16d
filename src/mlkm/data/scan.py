"""A number for every row that depends on what the row says, not on where it stands.

It chooses samples and puts rows into parts: the same rows are chosen whatever the blocks, files or workers they come
from, and equal rows are chosen together.

A sample of distinct rows by their hashes: those with the least ones. Samples of two sets of rows make that of both,
and however the rows are cut, the sample is the same.

What one pass over the rows tells: how many there are, what their columns hold, and a sample of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from .._types import Array
from .distinct import NO_WEIGHT, mix
from .rows import ROWS, Block, Rows
from .scaling import Stats, merged_stats, stats_of
from .tables.cells import RawColumn
from .tables.columns import Column, column_of, distinct
from .tables.frames import Table, as_words, check_finite, is_dates, is_words

Hashes = NDArray[np.uint64]
_ODD = 0x9E3779B97F4A7C15


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


_ENTRIES = 20_000_000
_LEAST = 6000  # what a search looks at


def sample_size(n_columns: int) -> int:
    """Return how many rows a sample has at most, fewer where there are many columns."""
    return int(np.clip(_ENTRIES // max(n_columns, 1), _LEAST, ROWS))


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
    targets: Stats | None
    sample: Sample

    def fitted_columns(self) -> tuple[Column, ...]:
        """Return what every column is."""
        table, weights = self.sample.block.X, self.sample.block.weights
        return tuple(
            column_of(raw, seen.form == "levels", weights, sorted(seen.words), seen.missing, table.zone(j))
            for j, (seen, raw) in enumerate(zip(self.columns, table.columns, strict=True))
        )


@dataclass(frozen=True)
class ScanOf:
    """The scan of a piece; which columns are categories though they hold numbers, and the seed of the sample."""

    categorical: tuple[bool, ...]
    seed: int

    def __call__(self, block: Block[Table]) -> Scan | None:
        """Return the scan of the rows of a block that have a weight, or None where there are none."""
        block = block.counted()
        if not len(block):
            return None
        table, Y, weights = check_finite(block.X), block.Y, block.weights
        columns = tuple(_seen(x, level) for x, level in zip(table.columns, self.categorical, strict=True))
        plain = all(seen.form == "numbers" and not seen.missing for seen in columns)
        numbers = stats_of(np.stack(table.columns, axis=1), weights) if plain else None
        hashes = row_hashes(table, Y, self.seed)
        sample = sample_of(hashes, block, sample_size(len(columns)))
        targets = stats_of(Y, weights) if Y.shape[1] else None
        return Scan(len(weights), float(weights.sum()), columns, numbers, targets, sample)


def scan(rows: Rows[Table], categorical: Sequence[bool], seed: int) -> Scan:
    """Return what one pass over all rows tells; `categorical` columns are categories though they hold numbers, and the
    seed is that of the sample."""
    found: Scan | None = rows.map_reduce(ScanOf(tuple(categorical), seed), partial(_merged, names=rows.names))
    if found is None:
        raise ValueError(NO_WEIGHT)
    return found


def _merged(a: Scan | None, b: Scan | None, names: tuple[str, ...] | None) -> Scan | None:
    """Return the scan of two sets of rows together, where None stands for no rows."""
    if a is None or b is None:
        return a or b
    most = sample_size(len(a.columns))
    called = [repr(name) for name in names] if names is not None else [str(j) for j in range(len(a.columns))]
    columns = tuple(_both(*pair) for pair in zip(a.columns, b.columns, called, strict=True))
    numbers = merged_stats(a.numbers, b.numbers) if a.numbers and b.numbers else None
    targets = merged_stats(a.targets, b.targets) if a.targets and b.targets else None
    sample = merged_samples(a.sample, b.sample, most)
    return replace(a, n=a.n + b.n, weight=a.weight + b.weight, columns=columns, numbers=numbers, targets=targets,
                   sample=sample)  # fmt: skip


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
