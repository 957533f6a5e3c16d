"""Calibration by rows in files or on a cluster: scores are computed where the rows are, and only they come here.

Fit and calibration have parts of the rows by the content of the rows (`mlkm.data.part`). Up to `MOST_SCORES` rows all
scores are stored, as in memory. Of more, the order statistics that the levels ask for are selected in two passes:
counts of scores in bins of their leading bits tell the bin of every rank, and the scores of that bin alone come here.
They are exactly the scores that sorting all of them would give.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from .._types import Array, IntArray
from ..base import KernelMachine
from ..data.source import Block, Source, check_predicted
from .bands import Band, CalibrationScores, CalibrationWeights, Request, ScoredBand, SplitBand, warn_infinite
from .rank import rank
from .scores import ScoredRegressor
from .wrapped_estimator import Regressor

MOST_SCORES = 2_000_000  # rows whose scores are all stored
_BITS = 20  # of a score that give its bin: sign, exponent and eight bits of its digits
_SIDES = ("both", "lower", "upper")

UnitSums: TypeAlias = tuple[int, Array, Array, Array, bool]


@dataclass(frozen=True)
class ScoresOf:
    """A function of a block of rows: how far y lies below and above the band, in units u, (2, n, k)."""

    scored: ScoredRegressor

    def __call__(self, block: Block) -> Array:
        return np.stack(self.scored.predict(block.table).scores(block.Y))


@dataclass(frozen=True)
class UnitsOf:
    """A function of a block of rows: their number, the largest unit and the sums of f and f^2 of every output, which
    settle the units of a score, and whether there are weights."""

    scored: ScoredRegressor

    def __call__(self, block: Block) -> UnitSums:
        f, _, _, unit = self.scored.predict(block.table)
        check_predicted(block.Y, f)
        return len(f), unit.max(axis=0), f.sum(axis=0), (f**2).sum(axis=0), bool((block.weights != 1).any())


def calibrate_elsewhere(scored: ScoredRegressor, source: Source, levels: Sequence[Fraction]) -> Band:
    """Return the band that the rows of a source give, whose targets must be those of the model."""
    n, largest, first, second, weighted = source.reduce(UnitsOf(scored.sendable()), _added)
    scored = scored.settled(largest, np.sqrt(np.maximum(second / n - (first / n) ** 2, 0)))
    sent = scored.sendable()
    if n <= MOST_SCORES:
        below, above = source.reduce(ScoresOf(sent), _joined)
        weights = CalibrationWeights.of(source.reduce(_weights, _joined)[0] if weighted else None)
        return SplitBand(scored, CalibrationScores(below, above, weights))
    if weighted:
        raise ValueError(f"Bands are calibrated with weights by at most {MOST_SCORES:,} rows; got {n:,}.")
    return SelectedBand(scored, n, {side: _selected(source, sent, n, levels, side) for side in _SIDES})


def _added(a: UnitSums, b: UnitSums) -> UnitSums:
    return a[0] + b[0], np.maximum(a[1], b[1]), a[2] + b[2], a[3] + b[3], a[4] or b[4]


def _weights(block: Block) -> Array:
    return block.weights[None]


def _joined(a: Array, b: Array) -> Array:
    return np.concatenate([a, b], axis=1)


@dataclass(frozen=True)
class SelectedBand(ScoredBand):
    """A scored regressor, the number of its calibration rows, and for every side and level the conformal quantile of
    their scores (k,)."""

    scored: ScoredRegressor
    n_calibration: int
    quantiles: dict[str, dict[Fraction, Array]]

    @property
    def n_outputs(self) -> int:
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
    return (ordered(scores) >> np.uint64(64 - _BITS)).astype(np.intp)


@dataclass(frozen=True)
class SideScoresOf:
    """A function of a block of rows: one score per row and output for one side of the band."""

    scored: ScoredRegressor
    side: str

    def __call__(self, block: Block) -> Array:
        scores = ScoresOf(self.scored)(block)
        return np.asarray(scores.max(axis=0) if self.side == "both" else scores[_SIDES.index(self.side) - 1])


@dataclass(frozen=True)
class CountsOf:
    """A function of a block of rows: how many scores are in every bin, (bins, k)."""

    scores_of: SideScoresOf

    def __call__(self, block: Block) -> NDArray[np.int64]:
        return np.stack([np.bincount(bins, minlength=2**_BITS) for bins in _bins(self.scores_of(block)).T], axis=1)


@dataclass(frozen=True)
class ScoresInBins:
    """A function of a block of rows: the scores of every output that are in given bins."""

    scores_of: SideScoresOf
    bins: tuple[frozenset[int], ...]

    def __call__(self, block: Block) -> list[Array]:
        scores = self.scores_of(block)
        parts = zip(scores.T, _bins(scores).T, self.bins, strict=True)
        return [column[np.isin(bins, list(wanted))] for column, bins, wanted in parts]


def _selected(
    source: Source, scored: ScoredRegressor, n: int, levels: Sequence[Fraction], side: str
) -> dict[Fraction, Array]:
    """Return the scores of the ranks that the levels ask for, exactly, in two passes."""
    scores_of = SideScoresOf(scored, side)
    counts = np.cumsum(source.reduce(CountsOf(scores_of), np.add), axis=0)
    k = counts.shape[1]
    ranks = {level: rank(n, level) for level in levels if rank(n, level) <= n}
    bins = {level: [int(np.searchsorted(column, at)) for column in counts.T] for level, at in ranks.items()}
    wanted = tuple(frozenset(places[output] for places in bins.values()) for output in range(k))
    selected = source.reduce(ScoresInBins(scores_of, wanted), _extended)
    result = {level: np.full(k, np.inf) for level in levels}
    for level, at in ranks.items():
        for output, scores in enumerate(selected):
            place = bins[level][output]
            before = int(counts[place - 1, output]) if place else 0
            result[level][output] = np.sort(scores[_bins(scores) == place])[at - before - 1]
    return result


def _extended(a: list[Array], b: list[Array]) -> list[Array]:
    return [np.concatenate(pair) for pair in zip(a, b, strict=True)]


def fit_elsewhere(estimator: Regressor, score: str, source: Source) -> ScoredRegressor:
    """Fit the regressor to a source, and refuse scores that need a second fit to rows in memory."""
    if score not in ("variance", "absolute"):
        raise ValueError(f"score={score!r} needs a second fit to rows in memory; take score='variance' or 'absolute'.")
    if not isinstance(estimator, KernelMachine):
        raise TypeError(
            "Rows in files or on a cluster are fitted by the regressors of mlkm; got"
            f" {type(estimator).__name__}: fit it first, then call conformalize."
        )
    return ScoredRegressor(estimator.fit(source), score, scale=1.0 if source.single_output else None)
