"""The meta-estimator: a band around any regressor."""

from dataclasses import replace
from numbers import Real
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.model_selection import train_test_split
from sklearn.utils import _safe_indexing, get_tags, indexable
from sklearn.utils.validation import _num_samples, check_consistent_length, check_is_fitted, validate_data

from .._types import Array, RandomState
from ..data.inputs import checked_weights, given_weights
from ..data.rows import Rows
from ..data.scan import PartOf
from ..data.tables.frames import Table
from ..data.training import as_rows
from ..estimators import MLKMRegressor
from ..fit.apply import Predictions, apply_rows, is_elsewhere, later_rows, sendable
from ..report import Reporting
from ..runtime.checks import as_targets, brief, check_some_rows, named_parameters, one_of, yes_no
from ..runtime.levels import exact_levels, groups_of
from ..runtime.seeds import root_seed
from .bootstrap import Bootstrap, fit_bootstrap
from .cross import Cross, fit_cross
from .distribution import Quantiles
from .elsewhere import IntervalOf, Selected, calibrate_elsewhere, fit_elsewhere, to_send
from .kept import FitRows, Kept, to_calibrate
from .leave_one_out import LeaveOneOut, fit_leave_one_out
from .naming import WithScoreParameter
from .outside import look_outside
from .request import Request, limits_of
from .scores import Recipe, check_folds, check_groups, fit_scored, score_for
from .split import Split, calibrate, rows_kept
from .wrapped_estimator import check_regressor

Band: TypeAlias = Split | Selected | Cross | LeaveOneOut | Bootstrap


