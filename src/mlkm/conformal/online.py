"""Bands for data in time order, where outcomes arrive after each prediction and their distribution may change.

Adaptive conformal inference (Gibbs and Candes 2021) moves the level: after each outcome alpha_t rises by step (alpha -
err_t), err_t being 1 for a miss, and the interval is the 1 - alpha_t quantile of the most recent scores. The version
with decaying step (Angelopoulos, Barber and Bates 2024) moves the threshold itself, q <- q + eta_t (err_t - alpha) with
eta_t ~ t^-decay, in units of the mean absolute score at the start or recently, whichever is larger. Both keep the share
of misses near alpha along any sequence, without any assumption on it, and for exchangeable rows from the first outcome
on. The two ends are updated separately, alpha/2 each, so that the band can follow a drift of the mean.

Outcomes may come late: each predicted row waits with the interval that was given for it, and that interval is what
its outcome is judged by.
"""

from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import column_or_1d, indexable
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from .._types import Array, IntArray, RandomState
from ..data.folds import given_weights
from ..runtime import checks as check
from ..runtime.confidence import exact_level
from ..runtime.resources import root_seed
from .bands import calibration_rows
from .rank import Threshold
from .scores import FittedRegressor, ObservedRows, ScoredRegressor, ScoreSettings, as_interval, score_for, to_calibrate
from .wrapped_estimator import ConformalEstimator, Regressor


@dataclass(frozen=True)
class WaitingRow:
    """A predicted row whose outcome is not known yet: the band of its score, and how far each end reached beyond it."""

    lower: float
    upper: float
    unit: float
    below: float
    above: float


