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

from dataclasses import dataclass
from functools import cached_property
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
class CurveGrid:
    """The knots of one column."""

    dependence: PartialDependence
    j: int
    knots: Knots

    @property
    def inputs(self) -> IntArray:
        """Return the places of the inputs that move."""
        return self.dependence.inputs(self.j)

    @property
    def points(self) -> Array:
        """Return the knots, (G, inputs)."""
        return self.knots.points

    def centred(self, F: Array) -> Array:
        """Subtract the mean over the training rows from values (G, k) at the knots."""
        rows = self.dependence.rows.X[:, self.inputs]
        return np.asarray(F - self.knots.masses(rows, self.dependence.shares) @ F)

    def interpolated(self, sd: Array, X: Array) -> Array:
        """Return standard deviations (G, k) at rows of inputs: along a smooth curve, and nowhere below the least."""
        return np.asarray(np.maximum(self.knots.curve(sd, X[:, self.inputs]), sd.min(axis=0)))


@dataclass(frozen=True)
class PairGrid:
    """All pairs of knots of two columns; those of the second change faster."""

    dependence: PartialDependence
    i: int
    j: int
    first: Knots
    second: Knots

    def __post_init__(self) -> None:
        """Refuse a grid with too many cells."""
        if len(self.first) * len(self.second) > DETAIL.cells:
            names = self.dependence.names
            raise ValueError(
                f"The effect of a pair is found on at most {DETAIL.cells} pairs of values; columns {names[self.i]!r}"
                f" and {names[self.j]!r} have {len(self.first)} times {len(self.second)}: merge rare levels."
            )

    @property
    def inputs(self) -> IntArray:
        """Return the places of the inputs that move."""
        return np.concatenate([self.dependence.inputs(self.i), self.dependence.inputs(self.j)])

    @property
    def points(self) -> Array:
        """Return the pairs of knots, (cells, inputs)."""
        G, H = len(self.first), len(self.second)
        return np.hstack([np.repeat(self.first.points, H, axis=0), np.tile(self.second.points, (G, 1))])

    def centred(self, f: Array) -> Array:
        """Subtract from f (cells, k) its means along either column, and then its mean over the training rows."""
        rows, shares = self.dependence.rows.X, self.dependence.shares
        masses = [
            knots.masses(rows[:, self.dependence.inputs(column)], shares)
            for column, knots in ((self.i, self.first), (self.j, self.second))
        ]
        F = f.reshape(len(self.first), len(self.second), -1)
        F = F - np.tensordot(masses[0], F, axes=1)
        F = F - np.einsum("h,ghk->gk", masses[1], F)[:, None]
        pure = F.reshape(f.shape)
        together = sum(np.bincount(cell, shares * w, len(f)) for cell, w in self._corners(rows))
        return np.asarray(pure - together @ pure)

    def interpolated(self, values: Array, X: Array) -> Array:
        """Return values (cells, k) at rows of inputs: linear along each column."""
        return np.asarray(sum(values[cell] * w[:, None] for cell, w in self._corners(X)))

    def _corners(self, X: Array) -> list[tuple[IntArray, Array]]:
        """Return the four cells about every row, each with its weights in bilinear interpolation."""
        low, high, s = self.first.between(X[:, self.dependence.inputs(self.i)])
        down, up, t = self.second.between(X[:, self.dependence.inputs(self.j)])
        first, second = ((low, 1 - s), (high, s)), ((down, 1 - t), (up, t))
        return [(a * len(self.second) + b, v * w) for a, v in first for b, w in second]


