"""Contributions of columns to single predictions: Shapley values against the background.

With v_b(S) = f(x_S, b_{-S}), the prediction for a row that has the columns S of x and the others of b,

    phi_j(x) = sum_b w_b mean over orders of the columns (v_b(S + j) - v_b(S)) + c_j,    S what comes before j.

With up to four columns all orders are taken. With more each b has one order and its reverse, whose mean is that over
all orders for sums of functions of one and of two columns. c_j = sum_b w_b f_j(b_j), with f_j the main effect, makes up
for the few rows b: by it functions of one column have the contribution f_j(x_j) exactly, whatever the b. The increments
add up to f(x) - f(b), so with the baseline sum_b w_b (f(b) - sum_j f_j(b_j)) they add up to the prediction. The weights
w_b are such that the baseline is the mean prediction over the training rows, as far as positive weights can do it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations

import numpy as np

from .._types import Array, BoolArray, IntArray
from ..data import blocks
from ..runtime.resources import Purpose, generator
from .effects import Grid, main_effect
from .partial_dependence import DETAIL, Background, PartialDependence


@dataclass(frozen=True)
class Contributions:
    """Contributions of columns to predictions, in units of y, as `model.explain(X)` returns them.

    `baseline` plus the sum of `values` over columns is the prediction: (n, d) and a number, or for several outputs
    (n, d, k) and (k,). `names` are those of the columns.
    """

    values: Array
    baseline: float | Array
    names: list[str]


@dataclass(frozen=True)
class Explainer(PartialDependence):
    """Explanations of one fit, which keep what they have in common: background rows, and main effects there."""

    def contributions(self, X: Array, single: bool) -> Contributions:
        """Return the contributions of every column at rows of standardised inputs."""
        background, main_effects = self._shapley_background
        d = len(self.columns)
        at_b, at_x = self.predict(background.X), self.predict(X)
        total = np.zeros((len(X), d, at_b.shape[1]))
        for t, (b, weight) in enumerate(zip(background.X, background.weights, strict=True)):
            sets, shares = _increments(_orders(d, t))
            from_x = sets[1:-1, None, self.preparation.kinds.owners]
            for at in blocks(len(X), max(1, DETAIL.together // max(len(from_x), 1))):
                f = np.empty((len(sets), *at_x[at].shape))
                f[0], f[-1] = at_b[t], at_x[at]
                if len(from_x):
                    mixed = np.where(from_x, X[at], b)
                    f[1:-1] = self.predict(mixed.reshape(-1, len(b))).reshape(f[1:-1].shape)
                total[at] += weight * np.moveaxis(np.tensordot(shares, f, axes=1), 0, 1)
        offsets = np.einsum("b,bjk->jk", background.weights, main_effects)
        baseline, names = background.weights @ at_b - offsets.sum(axis=0), list(self.names)
        total += offsets
        if single:
            return Contributions(total[:, :, 0], float(baseline[0]), names)
        return Contributions(total, baseline, names)

    @cached_property
    def _shapley_background(self) -> tuple[Background, Array]:
        """Return the rows b with weights under which the baseline is the mean prediction, and the main effects there,
        (m, d, k)."""
        few, many = (self.background(m) for m in (DETAIL.shapley_background, DETAIL.shapley_mean))
        most, most_places, predictions = DETAIL.shapley_knots
        grids = [Grid(self, (j,), (self.knots(j, few.X, most, most_places),)) for j in range(len(self.columns))]
        main = np.stack([main_effect(grid, predictions, few.X) for grid in grids], axis=1)
        mean = many.weights @ self.predict(many.X)
        weights = _calibrated(few.weights, self.predict(few.X) - main.sum(axis=1), mean)
        return Background(few.X, weights), main


def _orders(d: int, t: int) -> list[IntArray]:
    """Return the orders of d columns that background row t takes."""
    if d <= DETAIL.all_orders:
        return [np.array(order, np.intp) for order in permutations(range(d))]
    order = generator(0, Purpose.EFFECTS, t + 1).permutation(d)
    return [order, order[::-1]]


def _increments(orders: Sequence[IntArray]) -> tuple[BoolArray, Array]:
    """Return the sets of columns that orders begin with, from none to all, each once, as masks (sets, d); and the
    factors (d, sets) by which f at the sets gives the mean over orders of what f changes by when a column joins those
    before it."""
    d = len(orders[0])
    first = np.array([np.argsort(order) < k for order in orders for k in range(d + 1)])
    sets, place = np.unique(first, axis=0, return_inverse=True)
    factors = np.zeros((d, len(sets)))
    for order, at in zip(orders, place.reshape(-1, d + 1), strict=True):
        factors[order, at[1:]] += 1 / len(orders)
        factors[order, at[:-1]] -= 1 / len(orders)
    return sets, factors


def _calibrated(weights: Array, values: Array, mean: Array) -> Array:
    """Return weights close to those given under which values (m, k) have that mean; factors are at most ten."""
    centred = values - weights @ values
    V = centred.T @ (weights[:, None] * centred)
    V[np.diag_indices(len(V))] *= 1 + 1e-9
    moved = 1 + centred @ np.linalg.pinv(V, hermitian=True) @ (mean - weights @ values)
    result = weights * np.clip(moved, 0.1, 10)
    return np.asarray(result / result.sum())