class OnlineConformal(ConformalEstimator):
    """A band that learns from every outcome: `predict_interval`, then `update(y)`; or `predict_online(X, y)` on arrays
    in time order.

    Predicted rows wait for their outcomes, over any number of calls, and `update(y)` gives the oldest of them theirs.
    Rows are numbered from 0 in the order of prediction: `update(y, rows=...)` gives outcomes out of order, and
    `drop(rows)` forgets rows whose outcome never comes.

    Parameters
    ----------
    estimator : regressor or None, default=None
        The regressor of the mean; None is `MLKMRegressor()`. It is fitted once. A fitted one is used as it is by
        `conformalize`.
    confidence_level : float, default=0.95
        1 - alpha.
    score : {"absolute", "auto", "variance", "residual", "quantile"}, default="absolute"
        As in `ConformalRegressor`. The default uses one unit for all rows, because sigma_y(x) is large where x lies
        outside the training data, as sooner or later every row does in time order.
    method : {"adaptive", "decaying"}, default="adaptive"
        Whether the level moves with a fixed step, or the threshold with a decaying one.
    step : float or None, default=None
        For "adaptive", gamma, by default 0.05. For "decaying", the first step, by default 3, in units of the mean
        absolute score at the start, or over about the latest 200 outcomes if that is larger; up to 100 calibration rows
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
    estimator_ : regressor
        The fitted regressor behind `predict`.
    waiting_ : array of int
        The numbers of the predicted rows that wait for their outcome, oldest first.

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
        estimator: Regressor | None = None,
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

    def fit(self, X: object, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the regressor to the earlier rows, and start the calibration with the later ones.

        Parameters
        ----------
        X : array or frame
            The inputs, in time order.
        y : array (n,)
            The outcomes.
        sample_weight : array (n,) or None, default=None
            Weights of the rows in the fit; in the calibration each row counts once.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.linear_model import LinearRegression
        >>> X = np.random.default_rng(0).standard_normal((100, 2))
        >>> band = OnlineConformal(LinearRegression()).fit(X[:80], X[:80, 0])
        >>> len(band.waiting_)
        0
        """
        level, estimator = self._checked_level(), self._checked_regressor()
        check.check_some_rows(X)
        validate_data(self, X, y, skip_check_array=True)
        (X,), Y = indexable(X), _one_output(y)
        check_consistent_length(X, Y)
        rows = ObservedRows(X, Y, given_weights(sample_weight, len(Y)))
        early, late = np.split(np.arange(len(Y)), [len(Y) - calibration_rows(self.calibration_size, len(Y))])
        score = score_for(self.score, estimator)
        settings = ScoreSettings(score, level, seed=root_seed(self.random_state) if score == "quantile" else 0)
        fitted = FittedRegressor.of(self.estimator, estimator, settings, rows, early)
        return self._start(fitted.scored, fitted, level, rows.take(late))

    def conformalize(self, X: object, y: ArrayLike) -> Self:
        """Start the calibration of a fitted regressor with rows it has not seen, in time order.

        After `fit`, where `estimator` is still the one that was fitted, these must be rows that `fit` was not given,
        and the model is first trained on all rows of `fit`, once; otherwise the model is `estimator` itself, which must
        then be fitted.

        Parameters
        ----------
        X : array or frame
            The inputs of the calibration rows.
        y : array (n,)
            Their outcomes.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.linear_model import LinearRegression
        >>> X = np.random.default_rng(0).standard_normal((100, 2))
        >>> model = LinearRegression().fit(X[:50], X[:50, 0])
        >>> OnlineConformal(model).conformalize(X[50:], X[50:, 0]).estimator_ is model
        True
        """
        level, Y = self._checked_level(), _one_output(y)
        check_consistent_length(X, Y)
        scored, fitted = to_calibrate(getattr(self, "_fitted", None), self.estimator, self.score)
        return self._start(scored, fitted, level, ObservedRows(X, Y))

    def _checked_level(self) -> Fraction:
        """Return the level, after a check of the parameters that move it."""
        check.one_of("method", self.method, ("adaptive", "decaying"))
        check.number("decay", self.decay, above=0.5, at_most=1)
        if self.step is not None:
            check.number("step", self.step, above=0)
        if self.window is not None:
            check.whole("window", self.window)
        return exact_level(self.confidence_level)

    def _start(
        self, scored: ScoredRegressor, fitted: FittedRegressor | None, level: Fraction, rows: ObservedRows
    ) -> Self:
        """Set the thresholds by the scores of calibration rows, with no row that waits for its outcome."""
        settled, band = scored.settled_by(scored.predict(rows.X))
        if band.mean.shape[1] > 1:
            raise ValueError(f"OnlineConformal follows one output; the regressor predicts {band.mean.shape[1]}.")
        self._scored, self._fitted, self.estimator_ = settled, fitted, settled.model
        tail = float(1 - level) / 2
        self._thresholds = [
            Threshold(scores[:, 0], tail, self.method, self.step, self.decay, self.window)
            for scores in band.scores(rows.y[:, None])
        ]
        self._waiting: dict[int, WaitingRow] = {}
        self._n_predicted = 0
        return self

    def predict_interval(self, X: object) -> tuple[Array, Array]:
        """Return the mean, and the interval at the level as it stands now. Each row waits for its outcome in `update`,
        behind the rows predicted before.

        Parameters
        ----------
        X : array or frame
            The rows to predict, in time order.

        Returns
        -------
        mean : array (n,)
        interval : array (n, 2, 1)

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.linear_model import LinearRegression
        >>> X = np.random.default_rng(0).standard_normal((100, 2))
        >>> band = OnlineConformal(LinearRegression()).fit(X[:80], X[:80, 0])
        >>> mean, interval = band.predict_interval(X[80:])
        >>> band.update(X[80:90, 0]).waiting_
        array([10, 11, 12, 13, 14, 15, 16, 17, 18, 19])
        """
        check_is_fitted(self, "_thresholds")
        band = self._scored.predict(X).of_output(0)
        below, above = (threshold.value for threshold in self._thresholds)
        new = enumerate(zip(band.lower, band.upper, band.unit, strict=True), self._n_predicted)
        # The dictionary is replaced, not changed, so that predictions by a shallow copy leave this band unaffected.
        self._waiting = self._waiting | {row: WaitingRow(*ends, below, above) for row, ends in new}
        self._n_predicted += len(band.mean)
        return band.mean, _ordered(band.lower - below * band.unit, band.upper + above * band.unit)

    @property
    def waiting_(self) -> IntArray:
        """Return the numbers of the predicted rows that wait for their outcome, oldest first."""
        check_is_fitted(self, "_thresholds")
        return np.fromiter(self._waiting, dtype=np.intp)

    def update(self, y: ArrayLike, rows: ArrayLike | None = None) -> Self:
        """Learn from the outcomes of the rows that have waited longest, in the order of prediction, or of the rows with
        the numbers `rows`.

        Each is judged by the interval that was given for it. After `predict_interval(a)` and `predict_interval(b)`,
        `update(y_a)` is about a.

        Parameters
        ----------
        y : float or array (n,)
            The outcomes of some or all of the waiting rows.
        rows : array (n,) of int or None, default=None
            The numbers of these rows, as in `waiting_`; by default the oldest.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.linear_model import LinearRegression
        >>> X = np.random.default_rng(0).standard_normal((100, 2))
        >>> band = OnlineConformal(LinearRegression()).fit(X[:80], X[:80, 0])
        >>> mean, interval = band.predict_interval(X[80:84])
        >>> band.update(X[[81, 83], 0], rows=[1, 3]).waiting_
        array([0, 2])
        """
        check_is_fitted(self, "_thresholds")
        outcomes = _one_output(np.atleast_1d(check.as_numbers("y", y)), at_least=0)
        if rows is None and len(outcomes) > len(self._waiting):
            waiting = f"{len(self._waiting)} predicted rows wait for theirs"
            raise ValueError(f"update got {len(outcomes)} outcomes where {waiting}; call predict_interval first.")
        numbers = self._numbers(rows, len(outcomes))
        if len(numbers) != len(outcomes):
            raise ValueError(f"rows must have one number per outcome, {len(outcomes)} of them; got {len(numbers)}.")
        for value, number in zip(outcomes, numbers, strict=True):
            row = self._waiting[number]
            self._thresholds[0].update((row.lower - value) / row.unit, row.below)
            self._thresholds[1].update((value - row.upper) / row.unit, row.above)
        return self._without(numbers)

    def drop(self, rows: ArrayLike | None = None) -> Self:
        """Forget predicted rows whose outcome never comes.

        Parameters
        ----------
        rows : array of int or None, default=None
            The numbers of these rows, as in `waiting_`; by default all that wait.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.linear_model import LinearRegression
        >>> X = np.random.default_rng(0).standard_normal((100, 2))
        >>> band = OnlineConformal(LinearRegression()).fit(X[:80], X[:80, 0])
        >>> mean, interval = band.predict_interval(X[80:84])
        >>> band.drop([0, 1]).waiting_
        array([2, 3])
        """
        check_is_fitted(self, "_thresholds")
        return self._without(self._numbers(rows, len(self._waiting)))

    def _numbers(self, rows: ArrayLike | None, n: int) -> list[int]:
        """Return the numbers of waiting rows: those given, or of the n oldest."""
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
        self._waiting = {row: waiting for row, waiting in self._waiting.items() if row not in gone}
        return self

    def predict_online(self, X: object, y: ArrayLike) -> tuple[Array, Array]:
        """Predict and update row by row, in time order, with one prediction of the model for all rows. Rows that wait
        for their outcome go on waiting.

        Parameters
        ----------
        X : array or frame
            The inputs, in time order.
        y : array (n,)
            The outcomes, each of which is known after the prediction of its row.

        Returns
        -------
        mean : array (n,)
        interval : array (n, 2, 1)

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.linear_model import LinearRegression
        >>> X = np.random.default_rng(0).standard_normal((100, 2))
        >>> band = OnlineConformal(LinearRegression()).fit(X[:80], X[:80, 0])
        >>> mean, interval = band.predict_online(X[80:], X[80:, 0])
        >>> interval.shape
        (20, 2, 1)
        """
        check_is_fitted(self, "_thresholds")
        Y = _one_output(y)
        check_consistent_length(X, Y)
        band = self._scored.predict(X).of_output(0)
        reach = np.empty((len(Y), 2))
        for t, scores in enumerate(zip(*band.scores(Y), strict=True)):
            for side, (threshold, score) in enumerate(zip(self._thresholds, scores, strict=True)):
                reach[t, side] = threshold.value
                threshold.update(float(score), threshold.value)
        return band.mean, _ordered(band.lower - reach[:, 0] * band.unit, band.upper + reach[:, 1] * band.unit)


def _one_output(y: object, at_least: int = 1) -> Array:
    """Return outcomes as an array (n,), and refuse several outputs."""
    Y = check.as_targets(y, at_least)
    if Y.ndim > 1 and Y.shape[1] > 1:
        raise ValueError(f"OnlineConformal follows one output; got y of shape {Y.shape}.")
    return np.asarray(column_or_1d(Y, warn=True))


def _ordered(low: Array, high: Array) -> Array:
    """Return both ends as (n, 2, 1); where they have crossed, their middle."""
    return as_interval(low, high, "both", low / 2 + high / 2)[:, :, None]
