"""Rows in pieces, so that temporary arrays have a bounded size."""

from collections.abc import Iterator

import numpy as np

from ..data import blocks

_ENTRIES = 2**23  # of a temporary array: 64 MB in float64


def row_blocks(n: int, width: int) -> Iterator[slice]:
    """Slices of n rows with temporary arrays of a bounded size, where a row has `width` numbers."""
    return blocks(n, block_size(width))


def block_size(width: int) -> int:
    return int(np.clip(_ENTRIES // max(width, 1), 16, 4096))
