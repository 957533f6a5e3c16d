"""Calibrated bands: what is asked of them, the scores of their calibration rows, and split conformal prediction.

For split conformal prediction P(y in C(x)) lies in [1 - alpha, 1 - alpha + 1/(m + 1)] when calibration and new rows are
exchangeable and scores have no ties. With groups this holds within each group (Mondrian); with weights dQ/dP it holds
under Q.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from .._types import Array, IntArray
from ..data.folds import scale_of
from ..exceptions import warn
from ..runtime.checks import brief, one_of
from ..runtime.confidence import groups_of
from .rank import RowWeights, conformal_quantiles, rank, rows_needed, shares_up_to
from .scores import ScoredRegressor
from .wrapped_estimator import Regressor


@dataclass(frozen=True)
class Request:
    """A request to a band: levels, which sides are bounded, outputs one by one or jointly, and the groups and weights
    of the new rows. A request without levels is for the whole distribution of y."""

    levels: Sequence[Fraction]
    side: str = "both"
    joint: bool = False
    groups: Any = None
    weights: Array | None = None

    def __post_init__(self) -> None:
        one_of("side", self.side, ("both", "lower", "upper"))

    def check_weights(self, calibrated: "CalibrationWeights | None") -> None:
        """Refuse weights of new rows where the calibration rows had none."""
        if self.weights is not None and calibrated is None:
            raise ValueError(
                "sample_weight needs a band calibrated with weights: fit or conformalize(X, y, sample_weight=...)."
            )

    def warn_infinite(self, ends: Array, m: int, where: str = "") -> None:
        """Say why ends (new rows, levels, k) of intervals from m calibration rows are infinite, and what would make
        them finite."""
        what = "interval" if self.side == "both" else "bound"
        for level, rows in zip(self.levels, np.isinf(ends).any(axis=2).sum(axis=0).tolist(), strict=True):
            if rows and rank(m, level) > m:
                warn(
                    f"{m} calibration rows{where} are too few for the level {float(level):g}, so its {what} is"
                    f" infinite; {rows_needed(level)} rows would do."
                )
            elif rows:
                warn(
                    f"The weights of {rows} of {len(ends)} new rows{where} are too large beside the sum of the"
                    f" calibration weights for the level {float(level):g}, so their {what}s are infinite; more"
                    " calibration rows, or weights that differ less, would do."
                )


@dataclass(frozen=True)
class CalibrationWeights:
    """Weights dQ/dP of the calibration rows, divided by a number that keeps their sums finite."""

    weights: Array
    scale: float

    @classmethod
    def of(cls, given: Array | None) -> Self | None:
        """Return weights as they were given on this scale; None where there are none."""
        if given is None:
            return None
        if not given.any():
            raise ValueError("The sum of sample_weight must be positive; all weights of calibration rows are zero.")
        return cls(given / scale_of(given), scale_of(given))


class RowsOfGroup(NamedTuple):
    """The calibration rows and the new rows of one Mondrian group, their weights where there are any, and the words
    that name the group in messages."""

    name: str
    old: IntArray
    new: IntArray
    weights: RowWeights | None

    @property
    def n_counted(self) -> int:
        """Return the number of calibration rows that have a weight."""
        return len(self.old) if self.weights is None else int(np.count_nonzero(self.weights.old))


@dataclass(frozen=True)
class CalibrationScores:
    """The distances of y below `lower` and above `upper` at the calibration rows, in units u, (m, k), with the rows'
    weights and groups. Groups that are optional only defined the folds, so that new rows need none."""

    below: Array
    above: Array
    weights: CalibrationWeights | None = None
    labels: Any = None
    optional_groups: bool = False

    def __len__(self) -> int:
        return len(self.below)

    @property
    def n_outputs(self) -> int:
        """Return the number of outputs."""
        return int(self.below.shape[1])

    def of_side(self, request: Request) -> Array:
        """Return one score per row and output; for joint coverage the largest over the outputs."""
        scores = {"lower": self.below, "upper": self.above}.get(request.side)
        if scores is None:
            scores = np.maximum(self.below, self.above)
        return np.broadcast_to(scores.max(axis=1, keepdims=True), scores.shape) if request.joint else scores

    def groups(self, request: Request, n: int) -> Iterator[RowsOfGroup]:
        """Yield the calibration rows and the n new rows of every group; without groups, one group of all rows."""
        request.check_weights(self.weights)
        if self.labels is None and request.groups is not None:
            raise ValueError(
                "groups were given for prediction but not for calibration; give them to fit or conformalize as well."
            )
        if self.labels is not None and request.groups is None and not self.optional_groups:
            raise ValueError(
                "The band was calibrated by groups, so it needs the groups of the rows it is asked for: pass"
                " groups=..., as in predict_interval(X, groups=...)."
            )
        if request.groups is None:
            yield self._group("", np.arange(len(self)), np.arange(n), request)
            return
        values, place = groups_of(request.groups, n)
        for g, value in enumerate(values):
            old = np.flatnonzero(np.asarray(self.labels) == value)
            yield self._group(f" in group {value!s}", old, np.flatnonzero(place == g), request)

    def _group(self, name: str, old: IntArray, new: IntArray, request: Request) -> RowsOfGroup:
        """Return a group with its weights; those of new rows are by default the largest of the calibration rows."""
        weights = np.ones(len(old)) if self.weights is None else self.weights.weights[old]
        if not weights.any() and not request.levels:
            rows = "calibration rows with a weight" if len(old) else "calibration rows"
            warn(f"There are no {rows}{name}, so all of its distribution is at infinity.")
        if self.weights is None:
            return RowsOfGroup(name, old, new, None)
        at_new = np.full(len(new), weights.max(initial=0.0))
        if request.weights is not None:
            with np.errstate(over="ignore"):  # an infinite relative weight yields an infinite interval, as it should
                at_new = request.weights[new] / self.weights.scale
        return RowsOfGroup(name, old, new, RowWeights(weights, at_new))


class Band(ABC):
    """A calibrated band around a fitted regressor, whatever the method of its calibration."""

    if TYPE_CHECKING:  # fields in some classes and properties in others

        @property
        def model(self) -> Regressor:
            """Return the fitted regressor."""

        @property
        def n_calibration(self) -> int:
            """Return the number of calibration rows."""

        @property
        def n_outputs(self) -> int:
            """Return the number of outputs."""

    @abstractmethod
    def interval(self, X: object, request: Request) -> tuple[Array, Array]:
        """Return f (n, k) and the interval (n, 2, levels, k)."""

    def shares(self, X: object, y: Array, request: Request) -> Array:
        """Return the share of the distribution of y up to each point y (n, points, k)."""
        raise NotImplementedError

    def check_distribution(self, shares: bool = False) -> None:  # noqa: B027, most bands have one
        """Refuse to give quantiles, or with `shares` the distribution function, where the band has none."""

    def to_send(self, request: Request) -> "Band":
        """Return what is sent to rows in files or on a cluster to compute the intervals of a request, or where it has
        no levels, `shares`."""
        return self


class RankedBand(Band):
    """A band with the scores of all its calibration rows."""

    scores: CalibrationScores

    @property
    def n_calibration(self) -> int:
        """Return the number of calibration rows."""
        return len(self.scores)

    @property
    def n_outputs(self) -> int:
        """Return the number of outputs."""
        return self.scores.n_outputs


class ScoredBand(Band):
    """A band around a regressor with one score for all new rows."""

    scored: ScoredRegressor

    @property
    def model(self) -> Regressor:
        """Return the fitted regressor."""
        return self.scored.model

    @abstractmethod
    def thresholds(self, request: Request, n: int) -> Array:
        """Return the conformal quantile q for each of n new rows, level and output, (n or 1, levels, k)."""

    def interval(self, X: object, request: Request) -> tuple[Array, Array]:
        """Return f (n, k) and the interval (n, 2, levels, k)."""
        band = self.scored.predict(X)
        return band.mean, band.widened(self.thresholds(request, len(band.mean)), request.side)

    def to_send(self, request: Request) -> Band:
        """Return a band of fixed thresholds, whose size does not grow with the calibration rows."""
        return FixedBand(self.scored.sendable(), self.thresholds(request, 1))


@dataclass(frozen=True)
class FixedBand(ScoredBand):
    """A scored regressor with thresholds q (1, levels, k) that are the same at all rows, for the levels of one
    request."""

    scored: ScoredRegressor
    q: Array

    def thresholds(self, request: Request, n: int) -> Array:
        """Return the thresholds of the request that the band was made for."""
        return self.q


@dataclass(frozen=True)
class SplitBand(ScoredBand, RankedBand):
    """A scored regressor with the scores of calibration rows that it has not seen."""

    scored: ScoredRegressor
    scores: CalibrationScores

    def thresholds(self, request: Request, n: int) -> Array:
        """Return the conformal quantile q for each of n new rows, level and output, (n, levels, k)."""
        scores = self.scores.of_side(request)
        q = np.empty((n, len(request.levels), self.n_outputs))
        for group in self.scores.groups(request, n):
            for output, column in enumerate(scores[group.old].T):
                q[group.new, :, output] = conformal_quantiles(column[None], request.levels, group.weights)
            request.warn_infinite(q[group.new], group.n_counted, group.name)
        return q

    def shares(self, X: object, y: Array, request: Request) -> Array:
        """Return the share of the scores above that are at most the score of each y (n, points, k)."""
        band = self.scored.predict(X)
        result = np.empty(y.shape)
        for group in self.scores.groups(request, len(y)):
            new = group.new
            for output, column in enumerate(self.scores.above[group.old].T):
                upper, unit = band.upper[new, output], band.unit[new, output]
                result[new, :, output] = shares_up_to(column, upper, unit, y[new, :, output], group.weights)
        return result

    def to_send(self, request: Request) -> Band:
        """Return a band of fixed thresholds, or where shares are asked for, one with all its scores."""
        return super().to_send(request) if request.levels else replace(self, scored=self.scored.sendable())


def calibration_rows(calibration_size: float, n: int) -> int:
    """Return how many of n rows are set aside for calibration, from a share or a number of them."""
    share = isinstance(calibration_size, (float, np.floating)) and 0 < calibration_size < 1
    rows = ceil(calibration_size * n) if share else calibration_size
    if not isinstance(rows, (int, np.integer)) or isinstance(rows, bool) or not 0 < rows < n:
        words = "calibration_size must be a share of the rows below 1, or a number of them that leaves some for the fit"
        raise ValueError(f"{words}; got {brief(calibration_size)} with n_samples={n}.")
    return int(rows)
