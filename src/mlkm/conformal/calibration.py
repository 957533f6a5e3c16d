"""Calibration of a band: scores are computed where the rows are, block by block; rows in memory are one block.

All scores are stored for rows in memory and for up to `MOST_SCORES` rows elsewhere. For more rows in files or on a
cluster, the order statistics that the levels need are selected in two passes: the first counts scores in bins defined
by their leading bits, which locates the bin of every rank, and the second gathers only the scores in those bins. The
result is exactly what sorting all scores would give.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._types import Array, IntArray
from ..data.folds import check_predicted
from ..data.rows import Block, Rows
from ..runtime.sizes import MOST_SCORES, SCORE_BITS
from .bands import Band, CalibrationScores, CalibrationWeights, Request, ScoredBand, SplitBand, warn_infinite
from .rank import rank
from .scores import ScoredRegressor, UncalibratedBand

_SIDES = ("both", "lower", "upper")


@dataclass(frozen=True)
class CalibrationRows:
    """Summaries of calibration rows and their scores before the units of the score are settled.

    Attributes
    ----------
    n : the number of rows
    largest : the largest unit of every output
    first, second : the sums of f and f^2 of every output
    weighted : whether a weight is not 1
    seen : band, outcomes and weights, block by block; None if there are too many rows to store scores for
    """

    n: int
    largest: Array
    first: Array
    second: Array
    weighted: bool
    seen: list[tuple[UncalibratedBand, Array, Array]] | None

    def plus(self, other: Self, most: float) -> Self:
        """Return the combined summaries; blocks are kept only while there are at most `most` rows."""
        n, seen = self.n + other.n, None
        if n <= most and self.seen is not None and other.seen is not None:
            seen = self.seen + other.seen
        largest, weighted = np.maximum(self.largest, other.largest), self.weighted or other.weighted
        return type(self)(n, largest, self.first + other.first, self.second + other.second, weighted, seen)

    def spread(self) -> Array:
        """Return the standard deviation of f of every output."""
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # squares of numbers above 1e154 overflow; their spread is not used
            return np.sqrt(np.maximum(self.second / self.n - (self.first / self.n) ** 2, 0))

    def joined(self) -> tuple[UncalibratedBand, Array, Array]:
        """Return the band, the outcomes and the weights of all rows that were seen."""
        assert self.seen is not None
        bands, outcomes, weights = zip(*self.seen, strict=True)
        if len(bands) == 1:
            return self.seen[0]
        band = UncalibratedBand(*map(np.concatenate, zip(*bands, strict=True)))
        return band, np.concatenate(outcomes), np.concatenate(weights)


@dataclass(frozen=True)
class CalibrationRowsOf:
    """A function of a block of rows, whose outcomes must be those that the model predicts."""

    scored: ScoredRegressor

    def __call__(self, block: Block[object]) -> CalibrationRows:
        """Return the summaries of a block of calibration rows, with its uncalibrated band."""
        band = self.scored.predict(block.X)
        f = band.mean
        check_predicted(block.Y, f)
        with np.errstate(over="ignore"):
            second = (f**2).sum(axis=0)
        weighted, largest = bool((block.weights != 1).any()), band.unit.max(axis=0, initial=0.0)
        return CalibrationRows(len(f), largest, f.sum(axis=0), second, weighted, [(band, block.Y, block.weights)])


def calibrate(
    scored: ScoredRegressor, rows: Rows[Any], levels: Sequence[Fraction], groups: ArrayLike | None = None
) -> Band:
    """Return the band calibrated on these rows, which also determine the units of the score.

    Scores are computed block by block, where the rows are. All of them are stored for rows in memory and for up to
    `MOST_SCORES` rows elsewhere. Groups are possible for rows in memory only.
    """
    most = np.inf if rows.in_memory else MOST_SCORES
    sent = scored if rows.in_memory else scored.sendable()
    seen = rows.map_reduce(CalibrationRowsOf(sent), partial(CalibrationRows.plus, most=most))
    if seen.n <= most:
        band, Y, weights = seen.joined()
        scored, band = scored.settled_by(band)
        of_rows = CalibrationWeights.of(weights if rows.weighted or seen.weighted else None)
        labels = None if groups is None else np.asarray(groups)
        return SplitBand(scored, CalibrationScores(*band.scores(Y), of_rows, labels))
    if seen.weighted:
        raise ValueError(f"Bands are calibrated with weights by at most {MOST_SCORES:,} rows; got {seen.n:,}.")
    scored = scored.settled(seen.largest, seen.spread())
    sent = scored.sendable()
    return SelectedBand(scored, seen.n, {side: _selected(rows, sent, seen.n, levels, side) for side in _SIDES})


@dataclass(frozen=True)
class SelectedBand(ScoredBand):
    """A scored regressor, the number of its calibration rows, and for every side and level the conformal quantile of
    their scores (k,)."""

    scored: ScoredRegressor
    n_calibration: int
    quantiles: dict[str, dict[Fraction, Array]]

    @property
    def n_outputs(self) -> int:
        """Return the number of outputs."""
        return len(next(iter(self.quantiles["both"].values())))

    def thresholds(self, request: Request, n: int = 1) -> Array:
        """Return the conformal quantile q of every level and output, which is the same for all new rows,
        (1, levels, k)."""
        known = self.quantiles[request.side]
        missing = [float(level) for level in request.levels if level not in known]
        if missing or request.joint or request.groups is not None or request.weights is not None:
            raise ValueError(
                f"A band of more than {MOST_SCORES:,} rows knows the levels that it was calibrated for,"
                f" {sorted(float(level) for level in known)}, for every output alone; calibrate it for what is asked."
            )
        q = np.stack([known[level] for level in request.levels])[None]
        warn_infinite(q, self.n_calibration, request)
        return q

    def check_distribution(self, shares: bool = False) -> None:
        """Refuse to give the distribution function, which needs all scores."""
        if shares:
            raise ValueError(
                f"A band of more than {MOST_SCORES:,} rows keeps quantiles and no scores, so that it has no"
                " predict_cdf; calibrate it by fewer rows, or ask predict_quantile for its levels."
            )


def ordered(scores: Array) -> NDArray[np.uint64]:
    """Return whole numbers in the order of the scores: their bits, all inverted where they are negative.

    >>> keys = ordered(np.array([-np.inf, -2.0, -0.5, 0.0, 1e-300, 3.0, np.inf]))
    >>> bool((np.diff(keys.astype(object)) > 0).all())
    True
    """
    bits = np.ascontiguousarray(scores + 0.0, np.float64).view(np.uint64)
    top = np.uint64(1 << 63)
    return np.where(bits & top, ~bits, bits | top)


def _bins(scores: Array) -> IntArray:
    """Return the bin of every score, by its leading bits."""
    return (ordered(scores) >> np.uint64(64 - SCORE_BITS)).astype(np.intp)


@dataclass(frozen=True)
class SideScoresOf:
    """A function of a block of rows: one score per row and output for one side of the band."""

    scored: ScoredRegressor
    side: str

    def __call__(self, block: Block[object]) -> Array:
        scores = np.stack(self.scored.predict(block.X).scores(block.Y))
        return np.asarray(scores.max(axis=0) if self.side == "both" else scores[_SIDES.index(self.side) - 1])


@dataclass(frozen=True)
class CountsOf:
    """A function of a block of rows: how many scores are in every bin, (bins, k)."""

    scores_of: SideScoresOf

    def __call__(self, block: Block[object]) -> NDArray[np.int64]:
        return np.stack([np.bincount(bins, minlength=2**SCORE_BITS) for bins in _bins(self.scores_of(block)).T], axis=1)


@dataclass(frozen=True)
class ScoresInBins:
    """A function of a block of rows: the scores of every output that are in given bins."""

    scores_of: SideScoresOf
    bins: tuple[frozenset[int], ...]

    def __call__(self, block: Block[object]) -> list[Array]:
        scores = self.scores_of(block)
        parts = zip(scores.T, _bins(scores).T, self.bins, strict=True)
        return [column[np.isin(bins, list(wanted))] for column, bins, wanted in parts]


def _selected(
    rows: Rows[Any], scored: ScoredRegressor, n: int, levels: Sequence[Fraction], side: str
) -> dict[Fraction, Array]:
    """Return the scores of the ranks that the levels ask for, exactly, in two passes."""
    scores_of = SideScoresOf(scored, side)
    counts = np.cumsum(rows.map_reduce(CountsOf(scores_of), np.add), axis=0)
    k = counts.shape[1]
    ranks = {level: rank(n, level) for level in levels if rank(n, level) <= n}
    bins = {level: [int(np.searchsorted(column, at)) for column in counts.T] for level, at in ranks.items()}
    wanted = tuple(frozenset(places[output] for places in bins.values()) for output in range(k))
    selected = rows.map_reduce(ScoresInBins(scores_of, wanted), _extended)
    result = {level: np.full(k, np.inf) for level in levels}
    for level, at in ranks.items():
        for output, scores in enumerate(selected):
            place = bins[level][output]
            before = int(counts[place - 1, output]) if place else 0
            result[level][output] = np.sort(scores[_bins(scores) == place])[at - before - 1]
    return result


def _extended(a: list[Array], b: list[Array]) -> list[Array]:
    return [np.concatenate(pair) for pair in zip(a, b, strict=True)]
