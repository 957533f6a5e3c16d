"""Bands for data in time order, where outcomes arrive after each prediction and yesterday is not like today.

Adaptive conformal inference (Gibbs and Candes 2021) moves the level: after each outcome alpha_t rises by step (alpha -
err_t), err_t being 1 for a miss, and the interval is the 1 - alpha_t quantile of the most recent scores. The version
with decaying step (Angelopoulos, Barber and Bates 2024) moves the threshold itself, q <- q + eta_t (err_t - alpha) with
eta_t ~ t^-decay, in units of the scores at the start or of late, whichever are larger. Both keep the share of misses
near alpha along any sequence, without any assumption on it, and for exchangeable rows from the first outcome on. The
two ends are updated separately, alpha/2 each, so that the band can move with a drift of the mean.

Outcomes may come late: each predicted row waits with the interval that was given for it, and that interval is what
its outcome is judged by.
"""

from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin
from sklearn.utils import _safe_indexing, column_or_1d, get_tags, indexable
from sklearn.utils.validation import _num_samples, check_consistent_length, check_is_fitted, validate_data

from .._types import Array, IntArray, RandomState
from ..data.weights import checked_weights
from ..estimators import MLKMRegressor
from ..runtime import checks as check
from ..runtime.levels import exact_level
from ..runtime.seeds import root_seed
from .kept import FitRows, Kept, to_calibrate
from .naming import WithScoreParameter
from .scores import Recipe, Scored, fit_scored, score_for, settle
from .split import rows_kept
from .threshold import End
from .wrapped_estimator import check_regressor


@dataclass(frozen=True)
class _Waiting:
    """A predicted row whose outcome is not known yet: its base, and how far each end reached."""

    lower: float
    upper: float
    unit: float
    below: float
    above: float


