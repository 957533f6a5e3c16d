"""Hashes of the content of rows, by which samples, parts and folds are chosen.

The same rows are chosen whatever the blocks, files or workers they come from, and equal rows are chosen together.
"""

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from .._types import Array
from .tables.cells import RawColumn, Table, is_dates, is_words
from .tables.columns import distinct

Hashes = NDArray[np.uint64]

_ODD = 0x9E3779B97F4A7C15


def mixed(columns: Iterable[Hashes], n: int, salt: int) -> Hashes:
    """Return hashes of n rows by the numbers of their columns (the finaliser constants are those of the splitmix64
    generator)."""
    h = np.full(n, (_ODD * (2 * salt + 1)) % 2**64, np.uint64)
    for column in columns:
        h ^= column
        h *= np.uint64(0xBF58476D1CE4E5B9)
        h ^= h >> np.uint64(29)
        h *= np.uint64(0x94D049BB133111EB)
        h ^= h >> np.uint64(32)
    return h


def row_hashes(table: Table, Y: Array, seed: int) -> Hashes:
    """Return a hash of every row with its targets, which depends on its content and not on its place."""
    return mixed(map(bits, (*table.columns, *Y.T)), len(Y), seed)


def parts(hashes: Hashes, n_parts: int) -> NDArray[np.intp]:
    """Return the part that every row belongs to, of `n_parts` parts of about equal size."""
    return (hashes % np.uint64(n_parts)).astype(np.intp)


def bits(column: RawColumn) -> Hashes:
    """Return the bits of numbers, of both zeros the positive one, and of dates, and hashes of words; all missing values
    of a column have the same number."""
    if is_words(column):
        words, place = distinct(column)
        return np.array([_of_word(word) for word in words], np.uint64)[place]
    if is_dates(column):
        return column.astype("datetime64[us]").view(np.uint64)
    return np.where(np.isnan(column), np.nan, column + 0.0).astype(np.float64).view(np.uint64)


def _of_word(word: str | None) -> int:
    return 0 if word is None else int.from_bytes(blake2b(word.encode(), digest_size=8).digest(), "little")
