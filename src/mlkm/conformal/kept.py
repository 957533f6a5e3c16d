"""What `fit` keeps for `conformalize`: its rows.

`fit(X, y)` trains on some of its rows and calibrates on the others. Where `conformalize` is then given rows of its own,
none need be set aside, and the model it calibrates is one trained on all rows of `fit`: it is fitted then, once. Rows
are kept by reference and not pickled; a band that was pickled keeps the model it has.
"""

from dataclasses import dataclass, replace
from typing import Any, Self

from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from .._types import Array
from .rank import warn
from .scores import Recipe, Scored, fit_scored, prefit, score_for


@dataclass(frozen=True)
class FitRows:
    """The rows given to `fit`."""

    X: Any
    y: Array
    weights: Array | None = None
    groups: Any = None


@dataclass(frozen=True)
class Kept:
    """What `estimator` as given became in `fit`: the model trained on a part of the rows, and how to train on all."""

    given: Any
    estimator: Any
    recipe: Recipe
    scored: Scored
    rows: FitRows | None
    on_all_rows: bool = False

    def trained_on_all(self, score: Any) -> Self:
        """With the model of all rows of `fit`, and the score asked for now."""
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
        recipe, rows = replace(self.recipe, score=score), self.rows
        scored = fit_scored(self.estimator, recipe, rows.X, rows.y, rows.weights, rows.groups)
        return replace(self, recipe=recipe, scored=scored, on_all_rows=True)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "rows": None}


def to_calibrate(kept: Kept | None, estimator: Any, score: Any) -> tuple[Scored, Kept | None]:
    """What `conformalize` calibrates: the model of all rows given to `fit`, where `fit` was called with this estimator;
    else the estimator itself, if it is fitted."""
    if kept is None or kept.given is not estimator:
        return prefit(_fitted_or_raise(estimator), score), None
    kept = kept.trained_on_all(score)
    return kept.scored, kept


def _fitted_or_raise(estimator: Any) -> Any:
    """The estimator as it is, if it is fitted."""
    try:
        check_is_fitted(estimator)
    except (NotFittedError, TypeError) as unfitted:
        raise NotFittedError(
            "conformalize needs a fitted regressor: fit the estimator first, or call fit(X, y), which does both."
        ) from unfitted
    return estimator
