"""Partial dependence: mean predictions over background rows while the inputs of one or two columns move along knots.

Along a number, knots are all its training values where they are few, else quantiles of them and places evenly spaced
over their range; beyond the range they double their distance from it, as far as predictions are wanted. A missing
number, a level and a date are knots of their own. Where dates are very many, a radial basis function of their inputs
(the trend and the circles) that is linear in distances interpolates between some of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.interpolate import Akima1DInterpolator, RBFInterpolator
from scipy.spatial import cKDTree

from .._types import Array, IntArray
from ..data import Block, blocks, tie_numbers
from ..data.preparation import Preparation
from ..data.tables.columns import Column
from ..model.machine import Machine, predict_average
from ..runtime.checks import place_of
from ..solve.uncertainty import Uncertainty


@dataclass(frozen=True)
class Detail:
    """Settings of how finely effects and contributions are computed: numbers of rows, knots and predictions.

    `learned` widens the bands of effects, since scales are learned: `benchmarks/effect_bands.py` measures it.
    """

    together: int = 2**15  # rows that are predicted in one call
    features: int = 2**24  # random features to compute for the values of one effect, roughly
    predictions: tuple[int, int] = (2400, 9600)  # for the values of one effect: at least and at most, roughly
    few_levels: int = 8  # a category with at most so many levels has their training shares in the background too
    few_values: int = 12  # a number with at most so many training values has its knots there and nowhere else
    digits: int = 9  # to which inputs are told apart, since coordinates of texts are exact up to rounding
    first_beyond: float = 0.125  # ranges between the training values and the first knot beyond them
    background: tuple[int, int] = (10, 256)  # rows over which the values of an effect are averaged
    band_background: tuple[int, int] = (8, 32)  # the same for its band
    knots: int = 36  # along a number
    places: tuple[int, int] = (300, 100)  # knots for dates, alone and in a pair
    coarse_knots: int = 16  # along a number for a band or a pair
    band_rows: int = 500  # predictions for the band of one effect, roughly
    learned: float = 1.3
    cells: int = 20_000  # of the grid of a pair, at most
    covariance_rows: int = 400  # knots whose covariance is computed together
    draws: int = 4000  # from the posterior, for simultaneous bands
    shapley_background: int = 16  # rows against which contributions are computed
    shapley_mean: int = 1000  # rows over which the mean prediction is taken
    all_orders: int = 4  # columns up to which Shapley values take all orders
    shapley_knots: tuple[int, int, int] = (16, 60, 1000)  # knots, dates and predictions for the main effects there


DETAIL = Detail()


@dataclass(frozen=True)
class Background:
    """Rows (m, p) for all columns that do not move, with weights that sum to one."""

    X: Array
    weights: Array

    def moved(self, inputs: IntArray, points: Array) -> Array:
        """Return the rows with the given inputs at each of the points in turn: (points times m, p)."""
        X = np.tile(self.X, (len(points), 1))
        X[:, inputs] = np.repeat(points, len(self.X), axis=0)
        return X


@dataclass(frozen=True)
class PartialDependence:
    """Mean predictions of a fit over its training rows, with what has been computed so far.

    Attributes
    ----------
    preparation : what the columns of the table of the fit are, and the scalings
    machines : the machines, whose average is the prediction
    uncertainty : the errors of the fit, in standardised units
    names : the names of the columns
    rows : training rows in an order by hashes of their content
    """

    preparation: Preparation
    machines: Sequence[Machine]
    uncertainty: Uncertainty
    names: list[str]
    rows: Block
    backgrounds: dict[int, Background] = field(default_factory=dict)

    @property
    def columns(self) -> Sequence[Column]:
        """Return what the columns of the table of the fit are."""
        return self.preparation.reader.columns

    def predict(self, Z: Array) -> Array:
        """Return predictions (n, k) in units of y at standardised inputs."""
        f = self.preparation.y_scaler.backward(predict_average(self.machines, Z))
        return self.preparation.within(f, Z)

    def inputs(self, j: int) -> IntArray:
        """Return the places of the inputs of a column."""
        return np.flatnonzero(self.preparation.kinds.owners == j)

    def knots(self, j: int, X: Array, most: int, most_places: int) -> "Knots":
        """Return the knots of a column, beyond the training values as far as the rows X lie."""
        at, kinds = self.inputs(j), self.rows.inputs
        rows, numbers, kind = self.rows.X[:, at], not kinds.levels[at].any(), self.columns[j].kind
        return knots_of(kind, rows, X[:, at], most, most_places, numbers)

    def place(self, j: int | str) -> int:
        """Return the place of a column given by its place or its name."""
        return place_of("A column", j, self.names, len(self.columns))

    @cached_property
    def shares(self) -> Array:
        """Return the weights of the training rows, with sum one."""
        return np.asarray(self.rows.weights / self.rows.weights.sum())

    @cached_property
    def affordable(self) -> int:
        """Return how many predictions the values of one effect may take: the more, the cheaper each is."""
        width = sum(machine.maps[0].n_features for machine in self.machines)
        return int(np.clip(DETAIL.features // max(width, 1), *DETAIL.predictions))

    def mean(self, background: Background, inputs: IntArray, points: Array) -> Array:
        """Return the mean prediction over the background with the given inputs at each of the points, (points, k)."""
        m = len(background.X)
        parts = []
        for at in blocks(len(points), max(1, DETAIL.together // m)):
            f = self.predict(background.moved(inputs, points[at]))
            parts.append(np.einsum("gmk,m->gk", f.reshape(-1, m, f.shape[1]), background.weights))
        return np.concatenate(parts)

    def background(self, m: int) -> Background:
        """Return the first m training rows, with weights under which means of inputs are those of all training rows.

        Training rows are in an order by hashes of their content, so that the first are as good as drawn at random. With
        x_b the inputs in units of their spread, t their means over all rows and u_b the weights of the rows,
        w_b = u_b (1 + (x_b - x)' (V + r I)^{-1} (t - x)), with x and V mean and covariance under u: calibration, as in
        the analysis of surveys. r = (number of means) / m keeps many means from bending the weights.
        """
        if m not in self.backgrounds:
            rows, n = self.rows, min(m, len(self.rows))
            u = self.shares[:n] / self.shares[:n].sum()
            wanted = _calibration_columns(rows)
            centred = wanted[:n] - u @ wanted[:n]
            V = centred.T @ (u[:, None] * centred)
            V[np.diag_indices(len(V))] += wanted.shape[1] / n + 1e-12
            moved = 1 + centred @ np.linalg.solve(V, self.shares @ wanted - u @ wanted[:n])
            weights = u * np.clip(moved, 0.1, 10) if n < len(rows) else u
            self.backgrounds[m] = Background(rows.X[:n], weights / weights.sum())
        return self.backgrounds[m]


def _calibration_columns(rows: Block) -> Array:
    """Return what has the same mean in the background as in training: numbers, and indicators of levels where few."""
    parts = [rows.X[:, rows.inputs.numbers]]
    for code in rows.X[:, rows.inputs.levels].T:
        levels = np.unique(code)
        if len(levels) <= DETAIL.few_levels:
            parts.append((code[:, None] == levels[1:]).astype(np.float64))
    return np.hstack(parts)


@dataclass(frozen=True)
class Knots:
    """Points (G, q) in the inputs of a column at which an effect is computed, and how it is interpolated.

    Knots lie on lines: those from `begins[l]` to `begins[l + 1]` differ in the first input only, which increases, and
    share the others, `others[l]`. Levels and dates are lines of one knot, for which `along` is False. `sparse` says
    that only some of the training values are knots.
    """

    points: Array
    begins: IntArray
    others: Array
    along: bool
    sparse: bool = False

    def __len__(self) -> int:
        return len(self.points)

    def _line(self, l: int) -> slice:
        return slice(int(self.begins[l]), int(self.begins[l + 1]))

    def _line_of(self, X: Array) -> IntArray:
        """Return the line that each row lies on, or the nearest where it lies on none."""
        rest = X[:, 1:] if self.along else X
        if not rest.shape[1]:
            return np.zeros(len(X), np.intp)
        return np.asarray(cKDTree(self.others).query(rest)[1])

    def between(self, X: Array) -> tuple[IntArray, IntArray, Array]:
        """Return the two knots beside each row of inputs (n, q) and the weight of the second in linear interpolation,
        which is constant beyond the last knot."""
        line = self._line_of(X)
        low, high, share = self.begins[line].copy(), self.begins[line].copy(), np.zeros(len(X))
        for l in np.flatnonzero(np.diff(self.begins) > 1).tolist():
            rows, x = np.flatnonzero(line == l), self.points[self._line(l), 0]
            at = np.clip(np.searchsorted(x, X[rows, 0], side="right") - 1, 0, len(x) - 2)
            low[rows], high[rows] = self.begins[l] + at, self.begins[l] + at + 1
            share[rows] = np.clip((X[rows, 0] - x[at]) / (x[at + 1] - x[at]), 0, 1)
        return low, high, share

    def linear(self, values: Array, X: Array) -> Array:
        """Interpolate values (G, k) at the knots linearly at the rows of X."""
        low, high, t = self.between(X)
        return np.asarray(values[low] + t[:, None] * (values[high] - values[low]))

    def curve(self, values: Array, X: Array) -> Array:
        """Interpolate values (G, k), along numbers by Akima's curve, which is smooth and has no ripples."""
        if self.sparse:
            return np.asarray(RBFInterpolator(self.points, values, kernel="linear")(X))
        result, line = self.linear(values, X), self._line_of(X)
        for l in np.flatnonzero(np.diff(self.begins) > 4).tolist():
            rows, at = np.flatnonzero(line == l), self._line(l)
            x = self.points[at, 0]
            result[rows] = Akima1DInterpolator(x, values[at], axis=0)(np.clip(X[rows, 0], x[0], x[-1]))
        return result

    def thinned(self, most: int) -> "Knots":
        """Return at most so many knots on every line, both ends among them."""
        lines = [
            at.start + np.unique(np.linspace(0, at.stop - at.start - 1, most).round().astype(np.intp))
            for at in map(self._line, range(len(self.others)))
        ]
        return Knots(self.points[np.concatenate(lines)], _begins(lines), self.others, self.along, self.sparse)


def knots_of(kind: str, rows: Array, X: Array, most: int, most_places: int, numbers: bool = False) -> Knots:
    """Return the knots of a column.

    Parameters
    ----------
    kind : "number", "category" or "date"
    rows, X : inputs of the column (n, q) at the training rows and at the rows wanted
    most, most_places : how many knots there are at most along a number, and for dates
    numbers : whether levels were made numbers, which differ between training rows of one level where they are means
        over the other rows
    """
    if kind == "number" or (kind == "category" and numbers and rows.shape[1] == 1):
        return _along(rows, X, most)
    return _places(np.vstack([rows, X]), None if kind == "category" and not numbers else most_places)


def _along(rows: Array, X: Array, most: int) -> Knots:
    """Return lines of knots along a number: one for its values, and one where it is missing."""
    both = np.vstack([rows, X])
    first, place = _distinct(both[:, 1:])
    lines = []
    for l in range(len(first)):
        x, later = rows[place[: len(rows)] == l, 0], X[place[len(rows) :] == l, 0]
        lines.append(_extended(knots_along(x if len(x) else later, most), later))
    others = both[first, 1:]
    points = np.hstack([np.concatenate(lines)[:, None], np.repeat(others, list(map(len, lines)), axis=0)])
    return Knots(points, _begins(lines), others, along=True)


def _begins(lines: Sequence[Array | IntArray]) -> IntArray:
    return np.concatenate([[0], np.cumsum([len(line) for line in lines])]).astype(np.intp)


def knots_along(x: Array, most: int) -> Array:
    """Return all values where they are few, or two thirds quantiles and one third places evenly spaced over the range.

    >>> knots_along(np.array([3.0, 1.0, 1.0, 2.0]), 36)
    array([1., 2., 3.])
    """
    values = x[np.unique(tie_numbers(x), return_index=True)[1]]
    if len(values) <= DETAIL.few_values:
        return values
    third = most // 3
    if len(values) > most - third:
        values = np.unique(np.quantile(x, np.linspace(0, 1, most - third), method="nearest"))
    every = np.linspace(values[0], values[-1], third + 2)[1:-1]
    near = np.abs(every[:, None] - values).min(axis=1) < 0.2 * (values[-1] - values[0]) / most
    return np.sort(np.concatenate([values, every[~near]]))


def _extended(knots: Array, later: Array) -> Array:
    """Add knots beyond either end as far as later values lie; which ones does not depend on other columns or rows."""
    span = float(knots[-1] - knots[0]) or 1.0
    reach = (knots[0] - later.min(initial=knots[0]), later.max(initial=knots[-1]) - knots[-1])
    below, above = (_doubling(DETAIL.first_beyond * span, float(far)) for far in reach)
    return np.concatenate([knots[0] - below[::-1], knots, knots[-1] + above])


def _doubling(first: float, far: float) -> Array:
    """Return first, 2 first, 4 first, ... up to the first that is no less than `far`; none where `far` is 0."""
    if far <= 0:
        return np.zeros(0)
    return np.asarray(first * 2.0 ** np.arange(max(0, int(np.ceil(np.log2(far / first)))) + 1))


def _places(X: Array, most: int | None) -> Knots:
    """Return the distinct rows as knots, or so many of them, evenly spread along their order."""
    points = X[_distinct(X)[0]]
    sparse = most is not None and len(points) > most
    if sparse:
        points = points[np.linspace(0, len(points) - 1, most or 0).round().astype(np.intp)]
    return Knots(points, np.arange(len(points) + 1), points, along=False, sparse=sparse)


def _distinct(X: Array) -> tuple[IntArray, IntArray]:
    """Return where each distinct row occurs first, in sorted order, and the place of every row among them."""
    if X.shape[1] == 0:
        return np.zeros(1, np.intp), np.zeros(len(X), np.intp)
    rounded = np.round(X, DETAIL.digits) + 0.0  # + 0.0 makes one of the two zeros
    _, first, place = np.unique(rounded, axis=0, return_index=True, return_inverse=True)
    return first, place.reshape(-1)
