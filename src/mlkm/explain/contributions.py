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
from itertools import permutations

import numpy as np

from .._types import Array, BoolArray, IntArray
from ..data import blocks
from ..runtime.seeds import Purpose, generator
from .effects import main_curve
from .view import Background, View

_BACKGROUND, _MANY = 16, 1000  # rows b, and rows over which the mean prediction is taken
_ALL_ORDERS = 4  # columns up to which all orders are taken
_TOGETHER = 2**15  # rows that are predicted in one go
_KNOTS, _PLACES, _ROWS = 16, 60, 1000  # of the main effects at the rows b, and predictions for each of them


@dataclass(frozen=True)
class Contributions:
    """`baseline` plus the sum of `values` over columns is the prediction: (n, d) and a number, or (n, d, k) and (k,) of
    several outputs, in units of y; `names` are those of the columns."""

    values: Array
    baseline: float | Array
    names: list[str]


def contributions(view: View, X: Array, single: bool) -> Contributions:
    """Of every column at rows of standardised inputs."""
    d, (background, mains) = len(view.columns), _told(view)
    at_b, at_x = view.predict(background.X), view.predict(X)
    total = np.zeros((len(X), d, at_b.shape[1]))
    for t in range(len(background.X)):
        b, weight, orders = background.X[t], background.weights[t], _orders(d, t)
        masks = _between(orders, d)
        rows = max(1, _TOGETHER // max(len(masks), 1))
        for at in blocks(len(X), rows):
            f = _values(view, X[at], b, masks)
            f[bytes(np.zeros(d, bool))] = np.broadcast_to(at_b[t], at_x[at].shape)
            f[bytes(np.ones(d, bool))] = at_x[at]
            _add(total[at], f, orders, weight / len(orders))
    offsets = np.einsum("b,bjk->jk", background.weights, mains)
    baseline = background.weights @ at_b - offsets.sum(axis=0)
    total += offsets
    if single:
        return Contributions(total[:, :, 0], float(baseline[0]), list(view.names))
    return Contributions(total, baseline, list(view.names))


def _orders(d: int, t: int) -> list[IntArray]:
    """Of the columns, for background row t."""
    if d <= _ALL_ORDERS:
        return [np.array(order, np.intp) for order in permutations(range(d))]
    order = generator(0, Purpose.EFFECTS, t + 1).permutation(d)
    return [order, order[::-1]]


def _masks(order: IntArray, d: int) -> list[BoolArray]:
    """What has come after each step: from no column to all of them."""
    step = np.empty(d, np.intp)
    step[order] = np.arange(d)
    return [step < k for k in range(d + 1)]


def _between(orders: Sequence[IntArray], d: int) -> list[BoolArray]:
    """All sets of columns on the way but none and all, each once."""
    found = {bytes(mask): mask for order in orders for mask in _masks(order, d)[1:-1]}
    return list(found.values())


def _values(view: View, X: Array, b: Array, masks: Sequence[BoolArray]) -> dict[bytes, Array]:
    """f at rows that have the columns of each set from X and the others from b."""
    if not masks:
        return {}
    mixed = np.concatenate([np.where(mask[view.owners], X, b) for mask in masks])
    f = view.predict(mixed)
    return {bytes(mask): own for mask, own in zip(masks, f.reshape(len(masks), len(X), -1), strict=True)}


def _add(total: Array, f: dict[bytes, Array], orders: Sequence[IntArray], weight: float) -> None:
    """Each column's increments."""
    for order in orders:
        steps = [f[bytes(mask)] for mask in _masks(order, len(order))]
        for j, before, after in zip(order, steps[:-1], steps[1:], strict=True):
            total[:, j] += weight * (after - before)


def _told(view: View) -> tuple[Background, Array]:
    """The rows b and the main effects there, (m, d, k); found once."""
    if "rows b" not in view.memory:
        few, many = view.background(_BACKGROUND), view.background(_MANY)
        mains = np.stack([_main_at(view, j, few.X) for j in range(len(view.columns))], axis=1)
        rest, mean = view.predict(few.X) - mains.sum(axis=1), many.weights @ view.predict(many.X)
        view.memory["rows b"] = Background(few.X, _calibrated(few.weights, rest, mean)), mains
    found: tuple[Background, Array] = view.memory["rows b"]
    return found


def _calibrated(weights: Array, values: Array, mean: Array) -> Array:
    """Weights moved as little as need be for values (m, k) to have that mean, but not below a tenth."""
    centred = values - weights @ values
    V = centred.T @ (weights[:, None] * centred)
    V[np.diag_indices(len(V))] *= 1 + 1e-9
    moved = 1 + centred @ np.linalg.pinv(V, hermitian=True) @ (mean - weights @ values)
    result = weights * np.clip(moved, 0.1, 10)
    return np.asarray(result / result.sum())


def _main_at(view: View, j: int, X: Array) -> Array:
    """The main effect of a column at some rows, (m, k)."""
    at = view.inputs(j)
    return main_curve(view, j, view.lines(j, X, _KNOTS, _PLACES), _ROWS)(X[:, at])
