"""Predictions of a calibrated band: intervals, and the distribution of y, which is its upper bounds at all levels.

With scores s_i = (y_i - upper(x_i)) / u(x_i) of m calibration rows and a last place at infinity for the new row,

quantile   Q(q | x) = upper(x) + s_(r) u(x),   s_(r) the r-th smallest score, r = ceil(q (m + 1))
share      F(y | x) = #{i : upper(x) + s_i u(x) <= y} / (m + 1)

so that Q(q | x) <= y if and only if q <= F(y | x). For CV+ the m numbers are upper_{-i}(x) + s_i u_{-i}(x); groups and
weights are used as for intervals.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import indexable
from sklearn.utils.validation import _num_samples, check_is_fitted

from .._types import Array
from ..data import GivenRows, Rows, given_weights
from ..data.preparation import given_rows
from ..data.tables.cells import Table
from ..fit.apply import new_rows
from ..runtime.checks import as_float, as_numbers, brief, yes_no
from ..runtime.confidence import are_several, exact_levels
from .bands import Band, Request
from .wrapped_estimator import ConformalEstimator, warn_outside

Limits: TypeAlias = tuple[float, float]
Levels: TypeAlias = float | Sequence[float] | Array


@dataclass(frozen=True)
class IntervalsAt:
    """A function of rows: their means (n, k) and intervals (n, 2, levels, k) within limits."""

    band: Band
    request: Request
    limits: Limits

    def __call__(self, rows: object) -> tuple[Array, ...]:
        mean, interval = self.band.interval(rows, self.request)
        return mean, np.clip(interval, *self.limits)

    def to_send(self) -> Self:
        """Return the function as it is sent to rows in files or on a cluster."""
        return replace(self, band=self.band.to_send(self.request))


class QuantilesAt(IntervalsAt):
    """A function of rows: quantiles Q(q | x) within limits, (n, levels, k)."""

    def __call__(self, rows: object) -> tuple[Array, ...]:
        return (np.clip(self.band.interval(rows, self.request)[1][:, 1], *self.limits),)


@dataclass(frozen=True)
class SharesAt(IntervalsAt):
    """A function of rows: shares F(y | x) at points (n or 1, points, k), which are 0 and 1 beyond the limits of y."""

    points: Array

    def __call__(self, rows: object) -> tuple[Array, ...]:
        y = np.broadcast_to(self.points, (_num_samples(rows), *self.points.shape[1:]))
        low, high = self.limits
        return (np.where(y >= high, 1.0, np.where(y < low, 0.0, self.band.shares(rows, y, self.request))),)


class PredictsBand(ConformalEstimator):
    """An estimator with a calibrated band, which predicts intervals and the distribution of y."""

    confidence_level: Any  # one level or several
    _band: Band
    _single_output: bool

    def predict_interval(
        self,
        X: object,
        confidence_level: Levels | None = None,
        *,
        side: Literal["both", "lower", "upper"] = "both",
        y_min: float | None = None,
        y_max: float | None = None,
        joint: bool = False,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        outside: Literal["ignore", "warn"] = "ignore",
    ) -> tuple[Array, Array]:
        """Return the mean, and at every level an interval for y.

        Parameters
        ----------
        X : array, frame, table in files or Dask collection
            The rows to predict.
        confidence_level : float or sequence of float, default=None
            The levels, by default those of the constructor.
        side : {"both", "lower", "upper"}, default="both"
            "lower" and "upper" ask for a single bound at the full level, the other being infinite.
        y_min, y_max : float or None, default=None
            Values that y cannot pass, None for no limit; intervals are cut there, which loses no coverage.
        joint : bool, default=False
            Whether all outputs are to be covered at once, rather than each at its level.
        groups : array (n,) or None, default=None
            Labels of the rows, where the band was calibrated by groups.
        sample_weight : array (n,) or None, default=None
            dQ/dP at the rows, where the band was calibrated with weights; by default the largest weight of the
            calibration rows, which is safe for new rows whose weight is no larger.
        outside : {"ignore", "warn"}, default="ignore"
            Whether to warn of rows outside the training data, as measured by the regressor's `outside(X)`.

        Returns
        -------
        mean : array (n,), or (n, k) for k outputs.
        interval : array (n, 2, levels), or (n, 2, levels, k) for k outputs.

        Examples
        --------
        >>> from mlkm import ConformalRegressor, RandomFeatureRidge
        >>> from mlkm.datasets import make_example1
        >>> X, y, f = make_example1(n=400, d=4, random_state=0)
        >>> band = ConformalRegressor(RandomFeatureRidge(100, scale=1.0, random_state=0), random_state=0).fit(X, y)
        >>> mean, interval = band.predict_interval(X, 0.9)
        >>> bool((interval[:, 0, 0] < mean).all())
        True
        """
        check_is_fitted(self, "estimator_")
        warn_outside(self.estimator_, X, outside)
        limits = _limits(y_min, y_max)
        levels = exact_levels(self.confidence_level if confidence_level is None else confidence_level)
        request = Request(levels, side, yes_no("joint", joint), groups)
        rows, request = _checked_rows(X, request, sample_weight, "intervals")
        mean, interval = self._at_rows(IntervalsAt(self._band, request, limits), rows, (), (2, len(levels)))
        return mean, interval

    def predict_int(
        self,
        X: object,
        *,
        confidence: float | None = None,
        y_min: float | None = None,
        y_max: float | None = None,
        side: Literal["both", "lower", "upper"] = "both",
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Array:
        """Return the interval at one level, as in crepes.

        Parameters
        ----------
        X : array or frame
            The rows to predict.
        confidence : float or None, default=None
            The level, by default that of the constructor.
        y_min, y_max, side, groups, sample_weight
            As in `predict_interval`.

        Returns
        -------
        array (n, 2), or (n, 2, k) for k outputs.

        Examples
        --------
        >>> from mlkm import ConformalRegressor, RandomFeatureRidge
        >>> from mlkm.datasets import make_example1
        >>> X, y, f = make_example1(n=400, d=4, random_state=0)
        >>> band = ConformalRegressor(RandomFeatureRidge(100, scale=1.0, random_state=0), random_state=0).fit(X, y)
        >>> band.predict_int(X, confidence=0.9).shape
        (400, 2)
        """
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

    def predict_quantile(
        self,
        X: object,
        q: Levels,
        *,
        y_min: float | None = None,
        y_max: float | None = None,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Array:
        """Return quantiles of y at every row: y is at most that of level q with probability at least q.

        They are the upper ends of `predict_interval(X, q, side="upper")` and do not decrease with q. For exchangeable
        rows they have the same guarantee: for method="split" P(y <= quantile) lies in [q, q + 1/(m + 1)] if scores
        have no ties; for "cross" it is at least 2 q - 1, and close to q where fits are stable. The quantile is
        determined by the ceil(q (m + 1))-th smallest of m scores (y - f(x)) / u(x), and is infinite for q above
        m / (m + 1). The lower end of `predict_interval(X, 1 - q, side="lower")` uses the floor(q (m + 1))-th: the same
        score if q (m + 1) is a whole number, else the one before. For score="quantile" scores are measured from the
        upper fitted quantile.

        Parameters
        ----------
        X : array, frame, table in files or Dask collection
            The rows to predict.
        q : float or sequence of float
            Levels between 0 and 1.
        y_min, y_max : float or None, default=None
            Values that y cannot pass, None for no limit; quantiles are cut there.
        groups, sample_weight : array (n,) or None, default=None
            Groups and weights of the rows, as in `predict_interval`.

        Returns
        -------
        array (n,) for a number q, (n, levels) for a sequence; for k outputs (n, k) or (n, levels, k), each output by
        itself.

        Examples
        --------
        >>> from mlkm import ConformalRegressor, RandomFeatureRidge
        >>> from mlkm.datasets import make_example1
        >>> X, y, f = make_example1(n=400, d=4, random_state=0)
        >>> band = ConformalRegressor(RandomFeatureRidge(100, scale=1.0, random_state=0), random_state=0).fit(X, y)
        >>> band.predict_quantile(X, [0.1, 0.5, 0.9]).shape
        (400, 3)
        """
        check_is_fitted(self, "estimator_")
        self._band.check_distribution()
        limits, levels = _limits(y_min, y_max), exact_levels(q, "q")
        rows, request = _checked_rows(X, Request(levels, "upper", groups=groups), sample_weight, "distributions")
        (quantiles,) = self._at_rows(QuantilesAt(self._band, request, limits), rows, (len(levels),))
        return quantiles if are_several(q) else quantiles[:, 0]

    def predict_cdf(
        self,
        X: object,
        y: ArrayLike,
        *,
        y_min: float | None = None,
        y_max: float | None = None,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Array:
        """Return the predictive distribution function at y for every row: the share of the scores of m calibration rows
        that are at most the score of y, with the new row counted at infinity.

        It is the inverse of `predict_quantile`: the quantile of level q is at most y if and only if
        q <= predict_cdf(X, y). Its values are 0, 1/(m + 1), ..., m/(m + 1), all equally likely if y is the outcome of a
        new row (method="split", rows exchangeable, no ties), and 1 from y = `y_max` on, which is infinite by default.

        Parameters
        ----------
        X : array, frame, table in files or Dask collection
            The rows to predict.
        y : float or array
            A number for all rows; an array (n,) with one per row; or (n, points) with several per row, (1, points)
            for the same points at all rows. For k outputs a number for all of them, (n, k) or (n, points, k), where n
            may be 1. For rows in files or on a cluster it is the same for all rows.
        y_min, y_max : float or None, default=None
            Bounds on y, None for no limit: the distribution has no mass outside them.
        groups, sample_weight : array (n,) or None, default=None
            Groups and weights of the rows, as in `predict_interval`.

        Returns
        -------
        array of shares (n,), or (n, points) where several points were given; for k outputs (n, k) or (n, points, k),
        each output by itself.

        Examples
        --------
        >>> from mlkm import ConformalRegressor, RandomFeatureRidge
        >>> from mlkm.datasets import make_example1
        >>> X, y, f = make_example1(n=400, d=4, random_state=0)
        >>> band = ConformalRegressor(RandomFeatureRidge(100, scale=1.0, random_state=0), random_state=0).fit(X, y)
        >>> band.predict_cdf(X, band.predict_quantile(X, 0.9))[:3].round(2)
        array([0.9, 0.9, 0.9])
        """
        check_is_fitted(self, "estimator_")
        self._band.check_distribution(shares=True)
        limits = _limits(y_min, y_max)
        rows, request = _checked_rows(X, Request((), "upper", groups=groups), sample_weight, "distributions")
        points, several = _points(y, rows, None if self._single_output else self._band.n_outputs)
        (shares,) = self._at_rows(SharesAt(self._band, request, limits, points), rows, (points.shape[1],))
        return shares if several else shares[:, 0]

    @property
    def band_(self) -> Band:
        """Return the calibrated band."""
        check_is_fitted(self, "estimator_")
        return self._band

    @property
    def row_shape_(self) -> tuple[int, ...]:
        """Return the shape of the prediction of a row: () for one-dimensional targets, else (k,)."""
        return () if self._single_output else (self._band.n_outputs,)

    def _at_rows(self, function: IntervalsAt, rows: Rows, *row_shapes: tuple[int, ...]) -> tuple[Array, ...]:
        """Return arrays for rows in memory or in files, and Dask arrays for a collection; `row_shapes` are those of a
        row without the axis of outputs, which a single output does not have."""
        k = self._band.n_outputs
        results = new_rows(rows, self.estimator_).apply(function, [(*shape, k) for shape in row_shapes])
        return tuple(result[..., 0] for result in results) if self._single_output else results


def _limits(y_min: float | None, y_max: float | None) -> Limits:
    """Return the values that y cannot pass, infinite where there are none."""
    for name, limit in (("y_min", y_min), ("y_max", y_max)):
        if not (limit is None or isinstance(limit, Real)):
            raise TypeError(f"{name} must be a number, or None for no limit; got {brief(limit)}.")
    low, high = as_float("-inf" if y_min is None else y_min), as_float("inf" if y_max is None else y_max)
    if not low < high:
        raise ValueError(f"y_min must be below y_max; got {brief(y_min)} and {brief(y_max)}.")
    return low, high


def _checked_rows(X: object, request: Request, sample_weight: ArrayLike | None, what: str) -> tuple[Rows, Request]:
    """Return rows that can be taken by index, and the request with their weights."""
    rows = given_rows(X)
    if not rows.in_memory:
        if request.groups is not None or sample_weight is not None:
            raise ValueError(f"Rows in files or on a cluster have {what} without groups and weights.")
        return rows, request
    if not isinstance(X, Table):
        (X,) = indexable(X)
    return GivenRows(X), replace(request, weights=given_weights(sample_weight, _num_samples(X)))


def _points(y: ArrayLike, rows: Rows, k: int | None) -> tuple[Array, bool]:
    """Return y as points (n or 1, points, outputs), and whether several points were given; k is None for a single
    output."""
    if not given_rows(y).in_memory:
        raise ValueError("y must be here, as a number or an array; got rows in files or on a cluster.")
    values = np.asarray(as_numbers("y", y), np.float64)
    if np.isnan(values).any():
        raise ValueError("y contains NaN; every y must be a number.")
    if not values.ndim:
        return np.full((1, 1, k or 1), values), False
    n, points = rows.n if rows.in_memory else 1, values if k is not None else values[..., None]
    several = points.ndim == 3
    if points.ndim not in (2, 3) or len(points) not in (1, n) or points.shape[-1] != (k or 1):
        tail = "" if k is None else f", {k}"
        one = f"({n}{tail or ','})"
        raise ValueError(
            f"y must be a number, or have the shape {one} or ({n}, points{tail}), where rows that share y count as"
            f" 1; got {values.shape}."
        )
    return (points if several else points[:, None]), several
