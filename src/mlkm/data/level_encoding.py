"""Levels as numbers, for fits that take numbers only: indicators of a few levels, else the mean of y at a level.

Means are shrunk towards that of all rows where their level has few, in the proportion of the variances within and
between levels. A row's own y must not be among its inputs: in training its levels have the means of the rows of the
four other folds. A row's fold depends on its content, so that it is the same in every pass over the rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .._types import Array, IntArray
from ..runtime.rules import RULES
from .folds import bits, mixed, parts
from .tables.columns import Inputs

_SALT = 1_000_003  # of the hash behind the folds, which are not those of a sample


@dataclass(frozen=True)
class LevelValues:
    """Numbers for every level (L, r), and for one that was not seen (r,)."""

    values: Array
    unseen: Array

    def numbers(self, codes: Array) -> Array:
        """Return the numbers of rows from the places of their levels, (n, r)."""
        at = codes.astype(np.intp)
        known = (at >= 0) & (at < len(self.values))
        return np.where(known[:, None], self.values[np.where(known, at, 0)], self.unseen)


@dataclass(frozen=True)
class LevelNumbers:
    """The numbers of every input that is a level, and what the inputs were. `crossed` says that a few of them were
    means of other rows in training."""

    inputs: Inputs
    encoders: tuple[LevelValues, ...]
    crossed: bool

    def numbers(self, X: Array) -> Array:
        """Return the inputs of a later table."""
        levels = np.flatnonzero(self.inputs.levels)
        encoded = [e.numbers(X[:, j]) for j, e in zip(levels, self.encoders, strict=True)]
        return np.hstack([X[:, ~self.inputs.levels], *encoded])

    @property
    def owners(self) -> IntArray:
        """Return the column that each of the numbers belongs to."""
        levels = self.inputs.owners[self.inputs.levels]
        encoded = [np.repeat(j, len(e.unseen)) for j, e in zip(levels, self.encoders, strict=True)]
        return np.concatenate([self.inputs.owners[~self.inputs.levels], *encoded])


@dataclass(frozen=True)
class CrossedNumbers:
    """The numbers of levels for new rows, and for training rows of every fold those by the other folds."""

    whole: LevelNumbers
    by_fold: tuple[LevelNumbers, ...]

    def numbers(self, X: Array, Y: Array) -> Array:
        """Return the inputs of training rows."""
        if not self.whole.crossed:
            return self.whole.numbers(X)
        fold = _folds(X, Y)
        result = np.empty((len(X), len(self.whole.owners)))
        for k, others in enumerate(self.by_fold):
            result[fold == k] = others.numbers(X[fold == k])
        return result


@dataclass(frozen=True)
class LevelSums:
    """Sums over rows of every input with many levels, fold by fold: the weight of every level (folds, L), the sums of
    w y there (folds, L, k), and of w y^2 over all levels (folds, k); and the largest weight of a row."""

    inputs: tuple[tuple[Array, Array, Array], ...]
    largest: float

    def __add__(self, other: "LevelSums") -> "LevelSums":
        pairs = zip(self.inputs, other.inputs, strict=True)
        added = tuple((a[0] + b[0], a[1] + b[1], a[2] + b[2]) for a, b in pairs)
        return LevelSums(added, max(self.largest, other.largest))


def many_levels(n_levels: Mapping[int, int], n_rows: int) -> dict[int, int]:
    """Return the inputs whose levels get means of y, with their numbers of levels, of all inputs that are levels."""
    enough = n_rows >= 2 * RULES.level_folds
    return {j: size for j, size in n_levels.items() if enough and size > RULES.few_levels}


def level_sums(X: Array, targets: Array, Y: Array, weights: Array, many: Mapping[int, int]) -> LevelSums:
    """Return the sums of a block of rows with these targets; `Y` are the same targets standardised, in which no digits
    are lost."""
    fold = _folds(X, targets)
    sums = tuple(_sums(X[:, j], Y, weights, fold, size) for j, size in many.items())
    return LevelSums(sums, float(weights.max(initial=0.0)))


def _sums(codes: Array, Y: Array, weights: Array, fold: IntArray, n_levels: int) -> tuple[Array, Array, Array]:
    """Return the sums of one input by fold: the weight and the sums of w y of every level, and the sums of w y^2 over
    all levels."""
    known = codes >= 0
    at, w, Y = fold[known] * n_levels + codes[known].astype(np.intp), weights[known], Y[known]
    mass, *sums = [
        np.bincount(at, values, RULES.level_folds * n_levels).astype(np.float64).reshape(RULES.level_folds, n_levels)
        for values in (w, *(w[:, None] * Y).T)
    ]
    squares = [np.bincount(fold[known], w * y**2, RULES.level_folds) for y in Y.T]
    return mass, np.stack(sums, axis=2), np.stack(squares, axis=1)


def fit_numbers(inputs: Inputs, n_levels: Mapping[int, int], sums: LevelSums | None) -> CrossedNumbers:
    """Return the numbers of the levels of every input that is one (`n_levels`), from the sums of those of many
    levels, None where there are none."""
    if sums is None:
        return CrossedNumbers(LevelNumbers(inputs, tuple(map(_indicators, n_levels.values())), False), ())

    def without(fold: int | None) -> LevelNumbers:
        """Return the numbers of the levels from the rows of all folds but one, or of all folds for None."""
        others = [k for k in range(RULES.level_folds) if k != fold]
        means = (
            _shrunk_means(m[others].sum(axis=0), s[others].sum(axis=0), q[others].sum(axis=0), sums.largest)
            for m, s, q in sums.inputs
        )
        values = [next(means) if size > RULES.few_levels else _indicators(size) for size in n_levels.values()]
        return LevelNumbers(inputs, tuple(values), True)

    return CrossedNumbers(without(None), tuple(without(k) for k in range(RULES.level_folds)))


def numbers_in_memory(X: Array, Y: Array, inputs: Inputs, weights: Array | None) -> tuple[LevelNumbers, Array]:
    """Return the numbers of levels, and the inputs of the rows of the fit; targets are standardised."""
    w = np.ones(len(X)) if weights is None else weights
    n_levels = {int(j): int(X[:, j].max(initial=0)) + 1 for j in np.flatnonzero(inputs.levels)}
    many = many_levels(n_levels, int((w > 0).sum()))
    found = fit_numbers(inputs, n_levels, level_sums(X, Y, Y, w, many) if many else None)
    return found.whole, found.numbers(X, Y)


def _folds(X: Array, Y: Array) -> IntArray:
    return parts(mixed(map(bits, (*X.T, *Y.T)), len(X), _SALT), RULES.level_folds)


def _indicators(n_levels: int) -> LevelValues:
    return LevelValues(np.eye(n_levels), np.zeros(n_levels))


def _shrunk_means(mass: Array, sums: Array, squares: Array, largest: float) -> LevelValues:
    """Return the means of levels, shrunk towards that of all rows by the variances within and between levels; `largest`
    is the largest weight of a row."""
    total = max(float(mass.sum()), 1e-300)
    mean = sums.sum(axis=0) / total
    centred = sums - mass[:, None] * mean
    raw = centred / np.maximum(mass, 1e-300)[:, None]
    between = mass @ raw**2 / total
    within = np.maximum(squares / total - mean**2 - between, 0)
    seen = int((mass > 0).sum())
    spread = np.maximum(between - within * seen * largest / total, 1e-3 * (between + within) + 1e-300)
    shrunk = centred / (mass[:, None] + within / spread * largest + 1e-300)
    return LevelValues(mean + shrunk, mean)
