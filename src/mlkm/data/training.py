"""Training rows made ready for a fit: standardised, in memory or block by block, with a sample of them."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._types import IntArray
from .distinct import distinct_rows, merged_in_order
from .preparation import Preparation, Standardised
from .rows import Block, MemoryRows, Rows, is_dask, mapped_rows
from .scaling import stats_of
from .scan import Scan
from .tables.frames import Table


@dataclass(frozen=True)
class Training:
    """Standardised training rows that a fit sees a block at a time.

    Attributes
    ----------
    rows : all of them, with weights that average to one
    sample : a sample of them, with weights that average to one in the sample
    of_all : the same rows with their weights among all rows
    kept : all rows as one block, where they are kept in memory
    """

    rows: Rows
    sample: Block
    of_all: Block
    kept: Block | None


def in_blocks(rows: Rows[Table], found: Scan, standardised: Standardised, *, keep: bool) -> Training:
    """Return rows that a fit sees a block at a time; `keep` holds standardised rows in memory, where equal ones are
    merged, and leaves them in their order."""
    kept, streamed = None, rows.map(standardised, found.n)
    if keep:
        kept = merged_in_order(rows.gathered(replace(standardised, weight=1.0)))
        streamed, standardised = MemoryRows(kept), replace(standardised, weight=len(kept) / found.weight)
    of_all = standardised(found.sample.block)
    _check_parts(of_all.fold, standardised.n_parts)
    return Training(streamed, replace(of_all, weights=of_all.weights / of_all.weights.mean()), of_all, kept)


def _check_parts(fold: IntArray | None, n_parts: int) -> None:
    counts = np.ones(1) if fold is None else np.bincount(fold, minlength=n_parts)
    if not counts.all():
        raise ValueError(
            f"cv splits the rows into {n_parts} parts, and part {int(np.argmin(counts)) + 1} has none; give more rows."
        )


def in_memory(given: Block, fold: IntArray | None, preparation: Preparation) -> tuple[Block, Preparation]:
    """Return rows whose inputs are in their units, merged where they are equal up to rounding, in an order by the ranks
    of their values, and standardised; and the preparation with the scalings of the merged rows in that order, so that
    a weight of k and k copies, in any order, give the same bits."""
    rows = distinct_rows(given.X, given.Y, given.weights, fold, given.kinds)
    preparation = preparation.rescaled(stats_of(rows.X, rows.weights), stats_of(rows.Y, rows.weights))
    preparation.x_scaler.forward(rows.X, out=rows.X)  # copies of the fit's own
    preparation.y_scaler.forward(rows.Y, out=rows.Y)
    return rows, preparation


def as_rows(X: Any, y: Any, sample_weight: Any) -> Rows[Table] | None:
    """Return X as rows, where it is an opened table, a collection of dask or a large memmap; None where it is an array
    or a frame in memory, which is checked as scikit-learn does."""
    if isinstance(X, Rows):
        if y is not None or sample_weight is not None:
            raise ValueError("A table that was opened names its target and weights itself; call fit(table) alone.")
        return X
    if any(map(is_dask, (X, y, sample_weight))):
        from .dask import dask_rows

        return dask_rows(X, y, sample_weight)
    return mapped_rows(X, y, sample_weight) if isinstance(X, np.memmap) else None
