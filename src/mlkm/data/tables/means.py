"""Levels as numbers, for fits that take numbers only: indicators of a few levels, else the mean of y at a level.

Means are drawn to that of all rows as far as their level has few, in the proportion of the variances within and between
levels. For the rows of the fit themselves they are taken from four fifths of the rows without their own, so that no
row's own y is among its inputs.
"""

from dataclasses import dataclass

import numpy as np

from ..._types import Array, IntArray
from .. import Inputs

_FEW = 8  # levels that get an indicator each
FOLDS = 5


@dataclass(frozen=True)
class LevelValues:
    """Numbers for every level (L, r), and for one that was not seen (r,)."""

    values: Array
    unseen: Array

    def numbers(self, codes: Array) -> Array:
        at = codes.astype(np.intp)
        known = (at >= 0) & (at < len(self.values))
        return np.where(known[:, None], self.values[np.where(known, at, 0)], self.unseen)


@dataclass(frozen=True)
class LevelNumbers:
    """The numbers of every input that is a level, and what the inputs were. `crossed` says that some of them were means
    of other rows in training."""

    inputs: Inputs
    encoders: tuple[LevelValues, ...]
    crossed: bool

    def numbers(self, X: Array) -> Array:
        """Inputs of a later table."""
        levels = np.flatnonzero(self.inputs.levels)
        own = [e.numbers(X[:, j]) for j, e in zip(levels, self.encoders, strict=True)]
        return np.hstack([X[:, ~self.inputs.levels], *own])

    @property
    def owners(self) -> IntArray:
        """The columns that the numbers belong to."""
        levels = self.inputs.owners[self.inputs.levels]
        own = [np.repeat(j, len(e.unseen)) for j, e in zip(levels, self.encoders, strict=True)]
        return np.concatenate([self.inputs.owners[~self.inputs.levels], *own])


def is_few(n_levels: int) -> bool:
    """Whether levels get an indicator each."""
    return n_levels <= _FEW


def indicators(n_levels: int) -> LevelValues:
    return LevelValues(np.eye(n_levels), np.zeros(n_levels))


def fit_numbers(
    X: Array, Y: Array, inputs: Inputs, weights: Array | None, rng: np.random.Generator
) -> tuple[LevelNumbers, Array]:
    """The numbers of levels, and the inputs of the rows of the fit."""
    w = np.ones(len(X)) if weights is None else weights
    fold, encoders, own, crossed = rng.permutation(len(X)) % FOLDS, [], [], False
    for j in np.flatnonzero(inputs.levels):
        codes, n_levels = X[:, j], int(X[:, j].max(initial=0)) + 1
        if is_few(n_levels) or (w > 0).sum() < 2 * FOLDS:
            encoders.append(indicators(n_levels))
            own.append(encoders[-1].numbers(codes))
            continue
        crossed = True
        encoders.append(_means(codes, Y, w, n_levels))
        column = np.zeros((len(X), Y.shape[1]))
        for k in range(FOLDS):
            others = np.where(fold == k, 0.0, w)
            column[fold == k] = _means(codes, Y, others, n_levels).numbers(codes[fold == k])
        own.append(column)
    return LevelNumbers(inputs, tuple(encoders), crossed), np.hstack([X[:, ~inputs.levels], *own])


def _means(codes: Array, Y: Array, weights: Array, n_levels: int) -> LevelValues:
    """The mean of every output at every level, drawn to the mean of all rows."""
    known = codes >= 0
    total = float(weights[known].sum())
    centre = weights[known] @ Y[known] / (total or 1.0)  # no digits are lost to it
    sums = level_sums(codes[known], (Y - centre)[known], weights[known], n_levels)
    values = drawn_means(*sums, float(weights[known].max(initial=0.0)))
    return LevelValues(values.values + centre, values.unseen + centre)


def level_sums(codes: Array, Y: Array, weights: Array, n_levels: int) -> tuple[Array, Array, Array]:
    """The weight of every level (L,), the sums of w y there (L, k), and of w y^2 over all (k,): they add up."""
    at = codes.astype(np.intp)
    sums = [np.bincount(at, weights * y, n_levels) for y in Y.T]
    mass: Array = np.bincount(at, weights, n_levels).astype(np.float64)
    return mass, np.stack(sums, axis=1), weights @ Y**2


def drawn_means(mass: Array, sums: Array, squares: Array, largest: float) -> LevelValues:
    """Means of levels, drawn to that of all by the variances within and between levels; `largest` is the largest weight
    of a row."""
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
