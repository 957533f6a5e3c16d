"""The preparation of training rows: what a column is, numbers for levels, the range of every input and the scalings are
decided here, once, by passes over blocks of rows, and the rows become distinct and standardised."""

import operator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from .._types import Array, IntArray
from ..runtime.rules import RULES
from .folds import NO_TARGET, parts, row_hashes
from .level_encoding import CrossedNumbers, LevelSums, fit_numbers, level_sums, many_levels
from .preparation import InputRange, Preparation, Standardiser, Stats, check_near, kinds_of, merged_stats, stats_of
from .rows import NO_WEIGHT, Block, MemoryRows, Rows
from .scan import Scan, distinct_rows, merged_in_order
from .tables.cells import Table
from .tables.columns import CategoryColumn, Inputs, Reader


@dataclass(frozen=True)
class TrainingInputs:
    """The inputs of blocks of training rows, not yet standardised. They are those of later rows, except that means of y
    at levels are those of other rows, and that extreme values are winsorised."""

    reader: Reader
    levels: CrossedNumbers | None = None
    winsorised: InputRange | None = None

    @property
    def kinds(self) -> Inputs:
        """Return the kinds of the inputs."""
        return kinds_of(self.reader, None if self.levels is None else self.levels.whole)

    def __call__(self, block: Block[Table]) -> Array:
        X = self.reader.encoded(block.X)
        if self.levels is not None:
            X = self.levels.numbers(X, block.Y)
        return X if self.winsorised is None else self.winsorised.winsorise(X)

    def unscaled(self, block: Block[Table]) -> Block:
        """Return a block of training rows with its inputs in their units."""
        return Block(self(block), block.Y, block.weights, kinds=self.kinds)

    def stats(self, block: Block[Table]) -> Stats:
        """Return the statistics of the inputs of a block."""
        return stats_of(self(block), block.weights)


def _sums_of_levels(reader: Reader, y_scaler: Standardiser, many: dict[int, int], block: Block[Table]) -> LevelSums:
    """Return the sums by level of a block."""
    X, Y = reader.encoded(block.X), y_scaler.forward(block.Y)
    return level_sums(X, block.Y, Y, block.weights, many)


def fit_preparation(
    rows: Rows[Table], found: Scan, *, with_levels: bool, automatic: bool, beyond: float
) -> tuple[Preparation, TrainingInputs]:
    """Return the preparation of later rows and that of the training rows themselves.

    What a scan of the rows tells is enough where all columns are numbers; further passes are made where inputs are not
    the columns as they are, or where a value is winsorised.

    Parameters
    ----------
    rows : the training rows
    found : what one pass over them has told
    with_levels : whether the model takes levels as they are
    automatic : whether scales are automatic
    beyond : by how many ranges of the targets predictions may exceed these
    """
    if not len(found.targets.mean):
        raise ValueError(NO_TARGET)
    targets, y_scaler = found.targets, found.targets.standardiser()
    reader = Reader(found.fitted_columns(), rows.names)
    inputs, weighted = TrainingInputs(reader), rows.counted()
    if reader.inputs.levels.any() and not with_levels:
        inputs = replace(inputs, levels=_fit_levels(rows, found.n, reader, y_scaler))
    numbers, stats = inputs.kinds.numbers, found.numbers
    if stats is None or inputs.levels is not None:
        stats = weighted.map_reduce(inputs.stats, merged_stats)
    input_range = InputRange.from_ends(stats.ends, automatic and found.n >= RULES.winsorised_rows, numbers)
    extreme = (input_range.low > stats.low[0]) | (input_range.high < stats.high[1])
    if extreme[numbers].any():
        inputs = replace(inputs, winsorised=input_range)
        stats = weighted.map_reduce(inputs.stats, merged_stats)
    levels = None if inputs.levels is None else inputs.levels.whole
    x_scaler = stats.standardiser(np.inf, ~numbers)
    low, high = targets.low[0], targets.high[1]
    preparation = Preparation(
        reader, levels, input_range, x_scaler, y_scaler, low, high, beyond if automatic else np.inf, automatic,
        rows.single_output,
    )  # fmt: skip
    return preparation, inputs


def _fit_levels(rows: Rows[Table], n: int, reader: Reader, y_scaler: Standardiser) -> CrossedNumbers:
    """Return numbers for levels, by one pass over the rows where an input has many."""
    n_levels = _numbers_of_levels(reader)
    many = many_levels(n_levels, n)
    sums = rows.map_reduce(partial(_sums_of_levels, reader, y_scaler, many), operator.add) if many else None
    return fit_numbers(reader.inputs, n_levels, sums)


def _numbers_of_levels(reader: Reader) -> dict[int, int]:
    """Return the number of levels of every input that is a level."""
    owners = reader.inputs.owners
    columns = {int(j): reader.columns[owners[j]] for j in np.flatnonzero(reader.inputs.levels)}
    return {
        j: len(column.levels) + column.missing if isinstance(column, CategoryColumn) else 2
        for j, column in columns.items()
    }


@dataclass(frozen=True)
class Standardised:
    """Blocks of training rows with standardised inputs and targets.

    Weights are multiplied by `weight`, so that they average to one; rows of weight zero have no part in any sum. With a
    number of parts, every row belongs to one by its content and the salt, the same in every pass.
    """

    preparation: Preparation
    inputs: TrainingInputs
    weight: float
    n_parts: int = 0
    salt: int = 0

    def __call__(self, block: Block[Table]) -> Block:
        """Return a block of training rows, standardised."""
        X, scaled = self.inputs(block), self.preparation
        scaled.x_scaler.forward(X, out=X)
        Y, weights = scaled.y_scaler.forward(block.Y), block.weights * self.weight
        fold = parts(row_hashes(block.X, block.Y, self.salt), self.n_parts) if self.n_parts > 1 else None
        return Block(X, Y, weights, fold=fold, kinds=self.inputs.kinds)


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


def refitted(preparation: Preparation, X: Array, targets: Array, weights: Array | None) -> tuple[Block, Preparation]:
    """Return other rows, merged and standardised, and the preparation with their targets and ranges; columns,
    levels and the scaling of the inputs stay as they are."""
    w = np.ones(len(X)) if weights is None else weights
    counted = w > 0
    if not counted.any():
        raise ValueError(NO_WEIGHT)
    Y, numbers = targets.reshape(len(targets), -1), preparation.kinds.numbers
    of_x, of_y = (stats_of(own[counted], w[counted]) for own in (X, Y))
    input_range = InputRange.from_ends(
        of_x.ends, preparation.automatic and int(counted.sum()) >= RULES.winsorised_rows, numbers
    )
    rows = distinct_rows(input_range.winsorise(X) if preparation.automatic else X, Y, w, None, preparation.kinds)
    why = "where the kernel that refit keeps has no value; correct it, or call fit"
    check_near(preparation.x_scaler.forward(rows.X, out=rows.X), why)
    y_scaler = of_y.standardiser()
    y_scaler.forward(rows.Y, out=rows.Y)
    single, low, high = targets.ndim == 1, of_y.low[0], of_y.high[1]
    return rows, replace(
        preparation, input_range=input_range, y_scaler=y_scaler, low=low, high=high, single_output=single
    )
