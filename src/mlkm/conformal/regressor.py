"""The meta-estimator: a band around any regressor."""

from collections.abc import Iterable
from dataclasses import replace
from numbers import Real
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.model_selection import train_test_split
from sklearn.utils import get_tags, indexable
from sklearn.utils.validation import check_consistent_length, validate_data

from .._types import Array, IntArray, RandomState
from ..base import KernelMachine
from ..data.folds import given_weights
from ..data.preparation import as_rows
from ..data.rows import Rows
from ..data.scan import PartOf
from ..estimators import MLKMRegressor
from ..fit.apply import new_rows
from ..report import Reporting
from ..runtime.checks import as_targets, brief, check_some_rows, named_parameters, one_of
from ..runtime.confidence import exact_levels, groups_of
from ..runtime.resources import root_seed
from .bands import Band, CalibrationScores, Request, SplitBand, calibration_rows
from .calibration import calibrate
from .prediction import Levels, PredictsBand
from .resampling import fit_bootstrap, fit_cross, fit_leave_one_out
from .scores import (
    SCORES,
    FittedRegressor,
    ObservedRows,
    ScoredRegressor,
    ScoreSettings,
    check_folds,
    score_for,
    to_calibrate,
)
from .wrapped_estimator import Regressor, columns


class ConformalRegressor(Reporting, PredictsBand):
    """A prediction band around any regressor, with coverage that holds for finite samples, whatever the model and the
    noise.

    Parameters
    ----------
    estimator : regressor or None, default=None
        The regressor of the mean; None is `MLKMRegressor()`. One that is fitted already can be calibrated by
        `conformalize` alone.
    confidence_level : float or sequence of float, default=0.95
        1 - alpha, one or several; `predict_interval` may ask for others.
    score : {"auto", "variance", "absolute", "residual", "quantile"}, default="auto"
        The scale of a residual: the paper's sigma_y(x); 1; a second fit of absolute residuals, for noise that varies
        with x; or the distance to fitted quantiles, for noise that varies or is skewed. "variance" needs a regressor
        with `predict(X, return_std=True)`; "auto" is "variance" where there is one, else "absolute". Around a pipeline
        second fits run on the inputs of its last step.
    method : {"split", "cross", "bootstrap"}, default="split"
        "split" sets rows aside for calibration: coverage in [1 - alpha, 1 - alpha + 1/(m + 1)]. "cross" is CV+, or
        jackknife+ with `cv="loo"`: coverage of at least 1 - 2 alpha. "bootstrap" is the paper's baseline: an interval
        for f(x), without any guarantee for y.
    calibration_size : float or int, default=0.5
        Share or number of rows that "split" sets aside for calibration.
    cv : int, splitter or "loo", default=5
        Folds of "cross", and of residuals for "residual" where the regressor has no closed form. "loo" leaves out rows
        in closed form, for one-layer machines of a given scale. For a regressor that learns its features, which would
        differ without the row, five folds with a search in each are used instead, with a warning.
    random_state : int, RandomState or None, default=None
        Seed of the split, of bootstrap samples and of quantile fits.

    Attributes
    ----------
    estimator_ : regressor
        The fitted regressor behind `predict`.
    n_calibration_ : int
        The number of rows with a score.

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
        estimator: Regressor | None = None,
        *,
        confidence_level: Levels = 0.95,
        score: Literal["auto", "variance", "absolute", "residual", "quantile"] = "auto",
        method: Literal["split", "cross", "bootstrap"] = "split",
        calibration_size: float = 0.5,
        cv: object = 5,
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
        self, X: object, y: object = None, groups: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit the regressor and calibrate the band, on separate rows where the method asks for that.

        Parameters
        ----------
        X : array, frame, table in files or Dask collection
            The inputs.
        y : array (n,) or (n, k), or None for a table in files that names its target
            The outcomes.
        groups : array (n,) or None, default=None
            Group labels of the rows: the level then holds within each group. For method="cross" with a splitter that
            keeps groups together, such as `GroupKFold`, the labels define its folds, and `predict_interval` does not
            need them: its intervals are then for rows of any group, including new ones.
        sample_weight : array (n,) or None, default=None
            How much each row counts in the population the band is for, as dQ/dP in `conformalize`: both the regressor's
            `fit` and the calibration use it, and coverage holds for new rows drawn with these weights. Weights that say
            how precise a row is belong to the regressor alone: fit it first, then `conformalize`.

        Returns
        -------
        self

        Examples
        --------
        >>> from mlkm import ConformalRegressor, RandomFeatureRidge
        >>> from mlkm.datasets import make_example1
        >>> X, y, f = make_example1(n=400, d=4, random_state=0)
        >>> model = RandomFeatureRidge(100, scale=1.0, random_state=0)
        >>> ConformalRegressor(model, calibration_size=0.25, random_state=0).fit(X, y).n_calibration_
        100
        """
        estimator, settings = self._checked_parameters()
        if (source := as_rows(X, y, sample_weight)) is not None:
            return self._fit_to_parts(source, estimator, settings, groups)
        check_some_rows(X)
        validate_data(self, X, y, skip_check_array=True)
        (X,) = indexable(X)
        self._check_groups(settings, groups)
        rows = _observed(X, y, sample_weight, groups)
        return self._store(*self._fit_band(estimator, settings, rows), rows.y.ndim == 1)

    def _checked_parameters(self) -> tuple[Regressor, ScoreSettings]:
        """Return the regressor to fit and the settings of its score, after all checks that need no rows."""
        level = max(exact_levels(self.confidence_level))
        one_of("method", self.method, ("split", "cross", "bootstrap"))
        one_of("score", self.score, SCORES)
        estimator, score = self._checked_regressor(), "absolute"
        if self.method != "bootstrap":
            check_folds(self.cv)
            score = score_for(self.score, estimator)
        return estimator, ScoreSettings(score, level, self.cv, root_seed(self.random_state))

    def _check_groups(self, settings: ScoreSettings, groups: ArrayLike | None) -> None:
        """Refuse groups that the method cannot use, and a splitter that needs groups without any."""
        if groups is not None and self.method == "bootstrap":
            raise ValueError("method='bootstrap' knows no groups; take method='split' or 'cross'.")
        if self.method == "cross":
            settings.check_groups(groups)
            if groups is not None and isinstance(self.cv, str):
                raise ValueError("cv='loo' knows no groups; pass folds, as in cv=5.")

    def _fit_to_parts(
        self, rows: Rows[Any], estimator: Regressor, settings: ScoreSettings, groups: ArrayLike | None
    ) -> Self:
        """Fit to a part of the rows, chosen by hashes of their content, and calibrate on the others; the rows need not
        fit into memory."""
        score = settings.score
        if self.method != "split" or groups is not None:
            raise ValueError("Rows in files or on a cluster are calibrated by method='split', without groups.")
        if score not in ("variance", "absolute"):
            raise ValueError(
                f"score={score!r} needs a second fit to rows in memory; take score='variance' or 'absolute'."
            )
        if not isinstance(estimator, KernelMachine):
            raise TypeError(
                "Rows in files or on a cluster are fitted by the regressors of mlkm; got"
                f" {type(estimator).__name__}: fit it first, then call conformalize."
            )
        share = self.calibration_size
        if not isinstance(share, Real) or isinstance(share, bool) or not 0 < share < 1:
            raise ValueError(f"calibration_size must be a share of the rows between 0 and 1; got {brief(share)}.")
        fitted, others = (rows.map(PartOf(settings.seed, *ends)) for ends in ((float(share), 1.1), (0.0, float(share))))
        scored = ScoredRegressor(clone(estimator).fit(fitted), score, scale=1.0 if rows.single_output else None)
        band = calibrate(scored, others, exact_levels(self.confidence_level))
        return self._store(band, None, rows.single_output, columns_of_model=True)

    def _fit_band(
        self, estimator: Regressor, settings: ScoreSettings, rows: ObservedRows
    ) -> tuple[Band, FittedRegressor | None]:
        """Fit to one part of the rows and calibrate on the other; or fit to all rows, and to parts or resamples of
        them, whose predictions make the band."""
        if self.method == "bootstrap":
            return fit_bootstrap(estimator, settings.seed, rows.with_scaled_weights()), None
        if self.method == "cross":
            fit_folds = fit_leave_one_out if isinstance(self.cv, str) else fit_cross
            return fit_folds(estimator, settings, rows), None
        n = len(rows.y)
        size = calibration_rows(self.calibration_size, n)
        train, test = train_test_split(np.arange(n), test_size=size, random_state=settings.seed)
        fitted = FittedRegressor.of(self.estimator, estimator, settings, rows, train)
        others = rows.take(test)
        return calibrate(fitted.scored, others.given(), exact_levels(self.confidence_level), others.groups), fitted

    def conformalize(
        self, X: object, y: object = None, sample_weight: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Self:
        """Calibrate the band on rows that the model has not seen.

        After `fit`, if `estimator` has not been replaced since, these must be rows that `fit` was not given. Since
        rows need no longer be set aside, the model is first trained, once, on all rows of `fit`. Otherwise the model is
        `estimator` itself, which must then be fitted.

        Parameters
        ----------
        X : array, frame, table in files or Dask collection
            The inputs of the calibration rows.
        y : array (n,) or (n, k), or None for a table in files that names its target
            Their outcomes.
        sample_weight : array (n,) or None, default=None
            dQ/dP at these rows where new rows come from Q and these from P.
        groups : array (n,) or None, default=None
            Group labels of the rows: the level then holds within each group.

        Returns
        -------
        self

        Examples
        --------
        >>> from mlkm import ConformalRegressor, RandomFeatureRidge
        >>> from mlkm.datasets import make_example1
        >>> X, y, f = make_example1(n=400, d=4, random_state=0)
        >>> model = RandomFeatureRidge(100, scale=1.0, random_state=0).fit(X[:200], y[:200])
        >>> ConformalRegressor(model).conformalize(X[200:], y[200:]).n_calibration_
        200
        """
        if self.method != "split":
            raise ValueError(f"conformalize calibrates method='split'; with method={self.method!r} call fit(X, y).")
        rows = as_rows(X, y, sample_weight)
        if rows is not None and groups is not None:
            raise ValueError("Rows in files or on a cluster are calibrated without groups.")
        rows = _observed(X, y, sample_weight, groups).given() if rows is None else rows
        scored, fitted = to_calibrate(getattr(self, "_fitted", None), self.estimator, self.score)
        band = calibrate(scored, new_rows(rows, scored.model), exact_levels(self.confidence_level), groups)
        return self._store(band, fitted, rows.single_output, columns_of_model=fitted is None)

    calibrate = conformalize

    def _store(
        self, band: Band, fitted: FittedRegressor | None, single_output: bool, columns_of_model: bool = False
    ) -> Self:
        """Store the band, with the number and names of the model's columns unless `fit` has seen them in memory."""
        self._band, self._fitted, self._single_output = band, fitted, single_output
        self.estimator_, self.n_calibration_ = band.model, band.n_calibration
        if columns_of_model:
            for name in ("n_features_in_", "feature_names_in_"):
                self.__dict__.pop(name, None)
                if hasattr(self.estimator_, name):
                    setattr(self, name, getattr(self.estimator_, name))
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(MLKMRegressor() if self.estimator is None else self.estimator)
        tags.target_tags.multi_output = inner.target_tags.multi_output
        return tags


def _observed(X: object, y: object, sample_weight: ArrayLike | None, groups: ArrayLike | None) -> ObservedRows:
    """Return rows in memory with checked outcomes, weights and groups."""
    Y = as_targets(y)
    check_consistent_length(X, Y)
    weights = given_weights(sample_weight, len(Y))
    if groups is not None:
        groups_of(groups, len(Y))
    return ObservedRows(X, Y, weights, None if groups is None else np.asarray(groups))


def conformalize_checked(
    regressor: ConformalRegressor, X: object, y: object, folds: Iterable[tuple[IntArray, IntArray]]
) -> Array:
    """Calibrate a band of one level around a fitted regressor of one output, as `conformalize(X, y)` does, and judge it
    by its calibration rows.

    The threshold for the rows of a fold comes from the scores of rows outside it, so that no outcome influences its
    own interval, and the model has seen none of them. Such an interval is that of a band with slightly fewer
    calibration rows. The model predicts once for both.

    Parameters
    ----------
    regressor : a band of method="split" around a fitted regressor
    X, y : the calibration rows
    folds : pairs (others, judged) of row indices

    Returns
    -------
    array (n, 2) of intervals, NaN for rows that no fold judges.
    """
    if regressor.method != "split":
        raise ValueError(f"Calibration rows judge a band of method='split'; got method={regressor.method!r}.")
    targets = as_targets(y)
    scored, _ = to_calibrate(None, regressor.estimator, regressor.score)
    scored, band = scored.settled_by(scored.predict(X))
    below, above = band.scores(columns(targets))
    split = SplitBand(scored, CalibrationScores(below, above))
    regressor._store(split, None, targets.ndim == 1, columns_of_model=True)
    request = Request(exact_levels(regressor.confidence_level))
    result = np.full((len(targets), 2), np.nan)
    for others, judged in folds:
        part = replace(split, scores=CalibrationScores(below[others], above[others]))
        reach = part.thresholds(request, len(judged))[:, 0, 0] * band.unit[judged, 0]
        result[judged] = np.stack([band.lower[judged, 0] - reach, band.upper[judged, 0] + reach], axis=1)
    return result
