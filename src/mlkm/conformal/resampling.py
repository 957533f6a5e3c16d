"""Bands from fits that leave out or resample rows: CV+, jackknife+ and the bootstrap.

CV+ and jackknife+ (Barber, Candes, Ramdas, Tibshirani 2021) score every row by a fit that has not seen it, and set no
row aside. The interval at x reaches from the rank-th largest of lower_{-i}(x) - s_i u_{-i}(x) to the rank-th smallest
of upper_{-i}(x) + s_i u_{-i}(x), with lower_{-i}, upper_{-i}, u_{-i} from the fit without row i. It covers with
probability at least 1 - 2 alpha, and close to 1 - alpha where fits are stable. With weights dQ/dP, ranks are weighted
(Prinster, Liu and Saria 2022). New rows are taken in blocks, so that no table of all training by all new rows is
formed.

Jackknife+ comes from a single fit, by the closed form of one layer, which holds the features fixed. If features are
learned from the same rows, a fit without a row would have learned others, and leave-one-out residuals with the features
of all rows are too small: with 40 rows of 30 inputs that are independent of y, a band of 90 % covered 74 %. CV+ with a
search in every fold is then used instead.

The basic bootstrap is the paper's baseline: an interval for f(x), without a guarantee for y.
"""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import cast

import numpy as np
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from .._types import Array, IntArray
from ..base import KernelMachine
from ..data import blocks
from ..data.folds import keeps_groups_together, splits_of
from ..data.tables.cells import Table
from ..exceptions import warn
from ..fit.apply import sendable
from ..runtime.checks import brief
from ..runtime.resources import Purpose, generator
from ..runtime.sizes import BAND_ENTRIES
from . import wrapped_estimator as wrapped
from .bands import Band, CalibrationScores, CalibrationWeights, RankedBand, Request, RowsOfGroup
from .rank import RowWeights, conformal_quantiles, row_shares
from .scores import ObservedRows, ScoredRegressor, ScoreSettings, UncalibratedBand, as_interval, fit_scored
from .wrapped_estimator import Regressor, columns


