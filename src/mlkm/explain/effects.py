"""Effects of columns: partial dependence, with bands.

Main effect of column j, with b the background and w_b its weights:

    f_j(x_j) = sum_b w_b f(x_j, b_{-j}) - a_j,    a_j such that the mean of f_j over the training rows is 0.

Effect of a pair, what is left of both columns together beyond the sum of two curves: with
f_ij(x_i, x_j) = sum_b w_b f(x_i, x_j, b_{-ij}),

    f_ij less its mean over the training values of x_i, and less that over those of x_j, and less a constant such that
    its mean over the training rows is 0.

Both are linear in f, so that the posterior of f gives their standard deviations. The bands are for these effects, not
for y: there is no noise in them. They hold as far as the posterior is right: features, scales and penalties are taken
as known. The background of the bands is smaller than that of the values, which makes them a little wider.

The posterior of a linear functional of f is normal: a band is values +- z sd at one place. With C the covariance at all
places, the factor for a simultaneous band is the quantile of max |u| / sd for u ~ N(0, C), by simulation.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from statistics import NormalDist

import numpy as np

from .._types import Array, IntArray
from ..data import blocks
from ..data.tables.cells import Table
from ..runtime.checks import number
from ..runtime.resources import Purpose, generator
from ..solve.smoother import Functionals
from .partial_dependence import DETAIL, Knots, PartialDependence


@dataclass(frozen=True)
class Grid:
    """All combinations of the knots of one column or of a pair; those of the last column change fastest."""

    dependence: PartialDependence
    columns: tuple[int, ...]
    knots: tuple[Knots, ...]

    def __post_init__(self) -> None:
        """Refuse a grid of a pair with too many cells."""
        if len(self.knots) > 1 and prod(map(len, self.knots)) > DETAIL.cells:
            first, second = (repr(self.dependence.names[j]) for j in self.columns)
            raise ValueError(
                f"The effect of a pair is found on at most {DETAIL.cells} pairs of values; columns {first} and"
                f" {second} have {' times '.join(str(len(knots)) for knots in self.knots)}: merge rare levels."
            )

    @property
    def inputs(self) -> IntArray:
        """Return the places of the inputs that move."""
        return np.concatenate([self.dependence.inputs(j) for j in self.columns])

    @property
    def points(self) -> Array:
        """Return the combinations of knots, (cells, inputs)."""
        cells = np.indices([len(knots) for knots in self.knots]).reshape(len(self.knots), -1)
        return np.hstack([knots.points[at] for knots, at in zip(self.knots, cells, strict=True)])

    def thinned(self, most: int) -> "Grid":
        """Return a coarser grid, with at most so many knots on every line."""
        return replace(self, knots=tuple(knots.thinned(most) for knots in self.knots))

    def mean(self, predictions: int) -> Array:
        """Return the mean prediction (cells, k) over a background of as many rows as so many predictions allow."""
        points = self.points
        background = self.dependence.background(int(np.clip(predictions // len(points), *DETAIL.background)))
        return self.dependence.mean(background, self.inputs, points)

    def centred(self, f: Array) -> Array:
        """Subtract from f (cells, k), for a pair, its means along either column, and then its mean over the training
        rows."""
        F = f.reshape(*map(len, self.knots), -1)
        for axis in range(len(self.knots) if len(self.knots) > 1 else 0):
            along = Grid(self.dependence, self.columns[axis : axis + 1], self.knots[axis : axis + 1])
            F = F - np.expand_dims(np.tensordot(along.masses(), F, axes=(0, axis)), axis)
        pure = F.reshape(f.shape)
        return np.asarray(pure - self.masses() @ pure)

    def masses(self) -> Array:
        """Return the weight of each cell, if the share of each training row is divided between the cells about it."""
        rows, shares = self.dependence.rows.X, self.dependence.shares
        size = prod(map(len, self.knots))
        return np.asarray(sum(np.bincount(cell, shares * w, size) for cell, w in self._corners(rows)))

    def linear(self, values: Array, X: Array) -> Array:
        """Interpolate values (cells, k) at rows of inputs, linearly along each column."""
        return np.asarray(sum(values[cell] * w[:, None] for cell, w in self._corners(X)))

    def smooth(self, sd: Array, X: Array) -> Array:
        """Interpolate standard deviations (cells, k): along one column by a smooth curve, nowhere below the least."""
        if len(self.knots) > 1:
            return self.linear(sd, X)
        return np.asarray(np.maximum(self.knots[0].curve(sd, X[:, self.inputs]), sd.min(axis=0)))

    def _corners(self, X: Array) -> list[tuple[IntArray, Array]]:
        """Return the cells about every row, each with its weights in linear interpolation along each column."""
        corners = [(np.zeros(len(X), np.intp), np.ones(len(X)))]
        for j, knots in zip(self.columns, self.knots, strict=True):
            low, high, t = knots.between(X[:, self.dependence.inputs(j)])
            sides = ((low, 1 - t), (high, t))
            corners = [(cell * len(knots) + at, v * w) for cell, v in corners for at, w in sides]
        return corners


def simultaneous_factor(covariance: Array, level: float) -> float:
    """Return the factor of standard deviations for a band that holds all places at once with probability `level`."""
    one = NormalDist().inv_cdf((1 + level) / 2)
    sd = np.sqrt(np.maximum(np.diag(covariance), 0))
    positive = sd > 1e-9 * sd.max(initial=0)
    if not positive.any():
        return one
    values, V = np.linalg.eigh(covariance[np.ix_(positive, positive)] / np.outer(sd[positive], sd[positive]))
    used = values > 1e-8 * values[-1]
    draws = generator(0, Purpose.EFFECTS).standard_normal((DETAIL.draws, int(used.sum())))
    largest = np.abs(draws @ (V[:, used] * np.sqrt(values[used])).T).max(axis=1)
    return max(one, float(np.quantile(largest, level, method="higher")))


@dataclass(frozen=True)
class Effect:
    """An effect at the rows of X, in units of y.

    `values` is (n,), or (n, k) for several outputs, and `columns` are the places of its columns. Its posterior is
    computed on a coarse grid, at the first use of a band.
    """

    values: Array
    columns: tuple[int, ...]
    _grid: Grid
    _X: Array
    _level: float

    @cached_property
    def std(self) -> Array:
        """Return the standard deviation of the effect at every row, in the shape of `values`."""
        return self._grid.smooth(self._posterior[0], self._X).reshape(self.values.shape)

    @property
    def band(self) -> tuple[Array, Array]:
        """Return (lower, upper), each in the shape of `values`, which hold at each row with the confidence level."""
        return self._band(NormalDist().inv_cdf((1 + self._level) / 2))

    @property
    def band_simultaneous(self) -> tuple[Array, Array]:
        """Return (lower, upper), which hold at all rows at once with the confidence level."""
        return self._band(self._posterior[1])

    def _band(self, factor: float | Array) -> tuple[Array, Array]:
        return self.values - factor * self.std, self.values + factor * self.std

    @cached_property
    def _posterior(self) -> tuple[Array, Array]:
        """Return standard deviations at the knots (G, k) and the factor for all knots at once (k,).

        Covariances are computed for some knots at a time. Knots that are not in one piece count as independent, which
        makes the factor no smaller.
        """
        dependence, points = self._grid.dependence, self._grid.points
        background = dependence.background(int(np.clip(DETAIL.band_rows // len(points), *DETAIL.band_background)))
        X, weights = background.moved(self._grid.inputs, points), np.tile(background.weights, (len(points), 1))
        T = self._grid.centred(np.eye(len(points)))
        pieces = list(blocks(len(T), DETAIL.covariance_rows))
        sds, largest = [], []
        for at in pieces:
            covariances = dependence.uncertainty.covariance(Functionals(X, weights, T[at]))
            sd = np.sqrt(np.maximum(np.einsum("kcc->ck", covariances), 0))
            sds.append(DETAIL.learned * sd * dependence.preparation.y_scaler.sd)
            largest.append([simultaneous_factor(each, self._level ** (1 / len(pieces))) for each in covariances])
        return np.concatenate(sds), np.max(largest, axis=0)


class Effects:
    """Effects of the columns of a table at the rows of X, as `model.effects(X)` returns them.

    Examples
    --------
    >>> from mlkm import RandomFeatureRidge
    >>> from mlkm.datasets import make_example1
    >>> X, y, f = make_example1(n=200, d=4, random_state=0)
    >>> effects = RandomFeatureRidge(50, random_state=0).fit(X, y).effects(X[:5])
    >>> effects.names, effects.main("x1").values.shape, effects.pair(0, 1).band[0].shape
    (['x0', 'x1', 'x2', 'x3'], (5,), (5,))
    """

    def __init__(
        self, dependence: PartialDependence, X: Array, table: Table, single: bool, confidence_level: float
    ) -> None:
        self.confidence_level = number("confidence_level", confidence_level, above=0, below=1)
        self.names = list(dependence.names)
        self.table = table
        self._dependence, self._X, self._single = dependence, X, single
        self._computed: dict[tuple[int, ...], Effect] = {}

    def main(self, j: int | str) -> Effect:
        """Return the effect of one column alone, whose mean over the training rows is 0.

        Parameters
        ----------
        j : the place or the name of the column
        """
        return self._effect((self._dependence.place(j),))

    def pair(self, i: int | str, j: int | str) -> Effect:
        """Return what two columns do together beyond the sum of what each does alone.

        Parameters
        ----------
        i, j : the places or the names of two columns
        """
        a, b = self._dependence.place(i), self._dependence.place(j)
        if a == b:
            raise ValueError(f"A pair must be two columns; got {self.names[a]!r} twice.")
        return self._effect((min(a, b), max(a, b)))

    def is_category(self, j: int | str) -> bool:
        """Return whether a column has levels, rather than numbers or dates.

        Parameters
        ----------
        j : the place or the name of the column
        """
        return self._dependence.columns[self._dependence.place(j)].kind == "category"

    def _effect(self, columns: tuple[int, ...]) -> Effect:
        """Return the effect of one or two columns, with a coarser grid for its band."""
        if columns not in self._computed:
            dependence, X, most = self._dependence, self._X, DETAIL.coarse_knots
            places = DETAIL.places[len(columns) - 1]
            grid = Grid(dependence, columns, tuple(dependence.knots(j, X, DETAIL.knots, places) for j in columns))
            if len(columns) == 1:
                values, coarse = main_effect(grid, dependence.affordable, X), grid.thinned(most)
            else:
                grid = grid.thinned(most)
                values = grid.linear(grid.centred(grid.mean(dependence.affordable)), X)
                coarse = grid.thinned(most // 2)
            shaped = values[:, 0] if self._single else values
            self._computed[columns] = Effect(shaped, columns, coarse, X, self.confidence_level)
        return self._computed[columns]


def main_effect(grid: Grid, predictions: int, X: Array) -> Array:
    """Return the main effect of a column at rows of inputs, (n, k), from roughly so many predictions."""
    (knots,), dependence, f = grid.knots, grid.dependence, grid.mean(predictions)
    centre = dependence.shares @ knots.curve(f, dependence.rows.X[:, grid.inputs])
    return knots.curve(f, X[:, grid.inputs]) - centre
