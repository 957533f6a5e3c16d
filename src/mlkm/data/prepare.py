"""A source made ready for a fit: what its columns are, its scalings, a sample of its rows, and its pieces."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from .._types import Array
from ..runtime.seeds import Purpose, generator
from . import Fence, Rows
from .dask import dask_source, is_dask
from .distinct import merged_in_order
from .pieces import Piece, Pieces, RowPieces
from .recipe import Recipe, Split, StreamPieces, fit_recipe, sample_rows
from .scan import Scan
from .source import Block, Source, is_source, mapped_source
from .tables.reading import Reader


@dataclass(frozen=True)
class Ready:
    """The recipe, the fence of later rows, the sample with weights of its own and as a piece of all rows, the pieces,
    the range of the targets, and the rows where they are kept."""

    recipe: Recipe
    fence: Fence
    sample: Rows
    of_all: Piece
    pieces: Pieces
    low: Array
    high: Array
    rows: Rows | None


def prepared(
    source: Source, found: Scan, categorical: Sequence[bool], *, with_levels: bool, careful: bool, keep: bool
) -> Ready:
    """From what a scan found; `keep` holds standardised rows in memory, where equal ones are merged."""
    reader = Reader(found.fitted_columns(categorical), source.names)
    recipe, fence = fit_recipe(source, found, reader, with_levels=with_levels, careful=careful)
    rows, pieces = None, StreamPieces(source, recipe, found.n)
    if keep:
        rows = _kept(source, recipe)
        recipe = replace(recipe, weight=len(rows) / found.weight)
    sample, of_all = sample_rows(found, recipe)
    assert found.targets is not None  # as `fit_recipe` has seen
    low, high = found.targets.low[0], found.targets.high[1]
    return Ready(recipe, fence, sample, of_all, pieces if rows is None else RowPieces(rows), low, high, rows)


def split(ready: Ready, found: Scan, n_parts: int, seed: int) -> Ready:
    """With rows in so many parts by what they say, those of the sample too."""
    if n_parts < 2 or not isinstance(ready.pieces, StreamPieces):
        return ready
    by = Split(n_parts, int(generator(seed, Purpose.PARTS).integers(2**62)))
    part = by.parts(found.sample.table, found.sample.Y)
    counts = np.bincount(part, minlength=n_parts)
    if not counts.all():
        raise ValueError(
            f"cv splits the rows into {n_parts} parts, and part {int(np.argmin(counts)) + 1} has none; give more rows."
        )
    return replace(
        ready,
        sample=replace(ready.sample, fold=part),
        of_all=replace(ready.of_all, part=part),
        pieces=replace(ready.pieces, split=by),
    )


def _kept(source: Source, recipe: Recipe) -> Rows:
    """All rows, standardised, in the order in which they come; equal ones are merged into the first."""
    every: list[Piece] = source.reduce(_Listed(recipe), list.__add__)
    X, Y = np.vstack([piece.X for piece in every]), np.vstack([piece.Y for piece in every])
    weights = np.concatenate([piece.weights for piece in every])
    del every
    return merged_in_order(X, Y, weights / recipe.weight, recipe.kinds)


@dataclass(frozen=True)
class _Listed:
    recipe: Recipe

    def __call__(self, block: Block) -> list[Piece]:
        return [self.recipe.piece(block)]


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
