"""Calibration of a band: scores are computed where the rows are, block by block; rows in memory are one block.

All scores are stored for rows in memory and for up to `MOST_SCORES` rows out of memory or distributed. For more of
these, the order statistics that the levels need are selected in two passes: the first counts scores in bins defined by
their leading bits, which locates the bin of every rank, and the second gathers only the scores in those bins. The
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
from .bands import Band, CalibrationScores, CalibrationWeights, Request, ScoredBand, SplitBand
from .rank import rank
from .scores import ScoredRegressor, UncalibratedBand


@dataclass(frozen=True)
class CalibrationRows:
    """Summaries of calibration rows and their scores before the units of the score are settled.

    Attributes
    ----------
    n : the number of rows
    largest : the largest unit of every output
    sums : the sums of f and f^2 of every output, (2, k)
    weighted : whether a weight is not 1
    seen : band, outcomes and weights, block by block; none if there are too many rows to store scores for
    """

    n: int
    largest: Array
    sums: Array
    weighted: bool
    seen: list[tuple[UncalibratedBand, Array, Array]]

    @classmethod
    def of(cls, scored: ScoredRegressor, block: Block[object]) -> Self:
        """Return the summaries of a block, whose outcomes must be those that the model predicts."""
        band = scored.predict(block.X)
        check_predicted(block.Y, band.mean)
        with np.errstate(over="ignore"):  # squares of numbers above 1e154 overflow; their spread is not used
            sums = np.stack([band.mean.sum(axis=0), (band.mean**2).sum(axis=0)])
        weighted, largest = bool((block.weights != 1).any()), band.unit.max(axis=0, initial=0.0)
        return cls(len(block.Y), largest, sums, weighted, [(band, block.Y, block.weights)])

    def plus(self, other: Self, most: float) -> Self:
        """Return the combined summaries; blocks are kept only while there are at most `most` rows."""
        n, largest = self.n + other.n, np.maximum(self.largest, other.largest)
        seen = self.seen + other.seen if n <= most else []
        return type(self)(n, largest, self.sums + other.sums, self.weighted or other.weighted, seen)

    def spread(self) -> Array:
        """Return the standard deviation of f of every output."""
        with np.errstate(over="ignore", invalid="ignore"):
            first, second = self.sums / self.n
            return np.asarray(np.sqrt(np.maximum(second - first**2, 0)))

    def joined(self) -> tuple[UncalibratedBand, Array, Array]:
        """Return the band, the outcomes and the weights of all rows that were seen."""
        if len(self.seen) == 1:
            return self.seen[0]
        bands, outcomes, weights = zip(*self.seen, strict=True)
        band = UncalibratedBand(*map(np.concatenate, zip(*bands, strict=True)))
        return band, np.concatenate(outcomes), np.concatenate(weights)


def calibrate(
    scored: ScoredRegressor, rows: Rows[Any], levels: Sequence[Fraction], groups: ArrayLike | None = None
) -> Band:
    """Return the band calibrated on these rows, which also determine the units of the score.

    Scores are computed block by block, where the rows are. All of them are stored for rows in memory and for up to
    `MOST_SCORES` rows out of memory. Groups are possible for rows in memory only.
    """
    most = np.inf if rows.in_memory else MOST_SCORES
    sent = scored if rows.in_memory else scored.sendable()
    seen = rows.map_reduce(partial(CalibrationRows.of, sent), partial(CalibrationRows.plus, most=most))
    if seen.n <= most:
        band, Y, weights = seen.joined()
        scored, band = scored.settled_by(band)
        of_rows = CalibrationWeights.of(weights if rows.weighted or seen.weighted else None)
        labels = None if groups is None else np.asarray(groups)
        return SplitBand(scored, CalibrationScores(*band.scores(Y), of_rows, labels))
    if seen.weighted:
        raise ValueError(f"Bands are calibrated with weights by at most {MOST_SCORES:,} rows; got {seen.n:,}.")
    scored = scored.settled(seen.largest, seen.spread())
    sides = ("both", "lower", "upper")
    return SelectedBand(scored, seen.n, {side: _selected(rows, scored, seen.n, levels, side) for side in sides})


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
        request.warn_infinite(q, self.n_calibration)
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


def _scores(scored: ScoredRegressor, request: Request, block: Block[object]) -> Array:
    """Return one score per row and output of a block for one side of the band."""
    return CalibrationScores(*scored.predict(block.X).scores(block.Y)).of_side(request)


def _counts(scored: ScoredRegressor, request: Request, block: Block[object]) -> NDArray[np.int64]:
    """Return how many scores of a block are in every bin, (bins, k)."""
    bins = _bins(_scores(scored, request, block))
    return np.stack([np.bincount(column, minlength=2**SCORE_BITS) for column in bins.T], axis=1)


def _scores_in(bins: list[IntArray], scored: ScoredRegressor, request: Request, block: Block[object]) -> list[Array]:
    """Return the scores of a block that are in given bins of every output."""
    scores = _scores(scored, request, block)
    parts = zip(scores.T, _bins(scores).T, bins, strict=True)
    return [column[np.isin(places, wanted)] for column, places, wanted in parts]


def _selected(
    rows: Rows[Any], scored: ScoredRegressor, n: int, levels: Sequence[Fraction], side: str
) -> dict[Fraction, Array]:
    """Return the scores of the ranks that the levels ask for, exactly, in two passes."""
    scored, request = scored.sendable(), Request(levels, side)
    counts = rows.map_reduce(partial(_counts, scored, request), np.add)
    before = np.cumsum(np.pad(counts, ((1, 0), (0, 0))), axis=0)  # how many scores are in earlier bins
    ranks = np.array([rank(n, level) for level in levels])
    reached = np.minimum(ranks, n)
    bins = [np.searchsorted(column, reached) - 1 for column in before.T]
    selected = rows.map_reduce(partial(_scores_in, bins, scored, request), _extended)
    result = np.empty((len(levels), len(bins)))
    for output, scores in enumerate(map(np.sort, selected)):
        for number, place in enumerate(bins[output]):
            result[number, output] = scores[_bins(scores) == place][reached[number] - before[place, output] - 1]
    result[ranks > n] = np.inf
    return dict(zip(levels, result, strict=True))


def _extended(a: list[Array], b: list[Array]) -> list[Array]:
    return [np.concatenate(pair) for pair in zip(a, b, strict=True)]
