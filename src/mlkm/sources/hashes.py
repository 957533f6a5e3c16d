"""A number for every row that depends on what the row says, not on where it stands.

It chooses samples and puts rows into parts: the same rows are chosen whatever the blocks, files or workers they come
from, and equal rows are chosen together.
"""

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from .._types import Array
from ..rows.distinct import mix
from ..tables.cells import RawColumn
from ..tables.columns import distinct
from ..tables.frames import Table, is_words

Hashes = NDArray[np.uint64]
_ODD = 0x9E3779B97F4A7C15


def row_hashes(table: Table, Y: Array, seed: int) -> Hashes:
    """Of every row with its targets."""
    h = np.full(len(Y), (_ODD * (2 * seed + 1)) % 2**64, np.uint64)
    for column in (*table.columns, *Y.T):
        mix(h, _numbers(column))
    return h


def parts(hashes: Hashes, n_parts: int) -> NDArray[np.intp]:
    """The part of every row, of so many equal ones."""
    return (hashes % np.uint64(n_parts)).astype(np.intp)


def _numbers(column: RawColumn) -> Hashes:
    """The bits of numbers and dates, and numbers for words; missing values are alike."""
    if is_words(column):
        words, place = distinct(column)
        return np.array([_of_word(word) for word in words], np.uint64)[place]
    if column.dtype.kind == "M":
        return column.astype("datetime64[us]").view(np.uint64)
    return np.where(np.isnan(column), np.nan, column + 0.0).astype(np.float64).view(np.uint64)  # of one zero


def _of_word(word: str | None) -> int:
    return 0 if word is None else int.from_bytes(blake2b(word.encode(), digest_size=8).digest(), "little")
