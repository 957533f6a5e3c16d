"""Levels as numbers where rows come in pieces, as `mlkm.data.tables.means` has it: indicators, or means of y.

A row's own y must not be among its inputs: in training its levels have the means of rows of the four other folds. A
row's fold depends on what it says, so that it is the same in every pass.

From the rows of a source to standardised inputs and targets, the same in every pass.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from .._types import Array, IntArray
from . import Fence, Inputs, Rows, Standardiser
from .pieces import Piece
from .scan import Scan, parts, row_hashes
from .source import NO_TARGET, Block, Source
from .stats import Stats, merged_if_any, stats_of
from .tables.columns import CategoryColumn
from .tables.frames import Table
from .tables.means import FOLDS, LevelNumbers, LevelValues, drawn_means, indicators, is_few, level_sums
from .tables.reading import Reader

_SALT = 1_000_003  # of the hash behind folds, which are not those of the sample


def fold_of(block: Block, n_folds: int = FOLDS, salt: int = _SALT) -> IntArray:
    return parts(row_hashes(block.table, block.Y, salt), n_folds)


@dataclass(frozen=True)
class CrossedNumbers:
    """The numbers of levels for new rows, and for training rows of every fold by the other folds."""

    whole: LevelNumbers
    by_fold: tuple[LevelNumbers, ...]

    def numbers(self, X: Array, block: Block) -> Array:
        """Inputs of training rows."""
        if not self.whole.crossed:
            return self.whole.numbers(X)
        fold = fold_of(block)
        result = np.empty((len(X), len(self.whole.owners)))
        for k, own in enumerate(self.by_fold):
            result[fold == k] = own.numbers(X[fold == k])
        return result


@dataclass(frozen=True)
class LevelSums:
    """For every level input and fold what `drawn_means` needs, of standardised targets, and the largest weight."""

    sums: tuple[tuple[tuple[Array, Array, Array], ...], ...]
    largest: float


@dataclass(frozen=True)
class LevelSumsOf:
    """Of a piece."""

    reader: Reader
    y_scaler: Standardiser
    sizes: tuple[tuple[int, int], ...]  # of every input with many levels its place and their number

    def __call__(self, block: Block) -> LevelSums:
        X, Y, fold = self.reader.encoded(block.table), self.y_scaler.forward(block.Y), fold_of(block)
        sums = []
        for j, size in self.sizes:
            own = []
            for k in range(FOLDS):
                at = (fold == k) & (X[:, j] >= 0)
                own.append(level_sums(X[at, j], Y[at], block.weights[at], size))
            sums.append(tuple(own))
        return LevelSums(tuple(sums), float(block.weights.max(initial=0.0)))


def added(a: LevelSums, b: LevelSums) -> LevelSums:
    sums = tuple(
        tuple(tuple(x + y for x, y in zip(*pair, strict=True)) for pair in zip(own, other, strict=True))
        for own, other in zip(a.sums, b.sums, strict=True)
    )
    return LevelSums(sums, max(a.largest, b.largest))  # type: ignore[arg-type]


def fit_crossed(
    source: Source, reader: Reader, inputs: Inputs, n_levels: dict[int, int], y_scaler: Standardiser
) -> CrossedNumbers:
    """One pass over the rows, where some input has many levels; `n_levels` are those of every input that is a level."""
    many = tuple((j, size) for j, size in n_levels.items() if not is_few(size))
    if not many:
        whole = LevelNumbers(inputs, tuple(indicators(size) for size in n_levels.values()), False)
        return CrossedNumbers(whole, ())
    found = source.reduce(LevelSumsOf(reader, y_scaler, many), added)

    def encoders(without: int | None) -> LevelNumbers:
        values: list[LevelValues] = []
        sums = iter(found.sums)
        for size in n_levels.values():
            if is_few(size):
                values.append(indicators(size))
                continue
            folds = [own for k, own in enumerate(next(sums)) if k != without]
            mass, sums_of_y, squares = (np.sum([own[i] for own in folds], axis=0) for i in range(3))
            values.append(drawn_means(mass, sums_of_y, squares, found.largest))
        return LevelNumbers(inputs, tuple(values), True)

    return CrossedNumbers(encoders(None), tuple(encoders(k) for k in range(FOLDS)))


T = TypeVar("T")


@dataclass(frozen=True)
class Recipe:
    """What columns are, numbers for their levels where these are needed, the range to which values are drawn in, the
    scalings, and what weights are multiplied by so that they average to one."""

    reader: Reader
    numbers: CrossedNumbers | None
    clip: Fence | None
    x_scaler: Standardiser | None
    y_scaler: Standardiser
    weight: float

    @property
    def kinds(self) -> Inputs:
        """What the inputs are."""
        if self.numbers is None:
            return self.reader.inputs
        owners = self.numbers.whole.owners
        return Inputs(np.zeros(len(owners), np.intp), owners)

    @property
    def in_use(self) -> Standardiser:
        """The scaling of the inputs, which is fitted last."""
        if self.x_scaler is None:
            raise ValueError("The inputs have no scaling yet.")
        return self.x_scaler

    def inputs(self, block: Block) -> Array:
        """Of training rows, drawn in where there is a range."""
        X = self.reader.encoded(block.table)
        if self.numbers is not None:
            X = self.numbers.numbers(X, block)
        return X if self.clip is None else np.clip(X, self.clip.low, self.clip.high)

    def piece(self, block: Block) -> Piece:
        """Standardised rows; those of weight zero have no part in any sum."""
        X = self.inputs(block)
        if self.x_scaler is not None:
            self.x_scaler.forward(X, out=X)
        return Piece(X, self.y_scaler.forward(block.Y), block.weights * self.weight)


@dataclass(frozen=True)
class InputStats:
    """The statistics of the inputs of a piece."""

    recipe: Recipe

    def __call__(self, block: Block) -> Stats | None:
        counted = block.weights > 0
        return stats_of(self.recipe.inputs(block)[counted], block.weights[counted]) if counted.any() else None


def fit_recipe(
    source: Source, found: Scan, reader: Reader, *, with_levels: bool, careful: bool
) -> tuple[Recipe, Fence]:
    """The recipe, and the fence that holds later rows; further passes where inputs are not the columns as they are, or
    where a value is drawn in."""
    if found.targets is None:
        raise ValueError(NO_TARGET)
    y_scaler = found.targets.standardiser(None)
    recipe = Recipe(reader, None, None, None, y_scaler, found.n / found.weight)
    inputs = reader.inputs
    if inputs.levels.any() and not with_levels:
        recipe = replace(recipe, numbers=fit_crossed(source, reader, inputs, _sizes(reader), y_scaler))
    plain = found.numbers if found.numbers is not None and recipe.numbers is None else None
    stats = plain or _stats(source, recipe)
    kinds = recipe.kinds
    fence = stats.fence(careful and found.n >= 4, kinds.numbers)
    drawn_in = careful and bool(((fence.low > stats.low[0]) | (fence.high < stats.high[1]))[kinds.numbers].any())
    if drawn_in:
        recipe = replace(recipe, clip=fence)
        stats = _stats(source, recipe)
    return replace(recipe, x_scaler=stats.standardiser(np.inf, ~kinds.numbers)), fence


def _stats(source: Source, recipe: Recipe) -> Stats:
    found = source.reduce(InputStats(recipe), merged_if_any)
    if found is None:
        raise ValueError("There is no row with a positive weight to fit.")
    return found


def _sizes(reader: Reader) -> dict[int, int]:
    """Of every input that is a level, how many of them there are."""
    result, at = {}, 0
    for column in reader.columns:
        for kind, own in zip(column.kinds, range(at, at + len(column.kinds)), strict=True):
            if kind == 1:
                result[own] = len(column.levels) + column.missing if isinstance(column, CategoryColumn) else 2
        at += len(column.kinds)
    return result


def sample_rows(found: Scan, recipe: Recipe) -> tuple[Rows, Piece]:
    """The sample as rows whose weights average to one, and as a piece of all rows."""
    sample = found.sample
    piece = recipe.piece(Block(sample.table, sample.Y, sample.weights))
    weights = piece.weights / piece.weights.mean()
    return Rows(piece.X, piece.Y, weights, np.ones(len(weights)), None, recipe.kinds), piece


@dataclass(frozen=True)
class Split:
    """The part of every row, by what it says: the same in every pass, wherever the row stands."""

    n_parts: int
    salt: int

    def parts(self, table: Table, Y: Array) -> IntArray:
        return parts(row_hashes(table, Y, self.salt), self.n_parts)


@dataclass(frozen=True)
class _OfPiece:
    """A function of a piece as one of a block."""

    recipe: Recipe
    split: Split | None
    f: Callable[[Piece], Any]

    def __call__(self, block: Block) -> Any:
        return self.f(_piece(self.recipe, self.split, block))


def _piece(recipe: Recipe, split: Split | None, block: Block) -> Piece:
    piece = recipe.piece(block)
    return piece if split is None else replace(piece, part=split.parts(block.table, block.Y))


@dataclass(frozen=True)
class StreamPieces:
    """Standardised pieces of a source, made anew in every pass."""

    source: Source
    recipe: Recipe
    n_rows: int
    split: Split | None = None

    def reduce(self, f: Callable[[Piece], T], add: Callable[[T, T], T]) -> T:
        result: T = self.source.reduce(_OfPiece(self.recipe, self.split, f), add)
        return result

    def each(self) -> Iterator[Piece]:
        return (_piece(self.recipe, self.split, block) for block in self.source.blocks())
