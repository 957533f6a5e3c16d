"""What a residual is measured by. A score is a band lower(x), upper(x) with a unit u(x): the conformal interval is

[lower(x) - q u(x), upper(x) + q u(x)],   q the conformal quantile of the scores max(lower - y, y - upper) / u.

"variance"   lower = upper = f(x),   u = sigma_y(x), the paper's estimator          "absolute"   u = 1
"residual"   u = a second fit, of |y - f(x)| at rows left out                       "quantile"   lower, upper = fitted
quantiles, u = 1

With several outputs, a u that does not depend on x is one constant per output, so that outputs can be covered jointly.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from inspect import signature
from typing import Any, TypeAlias

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_predict
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from .._types import Array
from .quantile import QuantileBand, fit_quantiles

SCORES = ("variance", "absolute", "residual", "quantile")

Base: TypeAlias = tuple[Array, Array, Array, Array]  # f, lower, upper and u at every row, each (n, k)


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
        f = columns(self.model.predict(X))
        if self.score == "residual":
            return f, f, f, np.maximum(columns(self.spread.predict(X)), self.least)
        unit = np.ones_like(f) * (1.0 if self.scale is None else self.scale)
        if self.score == "quantile" and self.band is not None:
            lower, upper = self.band.predict(X)
            return f, lower, upper, unit
        return f, f, f, unit


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


def check_score(score: str, model: Any) -> None:
    if score not in SCORES:
        raise ValueError(f"score must be one of {', '.join(map(repr, SCORES))}; got {score!r}.")
    if score == "variance" and not _has_std(model):
        raise ValueError(
            f"score='variance' needs a regressor with predict(X, return_std=True), and {type(model).__name__} has none;"
            " take score='absolute', 'residual' or 'quantile'."
        )


def _has_std(model: Any) -> bool:
    predict = getattr(model, "predict", None)
    if type(model).__name__ == "FrozenEstimator":
        return _has_std(model.estimator)
    if type(model).__name__ == "Pipeline":
        return _has_std(model.steps[-1][1])
    return predict is not None and "return_std" in signature(predict).parameters


def fit_scored(estimator: Any, score: str, level: Fraction, X: Any, y: Array, cv: Any, seed: int) -> Scored:
    """Fit the regressor and what its score needs."""
    score = str(score)
    check_score(score, estimator)
    model = clone(estimator).fit(X, y)
    if score == "residual":
        left_out = np.abs(_left_out_residuals(model, estimator, X, y, cv))
        spread = clone(estimator).fit(X, left_out if y.ndim > 1 else left_out[:, 0])
        return Scored(
            model, score, spread=spread, least=np.maximum(0.1 * np.median(left_out, axis=0), np.finfo(float).tiny)
        )
    if score == "quantile":
        band = fit_quantiles(X, y, level, seed)
        lower, upper = band.predict(X)
        return Scored(model, score, band=band, scale=unit_of_outputs((upper - lower).mean(axis=0)))
    if score == "variance" or y.ndim == 1:
        return Scored(model, score)
    return Scored(model, score, scale=unit_of_outputs(np.abs(y - columns(model.predict(X))).mean(axis=0)))


def prefit(model: Any, score: str) -> Scored:
    """A model that was fitted elsewhere."""
    score = str(score)
    check_score(score, model)
    if score in ("residual", "quantile"):
        raise ValueError(
            f"score={score!r} needs a second fit to the training rows: call fit(X, y), or take score='absolute' or"
            " 'variance'."
        )
    return Scored(model, score, scale=None)


def to_calibrate(fitted: tuple[Any, Scored] | None, estimator: Any, score: str) -> Scored:
    """What `conformalize` calibrates: the model that `fit` made of this estimator, else the estimator itself, if it is
    fitted."""
    if fitted is None or fitted[0] is not estimator:
        return prefit(fitted_or_raise(estimator), score)
    return fitted[1] if fitted[1].score == score else prefit(fitted[1].model, score)


def fitted_or_raise(estimator: Any) -> Any:
    """The estimator as it is, if it is fitted."""
    try:
        check_is_fitted(estimator)
    except (NotFittedError, TypeError) as unfitted:
        raise NotFittedError(
            "conformalize needs a fitted regressor: fit the estimator first, or call fit(X, y), which does both."
        ) from unfitted
    return estimator


def _left_out_residuals(model: Any, estimator: Any, X: Any, y: Array, cv: Any) -> Array:
    """Residuals of rows not used to predict them: by the exact leave-one-out of one layer, r / (1 - leverage), else out
    of fold."""
    if not closed_form(model):
        return columns(y) - columns(cross_val_predict(estimator, X, y, cv=5 if isinstance(cv, str) else cv))
    f, std = (columns(array) for array in model.predict(X, return_std=True))
    noise = np.maximum(model._sigma().noise * model.y_scaler_.sd**2, np.finfo(float).tiny)
    return np.asarray((columns(y) - f) / np.clip(2 - std**2 / noise, 1e-12, 1))


def closed_form(model: Any) -> bool:
    """Whether leave-one-out fits of this model are known exactly: one layer, its features held fixed."""
    training = getattr(model, "_training", None)
    return training is not None and training.first is not None and len(model.machines_) == 1


def as_targets(y: Any, at_least: int = 1) -> Array:
    """Outcomes as finite numbers, (n,) or (n, k)."""
    return np.asarray(check_array(y, ensure_2d=False, dtype=np.float64, ensure_min_samples=at_least, input_name="y"))


def columns(Y: Any) -> Array:
    array = np.asarray(Y, np.float64)
    return np.asarray(array.reshape(len(array), -1))
