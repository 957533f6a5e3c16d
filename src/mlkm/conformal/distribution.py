"""The distribution of y that a band stands for: its upper bounds at all levels.

With scores s_i = (y_i - upper(x_i)) / u(x_i) of m calibration rows and a last place at infinity for the new row,

quantile   Q(q | x) = upper(x) + s_(r) u(x),   s_(r) the r-th smallest score, r = ceil(q (m + 1))
share      F(y | x) = #{i : upper(x) + s_i u(x) <= y} / (m + 1)

so that Q(q | x) <= y where q <= F(y | x), and nowhere else. For CV+ the m numbers are upper_{-i}(x) + s_i u_{-i}(x);
groups and weights count as in intervals.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import indexable
from sklearn.utils.validation import _num_samples, check_is_fitted

from .._types import Array
from ..data.inputs import given_weights
from ..data.tables.frames import Table
from ..fit.apply import apply_rows, is_elsewhere
from ..runtime.checks import as_numbers
from ..runtime.levels import are_several, exact_levels
from .bootstrap import Bootstrap
from .elsewhere import KEPT, Selected, to_send, with_scores_to_send
from .request import Request, limits_of


@dataclass(frozen=True)
class QuantilesOf:
    """Q(q | x) within limits, (n, levels, k), as a function that can be sent to rows; axes that were not asked for are
    left out."""

    band: Any
    request: Request
    limits: tuple[float, float]
    at: tuple[Any, ...]

    def __call__(self, rows: Any) -> tuple[Array]:
        return (np.clip(self.band.interval(rows, self.request)[1][:, 1], *self.limits)[self.at],)


@dataclass(frozen=True)
class SharesOf:
    """F(y | x) at points (n or 1, points, k), as a function that can be sent to rows. Beyond its limits y is not."""

    band: Any
    points: Array
    request: Request
    limits: tuple[float, float]
    at: tuple[Any, ...]

    def __call__(self, rows: Any) -> tuple[Array]:
        y = np.broadcast_to(self.points, (_num_samples(rows), *self.points.shape[1:]))
        low, high = self.limits
        shares = self.band.shares(rows, y, self.request)
        return (np.where(y >= high, 1.0, np.where(y < low, 0.0, shares))[self.at],)


class Quantiles:
    """What a band says of all levels at once: `predict_quantile`, and its inverse `predict_cdf`."""

    _band: Any
    _single_output: bool
    estimator_: Any

    def predict_quantile(
        self,
        X: Any,
        q: Any,
        *,
        y_min: float | None = None,
        y_max: float | None = None,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Any:
        """Quantiles of y, at every row: y is at most that of level q with probability at least q.

        They are the upper ends of `predict_interval(X, q, side="upper")`, never decrease with q, and share its
        guarantee, rows being exchangeable: for method="split" P(y <= quantile) lies in [q, q + 1/(m + 1)] where scores
        have no ties; for "cross" it is at least 2 q - 1, and close to q where fits are stable. The quantile is the
        ceil(q (m + 1))-th smallest of m scores (y - f(x)) / u(x): the smallest one at least, infinite above
        m / (m + 1). The lower end of `predict_interval(X, 1 - q, side="lower")` is the floor(q (m + 1))-th: the same
        where q (m + 1) is a whole number, else the one before. For score="quantile" scores are counted from the upper
        fitted quantile.

        Parameters
        ----------
        X : rows, in memory, in files or on a cluster
        q : a number between 0 and 1, or a sequence of them
        y_min, y_max : values y cannot pass, None for no limit; quantiles are cut there
        groups, sample_weight : of the rows, as in `predict_interval`

        Returns
        -------
        Array (n,) for a number q, (n, levels) for a sequence; of several outputs (n, k) or (n, levels, k), each output
        by itself.

        Examples
        --------
        >>> from mlkm import ConformalRegressor, RandomFeatureRidge
        >>> from mlkm.datasets import make_example1
        >>> X, y, f = make_example1(n=400, d=4, random_state=0)
        >>> band = ConformalRegressor(RandomFeatureRidge(100, scale=1.0, random_state=0), random_state=0).fit(X, y)
        >>> band.predict_quantile(X, [0.1, 0.5, 0.9]).shape
        (400, 3)
        """
        band = self._with_distribution()
        limits, levels = limits_of(y_min, y_max), exact_levels(q, "q")
        at = self._axes(are_several(q))
        X, groups, weights = _asked(X, groups, sample_weight)
        request = Request(levels, "upper", False, groups, weights)
        if not is_elsewhere(X):
            return QuantilesOf(band, request, limits, at)(X)[0]
        return self._apply(QuantilesOf(to_send(band, request), request, limits, at), X, len(levels))

    def predict_cdf(
        self,
        X: Any,
        y: Any,
        *,
        y_min: float | None = None,
        y_max: float | None = None,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Any:
        """How likely an outcome of at most y is, at every row: the share of the scores of m calibration rows that are
        at most the score of y, with the new row counted at infinity.

        It is the inverse of `predict_quantile`: that of level q is at most y where q <= predict_cdf(X, y). It is one
        of 0, 1/(m + 1), ..., m/(m + 1), all equally likely where y is the outcome of a new row (method="split", rows
        exchangeable, no ties); and 1 where y has reached `y_max`, which without a limit is infinity.

        Parameters
        ----------
        X : rows, in memory, in files or on a cluster
        y : a number for all rows; an array (n,) with one per row; or (n, points) with several per row, (1, points)
            for the same points at all rows. Of k outputs a number for all of them, (n, k) or (n, points, k), where n
            may be 1. For rows in files or on a cluster it is the same for all
        y_min, y_max : values y cannot pass, None for no limit: nothing is below the one, all at most the other
        groups, sample_weight : of the rows, as in `predict_interval`

        Returns
        -------
        Array of shares: (n,), or (n, points) where several points were given; of several outputs (n, k) or
        (n, points, k), each output by itself.

        Examples
        --------
        >>> from mlkm import ConformalRegressor, RandomFeatureRidge
        >>> from mlkm.datasets import make_example1
        >>> X, y, f = make_example1(n=400, d=4, random_state=0)
        >>> band = ConformalRegressor(RandomFeatureRidge(100, scale=1.0, random_state=0), random_state=0).fit(X, y)
        >>> band.predict_cdf(X, band.predict_quantile(X, 0.9))[:3].round(2)
        array([0.9, 0.9, 0.9])
        """
        band, limits = self._with_distribution(), limits_of(y_min, y_max)
        if isinstance(band, Selected):
            raise ValueError(
                f"A band of more than {KEPT:,} rows keeps quantiles and no scores, so that it has no predict_cdf;"
                " calibrate it by fewer rows, or ask predict_quantile for its levels."
            )
        X, groups, weights = _asked(X, groups, sample_weight)
        points, several = points_of(y, X, None if self._single_output else band.n_outputs)
        of = SharesOf(band, points, Request((), "upper", False, groups, weights), limits, self._axes(several))
        if not is_elsewhere(X):
            return of(X)[0]
        return self._apply(replace(of, band=with_scores_to_send(band)), X, points.shape[1])

    def _with_distribution(self) -> Any:
        """The band, where it has one."""
        check_is_fitted(self, "estimator_")
        if isinstance(self._band, Bootstrap):
            raise ValueError(
                "method='bootstrap' is a band for f(x), and has no distribution of y; take method='split' or 'cross'."
            )
        return self._band

    def _axes(self, several: bool) -> tuple[Any, ...]:
        """Of (n, levels or points, k), what is asked for."""
        return (slice(None), slice(None) if several else 0, 0 if self._single_output else slice(None))

    def _apply(self, of: Any, X: Any, several: int) -> Any:
        """A collection for a collection, an array for a table in files."""
        k = 1 if self._single_output else self._band.n_outputs
        tail = np.empty((0, several, k))[of.at].shape[1:]
        return apply_rows(of, X, [tail], self.estimator_)[0]


def _asked(X: Any, groups: Any, sample_weight: Any) -> tuple[Any, Any, Array | None]:
    """Rows that can be taken by number, their groups and weights."""
    if is_elsewhere(X):
        if groups is not None or sample_weight is not None:
            raise ValueError("Rows in files or on a cluster have distributions without groups and weights.")
        return X, None, None
    if not isinstance(X, Table):
        (X,) = indexable(X)
    return X, groups, given_weights(sample_weight, _num_samples(X))


def points_of(y: Any, X: Any, k: int | None) -> tuple[Array, bool]:
    """y as points (n or 1, points, outputs), and whether several points were given; k is None for a single output."""
    far = is_elsewhere(X)
    if is_elsewhere(y):
        raise ValueError("y must be here, as a number or an array; got rows in files or on a cluster.")
    values = np.asarray(as_numbers("y", y), np.float64)
    if np.isnan(values).any():
        raise ValueError("y contains NaN; every y must be a number.")
    shape = values.shape
    if not shape:
        return np.full((1, 1, k or 1), values), False
    n, depth = 1 if far else _num_samples(X), 1 if k is None else 2
    several = len(shape) == depth + 1
    if len(shape) not in (depth, depth + 1) or shape[0] not in (1, n) or (k is not None and shape[-1] != k):
        tail = "" if k is None else f", {k}"
        rows = "1" if far else f"{n}"
        one = f"({rows}{tail or ','})"
        raise ValueError(
            f"y must be a number, or have the shape {one} or ({rows}, points{tail}), where rows that share y count as"
            f" 1; got {shape}."
        )
    values = values if k is not None else values[..., None]
    return (values if several else values[:, None]), several
