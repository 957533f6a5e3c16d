"""Conformity scores: the scale on which a residual is measured. A score is a band lower(x), upper(x) with a unit u(x);
the conformal interval is

[lower(x) - q u(x), upper(x) + q u(x)],   q the conformal quantile of the scores max(lower - y, y - upper) / u.

"variance"   lower = upper = f(x),   u = sigma_y(x), the paper's estimator
"absolute"   lower = upper = f(x),   u = 1
"residual"   lower = upper = f(x),   u = a second fit, of leave-one-out or out-of-fold residuals |y - f(x)|
"quantile"   lower, upper = fitted quantiles,   u = 1
"auto"       "variance" where the regressor has a standard deviation, else "absolute"

With several outputs, a u that does not depend on x is one constant per output, so that outputs can be covered jointly.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import check_cv, cross_val_predict
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from .._types import Array, IntArray
from ..data import GivenRows
from ..data.folds import checked_weights, groups_for, keeps_groups_together
from ..exceptions import warn
from ..fit.apply import sendable
from ..runtime.checks import as_splitter, one_of
from ..runtime.sizes import NEGLIGIBLE_UNIT
from . import wrapped_estimator as wrapped
from .quantile import QuantileBand, check_rows, check_table, fit_quantiles
from .wrapped_estimator import Regressor, columns

SCORES = ("auto", "variance", "absolute", "residual", "quantile")


@dataclass(frozen=True)
class ObservedRows:
    """Rows in memory with their outcomes, and with weights and Mondrian groups where there are any."""

    X: object
    y: Array
    weights: Array | None = None
    groups: Any = None

    def take(self, at: IntArray) -> Self:
        """Return the rows with these indices."""
        weights, groups = (None if array is None else array[at] for array in (self.weights, self.groups))
        return replace(self, X=_safe_indexing(self.X, at), y=self.y[at], weights=weights, groups=groups)

    def with_scaled_weights(self) -> Self:
        """Return the rows with weights of a size that a regressor can sum up."""
        return replace(self, weights=checked_weights(self.weights, len(self.y)))

    def given(self) -> GivenRows:
        """Return the rows as one block."""
        return GivenRows(self.X, columns(self.y), self.weights, self.y.ndim == 1)


@dataclass(frozen=True)
class ScoreSettings:
    """The settings by which a regressor and its score are fitted: the score by name, the highest level, the folds of
    out-of-fold residuals, and a seed."""

    score: str
    level: Fraction
    cv: Any = 5
    seed: int = 0

    def check_groups(self, groups: object) -> None:
        """Refuse a splitter that keeps groups together where none are given."""
        if groups is None and keeps_groups_together(self.cv):
            raise ValueError(f"cv={self.cv!r} needs to know which rows to keep together: fit(X, y, groups=...).")


class UncalibratedBand(NamedTuple):
    """The mean f, the ends `lower` and `upper` and the unit u of a score at every row, each (n, k)."""

    mean: Array
    lower: Array
    upper: Array
    unit: Array

    def of_output(self, output: int) -> Self:
        """Return the band of one output, each part (n,)."""
        return type(self)(*(part[:, output] for part in self))

    def scores(self, Y: Array) -> tuple[Array, Array]:
        """Return how far outcomes Y (n, k) lie below `lower` and above `upper`, in units u."""
        return (self.lower - Y) / self.unit, (Y - self.upper) / self.unit

    def widened(self, q: Array, side: str) -> Array:
        """Return the interval (n, 2, levels, k) that reaches q units (n or 1, levels, k) beyond both ends."""
        reach = q * self.unit[:, None, :]
        lower, upper = self.lower[:, None, :], self.upper[:, None, :]
        return as_interval(lower - reach, upper + reach, side, lower + (upper - lower) / 2)


def as_interval(lower: Array, upper: Array, side: str, centre: Array) -> Array:
    """Stack both ends of an interval; a side that was not asked for is infinite.

    Neither end passes the centre, which does not depend on the level, so that intervals of higher levels contain those
    of lower ones even where the ends would cross.
    """
    if side == "upper":
        return np.stack([np.full_like(upper, -np.inf), upper], axis=1)
    if side == "lower":
        return np.stack([lower, np.full_like(lower, np.inf)], axis=1)
    return np.stack([np.minimum(lower, centre), np.maximum(upper, centre)], axis=1)


@dataclass(frozen=True)
class ScoredRegressor:
    """A fitted regressor with the second fit that its score needs: of absolute residuals (`spread`), or of two
    quantiles (`band`).

    `least` bounds the unit u from below; `scale` is the u of scores whose unit is the same at all rows, None until
    `settled` decides it.
    """

    model: Regressor
    score: str
    spread: Regressor | None = None
    least: Array | float = 0.0
    band: QuantileBand | None = None
    scale: Array | float | None = 1.0

    def predict(self, X: object) -> UncalibratedBand:
        """Return the band of the score at rows X, before its calibration."""
        if self.score == "variance":
            f, unit = wrapped.mean_and_std(self.model, X)
            return UncalibratedBand(f, f, f, np.maximum(unit, self.least))
        if self.score == "absolute":
            f = columns(self.model.predict(X))
            return UncalibratedBand(f, f, f, self.constant_unit(f))
        inputs = wrapped.last_inputs(self.model, X)
        f = columns(wrapped.last_step(self.model).predict(inputs))
        if self.spread is not None:
            return UncalibratedBand(f, f, f, np.maximum(columns(self.spread.predict(inputs)), self.least))
        assert self.band is not None
        return UncalibratedBand(f, *self.band.predict(inputs), self.constant_unit(f))

    def constant_unit(self, f: Array) -> Array:
        """Return the unit of a score whose unit is the same at all rows, in the shape of f."""
        return np.ones_like(f) * (1.0 if self.scale is None else self.scale)

    def settled(self, largest: Array, spread: Array) -> Self:
        """Fix the units by the calibration rows, once, so that they do not depend on the rows predicted later.

        A sigma of zero (a constant target, an exact fit) is replaced by 1e-12 of the largest unit, or by 1 if all are
        zero. Several outputs of a model that was fitted before are made comparable by the standard deviations of its
        predictions, `spread`.
        """
        least = least_unit(largest) if self.score == "variance" else self.least
        return replace(self, least=least, scale=unit_of_outputs(spread) if self.scale is None else self.scale)

    def settled_by(self, band: UncalibratedBand) -> tuple[Self, UncalibratedBand]:
        """Return the score settled by its band at the calibration rows, and this band in settled units."""
        with np.errstate(over="ignore", invalid="ignore"):  # squares of large numbers; their spread is not used
            scored = self.settled(band.unit.max(axis=0, initial=0.0), band.mean.std(axis=0))
        varies = self.score in ("variance", "residual")
        unit = np.maximum(band.unit, scored.least) if varies else scored.constant_unit(band.mean)
        return scored, band._replace(unit=unit)

    def sendable(self) -> Self:
        """Return a copy to be sent to rows in files or on a cluster, without training rows that are not needed."""
        return replace(self, model=sendable(self.model, self.score == "variance"))


def least_unit(largest: Array) -> Array:
    """Return the lower bound of the unit of each output, from the largest unit."""
    return _or_one(NEGLIGIBLE_UNIT * largest)


def unit_of_outputs(spread: Array) -> Array:
    """Return one unit per output where u does not depend on x: 1 for a single output, else its spread."""
    return _or_one(spread) if len(spread) > 1 else np.ones(1)


def _or_one(scale: Array) -> Array:
    return np.where(scale > 0, scale, 1.0)


def score_for(score: str, model: Regressor) -> str:
    """Return the score by name, with "auto" resolved, and refuse "variance" for a regressor without one."""
    one_of("score", score, SCORES)
    if score == "auto":
        return "variance" if wrapped.has_std(model) else "absolute"
    if score == "variance" and not wrapped.has_std(model):
        name = type(wrapped.last_step(model)).__name__
        raise ValueError(
            f"score='variance' needs a regressor with predict(X, return_std=True), and {name} has none; take"
            " score='auto', 'absolute', 'residual' or 'quantile'."
        )
    return str(score)


def check_folds(cv: object) -> None:
    """Refuse a `cv` that is no splitter before anything is fitted."""
    is_loo = isinstance(cv, str) and cv == "loo"
    if not is_loo and not hasattr(cv, "__next__"):  # a generator of splits can be read only once
        as_splitter(cv, "'loo'")


def fit_scored(estimator: Regressor, settings: ScoreSettings, rows: ObservedRows) -> ScoredRegressor:
    """Fit the regressor, and what its score needs, to all rows."""
    score, y, weights = settings.score, rows.y, rows.weights
    wrapped.fit_arguments(wrapped.last_step(estimator), weights)
    if score == "quantile":
        check_rows(len(y))
    if score == "residual" and not (wrapped.is_frozen(estimator) or wrapped.may_have_closed_form(estimator)):
        settings.check_groups(rows.groups)
    check = {"check": check_table} if score == "quantile" else {}
    model, inputs = wrapped.fit_regressor(estimator, rows.X, y, weights, **check)
    if score == "residual":
        return _with_residual_fit(model, inputs, settings, rows)
    if score == "quantile":
        band = fit_quantiles(inputs, y, settings.level, settings.seed, weights)
        lower, upper = band.predict(inputs)
        return ScoredRegressor(model, score, band=band, scale=unit_of_outputs((upper - lower).mean(axis=0)))
    if score == "variance" or y.ndim == 1:
        return ScoredRegressor(model, score)
    residuals = np.abs(y - columns(model.predict(rows.X)))
    return ScoredRegressor(model, score, scale=unit_of_outputs(residuals.mean(axis=0)))


def _with_residual_fit(
    model: Regressor, inputs: object, settings: ScoreSettings, rows: ObservedRows, least_share: float = 0.1
) -> ScoredRegressor:
    """Fit a clone of the last step to the absolute residuals of rows that were not used to predict them; no unit is
    below `least_share` of their median."""
    residuals = np.abs(_left_out_residuals(model, inputs, settings, rows))
    last = clone(wrapped.last_step(model))
    targets = residuals if rows.y.ndim > 1 else residuals[:, 0]
    spread = last.fit(inputs, targets, **wrapped.fit_arguments(last, rows.weights))
    least = np.maximum(least_share * np.median(residuals, axis=0), np.finfo(float).tiny)
    return ScoredRegressor(model, "residual", spread=spread, least=least)


def _left_out_residuals(model: Regressor, inputs: object, settings: ScoreSettings, rows: ObservedRows) -> Array:
    """Return leave-one-out residuals in closed form where the last step has them, else out-of-fold residuals. A frozen
    model has not been fitted to these rows."""
    last, exact = wrapped.last_step(model), wrapped.closed_form(model)
    if exact is not None:
        return np.asarray(exact.leave_one_out(inputs, rows.y).residuals)  # type: ignore[arg-type]
    if wrapped.is_frozen(model):
        return columns(rows.y) - columns(last.predict(inputs))
    settings.check_groups(rows.groups)
    folds = check_cv(ScoreSettings.cv if isinstance(settings.cv, str) else settings.cv)
    predictions = cross_val_predict(
        clone(last),
        inputs,
        rows.y,
        groups=groups_for(folds, rows.groups),
        cv=folds,
        params=wrapped.fit_arguments(last, rows.weights),
    )
    return columns(rows.y) - columns(predictions)


def prefit(model: Regressor, score: str) -> ScoredRegressor:
    """Return a score for a model that was fitted before."""
    score = score_for(score, model)
    if score in ("residual", "quantile"):
        raise ValueError(
            f"score={score!r} needs a second fit to the training rows: call fit(X, y), or take score='absolute' or"
            " 'variance'."
        )
    return ScoredRegressor(model, score, scale=None)


@dataclass(frozen=True)
class FittedRegressor:
    """The result of `fit` of an estimator: the model trained on a part of the rows, and how to train it on all of them.

    `fit(X, y)` trains on a part of its rows and calibrates on the others. Where `conformalize` is then given other
    rows, none need be set aside, and the model it calibrates is one trained on all rows of `fit`: it is fitted then,
    once. The rows are held by reference and not pickled; a band that was pickled calibrates the model it has.
    """

    given: Regressor | None
    estimator: Regressor
    settings: ScoreSettings
    scored: ScoredRegressor
    rows: ObservedRows | None
    on_all_rows: bool = False

    @classmethod
    def of(
        cls, given: Regressor | None, estimator: Regressor, settings: ScoreSettings, rows: ObservedRows, at: IntArray
    ) -> Self:
        """Train the regressor and its score on the rows with these indices."""
        scored = fit_scored(estimator, settings, rows.take(at).with_scaled_weights())
        return cls(given, estimator, settings, scored, rows.with_scaled_weights())

    def trained_on_all(self, score: str) -> Self:
        """Return the model trained on all rows of `fit`, with the requested score."""
        score = score_for(score, self.estimator)
        if self.on_all_rows and self.scored.score == score:
            return self
        if self.rows is None:
            if not self.on_all_rows:
                warn(
                    "The rows of fit are not pickled, so conformalize calibrates the model that fit trained on a part"
                    " of them; put ConformalRegressor around a model fitted to all of them instead."
                )
            return self if self.scored.score == score else replace(self, scored=prefit(self.scored.model, score))
        settings = replace(self.settings, score=score)
        scored = fit_scored(self.estimator, settings, self.rows)
        return replace(self, settings=settings, scored=scored, on_all_rows=True)

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "rows": None}


def to_calibrate(
    fitted: FittedRegressor | None, estimator: Regressor | None, score: str
) -> tuple[ScoredRegressor, FittedRegressor | None]:
    """Return what `conformalize` calibrates: the model trained on all rows given to `fit`, where `fit` was called with
    this estimator; else the estimator itself, which must be fitted."""
    if fitted is not None and fitted.given is estimator:
        fitted = fitted.trained_on_all(score)
        return fitted.scored, fitted
    try:
        check_is_fitted(estimator)
    except (NotFittedError, TypeError) as unfitted:
        raise NotFittedError(
            "conformalize needs a fitted regressor: fit the estimator first, or call fit(X, y), which does both."
        ) from unfitted
    assert estimator is not None
    return prefit(estimator, score), None
