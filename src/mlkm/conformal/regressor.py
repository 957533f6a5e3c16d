"""The meta-estimator: a band around any regressor."""

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import train_test_split
from sklearn.utils import _safe_indexing, get_tags, indexable
from sklearn.utils.validation import _num_samples, check_consistent_length, check_is_fitted, validate_data

from .._seeds import Purpose, generator, root_seed
from .._types import Array, RandomState
from ..estimators import MLKMRegressor
from ..rows import checked_weights
from .cross import Cross, cross_interval, fit_cross, left_out
from .naming import WithScoreParameter
from .rank import exact_levels, groups_of
from .scores import as_targets, check_score, columns, fit_scored, to_calibrate
from .split import Request, as_interval, calibrate, rows_kept, split_interval

_REPLICATES = 80  # as in the paper


class ConformalRegressor(WithScoreParameter, MetaEstimatorMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A prediction band around any regressor, with coverage that holds for finite samples, whatever the model and the
    noise.

    Parameters
    ----------
    estimator : regressor or None, default=None
        What predicts the mean; None is `MLKMRegressor()`. One that is fitted already can be calibrated by
        `conformalize` alone.
    confidence_level : float or sequence of float, default=0.95
        1 - alpha, one or several; `predict_interval` may ask for others.
    score : {"variance", "absolute", "residual", "quantile"}, default="variance"
        What a residual is measured by: the paper's sigma_y(x); 1; a second fit of |residual|, for noise that varies
        with x; or the distance to fitted quantiles, for noise that varies or is skewed. "variance" needs a regressor
        with `predict(X, return_std=True)`.
    method : {"split", "cross", "bootstrap"}, default="split"
        "split" keeps some rows for calibration: coverage in [1 - alpha, 1 - alpha + 1/(m + 1)]. "cross" is CV+, or
        jackknife+ with `cv="loo"`: coverage of at least 1 - 2 alpha. "bootstrap" is the paper's baseline: an interval
        for f(x), without any guarantee for y.
    calibration_size : float or int, default=0.5
        Share or number of rows kept for calibration by "split".
    cv : int, splitter or "loo", default=5
        Folds of "cross", and of residuals for "residual". "loo" leaves out rows in closed form, for one-layer machines,
        features held fixed.
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

    def __init__(
        self,
        estimator: Any = None,
        *,
        confidence_level: Any = 0.95,
        score: Literal["variance", "absolute", "residual", "quantile"] = "variance",
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

    def fit(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None) -> Self:
        """Fit the regressor and calibrate the band, on rows of their own where the method asks for that. `groups` asks
        for coverage within each."""
        levels = exact_levels(self.confidence_level)
        if self.method not in ("split", "cross", "bootstrap"):
            raise ValueError(f"method must be 'split', 'cross' or 'bootstrap'; got {self.method!r}.")
        estimator = MLKMRegressor(random_state=self.random_state) if self.estimator is None else self.estimator
        if self.method != "bootstrap":
            check_score(self.score, estimator)
        validate_data(self, X, y, skip_check_array=True)
        check_consistent_length(X, y)
        (X,), Y = indexable(X), as_targets(y)
        if groups is not None:
            if self.method == "bootstrap":
                raise ValueError("method='bootstrap' knows no groups; take method='split' or 'cross'.")
            groups_of(groups, len(Y))
        self._reset("_fitted", "_scored", "_calibration", "_cross", "_replicates")
        self._single_output = Y.ndim == 1
        seed, level = root_seed(self.random_state), max(levels)
        if self.method == "split":
            labels = np.zeros(len(Y)) if groups is None else np.asarray(groups)
            X_fit, X_new, y_fit, y_new, _, own = train_test_split(
                X, Y, labels, test_size=rows_kept(self.calibration_size, len(Y)), random_state=seed
            )
            self._fitted = self.estimator, fit_scored(estimator, self.score, level, X_fit, y_fit, self.cv, seed)
            return self.conformalize(X_new, y_new, groups=None if groups is None else own)
        self.estimator_ = clone(estimator).fit(X, Y)
        if self.method == "bootstrap":
            self._replicates = _bootstrap(estimator, X, Y, seed)
        elif isinstance(self.cv, str) and self.cv == "loo":
            if groups is not None:
                raise ValueError("cv='loo' knows no groups; pass folds, as in cv=5.")
            self._cross: Cross = left_out(self.estimator_, self.score)
        else:
            self._cross = fit_cross(estimator, self.score, level, X, Y, self.cv, groups, seed)
        self.n_calibration_ = len(Y)
        return self

    def conformalize(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Self:
        """Calibrate the band on rows the model has not seen; `sample_weight` is dQ/dP at these rows where new rows come
        from Q and these from P.

        The model is that of `fit`, where `estimator` is still the one that was fitted; otherwise `estimator` itself,
        which must then be fitted.
        """
        if self.method != "split":
            raise ValueError(f"conformalize calibrates method='split'; with method={self.method!r} call fit(X, y).")
        scored, Y = to_calibrate(getattr(self, "_fitted", None), self.estimator, self.score), as_targets(y)
        check_consistent_length(X, Y)
        weights = checked_weights(sample_weight, len(Y))
        if weights is not None and not weights.sum() > 0:
            raise ValueError("The sum of sample_weight must be positive; all weights are zero.")
        calibrated = calibrate(scored, X, Y, weights, groups)
        self._reset("_cross", "_replicates")
        self._scored, self._calibration = calibrated
        self.estimator_ = self._scored.model
        self._single_output = Y.ndim == 1
        self.n_calibration_ = len(Y)
        return self

    calibrate = conformalize

    def predict(self, X: ArrayLike) -> Array:
        """The mean of y: the prediction of `estimator_`."""
        check_is_fitted(self, "estimator_")
        return np.asarray(self.estimator_.predict(X))

    def predict_interval(
        self,
        X: ArrayLike,
        confidence_level: Any = None,
        *,
        side: Literal["both", "lower", "upper"] = "both",
        y_min: float = -np.inf,
        y_max: float = np.inf,
        joint: bool = False,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> tuple[Array, Array]:
        """The mean, and at every level an interval for y: shape (n, 2, levels), or (n, 2, levels, outputs) for several
        outputs.

        Parameters
        ----------
        confidence_level : float or sequence of float, default: that of the constructor
        side : "both", or "lower" / "upper" for a single bound at the full level, the other being infinite
        y_min, y_max : values y cannot pass; intervals are cut there, which loses no coverage
        joint : whether all outputs are to be covered at once, rather than each at its level
        groups : labels of the rows, where the band was calibrated by groups
        sample_weight : dQ/dP at the rows, where the band was calibrated with weights; by default the largest weight of
        the calibration rows, which is
            safe for new rows whose weight is no larger
        """
        check_is_fitted(self, "estimator_")
        if not y_min < y_max:
            raise ValueError(f"y_min must be below y_max; got {y_min} and {y_max}.")
        levels = exact_levels(self.confidence_level if confidence_level is None else confidence_level)
        (X,) = indexable(X)
        n = _num_samples(X)
        if sample_weight is not None and getattr(getattr(self, "_calibration", None), "weights", None) is None:
            raise ValueError(
                "sample_weight needs a band calibrated with weights: conformalize(X, y, sample_weight=...)."
            )
        request = Request(levels, side, joint, groups, checked_weights(sample_weight, n))
        if hasattr(self, "_replicates"):
            mean = columns(self.predict(X))
            interval = _basic_bootstrap(
                mean, np.stack([columns(model.predict(X)) for model in self._replicates]), request
            )
        elif hasattr(self, "_cross"):
            mean, interval = columns(self.predict(X)), cross_interval(self._cross, X, n, request)
        elif hasattr(self, "_calibration"):
            mean, interval = split_interval(self._scored, self._calibration, X, request)
        else:
            raise NotFittedError(
                "The band is not calibrated yet: call fit(X, y), or conformalize(X, y) on rows the model has not seen."
            )
        interval = np.clip(interval, y_min, y_max)
        return (mean[:, 0], interval[..., 0]) if self._single_output else (mean, interval)

    def predict_int(
        self,
        X: ArrayLike,
        *,
        confidence: float | None = None,
        y_min: float = -np.inf,
        y_max: float = np.inf,
        side: Literal["both", "lower", "upper"] = "both",
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Array:
        """The interval at one level, shape (n, 2), as in crepes; the other arguments are those of
        `predict_interval`."""
        level = self.confidence_level if confidence is None else confidence
        if len(exact_levels(level)) > 1:
            raise ValueError(
                f"predict_int gives the interval at one level; got {level!r}: name one, as in confidence=0.9, or call"
                " predict_interval."
            )
        interval = self.predict_interval(
            X, level, side=side, y_min=y_min, y_max=y_max, groups=groups, sample_weight=sample_weight
        )[1]
        return np.asarray(interval[:, :, 0])

    def _reset(self, *names: str) -> None:
        for name in names:
            self.__dict__.pop(name, None)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        of_estimator = get_tags(MLKMRegressor() if self.estimator is None else self.estimator)
        tags.target_tags.multi_output = of_estimator.target_tags.multi_output
        tags.input_tags = of_estimator.input_tags
        return tags


def _bootstrap(estimator: Any, X: Any, y: Array, seed: int) -> list[Any]:
    """Fits to rows drawn with replacement."""
    draws = [generator(seed, Purpose.BOOTSTRAP, b).integers(len(y), size=len(y)) for b in range(_REPLICATES)]
    return [clone(estimator).fit(_safe_indexing(X, rows), y[rows]) for rows in draws]


def _basic_bootstrap(mean: Array, replicates: Array, request: Request) -> Array:
    """[2f - q_high, 2f - q_low], an interval for f(x): without the noise of y, it covers y less often than its level
    says."""
    if request.groups is not None or request.joint:
        raise ValueError("method='bootstrap' has no groups and no joint intervals; take method='split'.")
    tails = np.array([float(1 - level) / (2 if request.side == "both" else 1) for level in request.levels])
    low, high = (np.moveaxis(np.quantile(replicates, share, axis=0), 0, 1) for share in (tails, 1 - tails))
    return as_interval(2 * mean[:, None, :] - high, 2 * mean[:, None, :] - low, request.side)
