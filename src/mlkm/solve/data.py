"""Rows as a solver sees them: phi_1 is kept where all rows are one block, and computed when it is asked for
elsewhere."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._types import Array, IntArray
from ..data import Rows

ENTRIES = 2**20  # of a block of features: 8 MB in float64


@dataclass(frozen=True)
class Data:
    """Rows, the map of the first layer, phi_1 at the rows where it is kept, and how many rows are one block."""

    rows: Rows
    phi: Any
    block: int
    kept: Array | None = None
    unit: Array | float = 1.0  # what descent multiplies the targets by

    def __len__(self) -> int:
        return len(self.rows)

    def first(self, at: slice | IntArray) -> Array:
        """phi_1 at some rows."""
        return self.phi.features(self.rows.X[at]) if self.kept is None else self.kept[at]

    def take(self, at: slice | IntArray) -> "Data":
        return replace(self, rows=self.rows.take(at), kept=None if self.kept is None else self.kept[at])

    def targets(self, at: slice | IntArray) -> Array:
        return np.asarray(self.unit * self.rows.Y[at])

    def blocks(self) -> Iterator[slice]:
        return self.rows.blocks(self.block)


def seen_by(rows: Rows, phi: Any, entries: int = ENTRIES, unit: Array | float = 1.0) -> Data:
    """Rows in blocks whose features have at most so many entries; phi_1 is kept if all rows are one block."""
    block = max(1, entries // int(phi.n_features))
    return Data(rows, phi, block, phi.features(rows.X) if len(rows) <= block else None, unit)
