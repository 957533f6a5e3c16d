"""Training rows made ready for a fit: standardised, in memory or block by block, with a sample of them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import numpy as np

from .._types import Array, IntArray
from ..runtime.seeds import Purpose, generator
from .dask import dask_source, is_dask
from .distinct import Rows, distinct_rows, merged_in_order
from .folds import folds_of
from .pieces import Piece, Pieces, RowPieces
from .preparation import Preparation, Standardised, TrainingInputs
from .scaling import stats_of
from .scan import Scan, parts, row_hashes
from .source import Block, Source, is_source, mapped_source
from .tables.frames import Table

T = TypeVar("T")


@dataclass(frozen=True)
class Split:
    """The part of every row, by its content: the same in every pass, wherever the row stands."""

    n_parts: int
    salt: int

    def parts(self, table: Table, Y: Array) -> IntArray:
        """Return the part of every row."""
        return parts(row_hashes(table, Y, self.salt), self.n_parts)


@dataclass(frozen=True)
class _OfBlock:
    """A function of standardised rows as one of a block of training rows."""

    standardised: Standardised
    split: Split | None
    f: Callable[[Piece], Any]

    def __call__(self, block: Block) -> Any:
        return self.f(_piece(self.standardised, self.split, block))


def _piece(standardised: Standardised, split: Split | None, block: Block) -> Piece:
    piece = standardised(block)
    return piece if split is None else replace(piece, part=split.parts(block.table, block.Y))


@dataclass(frozen=True)
class StreamPieces:
    """Standardised rows of a source, made anew in every pass."""

    source: Source
    standardised: Standardised
    n_rows: int
    split: Split | None = None

    def reduce(self, f: Callable[[Piece], T], add: Callable[[T, T], T]) -> T:
        result: T = self.source.reduce(_OfBlock(self.standardised, self.split, f), add)
        return result

    def each(self) -> Iterator[Piece]:
        return (_piece(self.standardised, self.split, block) for block in self.source.blocks())


@dataclass(frozen=True)
class Ready:
    """The sample with weights of its own and as a piece of all rows, all rows in pieces, and as they are where they are
    kept in memory."""

    sample: Rows
    of_all: Piece
    pieces: Pieces
    rows: Rows | None


def in_pieces(
    source: Source,
    found: Scan,
    preparation: Preparation,
    inputs: TrainingInputs,
    *,
    keep: bool,
    n_parts: int,
    seed: int,
) -> Ready:
    """Return rows that a fit sees a piece at a time; `keep` holds standardised rows in memory, where equal ones are
    merged. With parts, rows are split by their content, those of the sample too."""
    rows, standardised = None, Standardised(preparation, inputs, found.n / found.weight)
    pieces: Pieces = StreamPieces(source, standardised, found.n)
    if keep:
        rows = _merged(source, standardised)
        pieces, standardised = RowPieces(rows), replace(standardised, weight=len(rows) / found.weight)
    of_all = standardised(Block(found.sample.table, found.sample.Y, found.sample.weights))
    weights = of_all.weights / of_all.weights.mean()
    sample = Rows(of_all.X, of_all.Y, weights, np.ones(len(weights)), None, inputs.kinds)
    if n_parts < 2 or not isinstance(pieces, StreamPieces):
        return Ready(sample, of_all, pieces, rows)
    split = Split(n_parts, int(generator(seed, Purpose.PARTS).integers(2**62)))
    part = split.parts(found.sample.table, found.sample.Y)
    _check_parts(part, n_parts)
    return Ready(replace(sample, fold=part), replace(of_all, part=part), replace(pieces, split=split), None)


def _check_parts(part: IntArray, n_parts: int) -> None:
    counts = np.bincount(part, minlength=n_parts)
    if not counts.all():
        raise ValueError(
            f"cv splits the rows into {n_parts} parts, and part {int(np.argmin(counts)) + 1} has none; give more rows."
        )


def _merged(source: Source, standardised: Standardised) -> Rows:
    """Return all rows, standardised, in the order in which they come; equal ones are merged into the first."""
    every: list[Piece] = source.reduce(_Listed(standardised), list.__add__)
    X, Y = np.vstack([piece.X for piece in every]), np.vstack([piece.Y for piece in every])
    weights = np.concatenate([piece.weights for piece in every])
    del every
    return merged_in_order(X, Y, weights / standardised.weight, standardised.inputs.kinds)


def in_memory(source: Source, preparation: Preparation, inputs: TrainingInputs, cv: Any) -> tuple[Rows, Preparation]:
    """Return all rows, merged where they are equal up to rounding, in an order by the ranks of their values, and
    standardised; and the preparation with the scalings of the merged rows in that order, so that a weight of k and k
    copies, in any order, give the same bits."""
    every: list[Piece] = source.reduce(_Listed(_Unscaled(inputs)), list.__add__)
    X, Y = np.vstack([piece.X for piece in every]), np.vstack([piece.Y for piece in every])
    weights = np.concatenate([piece.weights for piece in every])
    del every
    fold = folds_of(cv, X, Y[:, 0] if source.single_output else Y)
    rows = distinct_rows(X, Y, weights, fold, inputs.kinds)
    preparation = preparation.rescaled(stats_of(rows.X, rows.weights), stats_of(rows.Y, rows.weights))
    preparation.x_scaler.forward(rows.X, out=rows.X)  # copies of the fit's own
    preparation.y_scaler.forward(rows.Y, out=rows.Y)
    return rows, preparation


@dataclass(frozen=True)
class _Unscaled:
    inputs: TrainingInputs

    def __call__(self, block: Block) -> Piece:
        return Piece(self.inputs(block), block.Y, block.weights)


@dataclass(frozen=True)
class _Listed:
    piece: Callable[[Block], Piece]

    def __call__(self, block: Block) -> list[Piece]:
        return [self.piece(block)]


def as_source(X: Any, y: Any, sample_weight: Any) -> Source | None:
    """X as a source, where it is one, a collection of dask or a large memmap; None where it is an array or a frame in
    memory."""
    if is_source(X):
        if y is not None or sample_weight is not None:
            raise ValueError("A table that was opened names its target and weights itself; call fit(table) alone.")
        return cast(Source, X)
    if any(map(is_dask, (X, y, sample_weight))):
        return dask_source(X, y, sample_weight)
    return mapped_source(X, y, sample_weight) if isinstance(X, np.memmap) else None
