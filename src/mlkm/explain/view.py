"""A fit as this room sees it, and the rows over which it is averaged."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np

from .._types import Array, IntArray
from ..data import Rows, blocks
from ..data.tables.columns import Column
from ..runtime.checks import brief
from ..variance import AnyVariance
from .knots import Lines, lines_of

_TOGETHER = 2**15  # rows that are predicted in one go
_ENTRIES = 2**24  # features to be computed for the values of one effect, roughly
_ROWS = (2400, 9600)  # predictions for the values of one effect: at least and at most, roughly
_FEW = 8  # levels whose shares in the background are made those of all rows


@dataclass(frozen=True)
class Background:
    """Rows (m, p) for all columns that are not looked at, with weights that sum to one."""

    X: Array
    weights: Array

    def moved(self, inputs: IntArray, points: Array) -> Array:
        """The rows with some inputs at each of the points in turn: (points times m, p)."""
        X = np.tile(self.X, (len(points), 1))
        X[:, inputs] = np.repeat(points, len(self.X), axis=0)
        return X


@dataclass(frozen=True)
class View:
    """Predictions (n, k) in units of y at standardised inputs, the training rows, the columns of the table and the
    inputs that each of them has, the variance estimator in units of the outputs, and how many features a prediction
    takes."""

    predict: Callable[[Array], Array]
    rows: Rows
    columns: Sequence[Column]
    names: Sequence[str]
    owners: IntArray
    variance: Callable[[], AnyVariance]
    unit: Array
    width: int
    memory: dict[Any, Any] = field(default_factory=dict)

    def inputs(self, j: int) -> IntArray:
        """Those of a column."""
        return np.flatnonzero(self.owners == j)

    def lines(self, j: int, X: Array, most: int, most_places: int) -> Lines:
        """Where a column is looked at, as far as the rows X ask for."""
        at, kinds = self.inputs(j), self.rows.inputs
        return lines_of(self.columns[j], self.rows.X[:, at], X[:, at], most, most_places, not kinds.levels[at].any())

    def place(self, j: Any) -> int:
        """The place of a column given by its place or its name."""
        d = len(self.columns)
        if isinstance(j, str) and j in self.names:
            return list(self.names).index(j)
        if isinstance(j, Integral) and not isinstance(j, (bool, np.bool_)) and -d <= int(j) < d:
            return int(j) % d
        known = ", ".join(map(repr, self.names[:8])) + ", ..." * (d > 8)
        raise ValueError(f"A column must be a place from 0 to {d - 1} or one of the names {known}; got {brief(j)}.")

    @cached_property
    def shares(self) -> Array:
        """Of the training rows: their weights, with sum one."""
        return np.asarray(self.rows.weights / self.rows.weights.sum())

    @property
    def affordable(self) -> int:
        """Predictions for the values of one effect: the more, the cheaper they are."""
        return int(np.clip(_ENTRIES // max(self.width, 1), *_ROWS))

    def mean(self, background: Background, inputs: IntArray, points: Array) -> Array:
        """The mean prediction over the background with some inputs at each of the points, (points, k)."""
        m = len(background.X)
        parts = []
        for at in blocks(len(points), max(1, _TOGETHER // m)):
            f = self.predict(background.moved(inputs, points[at]))
            parts.append(np.einsum("gmk,m->gk", f.reshape(-1, m, f.shape[1]), background.weights))
        return np.concatenate(parts)

    def background(self, m: int) -> Background:
        """The first m of the training rows, which are in an order by hashes of their content, so that they are as good
        as drawn; weights are moved as little as need be for means of inputs to be those of all rows.

        With x_b what is to have the means t, in units of its spread, and u_b the weights of the rows,
        w_b = u_b (1 + (x_b - x)' (V + r I)^{-1} (t - x)), with x and V mean and covariance under u: calibration, as in
        the analysis of surveys. r = (number of means) / m keeps many means from bending the weights.
        """
        if m not in self.memory:
            rows, n = self.rows, min(m, len(self.rows))
            u = self.shares[:n] / self.shares[:n].sum()
            told = _told(rows)
            centred = told[:n] - u @ told[:n]
            V = centred.T @ (u[:, None] * centred)
            V[np.diag_indices(len(V))] += told.shape[1] / n + 1e-12
            moved = 1 + centred @ np.linalg.solve(V, self.shares @ told - u @ told[:n])
            weights = u * np.clip(moved, 0.1, 10) if n < len(rows) else u
            self.memory[m] = Background(rows.X[:n], weights / weights.sum())
        found: Background = self.memory[m]
        return found


def _told(rows: Rows) -> Array:
    """What the background's means of are to be right: numbers, and indicators of levels where they are few."""
    parts = [rows.X[:, rows.inputs.numbers]]
    for code in rows.X[:, rows.inputs.levels].T:
        levels = np.unique(code)
        if len(levels) <= _FEW:
            parts.append((code[:, None] == levels[1:]).astype(np.float64))
    return np.hstack(parts)
