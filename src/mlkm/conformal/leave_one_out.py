"""Jackknife+ (Barber, Candes, Ramdas, Tibshirani 2021) from the closed form of one layer: as CV+ with a fold per row,
from a single fit.

The closed form holds the features fixed. If features are learned from the same rows, a fit without a row would have
learned others, and residuals with the features of all rows are too small: with 40 rows of 30 inputs that are
independent of y, a band of 90 % covered 74 %. CV+ with a search in every fold is then used instead.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._types import Array, IntArray
from ..runtime.checks import brief
from .cross import Cross, LeftOutBase, RowScores, fit_cross
from .rank import warn
from .request import Request, Shift
from .scores import Recipe, columns, least_unit, score_for, unit_of_outputs
from .wrapped_estimator import (
    fit_regressor,
    has_closed_form,
    is_frozen,
    last_step,
    may_have_closed_form,
    searches,
    seen_by_last,
)

_FOLDS = 5  # of CV+ where features are learned, as in `ConformalRegressor`


@dataclass(frozen=True)
class LeaveOneOut:
    """A fit that knows what it would be without each row, and where every row is among those it knows of.

    The unit is sigma_y(x), bounded from below by `least`, or `least` itself.
    """

    model: Any
    place: IntArray
    scores: RowScores
    scaled: bool
    least: Array

    @property
    def n_calibration(self) -> int:
        return len(self.place)

    @property
    def n_outputs(self) -> int:
        return self.scores.n_outputs

    def interval(self, X: Any, request: Request) -> tuple[Array, Array]:
        """f (n, k), and the interval (n, 2, levels, k)."""
        return columns(self.model.predict(X)), self.scores.interval(self._base, X, request)

    def shares(self, X: Any, y: Array, request: Request) -> Array:
        """At every y (n, points, k) the share of the distribution up to it."""
        return self.scores.shares(self._base, X, y, request)

    def _base(self, X: Any) -> LeftOutBase:
        seen, last = seen_by_last(self.model, X), last_step(self.model)
        left = last.left_out_predictions(seen)
        unit = np.broadcast_to(self.least, (len(left), len(self.least)))
        if self.scaled:
            unit = np.maximum(columns(last.predict(seen, return_std=True)[1]), self.least)

        def at(output: int, rows: IntArray) -> tuple[Array, Array, Array]:
            f = left[:, self.place[rows], output]
            return f, f, np.broadcast_to(unit[:, [output]], f.shape)

        return at


def fit_leave_one_out(
    estimator: Any, recipe: Recipe, X: Any, y: Array, weights: Array | None = None
) -> LeaveOneOut | Cross:
    """Fit once to all rows, or by folds where features are learned. Rows of weight zero are in no fit and have no
    score."""
    score = score_for(recipe.score, estimator)
    if score not in ("absolute", "variance"):
        raise ValueError(f"cv='loo' goes with score='absolute' or 'variance'; got {brief(score)}.")
    if not may_have_closed_form(estimator):
        raise ValueError(_no_closed_form(estimator))
    if searches(estimator):
        return _by_folds(estimator, recipe, X, y, weights)
    shift = Shift.of(weights)
    model, seen = fit_regressor(estimator, X, y, None if shift is None else shift.weights)
    if not has_closed_form(model):
        raise ValueError(_no_closed_form(estimator))
    rows = last_step(model).leave_one_out(seen, y)
    kept = rows.place >= 0
    residuals = rows.residuals[kept]
    unit, least = np.zeros_like(residuals), unit_of_outputs(np.abs(residuals).mean(axis=0))
    if score == "variance":
        unit = rows.std[kept]
        least = least_unit(unit)
    signed = residuals / np.maximum(unit, least)
    shift = None if shift is None else replace(shift, weights=shift.weights[kept])
    return LeaveOneOut(model, rows.place[kept], RowScores(-signed, signed, shift), score == "variance", least)


def _by_folds(estimator: Any, recipe: Recipe, X: Any, y: Array, weights: Array | None) -> Cross:
    """Use CV+ instead, with a warning."""
    if is_frozen(estimator):
        raise ValueError(
            "cv='loo' needs rows that no search has seen, and this fitted model may have searched for its features on"
            " the rows given; call conformalize with rows that it has not seen, or give the estimator unfitted."
        )
    folds = min(_FOLDS, len(y))
    warn(
        "cv='loo' holds features fixed, and this estimator searches for them on the same rows, so that leave-one-out"
        f" residuals would be too small: {folds} folds with a search each were used, as with cv={folds}; with a given"
        " scale leave-one-out is exact."
    )
    return fit_cross(estimator, replace(recipe, cv=folds), X, y, weights)


def _no_closed_form(estimator: Any) -> str:
    name = type(last_step(estimator)).__name__
    return f"cv='loo' needs the closed form of one layer, which {name} as given has not; pass sklearn's LeaveOneOut()."