class OnlineConformal(WithScoreParameter, MetaEstimatorMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A band that learns from every outcome: `predict_interval`, then `update(y)`; or `predict_online(X, y)` on arrays
    in time order.

    Predicted rows wait for their outcomes, over any number of calls, and `update(y)` gives the oldest of them theirs.
    Rows are numbered from 0 in the order of prediction: `update(y, rows=...)` gives outcomes out of order, and
    `drop(rows)` forgets rows whose outcome never comes.

    Parameters
    ----------
    estimator : regressor or None, default=None
        What predicts the mean; None is `MLKMRegressor()`. It is fitted once. A fitted one is used as it is by
        `conformalize`.
    confidence_level : float, default=0.95
        1 - alpha.
    score : {"absolute", "auto", "variance", "residual", "quantile"}, default="absolute"
        As in `ConformalRegressor`. One unit for all rows is the default: sigma_y(x) is large where x leaves the
        training rows, which in time order is every row in the end.
    method : {"adaptive", "decaying"}, default="adaptive"
        Whether the level moves with a fixed step, or the threshold with a decaying one.
    step : float or None, default=None
        gamma of "adaptive", 0.05 by default; for "decaying" the first step in units of the mean absolute score at the
        start, or of the latest 200 or so outcomes where that is larger, 3 by default; up to 100 calibration rows
        count as steps already made.
    decay : float, default=0.55
        Exponent of the decaying step, above 1/2 and at most 1.
    window : int or None, default=200
        How many of the latest scores "adaptive" looks at; None keeps all.
    calibration_size : float or int, default=0.5
        Share or number of the last rows given to `fit` that start the calibration.
    random_state : int, RandomState or None, default=None
        Seed of the default regressor and of quantile fits.

    Attributes
    ----------
    estimator_ : the fitted regressor behind `predict`.
    waiting_ : array of int, the numbers of the predicted rows that wait for their outcome, oldest first.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((2000, 2))
    >>> y = X[:, 0] + np.linspace(1, 4, 2000) * rng.standard_normal(2000)
    >>> band = OnlineConformal(LinearRegression(), confidence_level=0.9).fit(X[:500], y[:500])
    >>> mean, interval = band.predict_online(X[500:], y[500:])
    >>> inside = (interval[:, 0, 0] <= y[500:]) & (y[500:] <= interval[:, 1, 0])
    >>> bool(abs(inside.mean() - 0.9) < 0.01)
    True
    """

    @check.named_parameters
    def __init__(
        self,
        estimator: Any = None,
        *,
        confidence_level: float = 0.95,
        score: Literal["absolute", "auto", "variance", "residual", "quantile"] = "absolute",
        method: Literal["adaptive", "decaying"] = "adaptive",
        step: float | None = None,
        decay: float = 0.55,
        window: int | None = 200,
        calibration_size: float = 0.5,
        random_state: RandomState = None,
    ) -> None:
        self.estimator = estimator
        self.confidence_level = confidence_level
        self.score = score
        self.method = method
        self.step = step
        self.decay = decay
        self.window = window
        self.calibration_size = calibration_size
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the regressor to the earlier rows, with their weights, and start the calibration with the later ones,
        where each row counts once."""
        level = self._checked_level()
        estimator = MLKMRegressor(random_state=self.random_state) if self.estimator is None else self.estimator
        check_regressor(estimator)
        check.check_some_rows(X)
        validate_data(self, X, y, skip_check_array=True)
        (X,), Y = indexable(X), _one_output(y)
        check_consistent_length(X, Y)
        weights = checked_weights(sample_weight, len(Y))
        early, late = np.split(np.arange(len(Y)), [len(Y) - rows_kept(self.calibration_size, len(Y))])
        score = score_for(self.score, estimator)
        recipe = Recipe(score, level, 5, root_seed(self.random_state) if score == "quantile" else 0)
        own = None if weights is None else weights[early]
        scored = fit_scored(estimator, recipe, _safe_indexing(X, early), Y[early], own)
        kept = Kept(self.estimator, estimator, recipe, scored, FitRows(X, Y, weights))
        return self._start(scored, kept, level, _safe_indexing(X, late), Y[late])

    def conformalize(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Start the calibration of a fitted regressor with rows it has not seen, in time order.

        After `fit`, where `estimator` is still the one that was fitted, these must be rows that `fit` was not given,
        and the model is first trained on all rows of `fit`, once; otherwise the model is `estimator` itself, which must
        then be fitted.
        """
        level, Y = self._checked_level(), _one_output(y)
        check_consistent_length(X, Y)
        scored, kept = to_calibrate(getattr(self, "_kept", None), self.estimator, self.score)
        return self._start(scored, kept, level, X, Y)

    def _checked_level(self) -> Fraction:
        """The level, if what moves it makes sense too."""
        check.one_of("method", self.method, ("adaptive", "decaying"))
        check.number("decay", self.decay, above=0.5, at_most=1)
        if self.step is not None:
            check.number("step", self.step, above=0)
        if self.window is not None:
            check.whole("window", self.window)
        return exact_level(self.confidence_level)

    def _start(self, scored: Scored, kept: Kept | None, level: Fraction, X: Any, y: Array) -> Self:
        settled, base = settle(scored, X)
        if base[0].shape[1] > 1:
            raise ValueError(f"OnlineConformal follows one output; the regressor predicts {base[0].shape[1]}.")
        self._scored, self._kept, self.estimator_ = settled, kept, settled.model
        below, above = self._signed(tuple(array[:, 0] for array in base), y)
        alpha = float(1 - level)
        self._ends = [
            End(scores, alpha / 2, self.method, self.step, self.decay, self.window) for scores in (below, above)
        ]
        self._waiting: dict[int, _Waiting] = {}
        self._n_predicted = 0
        return self

    def predict(self, X: ArrayLike) -> Array:
        """The mean of y: the prediction of `estimator_`."""
        check_is_fitted(self, "estimator_")
        return np.asarray(self.estimator_.predict(X))

    def predict_interval(self, X: ArrayLike) -> tuple[Array, Array]:
        """The mean, and the interval at the level as it stands now, (n, 2, 1). Each row waits for its outcome in
        `update`, behind the rows predicted before."""
        check_is_fitted(self, "_ends")
        f, lower, upper, unit = self._bases(X)
        below, above = (end.threshold for end in self._ends)
        new = enumerate(zip(lower, upper, unit, strict=True), self._n_predicted)
        # A new dictionary each time: a shallow copy of the band may be asked without a trace in this one.
        self._waiting = self._waiting | {row: _Waiting(*base, below, above) for row, base in new}
        self._n_predicted += len(f)
        return f, _ordered(lower - below * unit, upper + above * unit)

    @property
    def waiting_(self) -> IntArray:
        """The numbers of the predicted rows that wait for their outcome, oldest first."""
        check_is_fitted(self, "_ends")
        return np.fromiter(self._waiting, dtype=np.intp)

    def update(self, y: ArrayLike, rows: ArrayLike | None = None) -> Self:
        """The outcomes of the rows that have waited longest, in the order of prediction, some or all of them; or of the
        rows with the numbers `rows`.

        Each is judged by the interval that was given for it. After `predict_interval(a)` and `predict_interval(b)`,
        `update(y_a)` is about a.
        """
        check_is_fitted(self, "_ends")
        outcomes = _one_output(np.atleast_1d(check.as_numbers("y", y)), at_least=0)
        if rows is None and len(outcomes) > len(self._waiting):
            waiting = f"{len(self._waiting)} predicted rows wait for theirs"
            raise ValueError(f"update got {len(outcomes)} outcomes where {waiting}; call predict_interval first.")
        numbers = self._numbers(rows, len(outcomes))
        if len(numbers) != len(outcomes):
            raise ValueError(f"rows must have one number per outcome, {len(outcomes)} of them; got {len(numbers)}.")
        for value, number in zip(outcomes, numbers, strict=True):
            row = self._waiting[number]
            self._ends[0].update((row.lower - value) / row.unit, row.below)
            self._ends[1].update((value - row.upper) / row.unit, row.above)
        return self._without(numbers)

    def drop(self, rows: ArrayLike | None = None) -> Self:
        """Forget predicted rows whose outcome never comes: those with the numbers `rows`, or all that wait."""
        check_is_fitted(self, "_ends")
        return self._without(self._numbers(rows, len(self._waiting)))

    def _numbers(self, rows: ArrayLike | None, n: int) -> list[int]:
        """The numbers of waiting rows: those given, or of the n oldest."""
        if rows is None:
            return list(self._waiting)[:n]
        numbers = [int(row) if isinstance(row, Integral) else -1 for row in check.as_numbers("rows", rows).flat]
        unknown = [row for row in numbers if row not in self._waiting]
        if unknown or len(set(numbers)) < len(numbers):
            raise ValueError(
                f"rows must be numbers of waiting rows, as in waiting_, each once; got {check.brief(rows)}."
            )
        return numbers

    def _without(self, numbers: list[int]) -> Self:
        gone = set(numbers)
        self._waiting = {row: base for row, base in self._waiting.items() if row not in gone}
        return self

    def predict_online(self, X: ArrayLike, y: ArrayLike) -> tuple[Array, Array]:
        """Predict and update row by row, in time order; the model itself is asked once, for all rows. Rows that wait
        for their outcome go on waiting."""
        check_is_fitted(self, "_ends")
        Y = _one_output(y)
        check_consistent_length(X, Y)
        bases = self._bases(X)
        reach = np.empty((_num_samples(X), 2))
        for t, scores in enumerate(zip(*self._signed(bases, Y), strict=True)):
            for end, (bound, score) in enumerate(zip(self._ends, scores, strict=True)):
                reach[t, end] = bound.threshold
                bound.update(float(score), bound.threshold)
        f, lower, upper, unit = bases
        return f, _ordered(lower - reach[:, 0] * unit, upper + reach[:, 1] * unit)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(MLKMRegressor() if self.estimator is None else self.estimator).input_tags
        return tags

    def _bases(self, X: Any) -> tuple[Array, ...]:
        return tuple(array[:, 0] for array in self._scored.base(X))

    @staticmethod
    def _signed(bases: tuple[Array, ...], y: Array) -> tuple[Array, Array]:
        _, lower, upper, unit = bases
        return (lower - y) / unit, (y - upper) / unit


def _one_output(y: Any, at_least: int = 1) -> Array:
    Y = check.as_targets(y, at_least)
    if Y.ndim > 1 and Y.shape[1] > 1:
        raise ValueError(f"OnlineConformal follows one output; got y of shape {Y.shape}.")
    return np.asarray(column_or_1d(Y, warn=True))


def _ordered(low: Array, high: Array) -> Array:
    """Both ends as (n, 2, 1); where they have crossed, their middle."""
    middle = (low + high) / 2
    crossed = low > high
    return np.stack([np.where(crossed, middle, low), np.where(crossed, middle, high)], axis=1)[:, :, None]
