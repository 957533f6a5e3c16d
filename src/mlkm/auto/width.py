"""The last layer of the default: ridge in closed form, and with it what only all rows can decide, the penalty, the
weight of the rough part and how wide the first layer should be.

Many rows begin with a narrow layer. Where half of its features do notably worse, twice as many will do notably better,
and the layer is made wide: on the real data of the benchmark the gain from half to all features foretells the next one
to about a percent.
"""

from dataclasses import dataclass, replace

import numpy as np

from .._types import Array, BoolArray, IntArray
from ..model.machine import Machine
from ..model.prior import FirstLayer
from ..rows import Rows
from ..solvers.blocked import Products, best_penalty, line_search, loo, products, restricted, solve, solved
from ..solvers.ridge import RidgeFit, ridge

EXACT_ROWS = (
    1500  # up to this many rows the last ridge is one eigendecomposition in float64, and the first layer wide at once
)
_WORTH_WIDTH = 1.04  # ratio of leave-one-out errors, of half of the features to all, that asks for more
_WORTH_MOST_WIDTH, _MANY_ROWS = (2.0, 1.16), 8000  # ratio that asks for most of all, with fewer and with so many rows
_VERY_MANY = 4500  # features; a layer of so many was worth it and is far from the narrow one
_WORTH_A_LOSS = 1.003  # leave-one-out error, relative to the best, at which the rough part is left away
_LEAST = (
    1 / 200
    # how far below the noise by the evidence a penalty may go: where few features say little, lower ones only look
    # as good
)


def fit_last_layer(
    layer: FirstLayer, rows: Rows, penalty: float | None, part: IntArray | None = None
) -> tuple[FirstLayer, Machine, RidgeFit]:
    """The fit on all rows or on a part of them, and the layer it is for, as wide as it was found to be worth; with a
    penalty given or for a part of the rows, the layer as it is."""
    at = slice(None) if part is None else part
    X, Y, weights = rows.X[at], rows.Y[at], rows.weights[at] / rows.weights[at].mean()
    n = len(X)
    open_choices = penalty is None and part is None
    if n <= EXACT_ROWS:
        candidates = (
            [layer, replace(layer, parts=layer.parts[:1])] if open_choices and len(layer.parts) > 1 else [layer]
        )
        fits = [ridge(candidate.rows_of_features(X), Y, weights, penalty) for candidate in candidates]
        best = int(np.argmin([loo(fit) for fit in fits]))
        return candidates[best], candidates[best].machine(fits[best]), fits[best]
    inputs: Array = X if layer.noise < 1e-3 else X.astype(np.float32)

    def sums_of(layer: FirstLayer) -> Products:
        return products(lambda block: layer.rows_of_features(inputs[block]), Y, weights)

    sums = sums_of(layer)
    if not open_choices or (layer.wider is None and len(layer.parts) == 1):
        fit = best_penalty(sums, layer.noise / n, coarse=True) if penalty is None else solved(sums, penalty)
        return layer, layer.machine(fit), fit
    balance, half_error = _balance_of_half(layer, sums, layer.noise / n)
    balance, fit = _balanced(layer, sums, balance)
    error = loo(fit)
    chosen, fit = _without_rough(layer, sums, balance, fit)
    if layer.wider is not None and half_error > _WORTH_WIDTH * error:
        most = half_error > _WORTH_MOST_WIDTH[n >= _MANY_ROWS] * error
        layer = layer.wider(2 if most else 1, len(chosen.parts) > 1)
        sums = sums_of(layer)
        balance, fit = _balanced(layer, sums, replace(balance, penalty=fit.penalty))
        chosen, fit = _without_rough(layer, sums, balance, fit)
    return chosen, chosen.machine(fit), fit


def wide(layer: FirstLayer) -> FirstLayer:
    """The layer where its width is not to be chosen."""
    return layer if layer.wider is None else layer.wider(1, True)


@dataclass(frozen=True)
class Balance:
    """The penalty of the smooth part and, relative to it, that of the rough part."""

    penalty: float
    ratio: float

    def of_features(self, layer: FirstLayer, n_columns: int) -> Array:
        every = np.full(n_columns, self.penalty)
        every[_rough_columns(layer)] *= self.ratio
        return every


def _rough_columns(layer: FirstLayer) -> slice:
    D = layer.parts[0].phi.n_features
    return slice(D, D + sum(part.phi.n_features for part in layer.parts[1:]))


def _balance_of_half(layer: FirstLayer, sums: Products, begin: float) -> tuple[Balance, float]:
    """The best balance for half of the features of full order and half of the landmarks, and its error: a fraction of
    the work.

    The first landmarks' whitened features are those of these landmarks alone; the features of full order get twice the
    variance each.
    """
    D, half, rough = layer.parts[0].phi.n_features, layer.n_full // 2, _rough_columns(layer)
    kept: BoolArray = np.ones(len(sums.gram), dtype=bool)
    kept[D - half : D] = False
    kept[(rough.start + rough.stop) // 2 : rough.stop] = False
    some = restricted(sums, kept)
    errors: dict[Balance, float] = {}

    def error(balance: Balance) -> float:
        every = balance.of_features(layer, len(kept))
        every[D - layer.n_full : D] /= 2
        errors[balance] = loo(solve(some, every[kept]))
        return errors[balance]

    best = Balance(line_search(lambda penalty: error(Balance(penalty, 1.0)), begin, least=_LEAST), 1.0)
    if len(layer.parts) > 1:
        best = replace(
            best, ratio=line_search(lambda ratio: error(replace(best, ratio=ratio)), 1.0, steps=(6.0,), most=50.0)
        )
    return replace(best, penalty=max(best.penalty, begin)), errors[best]


def _balanced(layer: FirstLayer, sums: Products, begin: Balance) -> tuple[Balance, RidgeFit]:
    """From the balance of fewer features to that of all; with very many of them also the weight of the rough part is
    sought again."""
    fits: dict[Balance, RidgeFit | None] = {}

    def error(balance: Balance) -> float:
        if balance not in fits:
            fits[balance] = solve(sums, balance.of_features(layer, len(sums.gram)))
        return loo(fits[balance])

    best = replace(
        begin, penalty=line_search(lambda penalty: error(replace(begin, penalty=penalty)), begin.penalty, least=_LEAST)
    )
    if len(layer.parts) > 1 and len(sums.gram) > _VERY_MANY:
        best = replace(
            best,
            ratio=line_search(lambda ratio: error(replace(best, ratio=ratio)), best.ratio, steps=(6.0,), most=50.0),
        )
    return best, fits[best] or solved(sums, best.of_features(layer, len(sums.gram)))


def _without_rough(layer: FirstLayer, sums: Products, balance: Balance, fit: RidgeFit) -> tuple[FirstLayer, RidgeFit]:
    """The layer without its rough part if that is hardly worse, else with its weight taken into it."""
    if len(layer.parts) == 1:
        return layer, fit
    smooth_part, rough_part = layer.parts
    kept: BoolArray = np.ones(len(sums.gram), dtype=bool)
    kept[_rough_columns(layer)] = False
    some = restricted(sums, kept)
    if loo(solve(some, balance.penalty)) <= _WORTH_A_LOSS * loo(fit):
        return replace(layer, parts=(smooth_part,)), best_penalty(some, balance.penalty)
    weighted = replace(
        layer, parts=(smooth_part, replace(rough_part, factor=rough_part.factor / np.sqrt(balance.ratio)))
    )
    unit = np.sqrt(balance.of_features(layer, len(kept)) / balance.penalty)
    return weighted, replace(fit, coefficients=fit.coefficients * unit[:, None], penalty=balance.penalty)
