"""Training rows made ready for a fit: standardised, in memory or block by block, with a sample of them.

A splitter becomes a part number per row here, and nowhere else.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import check_cv
from sklearn.model_selection._split import GroupsConsumerMixin, _UnsupportedGroupCVMixin

from .._types import Array, IntArray
from ..runtime.checks import brief, whole
from .dask import dask_rows
from .distinct import distinct_rows, merged_in_order
from .inputs import checked_targets, checked_weights
from .preparation import Preparation, Standardised
from .rows import ROWS, Block, LocalRows, MemoryRows, Rows, block_rows, blocks, is_dask
from .scaling import stats_of
from .scan import Scan
from .tables.frames import Table


def as_splitter(cv: Any, others: str) -> Any:
    """Return `cv` as a number of folds, a splitter or a list of splits; messages name `others` as allowed, too."""
    if isinstance(cv, Integral) and not isinstance(cv, (bool, np.bool_)):
        return whole("cv as a number of folds", cv, 2)
    if hasattr(cv, "split") and hasattr(cv, "get_n_splits"):
        return cv
    try:
        pairs = [] if isinstance(cv, (str, bytes)) else list(cv)
    except TypeError:  # no iterable, or an array without a dimension
        pairs = []
    if not pairs or not all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in pairs):
        raise ValueError(
            f"cv must be {others}, a number of folds, a splitter or an iterable of splits; got {brief(cv)}."
        )
    return pairs


def splits_of(cv: Any, X: Any, y: Array, groups: Any = None) -> tuple[IntArray, list[IntArray]]:
    """Return the number of the test fold of every row, and the training rows that the splitter has for each fold;
    `groups` are for splitters that look at them."""
    n, splitter = len(y), check_cv(cv)
    fold, training = np.full(n, -1, dtype=np.intp), []
    for k, (train, test) in enumerate(splitter.split(X, y, groups_for(splitter, groups))):
        try:
            train, test = (np.arange(n)[rows] for rows in (train, test))  # masks and lists of rows are allowed, too
        except (IndexError, TypeError, ValueError):
            raise ValueError(f"cv must give rows from 0 to {n - 1} for every fold; got {brief(test)}.") from None
        if (fold[test] >= 0).any():
            raise ValueError(f"The test folds of cv must not overlap; fold {k} shares rows with an earlier one.")
        fold[test] = k
        training.append(train)
    if (fold < 0).any():
        raise ValueError(f"The test folds of cv must cover every row; {int((fold < 0).sum())} of {n} rows are in none.")
    return fold, training


def keeps_groups_together(cv: Any) -> bool:
    """Return whether a splitter needs groups to make its folds, as scikit-learn's GroupKFold does."""
    return isinstance(cv, GroupsConsumerMixin)


def groups_for(cv: Any, groups: Any) -> Any:
    """Return the groups, or None for those splitters of scikit-learn that would warn that they do not look at
    groups."""
    return None if isinstance(check_cv(cv), _UnsupportedGroupCVMixin) else groups


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
    """Refuse a split in which a part has no rows of the sample."""
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
        return dask_rows(X, y, sample_weight)
    return mapped_rows(X, y, sample_weight) if isinstance(X, np.memmap) else None


def table_rows(table: Table, y: Array, weights: Array | None) -> MemoryRows[Table]:
    """Return a table in memory with its targets, one-dimensional or not, and weights as rows."""
    Y = y.astype(np.float64, copy=False).reshape(len(y), -1)
    return MemoryRows(Block(table, Y, np.ones(len(Y)) if weights is None else weights), table.names, y.ndim == 1)


@dataclass(frozen=True)
class ArrayRows(LocalRows[Table]):
    """An array of numbers, which may be a memmap: columns are made a block at a time."""

    X: NDArray[Any]
    Y: NDArray[Any]
    weights: Array
    single_output: bool
    names: tuple[str, ...] | None = None

    @property
    def n_columns(self) -> int:
        """Return the number of columns."""
        return int(self.X.shape[1])

    @property
    def n(self) -> int:
        """Return the number of rows."""
        return len(self.X)

    def n_blocks(self) -> int:
        """Return the number of blocks."""
        return -(-len(self.X) // block_rows(self.n_columns))

    def blocks(self) -> Iterator[Block[Table]]:
        """Yield the blocks, in order, with columns of float64."""
        for at in blocks(len(self.X), block_rows(self.n_columns)):
            # row by row in memory, so that columns are read at once
            columns = np.ascontiguousarray(np.asarray(self.X[at]).T, np.float64)
            Y = np.asarray(self.Y[at], np.float64).reshape(at.stop - at.start, -1)
            yield Block(Table(tuple(columns), self.names), Y, self.weights[at])


def mapped_rows(X: NDArray[Any], y: ArrayLike | None, sample_weight: ArrayLike | None) -> ArrayRows | None:
    """Return an array of numbers in a file as rows, where it has many; a smaller one is read as a whole."""
    if X.ndim != 2 or X.dtype.kind not in "fiub" or len(X) <= ROWS or y is None:
        return None
    Y = checked_targets(y)
    if len(Y) != len(X):
        raise ValueError(f"X has {len(X)} rows and y has {len(Y)}; they must be the same.")
    weights = checked_weights(sample_weight, len(X))
    return ArrayRows(X, Y, np.ones(len(X)) if weights is None else weights, np.ndim(y) == 1)
