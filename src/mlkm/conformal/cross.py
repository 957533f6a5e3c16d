"""CV+ and jackknife+ (Barber, Candes, Ramdas, Tibshirani 2021): every row is scored by a fit that has not seen it, and
no row is set aside.

The interval at x reaches from the rank-th largest of lower_{-i}(x) - s_i u_{-i}(x) to the rank-th smallest of
upper_{-i}(x) + s_i u_{-i}(x), with lower_{-i}, upper_{-i}, u_{-i} from the fit without row i. It covers with
probability at least 1 - 2 alpha, and close to 1 - alpha where fits are stable. New rows are taken in blocks, so that no
table of all training by all new rows is formed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from sklearn.model_selection import BaseCrossValidator, check_cv
from sklearn.utils import _safe_indexing

from .._types import Array, IntArray
from ..variance.estimator import leave_one_out, left_out_fits
from .rank import rank, warn_too_few
from .scores import Scored, closed_form, columns, fit_scored, least_unit, settle, unit_of_outputs
from .split import Request, as_interval, same_group, side_scores

_ENTRIES = 2**22  # of a block of new rows by training rows

# For a block of new rows, an output and training rows: lower, upper and u of the fits without each of them, all (b,
# rows)
Base: TypeAlias = Callable[[int, IntArray], tuple[Array, Array, Array]]


@dataclass(frozen=True)
class CrossFits:
    """One fit per fold, the fold of every row, and the rows' scores by the fit without them."""

    fits: tuple[Scored, ...]
    fold: IntArray
    below: Array
    above: Array
    labels: Any

    def base(self, X: Any) -> Base:
        bases = [fit.base(X)[1:] for fit in self.fits]

        def at(output: int, rows: IntArray) -> tuple[Array, Array, Array]:
            lower, upper, unit = (
                np.column_stack([base[part][:, output] for base in bases])[:, self.fold[rows]] for part in range(3)
            )
            return lower, upper, unit

        return at


@dataclass(frozen=True)
class LeftOut:
    """The closed form of one layer: f_{-i}(x) = f(x) - s_i(x) r_i, with s_i(x) the weight of row i and r_i its
    leave-one-out residual."""

    model: Any
    index: IntArray  # the distinct row every row is a copy of
    residuals: Array
    below: Array
    above: Array
    labels: Any
    scaled: bool  # whether the unit is sigma_y(x), bounded from below by `least`, or `least` itself
    least: Array

    def base(self, X: Any) -> Base:
        scaler = self.model.y_scaler_
        unit = (
            np.maximum(columns(self.model.predict(X, return_std=True)[1]), self.least)
            if self.scaled
            else self.least[None, :]
        )
        f, weights = left_out_fits(self.model._sigma(), self.model.x_scaler_.forward(np.asarray(X, np.float64)))
        f = scaler.backward(f)

        def at(output: int, rows: IntArray) -> tuple[Array, Array, Array]:
            low, high = (limit[output] for limit in self.model._limits)
            left = np.clip(
                f[:, [output]] - weights[:, self.index[rows]] * self.residuals[self.index[rows], output], low, high
            )
            return left, left, np.broadcast_to(unit[:, [output]], left.shape)

        return at


Cross: TypeAlias = CrossFits | LeftOut


def fit_cross(
    estimator: Any, score: str, level: Fraction, X: Any, y: Array, cv: Any, groups: Any, seed: int
) -> CrossFits:
    """CV+: one fit per fold of `cv`."""
    fold, n = np.full(len(y), -1, dtype=np.intp), len(y)
    splitter: BaseCrossValidator = check_cv(cv)
    fits, below, above = [], np.empty(columns(y).shape), np.empty(columns(y).shape)
    for number, (train, test) in enumerate(splitter.split(X, y)):
        if (fold[test] >= 0).any():
            raise ValueError(f"The test folds of cv must not overlap; fold {number} shares rows with an earlier one.")
        fold[test] = number
        scored = fit_scored(estimator, score, level, _safe_indexing(X, train), y[train], 5, seed)
        scored, (_, lower, upper, unit) = settle(scored, _safe_indexing(X, test))
        Y = columns(y[test])
        below[test], above[test] = (lower - Y) / unit, (Y - upper) / unit
        fits.append(scored)
    if (fold < 0).any():
        raise ValueError(f"The test folds of cv must cover every row; {int((fold < 0).sum())} of {n} rows are in none.")
    return CrossFits(tuple(fits), fold, below, above, groups)


def left_out(model: Any, score: str) -> LeftOut:
    """Jackknife+ from the exact leave-one-out of the last layer."""
    if not closed_form(model):
        raise ValueError(
            f"cv='loo' needs the closed form of one layer, which {type(model).__name__} as given has not; pass"
            " sklearn's LeaveOneOut()."
        )
    if score not in ("absolute", "variance"):
        raise ValueError(f"cv='loo' goes with score='absolute' or 'variance'; got {score!r}.")
    variance = model._sigma()
    training, sd = variance.training, model.y_scaler_.sd
    residuals = leave_one_out(variance) * sd
    unit, least = np.zeros_like(residuals), unit_of_outputs(np.abs(residuals).mean(axis=0))
    if score == "variance":
        unit = (
            np.sqrt(
                np.clip(residuals / np.where(variance.residuals == 0, np.inf, variance.residuals * sd), 1, None)
                * variance.noise
            )
            * sd
        )
        least = least_unit(unit)
    index = np.repeat(np.arange(len(residuals)), training.copies.astype(int))
    signed = residuals / np.maximum(unit, least)
    return LeftOut(model, index, residuals, -signed[index], signed[index], None, score == "variance", least)


def cross_interval(cross: Cross, X: Any, n_new: int, request: Request) -> Array:
    """The interval (n, 2, levels, k)."""
    scores = side_scores(cross.below, cross.above, request)
    n, k = scores.shape
    result = np.empty((n_new, 2, len(request.levels), k))
    for where, old, new in same_group(cross.labels, request.groups, n, n_new):
        for level in request.levels:
            if len(new) and rank(len(old), level) > len(old):
                warn_too_few(len(old), level, where)
        size = max(1, _ENTRIES // max(len(old), 1))
        for begin in range(0, len(new), size):
            at = new[begin : begin + size]
            result[at] = _block(cross.base(_safe_indexing(X, at)), scores[old], old, request)
    return result


def _block(base: Base, scores: Array, old: IntArray, request: Request) -> Array:
    ends = []
    for output in range(scores.shape[1]):
        lower, upper, unit = base(output, old)
        reach = scores[:, output] * unit
        ends.append(
            (-_order_statistics(reach - lower, request.levels), _order_statistics(upper + reach, request.levels))
        )
    lowest, highest = (np.stack([end[part] for end in ends], axis=-1) for part in (0, 1))
    return as_interval(lowest, highest, request.side)


def _order_statistics(values: Array, levels: Sequence[Fraction]) -> Array:
    """Of every row, the rank-th smallest value at each level; infinite beyond the last."""
    n = values.shape[1]
    padded = np.hstack([values, np.full((len(values), 1), np.inf)])
    at = [min(rank(n, level), n + 1) - 1 for level in levels]
    return np.partition(padded, sorted(set(at)), axis=1)[:, at]
