"""What a residual is measured by. A score is a band lower(x), upper(x) with a unit u(x): the conformal interval is

[lower(x) - q u(x), upper(x) + q u(x)],   q the conformal quantile of the scores max(lower - y, y - upper) / u.

"variance"   lower = upper = f(x),   u = sigma_y(x), the paper's estimator          "absolute"   u = 1
"residual"   u = a second fit, of |y - f(x)| at rows left out                       "quantile"   lower, upper = fitted
quantiles, u = 1                                                                    "auto"   variance, else absolute

With several outputs, a u that does not depend on x is one constant per output, so that outputs can be covered jointly.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import check_cv, cross_val_predict

from .._types import Array
from ..data.folds import as_splitter, groups_for, keeps_groups_together
from ..runtime.checks import one_of
from .quantile import QuantileBand, check_rows, check_table, fit_quantiles
from .wrapped_estimator import (
    fit_arguments,
    fit_regressor,
    has_closed_form,
    has_std,
    is_frozen,
    last_step,
    may_have_closed_form,
    seen_by_last,
)

SCORES = ("auto", "variance", "absolute", "residual", "quantile")

Base: TypeAlias = tuple[Array, Array, Array, Array]  # f, lower, upper and u at every row, each (n, k)


@dataclass(frozen=True)
class Recipe:
    """How a regressor and its score are fitted: the score by name, the highest level, folds for residuals, and a
    seed."""

    score: str
    level: Fraction
    cv: Any = 5
    seed: int = 0


@dataclass(frozen=True)
class Scored:
    """A fitted regressor with what its score needs beside it: a fit of |residual|, or of two quantiles.

    `least` bounds the unit u from below; `scale` is the u of scores whose unit is the same at all rows, None until
    `settle` decides it.
    """

    model: Any
    score: str
    spread: Any = None
    least: Array | float = 0.0
    band: QuantileBand | None = None
    scale: Array | float | None = 1.0

    def base(self, X: Any) -> Base:
        if self.score == "variance":
            f, unit = (columns(array) for array in self.model.predict(X, return_std=True))
            return f, f, f, np.maximum(unit, self.least)
        scale = 1.0 if self.scale is None else self.scale
        if self.score == "absolute":
            f = columns(self.model.predict(X))
            return f, f, f, np.ones_like(f) * scale
        seen = seen_by_last(self.model, X)
        f = columns(last_step(self.model).predict(seen))
        if self.band is None:
            return f, f, f, np.maximum(columns(self.spread.predict(seen)), self.least)
        return f, *self.band.predict(seen), np.ones_like(f) * scale


def settle(scored: Scored, X: Any) -> tuple[Scored, Base]:
    """Decide once, by the calibration rows, what must not depend on the rows asked for later; and the base at these
    rows.

    A sigma of zero (a constant target, an exact fit) counts as 1e-12 of the largest, or as 1 where all are zero.
    Several outputs of a model fitted elsewhere are made comparable by the standard deviations of its predictions.
    """
    f, lower, upper, unit = scored.base(X)
    if scored.score == "variance":
        scored = replace(scored, least=least_unit(unit))
        unit = np.maximum(unit, scored.least)
    if scored.scale is None:
        scale = unit_of_outputs(f.std(axis=0))
        scored, unit = replace(scored, scale=scale), unit * scale
    return scored, (f, lower, upper, unit)


def least_unit(unit: Array) -> Array:
    """What a unit of zero counts as, for each output."""
    return _or_one(1e-12 * unit.max(axis=0, initial=0.0))


def unit_of_outputs(spread: Array) -> Array:
    """One unit per output where u does not depend on x: 1 for a single output, else its spread."""
    return _or_one(spread) if len(spread) > 1 else np.ones(1)


def _or_one(scale: Array) -> Array:
    return np.where(scale > 0, scale, 1.0)


def score_for(score: Any, model: Any) -> str:
    """The score by name; "auto" is "variance" where the regressor has a standard deviation, else "absolute"."""
    one_of("score", score, SCORES)
    if score == "auto":
        return "variance" if has_std(model) else "absolute"
    if score == "variance" and not has_std(model):
        name = type(last_step(model)).__name__
        raise ValueError(
            f"score='variance' needs a regressor with predict(X, return_std=True), and {name} has none; take"
            " score='auto', 'absolute', 'residual' or 'quantile'."
        )
    return str(score)


def check_folds(cv: Any) -> None:
    """Refuse what is no splitter before anything is fitted."""
    is_loo = isinstance(cv, str) and cv == "loo"
    if not is_loo and not hasattr(cv, "__next__"):  # a generator of splits can be read only once
        as_splitter(cv, "'loo'")


def check_groups(cv: Any, groups: Any) -> None:
    """Refuse a splitter that keeps groups together where none are given."""
    if groups is None and keeps_groups_together(cv):
        raise ValueError(f"cv={cv!r} needs to know which rows to keep together: fit(X, y, groups=...).")


def fit_scored(
    estimator: Any, recipe: Recipe, X: Any, y: Array, weights: Array | None = None, groups: Any = None
) -> Scored:
    """Fit the regressor and what its score needs."""
    score = score_for(recipe.score, estimator)
    fit_arguments(last_step(estimator), weights)
    if score == "quantile":
        check_rows(len(y))
    if score == "residual" and not (is_frozen(estimator) or may_have_closed_form(estimator)):
        check_groups(recipe.cv, groups)
    check = {"check": check_table} if score == "quantile" else {}
    model, seen = fit_regressor(estimator, X, y, weights, **check)
    if score == "residual":
        left_out = np.abs(_left_out_residuals(model, seen, y, weights, recipe.cv, groups))
        last = clone(last_step(model))
        spread = last.fit(seen, left_out if y.ndim > 1 else left_out[:, 0], **fit_arguments(last, weights))
        least = np.maximum(0.1 * np.median(left_out, axis=0), np.finfo(float).tiny)
        return Scored(model, score, spread=spread, least=least)
    if score == "quantile":
        band = fit_quantiles(seen, y, recipe.level, recipe.seed, weights)
        lower, upper = band.predict(seen)
        return Scored(model, score, band=band, scale=unit_of_outputs((upper - lower).mean(axis=0)))
    if score == "variance" or y.ndim == 1:
        return Scored(model, score)
    return Scored(model, score, scale=unit_of_outputs(np.abs(y - columns(model.predict(X))).mean(axis=0)))


def prefit(model: Any, score: Any) -> Scored:
    """A model that was fitted elsewhere."""
    score = score_for(score, model)
    if score in ("residual", "quantile"):
        raise ValueError(
            f"score={score!r} needs a second fit to the training rows: call fit(X, y), or take score='absolute' or"
            " 'variance'."
        )
    return Scored(model, score, scale=None)


def _left_out_residuals(model: Any, seen: Any, y: Array, weights: Array | None, cv: Any, groups: Any) -> Array:
    """Residuals of rows not used to predict them: by the exact leave-one-out of the last step, else out of fold. A
    frozen model has not been fitted to these rows."""
    last = last_step(model)
    if has_closed_form(model):
        return np.asarray(last.leave_one_out(seen, y).residuals)
    if is_frozen(model):
        return columns(y) - columns(last.predict(seen))
    check_groups(cv, groups)
    folds, arguments = check_cv(5 if isinstance(cv, str) else cv), fit_arguments(last, weights)
    own = groups_for(folds, groups)
    return columns(y) - columns(cross_val_predict(clone(last), seen, y, groups=own, cv=folds, params=arguments))


def columns(Y: Any) -> Array:
    array = np.asarray(Y, np.float64)
    return np.asarray(array.reshape(len(array), -1))
