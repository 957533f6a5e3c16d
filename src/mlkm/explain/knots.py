"""Where the effect of a column is computed, and how it goes on from there.

Along a number: at all its training values where they are few, else at quantiles of them and at places evenly spaced
over their range. Beyond the range at distances from it that double, as far as they are asked for. A missing number is a
place of its own, and so are levels and dates. Between dates, where they are very many, a function of their inputs (the
trend and the circles) that is linear in distances goes through those that were looked at.
"""

from dataclasses import dataclass

import numpy as np
from scipy.interpolate import Akima1DInterpolator, RBFInterpolator
from scipy.spatial.distance import cdist

from .._types import Array, IntArray
from ..data import blocks, tie_numbers
from ..data.tables.columns import CategoryColumn, Column, NumberColumn

_FEW = 12  # training values of a number at each of which it is looked at, and nowhere else
_DIGITS = 9  # to which inputs are told apart: coordinates of texts are right up to rounding
_FIRST_BEYOND = 0.125  # ranges beyond the training values


@dataclass(frozen=True)
class Lines:
    """Lines `begins[l] .. begins[l + 1]` of knots: their places along the line, increasing, and what all inputs but the
    one along the line are on each of them. A single place is a line of one knot. `points` (G, q) are the knots."""

    points: Array
    begins: IntArray
    others: Array
    along: bool
    sparse: bool = False  # whether there are places between these, of which none was looked at

    def __len__(self) -> int:
        return len(self.points)

    def line(self, l: int) -> slice:
        return slice(int(self.begins[l]), int(self.begins[l + 1]))

    def _on(self, X: Array) -> IntArray:
        """The line of every row, the nearest where there is none."""
        own, first, place = _distinct(X[:, 1:] if self.along else X)
        known = {row.tobytes(): l for l, row in enumerate(_key(self.others))}
        found = np.array([known.get(row.tobytes(), -1) for row in own], np.intp)
        lost = np.flatnonzero(found < 0)
        rest = (X[:, 1:] if self.along else X)[first[lost]]
        for at in blocks(len(lost), 1000):
            found[lost[at]] = cdist(rest[at], self.others).argmin(axis=1)
        return np.asarray(found[place])

    def between(self, X: Array) -> tuple[IntArray, IntArray, Array]:
        """Of every row of inputs (n, q) the two knots beside it and how far it is on the way to the second: linear, and
        constant beyond the ends."""
        line = self._on(X)
        low, high, share = self.begins[line].copy(), self.begins[line].copy(), np.zeros(len(X))
        for l in np.flatnonzero(np.diff(self.begins) > 1).tolist():
            rows, x = np.flatnonzero(line == l), self.points[self.line(l), 0]
            at = np.clip(np.searchsorted(x, X[rows, 0], side="right") - 1, 0, len(x) - 2)
            low[rows], high[rows] = self.begins[l] + at, self.begins[l] + at + 1
            share[rows] = np.clip((X[rows, 0] - x[at]) / (x[at + 1] - x[at]), 0, 1)
        return low, high, share

    def masses(self, X: Array, shares: Array) -> Array:
        """What every knot counts for, were each row's share given to the knots beside it."""
        low, high, t = self.between(X)
        both = np.bincount(low, shares * (1 - t), len(self)) + np.bincount(high, shares * t, len(self))
        return np.asarray(both)

    def at(self, values: Array, X: Array) -> Array:
        """Values (G, k) at the knots, at the rows of X: linear between knots."""
        low, high, t = self.between(X)
        return np.asarray(values[low] + t[:, None] * (values[high] - values[low]))

    def curve(self, values: Array, X: Array) -> Array:
        """The same, along numbers by Akima's curve through the knots, which is smooth and has no ripples."""
        if self.sparse:
            return np.asarray(RBFInterpolator(self.points, values, kernel="linear")(X))
        result, line = self.at(values, X), self._on(X)
        for l in np.flatnonzero(np.diff(self.begins) > 4).tolist():
            rows, at = np.flatnonzero(line == l), self.line(l)
            x = self.points[at, 0]
            result[rows] = Akima1DInterpolator(x, values[at], axis=0)(np.clip(X[rows, 0], x[0], x[-1]))
        return result

    def thinned(self, most: int) -> "Lines":
        """With at most so many knots on a line, both ends among them."""
        kept = [
            at.start + np.unique(np.linspace(0, at.stop - at.start - 1, most).round().astype(np.intp))
            for at in map(self.line, range(len(self.others)))
        ]
        begins = np.concatenate([[0], np.cumsum([len(own) for own in kept])]).astype(np.intp)
        return Lines(self.points[np.concatenate(kept)], begins, self.others, self.along, self.sparse)