class ConformalRegressor(Reporting, Quantiles, WithScoreParameter, MetaEstimatorMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A prediction band around any regressor, with coverage that holds for finite samples, whatever the model and the
    noise.

    Parameters
    ----------
    estimator : regressor or None, default=None
        What predicts the mean; None is `MLKMRegressor()`. One that is fitted already can be calibrated by
        `conformalize` alone.
    confidence_level : float or sequence of float, default=0.95
        1 - alpha, one or several; `predict_interval` may ask for others.
    score : {"auto", "variance", "absolute", "residual", "quantile"}, default="auto"
        What a residual is measured by: the paper's sigma_y(x); 1; a second fit of |residual|, for noise that varies
        with x; or the distance to fitted quantiles, for noise that varies or is skewed. "variance" needs a regressor
        with `predict(X, return_std=True)`; "auto" is "variance" where there is one, else "absolute". Around a pipeline
        second fits run on what its last step sees.
    method : {"split", "cross", "bootstrap"}, default="split"
        "split" keeps some rows for calibration: coverage in [1 - alpha, 1 - alpha + 1/(m + 1)]. "cross" is CV+, or
        jackknife+ with `cv="loo"`: coverage of at least 1 - 2 alpha. "bootstrap" is the paper's baseline: an interval
        for f(x), without any guarantee for y.
    calibration_size : float or int, default=0.5
        Share or number of rows kept for calibration by "split".
    cv : int, splitter or "loo", default=5
        Folds of "cross", and of residuals for "residual" where the regressor has no closed form. "loo" leaves out rows
        in closed form, for one-layer machines of a given scale. For a regressor that learns its features, which would
        differ without the row, five folds with a search in each are used instead, with a warning.
    random_state : int, RandomState or None, default=None
        Seed of the split, of bootstrap samples and of quantile fits.

    Attributes
    ----------
    estimator_ : the fitted regressor behind `predict`.
    n_calibration_ : int, the number of rows with a score.

    Examples
    --------
    >>> from mlkm import ConformalRegressor, RandomFeatureRidge
    >>> from mlkm.datasets import make_example1
    >>> X, y, f = make_example1(n=400, d=4, random_state=0)
    >>> band = ConformalRegressor(RandomFeatureRidge(100, scale=1.0, random_state=0), random_state=0).fit(X, y)
    >>> mean, interval = band.predict_interval(X, confidence_level=[0.8, 0.9])
    >>> interval.shape
    (400, 2, 2)
    """

    @named_parameters
    def __init__(
        self,
        estimator: Any = None,
        *,
        confidence_level: Any = 0.95,
        score: Literal["auto", "variance", "absolute", "residual", "quantile"] = "auto",
        method: Literal["split", "cross", "bootstrap"] = "split",
        calibration_size: float = 0.5,
        cv: Any = 5,
        random_state: RandomState = None,
    ) -> None:
        self.estimator = estimator
        self.confidence_level = confidence_level
        self.score = score
        self.method = method
        self.calibration_size = calibration_size
        self.cv = cv
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any = None, groups: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit the regressor and calibrate the band, on rows of their own where the method asks for that.

        Parameters
        ----------
        X, y : inputs, and outcomes (n,) or (n, k)
        groups : labels of the rows. They ask for the level within each group. For method="cross" with a splitter that
            keeps groups together, as `GroupKFold`, they name what it keeps together, and `predict_interval` may do
            without them: it then speaks of rows of any group, also of new ones
        sample_weight : how much each row counts in the population the band is for, as dQ/dP in `conformalize`: both the
            regressor's `fit` and the calibration use it, and coverage holds for new rows drawn with these weights.
            Weights that say how precise a row is belong to the regressor alone: fit it first, then `conformalize`
        """
        level, (estimator, score) = max(exact_levels(self.confidence_level)), self._checked_inside()
        if (source := as_rows(X, y, sample_weight)) is not None:
            return self._fit_elsewhere(source, estimator, score, groups)
        check_some_rows(X)
        validate_data(self, X, y, skip_check_array=True)
        (X,), Y = indexable(X), as_targets(y)
        check_consistent_length(X, Y)
        weights = given_weights(sample_weight, len(Y))
        if groups is not None:
            if self.method == "bootstrap":
                raise ValueError("method='bootstrap' knows no groups; take method='split' or 'cross'.")
            groups_of(groups, len(Y))
            groups = np.asarray(groups)
        elif self.method == "cross":
            check_groups(self.cv, groups)
        recipe = Recipe(score, level, self.cv, root_seed(self.random_state))
        band: Band
        kept: Kept | None = None
        if self.method == "split":
            band, kept = self._split(estimator, recipe, FitRows(X, Y, weights, groups))
        elif self.method == "bootstrap":
            band = fit_bootstrap(estimator, X, Y, recipe.seed, checked_weights(sample_weight, len(Y)))
        elif isinstance(self.cv, str):
            if groups is not None:
                raise ValueError("cv='loo' knows no groups; pass folds, as in cv=5.")
            band = fit_leave_one_out(estimator, recipe, X, Y, weights)
        else:
            band = fit_cross(estimator, recipe, X, Y, weights, groups)
        return self._store(band, kept, Y)

    def _fit_elsewhere(self, source: Rows[Any], estimator: Any, score: str, groups: Any) -> Self:
        """Fit to a part of the rows of a source, and calibrate by the others."""
        if self.method != "split" or groups is not None:
            raise ValueError("Rows in files or on a cluster are calibrated by method='split', without groups.")
        share = self.calibration_size
        if not isinstance(share, Real) or isinstance(share, bool) or not 0 < share < 1:
            raise ValueError(f"calibration_size must be a share of the rows between 0 and 1; got {brief(share)}.")
        salt = root_seed(self.random_state)
        fitted, others = (source.map(PartOf(salt, *ends)) for ends in ((float(share), 1.1), (0.0, float(share))))
        scored = fit_elsewhere(clone(estimator), score, fitted)
        band = calibrate_elsewhere(scored, others, exact_levels(self.confidence_level))
        return self._store(band, None, source)._with_columns_of_model()

    def _checked_inside(self) -> tuple[Any, str]:
        """The regressor to fit and its score, if all that can be wrong before a fit is right."""
        one_of("method", self.method, ("split", "cross", "bootstrap"))
        estimator = MLKMRegressor(random_state=self.random_state) if self.estimator is None else self.estimator
        check_regressor(estimator)
        if self.method == "bootstrap":
            return estimator, "absolute"
        check_folds(self.cv)
        return estimator, score_for(self.score, estimator)

    def _split(self, estimator: Any, recipe: Recipe, rows: FitRows) -> tuple[Split, Kept]:
        """Fit to some rows, calibrate on the others."""
        n = len(rows.y)
        train, test = train_test_split(
            np.arange(n), test_size=rows_kept(self.calibration_size, n), random_state=recipe.seed
        )

        def part(at: Any) -> tuple[Any, ...]:
            own = (None if array is None else array[at] for array in (rows.weights, rows.groups))
            return _safe_indexing(rows.X, at), rows.y[at], *own

        X, y, weights, groups = part(train)
        fit_weights = checked_weights(weights, len(y))
        scored = fit_scored(estimator, recipe, X, y, fit_weights, groups)
        kept = Kept(self.estimator, estimator, recipe, scored, replace(rows, weights=checked_weights(rows.weights, n)))
        return calibrate(scored, *part(test)), kept

    def conformalize(
        self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Self:
        """Calibrate the band on rows the model has not seen; `sample_weight` is dQ/dP at these rows where new rows come
        from Q and these from P.

        After `fit`, where `estimator` is still the one that was fitted, these must be rows that `fit` was not given:
        since none need be set aside any more, the model is first trained on all rows of `fit`, once. Otherwise the
        model is `estimator` itself, which must then be fitted.
        """
        if self.method != "split":
            raise ValueError(f"conformalize calibrates method='split'; with method={self.method!r} call fit(X, y).")
        if (source := as_rows(X, y, sample_weight)) is not None:
            if groups is not None:
                raise ValueError("Rows in files or on a cluster are calibrated without groups.")
            scored, kept = to_calibrate(getattr(self, "_kept", None), self.estimator, self.score)
            elsewhere = calibrate_elsewhere(
                scored, later_rows(source, scored.model), exact_levels(self.confidence_level)
            )
            return self._store(elsewhere, kept, source)._with_columns_of_model()
        Y = as_targets(y)
        check_consistent_length(X, Y)
        weights = given_weights(sample_weight, len(Y))
        if groups is not None:
            groups_of(groups, len(Y))
            groups = np.asarray(groups)
        scored, kept = to_calibrate(getattr(self, "_kept", None), self.estimator, self.score)
        return self._store(calibrate(scored, X, Y, weights, groups), kept, Y)._with_columns_of_model()

    def _store(self, band: Band, kept: Kept | None, Y: Array | Rows[Any]) -> Self:
        self._band, self._kept = band, kept
        self._single_output = Y.ndim == 1 if isinstance(Y, np.ndarray) else Y.single_output
        self.estimator_, self.n_calibration_ = band.model, band.n_calibration
        return self

    def _with_columns_of_model(self) -> Self:
        """Number and names of the columns are the model's, save where it is one that `fit` trained on rows in memory,
        whose columns it has seen."""
        if self._kept is None:
            for name in ("n_features_in_", "feature_names_in_"):
                self.__dict__.pop(name, None)
                if hasattr(self.estimator_, name):
                    setattr(self, name, getattr(self.estimator_, name))
        return self

    calibrate = conformalize

    def predict(self, X: Any) -> Any:
        """The mean of y: the prediction of `estimator_`."""
        check_is_fitted(self, "estimator_")
        if is_elsewhere(X):
            return apply_rows(Predictions(sendable(self.estimator_)), X, [self._tail()], self.estimator_)[0]
        return np.asarray(self.estimator_.predict(X))

    def predict_interval(
        self,
        X: Any,
        confidence_level: Any = None,
        *,
        side: Literal["both", "lower", "upper"] = "both",
        y_min: float | None = None,
        y_max: float | None = None,
        joint: bool = False,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        outside: Literal["ignore", "warn"] = "ignore",
    ) -> tuple[Array, Array]:
        """The mean, and at every level an interval for y: shape (n, 2, levels), or (n, 2, levels, outputs) for several
        outputs.

        Parameters
        ----------
        confidence_level : float or sequence of float, default: that of the constructor
        side : "both", or "lower" / "upper" for a single bound at the full level, the other being infinite
        y_min, y_max : values y cannot pass, None for no limit; intervals are cut there, which loses no coverage
        joint : whether all outputs are to be covered at once, rather than each at its level
        groups : labels of the rows, where the band was calibrated by groups
        sample_weight : dQ/dP at the rows, where the band was calibrated with weights; by default the largest weight of
            the calibration rows, which is safe for new rows whose weight is no larger
        outside : "ignore" or "warn": whether to warn where rows are outside the training data, by the regressor's
            `outside(X)`
        """
        check_is_fitted(self, "estimator_")
        look_outside(self.estimator_, X, outside)
        limits = limits_of(y_min, y_max)
        levels = exact_levels(self.confidence_level if confidence_level is None else confidence_level)
        if is_elsewhere(X):
            if groups is not None or sample_weight is not None:
                raise ValueError("Rows in files or on a cluster have intervals without groups and weights.")
            request = Request(levels, side, yes_no("joint", joint), None, None)
            return self._interval_elsewhere(X, request, limits)
        if not isinstance(X, Table):
            (X,) = indexable(X)
        request = Request(levels, side, yes_no("joint", joint), groups, given_weights(sample_weight, _num_samples(X)))
        mean, interval = self._band.interval(X, request)
        interval = np.clip(interval, *limits)
        return (mean[:, 0], interval[..., 0]) if self._single_output else (mean, interval)

    def _interval_elsewhere(self, X: Any, request: Request, limits: tuple[float, float]) -> tuple[Any, Any]:
        """A collection for a collection, arrays for a table in files."""
        tail = self._tail()
        of = IntervalOf(to_send(self._band, request), request, limits, self._single_output)
        mean, interval = apply_rows(of, X, [tail, (2, len(request.levels), *tail)], self.estimator_)
        return mean, interval

    def _tail(self) -> tuple[int, ...]:
        """The shape of the prediction of a row."""
        return () if self._single_output else (self._band.n_outputs,)

    def predict_int(
        self,
        X: ArrayLike,
        *,
        confidence: float | None = None,
        y_min: float | None = None,
        y_max: float | None = None,
        side: Literal["both", "lower", "upper"] = "both",
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Array:
        """The interval at one level, shape (n, 2), as in crepes; the other arguments are those of
        `predict_interval`."""
        level = self.confidence_level if confidence is None else confidence
        if len(exact_levels(level)) > 1:
            raise ValueError(
                f"predict_int gives the interval at one level; got {brief(level)}: name one, as in confidence=0.9, or"
                " call predict_interval."
            )
        interval = self.predict_interval(
            X, level, side=side, y_min=y_min, y_max=y_max, groups=groups, sample_weight=sample_weight
        )[1]
        return np.asarray(interval[:, :, 0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        of_estimator = get_tags(MLKMRegressor() if self.estimator is None else self.estimator)
        tags.target_tags.multi_output = of_estimator.target_tags.multi_output
        tags.input_tags = of_estimator.input_tags
        return tags
