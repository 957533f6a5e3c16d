"""The last layer of the default: ridge in closed form, and with it what only all rows can decide, the penalty, the
weight of the rough part and how wide the first layer should be.

Many rows begin with a narrow layer. Where half of its features do notably worse, twice as many will do notably better,
and the layer is made wide: on the real data of the benchmark the gain from half to all features foretells the next one
to about a percent.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from .._types import Array, BoolArray
from ..model.prior import Prior
from ..rows import Rows
from ..solvers.blocked import Products, best_penalty, global_penalty, loo, products, restricted, scaled, solve, solved
from ..solvers.closed_form import one_layer
from ..solvers.penalty import best_near
from ..solvers.ridge import EXACT_ROWS, RidgeFit
from .first_layer import Learned, layer_of
from .policy import Policy
from .sizes import NARROW, WIDE, WIDEST


def choose_width(source: Prior | Learned, rows: Rows, policy: Policy) -> tuple[Prior, RidgeFit]:
    """The first layer, as wide as it was found to be worth and with or without its rough part, and the fit on it."""
    layer, n = layer_of(source, NARROW), len(rows)
    if n <= EXACT_ROWS:
        candidates = [layer] if len(layer.parts) == 1 else [layer, replace(layer, parts=layer.parts[:1])]
        fits = [one_layer(candidate, rows, None) for candidate in candidates]
        best = int(np.argmin([loo(fit) for fit in fits]))
        return candidates[best], fits[best]
    if isinstance(source, Prior) and len(layer.parts) == 1:
        return layer, one_layer(layer, rows, None)
    sums = _sums(layer, rows)
    balance, half_error = _balance_of_half(layer, sums, layer.noise / n, policy)
    balance, fit = _balanced(layer, sums, balance, policy)
    error = loo(fit)
    chosen, fit = _without_rough(layer, sums, balance, fit, policy)
    if isinstance(source, Learned) and half_error > policy.worth_width * error:
        most = half_error > policy.worth_most_width[n >= policy.many_rows] * error
        layer = layer_of(source, WIDEST if most else WIDE, len(chosen.parts) > 1)
        sums = _sums(layer, rows)
        balance, fit = _balanced(layer, sums, replace(balance, penalty=fit.penalty), policy)
        chosen, fit = _without_rough(layer, sums, balance, fit, policy)
    return chosen, fit


def _sums(layer: Prior, rows: Rows) -> Products:
    inputs = layer.inputs(rows.X)
    return products(lambda block: layer.rows_of_features(inputs[block]), rows.Y, rows.weights)


@dataclass(frozen=True)
class Balance:
    """The penalty of the smooth part and, relative to it, that of the rough part."""

    penalty: float
    ratio: float

    def of_features(self, layer: Prior, n_columns: int) -> Array:
        every = np.full(n_columns, self.penalty)
        every[_rough_columns(layer)] *= self.ratio
        return every


def _rough_columns(layer: Prior) -> slice:
    """Those of the rough part; of none where there is none."""
    (_, _, smooth), *others = layer.columns()
    return next((at for part, _, at in others if part is not None), slice(smooth.stop, smooth.stop))


def _balance_of_half(layer: Prior, sums: Products, begin: float, policy: Policy) -> tuple[Balance, float]:
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

    def relative(ratio: float) -> Array:
        """Penalties of the features, relative to that of the smooth part."""
        every = Balance(1.0, ratio).of_features(layer, len(kept))
        every[D - layer.n_full : D] /= 2
        return every[kept]

    penalty, ratio = global_penalty(scaled(some, relative(1.0)), begin * policy.least_penalty), 1.0
    if len(layer.parts) > 1:
        ratio = _best_ratio(lambda ratio: loo(solve(some, penalty * relative(ratio))), 1.0, policy)
    return Balance(max(penalty, begin), ratio), loo(solve(some, penalty * relative(ratio)))


def _best_ratio(error: Callable[[float], float], guess: float, policy: Policy) -> float:
    """The penalty of the rough part, relative to that of the smooth part, with the least leave-one-out error."""
    return best_near(guess, error, policy.balance_step, most=policy.most_balance, least=1 / policy.most_balance)


def _balanced(layer: Prior, sums: Products, begin: Balance, policy: Policy) -> tuple[Balance, RidgeFit]:
    """From the balance of fewer features to that of all; with very many of them also the weight of the rough part is
    sought again."""
    fits: dict[Balance, RidgeFit | None] = {}

    def error(balance: Balance) -> float:
        if balance not in fits:
            fits[balance] = solve(sums, balance.of_features(layer, len(sums.gram)))
        return loo(fits[balance])

    penalty = best_near(
        begin.penalty, lambda penalty: error(replace(begin, penalty=penalty)), least=policy.least_penalty
    )
    best = replace(begin, penalty=penalty)
    if len(layer.parts) > 1 and len(sums.gram) > policy.very_many:
        best = replace(best, ratio=_best_ratio(lambda ratio: error(replace(best, ratio=ratio)), best.ratio, policy))
    return best, fits.get(best) or solved(sums, best.of_features(layer, len(sums.gram)))


def _without_rough(
    layer: Prior, sums: Products, balance: Balance, fit: RidgeFit, policy: Policy
) -> tuple[Prior, RidgeFit]:
    """The layer without its rough part if that is hardly worse, else with its weight taken into it."""
    if len(layer.parts) == 1:
        return layer, fit
    smooth_part, rough_part = layer.parts
    kept: BoolArray = np.ones(len(sums.gram), dtype=bool)
    kept[_rough_columns(layer)] = False
    some = restricted(sums, kept)
    if loo(solve(some, balance.penalty)) <= policy.worth_a_loss * loo(fit):
        return replace(layer, parts=(smooth_part,)), best_penalty(some)
    weighted = replace(
        layer, parts=(smooth_part, replace(rough_part, factor=rough_part.factor / np.sqrt(balance.ratio)))
    )
    unit = np.sqrt(balance.of_features(layer, len(kept)) / balance.penalty)
    return weighted, replace(fit, coefficients=fit.coefficients * unit[:, None], penalty=balance.penalty)