@dataclass(frozen=True)
class EffectPosterior:
    """The posterior of an effect, computed at the first use of a band."""

    grid: CurveGrid | PairGrid
    X: Array
    level: float

    @cached_property
    def std(self) -> Array:
        """Return the standard deviation at every row, (n, k)."""
        return self.grid.interpolated(self._at_knots[0], self.X)

    @cached_property
    def factor(self) -> float:
        """Return the factor of standard deviations for a band at one place."""
        return NormalDist().inv_cdf((1 + self.level) / 2)

    @property
    def simultaneous_factor(self) -> Array:
        """Return the factor for all places at once, (k,)."""
        return self._at_knots[1]

    @cached_property
    def _at_knots(self) -> tuple[Array, Array]:
        """Return standard deviations at the knots (G, k) and the factor for all knots at once (k,).

        Covariances are computed for some knots at a time. Knots that are not in one piece count as independent, which
        makes the factor no smaller.
        """
        dependence, points = self.grid.dependence, self.grid.points
        background = dependence.background(int(np.clip(DETAIL.band_rows // len(points), *DETAIL.band_background)))
        X, weights = background.moved(self.grid.inputs, points), np.tile(background.weights, (len(points), 1))
        T, model = self.grid.centred(np.eye(len(points))), dependence.model
        pieces = list(blocks(len(T), DETAIL.covariance_rows))
        sds, largest = [], []
        for at in pieces:
            covariances = model.known("effects").covariance(Functionals(X, weights, T[at]))
            sd = np.sqrt(np.maximum(np.einsum("kcc->ck", covariances), 0))
            sds.append(DETAIL.learned * sd * model.y_scaler.sd)
            largest.append([simultaneous_factor(each, self.level ** (1 / len(pieces))) for each in covariances])
        return np.concatenate(sds), np.max(largest, axis=0)


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

    `values` is (n,), or (n, k) for several outputs, and `columns` are the places of its columns.
    """

    values: Array
    columns: tuple[int, ...]
    _posterior: EffectPosterior

    @property
    def std(self) -> Array:
        """Return the standard deviation of the effect at every row, in the shape of `values`."""
        return self._posterior.std.reshape(self.values.shape)

    @property
    def band(self) -> tuple[Array, Array]:
        """Return (lower, upper), each in the shape of `values`, which hold at each row with the confidence level."""
        return self._band(self._posterior.factor)

    @property
    def band_simultaneous(self) -> tuple[Array, Array]:
        """Return (lower, upper), which hold at all rows at once with the confidence level."""
        return self._band(self._posterior.simultaneous_factor)

    def _band(self, factor: float | Array) -> tuple[Array, Array]:
        return self.values - factor * self.std, self.values + factor * self.std


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
        place = self._dependence.place(j)
        if (place,) not in self._computed:
            self._computed[(place,)] = self._main(place)
        return self._computed[(place,)]

    def pair(self, i: int | str, j: int | str) -> Effect:
        """Return what two columns do together beyond the sum of what each does alone.

        Parameters
        ----------
        i, j : the places or the names of two columns
        """
        a, b = self._dependence.place(i), self._dependence.place(j)
        if a == b:
            raise ValueError(f"A pair must be two columns; got {self.names[a]!r} twice.")
        key = (min(a, b), max(a, b))
        if key not in self._computed:
            self._computed[key] = self._pair(*key)
        return self._computed[key]

    def is_category(self, j: int | str) -> bool:
        """Return whether a column has levels, rather than numbers or dates.

        Parameters
        ----------
        j : the place or the name of the column
        """
        return self._dependence.columns[self._dependence.place(j)].kind == "category"

    def _main(self, j: int) -> Effect:
        knots = self._dependence.knots(j, self._X, DETAIL.knots, DETAIL.places[0])
        values = main_effect(self._dependence, j, knots, self._dependence.affordable, self._X)
        return self._effect(values, (j,), CurveGrid(self._dependence, j, knots.thinned(DETAIL.coarse_knots)))

    def _pair(self, i: int, j: int) -> Effect:
        """Return the effect of two columns, with a coarser grid for its band."""
        dependence, X, most = self._dependence, self._X, DETAIL.coarse_knots
        first, second = (dependence.knots(c, X, DETAIL.knots, DETAIL.places[1]).thinned(most) for c in (i, j))
        grid = PairGrid(dependence, i, j, first, second)
        points = grid.points
        background = dependence.background(int(np.clip(dependence.affordable // len(points), *DETAIL.background)))
        f = dependence.mean(background, grid.inputs, points)
        coarse = PairGrid(dependence, i, j, first.thinned(most // 2), second.thinned(most // 2))
        return self._effect(grid.interpolated(grid.centred(f), X), (i, j), coarse)

    def _effect(self, values: Array, columns: tuple[int, ...], grid: CurveGrid | PairGrid) -> Effect:
        shaped = values[:, 0] if self._single else values
        return Effect(shaped, columns, EffectPosterior(grid, self._X, self.confidence_level))


def main_effect(dependence: PartialDependence, j: int, knots: Knots, predictions: int, X: Array) -> Array:
    """Return the main effect of a column at rows of inputs, (n, k), from roughly so many predictions."""
    at = dependence.inputs(j)
    background = dependence.background(int(np.clip(predictions // len(knots), *DETAIL.background)))
    f = dependence.mean(background, at, knots.points)
    centre = dependence.shares @ knots.curve(f, dependence.rows.X[:, at])
    return knots.curve(f, X[:, at]) - centre