def lines_of(column: Column, rows: Array, X: Array, most: int, most_places: int, numbers: bool = False) -> Lines:
    """For a column with inputs `rows` (n, q) in training, and as far as the rows X ask for. `numbers` says that its
    levels were made numbers, which differ between training rows of one level where they are means of other rows."""
    one_number = isinstance(column, CategoryColumn) and numbers and rows.shape[1] == 1
    if isinstance(column, NumberColumn) or one_number:
        return _along(rows, X, most)
    if isinstance(column, CategoryColumn) and not numbers:
        return _places(np.vstack([rows, X]))
    return _places(np.vstack([rows, X]), most_places)


def _along(rows: Array, X: Array, most: int) -> Lines:
    both = np.vstack([rows, X])
    _, first, place = _distinct(both[:, 1:])
    lines = []
    for l in range(len(first)):
        x, later = rows[place[: len(rows)] == l, 0], X[place[len(rows) :] == l, 0]
        lines.append(_with_beyond(knots_of(x if len(x) else later, most), later))
    others = both[first, 1:]
    sizes = [len(line) for line in lines]
    points = np.hstack([np.concatenate(lines)[:, None], np.repeat(others, sizes, axis=0)])
    return Lines(points, np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp), others, along=True)


def knots_of(x: Array, most: int) -> Array:
    """All values where they are few, or two thirds quantiles and one third places evenly spaced over the range."""
    values = x[np.unique(tie_numbers(x), return_index=True)[1]]
    if len(values) <= _FEW:
        return values
    third = most // 3
    if len(values) > most - third:
        values = np.unique(np.quantile(x, np.linspace(0, 1, most - third), method="nearest"))
    every = np.linspace(values[0], values[-1], third + 2)[1:-1]
    near = np.abs(every[:, None] - values).min(axis=1) < 0.2 * (values[-1] - values[0]) / most
    return np.sort(np.concatenate([values, every[~near]]))


def _with_beyond(knots: Array, later: Array) -> Array:
    """Further places on either side, no more than are asked for; the same ones whatever else is asked for."""
    span = float(knots[-1] - knots[0]) or 1.0
    reach = (knots[0] - later.min(initial=knots[0]), later.max(initial=knots[-1]) - knots[-1])
    below, above = (_doubling(_FIRST_BEYOND * span, float(far)) for far in reach)
    return np.concatenate([knots[0] - below[::-1], knots, knots[-1] + above])


def _doubling(first: float, far: float) -> Array:
    """first, 2 first, 4 first, ... up to the first that is no less than `far`; none where it is 0."""
    if far <= 0:
        return np.zeros(0)
    return np.asarray(first * 2.0 ** np.arange(max(0, int(np.ceil(np.log2(far / first)))) + 1))


def _places(X: Array, most: int | None = None) -> Lines:
    """The distinct ones, or so many of them, evenly along their order."""
    points = X[_distinct(X)[1]]
    if most is None or len(points) <= most:
        return Lines(points, np.arange(len(points) + 1), points, along=False)
    points = points[np.linspace(0, len(points) - 1, most).round().astype(np.intp)]
    return Lines(points, np.arange(len(points) + 1), points, along=False, sparse=True)


def _key(X: Array) -> Array:
    return np.ascontiguousarray(np.round(X, _DIGITS)) + 0.0  # + 0.0 makes one of the two zeros


def _distinct(X: Array) -> tuple[Array, IntArray, IntArray]:
    """Distinct rows, sorted, the first row of each kind, and the kind of every row."""
    if X.shape[1] == 0:
        return np.zeros((1, 0)), np.zeros(1, np.intp), np.zeros(len(X), np.intp)
    own, first, place = np.unique(_key(X), axis=0, return_index=True, return_inverse=True)
    return own, first, place.reshape(-1)
