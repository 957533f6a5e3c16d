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
from ..data.tables.cells import Table
from ..runtime.resources import Purpose, generator
from .effects import Effects, Grid, main_effect
from .partial_dependence import DETAIL, Background, FittedModel, PartialDependence


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

    def effects(self, X: Array, table: Table, single: bool, confidence_level: float) -> Effects:
        """Return effects of columns at rows of standardised inputs, which stand for those of the table."""
        return Effects(self, X, table, single, confidence_level)

    def contributions(self, X: Array, single: bool) -> Contributions:
        """Return the contributions of every column at rows of standardised inputs."""
        (background, main_effects), model = self._shapley_background, self.model
        d = len(model.columns)
        at_b, at_x = model.predict(background.X), model.predict(X)
        total = np.zeros((len(X), d, at_b.shape[1]))
        for t, (b, weight) in enumerate(zip(background.X, background.weights, strict=True)):
            orders = _orders(d, t)
            masks = _proper_subsets(orders)
            for at in blocks(len(X), max(1, DETAIL.together // max(len(masks), 1))):
                f = _values(model, X[at], b, masks)
                f[bytes(np.zeros(d, bool))] = np.broadcast_to(at_b[t], at_x[at].shape)
                f[bytes(np.ones(d, bool))] = at_x[at]
                _add_increments(total[at], f, orders, weight / len(orders))
        offsets = np.einsum("b,bjk->jk", background.weights, main_effects)
        baseline, names = background.weights @ at_b - offsets.sum(axis=0), list(model.names)
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
        grids = [Grid(self, (j,), (self.knots(j, few.X, most, most_places),)) for j in range(len(self.model.columns))]
        main = np.stack([main_effect(grid, predictions, few.X) for grid in grids], axis=1)
        mean = many.weights @ self.model.predict(many.X)
        weights = _calibrated(few.weights, self.model.predict(few.X) - main.sum(axis=1), mean)
        return Background(few.X, weights), main


def _orders(d: int, t: int) -> list[IntArray]:
    """Return the orders of d columns that background row t takes."""
    if d <= DETAIL.all_orders:
        return [np.array(order, np.intp) for order in permutations(range(d))]
    order = generator(0, Purpose.EFFECTS, t + 1).permutation(d)
    return [order, order[::-1]]


def _subsets(order: IntArray) -> list[BoolArray]:
    """Return the first k columns of an order as masks, for k from 0 to all of them."""
    step = np.empty(len(order), np.intp)
    step[order] = np.arange(len(order))
    return [step < k for k in range(len(order) + 1)]


def _proper_subsets(orders: Sequence[IntArray]) -> list[BoolArray]:
    """Return all sets of columns that orders begin with, except none and all, each once."""
    return list({bytes(mask): mask for order in orders for mask in _subsets(order)[1:-1]}.values())


def _values(model: FittedModel, X: Array, b: Array, masks: Sequence[BoolArray]) -> dict[bytes, Array]:
    """Return f at rows that have the columns of each set from X and the others from b."""
    if not masks:
        return {}
    mixed = np.concatenate([np.where(mask[model.input_columns], X, b) for mask in masks])
    f = model.predict(mixed).reshape(len(masks), len(X), -1)
    return {bytes(mask): values for mask, values in zip(masks, f, strict=True)}


def _add_increments(total: Array, f: dict[bytes, Array], orders: Sequence[IntArray], weight: float) -> None:
    """Add to each column's total what f changes by when the column joins those before it."""
    for order in orders:
        steps = [f[bytes(mask)] for mask in _subsets(order)]
        for j, before, after in zip(order, steps[:-1], steps[1:], strict=True):
            total[:, j] += weight * (after - before)


def _calibrated(weights: Array, values: Array, mean: Array) -> Array:
    """Return weights close to those given under which values (m, k) have that mean; factors are at most ten."""
    centred = values - weights @ values
    V = centred.T @ (weights[:, None] * centred)
    V[np.diag_indices(len(V))] *= 1 + 1e-9
    moved = 1 + centred @ np.linalg.pinv(V, hermitian=True) @ (mean - weights @ values)
    result = weights * np.clip(moved, 0.1, 10)
    return np.asarray(result / result.sum())