@dataclass(frozen=True)
class LeftOutBand(RankedBand):
    """The fit to all rows that predicts the mean, the scores of all rows, and which fit has left out each row."""

    model: Regressor
    fit_of_row: IntArray
    scores: CalibrationScores

    @abstractmethod
    def left_out(self, X: object) -> UncalibratedBand:
        """Return the predictions of every fit that left rows out at new rows X, each part (new rows, fits, k); a unit
        that is the same for all fits is (new rows, 1, k)."""

    def interval(self, X: object, request: Request) -> tuple[Array, Array]:
        """Return f (n, k) and the interval (n, 2, levels, k)."""
        mean, scores, n = columns(self.model.predict(X)), self.scores.of_side(request), _num_samples(X)
        result = np.empty((n, 2, len(request.levels), self.n_outputs))
        for group in self.scores.groups(request, n):
            for rows, weights, output, (lower, upper, unit) in self._by_training_row(X, group):
                reach = scores[group.old, output] * unit
                low, high = (
                    conformal_quantiles(end, request.levels, weights) for end in (reach - lower, upper + reach)
                )
                middles = lower + (upper - lower) / 2
                centre = np.median(middles, axis=1, keepdims=True) if len(group.old) else np.zeros((len(rows), 1))
                result[rows, :, :, output] = as_interval(-low, high, request.side, centre)
            ends = result[group.new, 0 if request.side == "lower" else 1]
            request.warn_infinite(ends, group.n_counted, group.name)
        return mean, result

    def shares(self, X: object, y: Array, request: Request) -> Array:
        """Return the share of the values upper_{-i}(x) + s_i u_{-i}(x), whose order statistics are the upper bounds,
        that are at most y, for each y (n, points, k)."""
        result = np.empty(y.shape)
        for group in self.scores.groups(request, len(y)):
            for rows, weights, output, (_, upper, unit) in self._by_training_row(X, group):
                values = upper + self.scores.above[group.old, output] * unit
                result[rows, :, output] = row_shares(values, y[rows, :, output], weights)
        return result

    def _by_training_row(
        self, X: object, group: RowsOfGroup
    ) -> Iterator[tuple[IntArray, RowWeights | None, int, tuple[Array, Array, Array]]]:
        """Yield a block of new rows of a group at a time, with its weights, and for each output lower, upper and u by
        the fit without each calibration row of the group, (new rows, calibration rows)."""
        fits = self.fit_of_row[group.old]
        for at in blocks(len(group.new), max(1, BAND_ENTRIES // max(len(fits), 1))):
            rows, weights = group.new[at], group.weights
            weights = None if weights is None else RowWeights(weights.old, weights.new[at])
            band = self.left_out(_taken(X, rows))
            for output in range(self.n_outputs):
                lower = band.lower[:, fits, output]
                upper = lower if band.upper is band.lower else band.upper[:, fits, output]
                unit = band.unit[:, fits if band.unit.shape[1] > 1 else [0], output]
                yield rows, weights, output, (lower, upper, unit)


def _taken(X: object, rows: IntArray) -> object:
    """Return the rows of X with these indices; X may be a block of a table in files."""
    return X[rows] if isinstance(X, Table) else _safe_indexing(X, rows)


@dataclass(frozen=True)
class CrossBand(LeftOutBand):
    """CV+: one fit per fold, each of which has left out the rows of its fold."""

    fits: tuple[ScoredRegressor, ...]

    def left_out(self, X: object) -> UncalibratedBand:
        """Return the predictions of the fit of every fold at new rows X."""
        parts = zip(*(fit.predict(X) for fit in self.fits), strict=True)
        return UncalibratedBand(*(np.stack(part, axis=1) for part in parts))

    def to_send(self, request: Request) -> Band:
        """Return the band without training rows that are not needed."""
        fits = tuple(fit.sendable() for fit in self.fits)
        return replace(self, model=sendable(self.model), fits=fits)


@dataclass(frozen=True)
class JackknifeBand(LeftOutBand):
    """Jackknife+: a fit whose leave-one-out predictions are known in closed form. The unit is sigma_y(x) where
    `scaled`, bounded from below by `least`, or `least` itself."""

    scaled: bool
    least: Array

    def left_out(self, X: object) -> UncalibratedBand:
        """Return the leave-one-out predictions at new rows X."""
        inputs, last = wrapped.last_inputs(self.model, X), wrapped.last_step(self.model)
        f = cast(KernelMachine, last).left_out_predictions(inputs)  # type: ignore[arg-type]
        unit = np.broadcast_to(self.least, (len(f), len(self.least)))
        if self.scaled:
            unit = np.maximum(wrapped.mean_and_std(last, inputs)[1], self.least)
        return UncalibratedBand(f, f, f, unit[:, None])


@dataclass(frozen=True)
class BootstrapBand(Band):
    """A fit to all rows, and fits to rows drawn with replacement."""

    model: Regressor
    replicates: tuple[Regressor, ...]
    n_calibration: int
    n_outputs: int

    def interval(self, X: object, request: Request) -> tuple[Array, Array]:
        """Return f and [2f - q_high, 2f - q_low], which covers y less often than its level says since it leaves out the
        noise of y."""
        if request.groups is not None or request.joint:
            raise ValueError("method='bootstrap' has no groups and no joint intervals; take method='split'.")
        request.check_weights(None)
        mean = columns(self.model.predict(X))
        fits = np.stack([columns(model.predict(X)) for model in self.replicates])
        tails = np.array([float(1 - level) / (2 if request.side == "both" else 1) for level in request.levels])
        low, high = (np.moveaxis(np.quantile(fits, share, axis=0), 0, 1) for share in (tails, 1 - tails))
        lower, upper = 2 * mean[:, None, :] - high, 2 * mean[:, None, :] - low
        return mean, as_interval(lower, upper, request.side, (lower + upper) / 2)

    def check_distribution(self, shares: bool = False) -> None:
        """Refuse to give a distribution of y."""
        raise ValueError(
            "method='bootstrap' is a band for f(x), and has no distribution of y; take method='split' or 'cross'."
        )


def fit_cross(estimator: Regressor, settings: ScoreSettings, rows: ObservedRows) -> CrossBand:
    """Fit once per fold of `settings.cv`, and once to all rows. The splitter may look at the groups."""
    cv, Y = check_cv(settings.cv), columns(rows.y)
    fold, training = splits_of(cv, rows.X, rows.y, rows.groups)
    below, above = np.empty(Y.shape), np.empty(Y.shape)
    weights = CalibrationWeights.of(rows.weights)
    scaled = replace(rows, weights=None if weights is None else weights.weights, groups=None)
    fits = []
    for number, train in enumerate(training):
        test = np.flatnonzero(fold == number)
        if np.isin(train, test).any():
            raise ValueError(f"The training rows of fold {number} of cv must not be among the rows it is tested on.")
        scored = fit_scored(estimator, replace(settings, cv=ScoreSettings.cv), scaled.take(train))
        scored, band = scored.settled_by(scored.predict(_safe_indexing(rows.X, test)))
        below[test], above[test] = band.scores(Y[test])
        fits.append(scored)
    scores = CalibrationScores(below, above, weights, rows.groups, keeps_groups_together(cv))
    return CrossBand(wrapped.fit_regressor(estimator, rows.X, rows.y, scaled.weights)[0], fold, scores, tuple(fits))


def fit_leave_one_out(estimator: Regressor, settings: ScoreSettings, rows: ObservedRows) -> LeftOutBand:
    """Fit once to all rows, or by folds where features are learned. Rows of weight zero are in no fit and have no
    score."""
    score = settings.score
    if score not in ("absolute", "variance"):
        raise ValueError(f"cv='loo' goes with score='absolute' or 'variance'; got {brief(score)}.")
    if not wrapped.may_have_closed_form(estimator):
        raise ValueError(_no_closed_form(estimator))
    if wrapped.learns_features(estimator):
        return _by_folds(estimator, settings, rows)
    weights = CalibrationWeights.of(rows.weights)
    model, inputs = wrapped.fit_regressor(estimator, rows.X, rows.y, None if weights is None else weights.weights)
    exact = wrapped.closed_form(model)
    if exact is None:
        raise ValueError(_no_closed_form(estimator))
    left_out = exact.leave_one_out(inputs, rows.y)  # type: ignore[arg-type]
    in_fit = left_out.place >= 0
    residuals, std, scaled = left_out.residuals[in_fit], left_out.std[in_fit], score == "variance"
    sizes = std.max(axis=0, initial=0.0), np.abs(residuals).mean(axis=0)
    scored = ScoredRegressor(model, score, scale=None).settled(*sizes)
    least = np.asarray(scored.least if scaled else scored.scale)
    signed = residuals / (np.maximum(std, least) if scaled else least)
    weights = None if weights is None else replace(weights, weights=weights.weights[in_fit])
    return JackknifeBand(model, left_out.place[in_fit], CalibrationScores(-signed, signed, weights), scaled, least)


def _by_folds(estimator: Regressor, settings: ScoreSettings, rows: ObservedRows) -> CrossBand:
    """Use CV+ instead of jackknife+, with a warning."""
    if wrapped.is_frozen(estimator):
        raise ValueError(
            "cv='loo' needs rows that no search has seen, and this fitted model may have searched for its features on"
            " the rows given; call conformalize with rows that it has not seen, or give the estimator unfitted."
        )
    folds = min(ScoreSettings.cv, len(rows.y))
    warn(
        "cv='loo' holds features fixed, and this estimator searches for them on the same rows, so that leave-one-out"
        f" residuals would be too small: {folds} folds with a search each were used, as with cv={folds}; with a given"
        " scale leave-one-out is exact."
    )
    return fit_cross(estimator, replace(settings, cv=folds), rows)


def _no_closed_form(estimator: Regressor) -> str:
    name = type(wrapped.last_step(estimator)).__name__
    return f"cv='loo' needs the closed form of one layer, which {name} as given has not; pass sklearn's LeaveOneOut()."


def fit_bootstrap(estimator: Regressor, seed: int, rows: ObservedRows, n_replicates: int = 80) -> BootstrapBand:
    """Fit to all rows, and to rows drawn with replacement, each with its weight; 80 times, as in the paper."""
    n = len(rows.y)
    draws = (generator(seed, Purpose.BOOTSTRAP, b).integers(n, size=n) for b in range(n_replicates))
    samples = chain([rows], (rows.take(draw) for draw in draws))
    model, *replicates = (wrapped.fit_regressor(estimator, part.X, part.y, part.weights)[0] for part in samples)
    return BootstrapBand(model, tuple(replicates), n, columns(rows.y).shape[1])
