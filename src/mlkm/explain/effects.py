"""Effects of columns: partial dependence, with bands.

Main effect of column j, with b the background and w_b its weights:

    f_j(x_j) = sum_b w_b f(x_j, b_{-j}) - a_j,    a_j such that the mean of f_j over the training rows is 0.

Effect of a pair, what is left of both columns together beyond the sum of two curves: with
f_ij(x_i, x_j) = sum_b w_b f(x_i, x_j, b_{-ij}),

    f_ij less its mean over the training values of x_i, and less that over those of x_j, and less a constant such that
    its mean over the training rows is 0.

Both are linear in f, so f's posterior says how sure they are. The bands are for these effects, not for y: there is no
noise in them. They hold as far as the posterior is right: features, scales and penalties are taken as known. The
background of the bands is smaller than that of the values, which makes them a little wider.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .._types import Array, IntArray
from ..data import blocks
from ..data.tables.columns import CategoryColumn
from ..data.tables.frames import Table
from ..runtime.checks import number
from ..variance import Functionals
from .bands import deviations, factors
from .knots import Lines
from .view import Background, View

_BACKGROUND, _BAND_BACKGROUND = 256, 32  # rows over which values are averaged, and for bands, at most
_KNOTS = 36  # along a number
_PLACES, _FEWER_PLACES = 300, 100  # of dates, alone and in a pair
_COARSE = 16  # knots along a number for a band or a pair
_BAND_ROWS = 500  # predictions for the bands of one effect, roughly
_LEARNED = 1.3  # by how much deviations are larger since scales are learned: benchmarks/effect_bands.py
_CELLS = 20_000  # of the grid of a pair
_PIECE = 400  # places whose covariance is looked at together


@dataclass(frozen=True)
class Effect:
    """An effect at the rows of X, in units of y: `values` (n,), or (n, k) of several outputs; `band` and
    `band_simultaneous` are pairs (lower, upper) of the same shape. The first is right at each row with the confidence
    asked for, the second at all of them at once."""

    values: Array
    _deviations: Callable[[], tuple[Array, Array, Array]]
    columns: tuple[int, ...]

    @cached_property
    def _sized(self) -> tuple[Array, Array, Array]:
        return self._deviations()

    @property
    def std(self) -> Array:
        """The standard deviation of the effect at every row."""
        return self._sized[0]

    @property
    def band(self) -> tuple[Array, Array]:
        std, one, _ = self._sized
        return self.values - one * std, self.values + one * std

    @property
    def band_simultaneous(self) -> tuple[Array, Array]:
        std, _, all_at_once = self._sized
        return self.values - all_at_once * std, self.values + all_at_once * std


class Effects:
    """Effects of the columns of a table at some rows: `main(j)` and `pair(i, j)`, with j a place or a name."""

    def __init__(self, view: View, X: Array, table: Table, single: bool, confidence_level: float) -> None:
        self.confidence_level = number("confidence_level", confidence_level, above=0, below=1)
        self.names = list(view.names)
        self.table = table
        self._view, self._X, self._single = view, X, single
        self._known: dict[tuple[int, ...], Effect] = {}

    def main(self, j: int | str) -> Effect:
        """The effect of one column on its own, its mean over the training rows being 0."""
        place = self._view.place(j)
        if (place,) not in self._known:
            self._known[(place,)] = self._main(place)
        return self._known[(place,)]

    def pair(self, i: int | str, j: int | str) -> Effect:
        """What two columns do together beyond the sum of what each does on its own."""
        a, b = self._view.place(i), self._view.place(j)
        if a == b:
            raise ValueError(f"A pair must be two columns; got {self.names[a]!r} twice.")
        key = (min(a, b), max(a, b))
        if key not in self._known:
            self._known[key] = self._pair(*key)
        return self._known[key]

    def is_category(self, j: int | str) -> bool:
        """Whether a column has levels, rather than numbers or dates."""
        return isinstance(self._view.columns[self._view.place(j)], CategoryColumn)

    def _main(self, j: int) -> Effect:
        lines, at = self._view.lines(j, self._X, _KNOTS, _PLACES), self._view.inputs(j)
        curve = main_curve(self._view, j, lines, self._view.affordable)
        return Effect(self._shaped(curve(self._X[:, at])), lambda: self._main_sizes(j, lines.thinned(_COARSE)), (j,))

    def _main_sizes(self, j: int, lines: Lines) -> tuple[Array, Array, Array]:
        view, at = self._view, self._view.inputs(j)
        masses = lines.masses(view.rows.X[:, at], view.shares)
        T = np.eye(len(lines)) - masses
        sd, all_at_once = self._sizes(at, lines.points, T)
        return self._sized(np.maximum(lines.curve(sd, self._X[:, at]), sd.min(axis=0)), all_at_once)

    def _pair(self, i: int, j: int) -> Effect:
        view, X = self._view, self._X
        first, second = (view.lines(column, X, _KNOTS, _FEWER_PLACES).thinned(_COARSE) for column in (i, j))
        both = Grid.of(view, i, j, first, second)
        background = view.background(int(np.clip(view.affordable // len(both.points), 10, _BACKGROUND)))
        f = view.mean(background, both.inputs, both.points)
        return Effect(self._shaped(both.at(both.pure(f), X)), lambda: self._pair_sizes(both), (i, j))

    def _pair_sizes(self, both: "Grid") -> tuple[Array, Array, Array]:
        few = Grid.of(self._view, both.i, both.j, both.first.thinned(_COARSE // 2), both.second.thinned(_COARSE // 2))
        sd, all_at_once = self._sizes(few.inputs, few.points, few.pure(np.eye(len(few.points))))
        return self._sized(few.at(sd, self._X), all_at_once)

    def _sizes(self, inputs: IntArray, points: Array, T: Array) -> tuple[Array, Array]:
        """The standard deviation of T times the means over the background at points, (rows of T, k), and the factor for
        all of them at once, (k,). Covariances are looked at in pieces: places of different pieces count as
        independent, which makes the factor no smaller."""
        view, level = self._view, self.confidence_level
        background = view.background(int(np.clip(_BAND_ROWS // len(points), 8, _BAND_BACKGROUND)))
        X, weights = background.moved(inputs, points), np.tile(background.weights, (len(points), 1))
        pieces = list(blocks(len(T), _PIECE))
        sds, found = [], []
        for at in pieces:
            covariances = view.variance().covariance(Functionals(X, weights, T[at]))
            sds.append(_LEARNED * deviations(covariances) * view.unit)
            found.append([factors(own, level ** (1 / len(pieces)))[1] for own in covariances])
        return np.concatenate(sds), np.max(found, axis=0)

    def _sized(self, sd: Array, all_at_once: Array) -> tuple[Array, Array, Array]:
        one = factors(np.zeros((0, 0)), self.confidence_level)[0]
        return self._shaped(sd), np.asarray(one), all_at_once[0] if self._single else all_at_once

    def _shaped(self, values: Array) -> Array:
        return values[:, 0] if self._single else values


def main_curve(view: View, j: int, lines: Lines, rows: int) -> Callable[[Array], Array]:
    """The main effect of a column as a function of its inputs (n, q), from at most so many predictions, roughly."""
    at = view.inputs(j)
    background: Background = view.background(int(np.clip(rows // len(lines), 10, _BACKGROUND)))
    f = view.mean(background, at, lines.points)
    centre = view.shares @ lines.curve(f, view.rows.X[:, at])
    return lambda X: lines.curve(f, X) - centre


@dataclass(frozen=True)
class Grid:
    """All pairs of knots of two columns, the second's following each other; what each counts for in training."""

    i: int
    j: int
    first: Lines
    second: Lines
    masses: tuple[Array, Array]
    together: Array
    columns: tuple[IntArray, IntArray]

    @classmethod
    def of(cls, view: View, i: int, j: int, first: Lines, second: Lines) -> "Grid":
        if len(first) * len(second) > _CELLS:
            raise ValueError(
                f"The effect of a pair is found on at most {_CELLS} pairs of values; columns {view.names[i]!r} and "
                f"{view.names[j]!r} have {len(first)} times {len(second)}: merge rare levels."
            )
        columns = view.inputs(i), view.inputs(j)
        A, B = (view.rows.X[:, at] for at in columns)
        together = _corners(first, second, A, B)
        joint = sum(np.bincount(cell, view.shares * w, len(first) * len(second)) for cell, w in together)
        masses = first.masses(A, view.shares), second.masses(B, view.shares)
        return cls(i, j, first, second, masses, np.asarray(joint), columns)

    @property
    def inputs(self) -> IntArray:
        return np.concatenate(self.columns)

    @cached_property
    def points(self) -> Array:
        G, H = len(self.first), len(self.second)
        return np.hstack([np.repeat(self.first.points, H, axis=0), np.tile(self.second.points, (G, 1))])

    def pure(self, f: Array) -> Array:
        """f (cells, k) less its means along either column, and then less its mean over the training rows."""
        F = f.reshape(len(self.first), len(self.second), -1)
        F = F - np.tensordot(self.masses[0], F, axes=1)
        F = F - np.einsum("h,ghk->gk", self.masses[1], F)[:, None]
        pure = F.reshape(f.shape)
        return np.asarray(pure - self.together @ pure)

    def at(self, values: Array, X: Array) -> Array:
        """Values (cells, k) at rows of inputs: linear along each column."""
        A, B = (X[:, at] for at in self.columns)
        return np.asarray(sum(values[cell] * w[:, None] for cell, w in _corners(self.first, self.second, A, B)))


def _corners(first: Lines, second: Lines, A: Array, B: Array) -> list[tuple[IntArray, Array]]:
    """The four cells about every row, and what each counts for."""
    (low, high, s), (down, up, t) = first.between(A), second.between(B)
    H = len(second)
    return [
        (low * H + down, (1 - s) * (1 - t)),
        (low * H + up, (1 - s) * t),
        (high * H + down, s * (1 - t)),
        (high * H + up, s * t),
    ]
