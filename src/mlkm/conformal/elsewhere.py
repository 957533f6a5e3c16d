"""Bands whose rows are in files or on a cluster: scores are made where the rows are, and only they come here.

Fit and calibration have parts of the rows by their content (`mlkm.data.scan.PartOf`). Up to `KEPT` rows all scores are
kept, as in memory. Of more, the order statistics that the levels ask for are selected in passes: counts of scores in
bins of their leading bits tell the bin of every rank, and the scores of that bin alone come here. They are the very
scores that a sort of all would give.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._types import Array
from ..base import KernelMachine
from ..data.rows import Block, Rows, check_predicted
from ..fit.apply import sendable
from .cross import Cross
from .rank import rank
from .request import Request, Shift, as_interval
from .scores import Scored, least_unit, unit_of_outputs
from .split import Split, warn_infinite

KEPT = 2_000_000  # rows whose scores are kept
_BITS = 20  # of a score that say its bin: sign, exponent and eight bits of its digits


@dataclass(frozen=True)
class ScoresOf:
    """How far y lies below and above the band, in units u, (2, n, k): a function that can be sent to rows."""

    scored: Scored

    def __call__(self, block: Block[Any]) -> Array:
        _, lower, upper, unit = self.scored.base(block.X)
        return np.stack([(lower - block.Y) / unit, (block.Y - upper) / unit])


@dataclass(frozen=True)
class UnitsOf:
    """Rows, the largest unit, and sums of f and f^2, of every output: what `settle` looks at; and whether there are
    weights."""

    scored: Scored

    def __call__(self, block: Block[Any]) -> tuple[int, Array, Array, Array, bool]:
        f, _, _, unit = self.scored.base(block.X)
        check_predicted(block.Y, f)
        return len(f), unit.max(axis=0), f.sum(axis=0), (f**2).sum(axis=0), bool((block.weights != 1).any())


def calibrate_elsewhere(scored: Scored, source: Rows[Any], levels: Sequence[Any]) -> "Split | Selected":
    """Score the rows of a source, whose targets must be those of the model."""
    n, largest, first, second, weighted = source.map_reduce(UnitsOf(sent(scored)), _added)
    if scored.score == "variance":
        scored = replace(scored, least=least_unit(largest[None]))
    if scored.scale is None:
        scored = replace(scored, scale=unit_of_outputs(np.sqrt(np.maximum(second / n - (first / n) ** 2, 0))))
    if n <= KEPT:
        below, above = source.map_reduce(ScoresOf(sent(scored)), _joined)
        return Split(scored, below, above, Shift.of(source.map_reduce(_weights, _joined)[0] if weighted else None))
    if weighted:
        raise ValueError(f"Bands are calibrated with weights by at most {KEPT:,} rows; got {n:,}.")
    return Selected(scored, n, {side: _selected(source, sent(scored), n, levels, side) for side in SIDES})


def _added(a: Any, b: Any) -> Any:
    return a[0] + b[0], np.maximum(a[1], b[1]), a[2] + b[2], a[3] + b[3], a[4] or b[4]


def _weights(block: Block[Any]) -> Array:
    return block.weights[None]


def _joined(a: Array, b: Array) -> Array:
    return np.concatenate([a, b], axis=1)


@dataclass(frozen=True)
class Selected:
    """A scored model, how many rows it was calibrated by, and for every side and level the quantile of the scores
    (k,)."""

    scored: Scored
    n_calibration: int
    quantiles: dict[str, dict[Any, Array]]

    @property
    def model(self) -> Any:
        return self.scored.model

    @property
    def n_outputs(self) -> int:
        return len(next(iter(self.quantiles["both"].values())))

    def interval(self, X: Any, request: Request) -> tuple[Array, Array]:
        """f (n, k), and the interval (n, 2, levels, k)."""
        return Widened(self.scored, self.thresholds(request)[0]).interval(X, request)

    def thresholds(self, request: Request, n: int = 1) -> Array:
        """q for every level and output, which is the same for all new rows: (1, levels, k)."""
        known = self.quantiles[request.side]
        missing = [float(level) for level in request.levels if level not in known]
        if missing or request.joint or request.groups is not None or request.weights is not None:
            raise ValueError(
                f"A band of more than {KEPT:,} rows knows the levels that it was calibrated for,"
                f" {sorted(float(level) for level in known)}, for every output alone; calibrate it for what is asked."
            )
        q = np.stack([known[level] for level in request.levels])[None]
        warn_infinite(np.isinf(q).any(axis=2), self.n_calibration, request, "")
        return q


@dataclass(frozen=True)
class Widened:
    """A scored model, and q for every level and output (levels, k): what new rows need of a band whose q is the same at
    all of them, however many rows it was calibrated by."""

    scored: Scored
    q: Array

    def interval(self, X: Any, request: Request) -> tuple[Array, Array]:
        f, lower, upper, unit = self.scored.base(X)
        reach = self.q * unit[:, None, :]
        lower, upper = lower[:, None, :], upper[:, None, :]
        return f, as_interval(lower - reach, upper + reach, request.side, lower + (upper - lower) / 2)


def to_send(band: Any, request: Request) -> Any:
    """The band as it is sent to rows."""
    if isinstance(band, (Split, Selected)):
        return Widened(sent(band.scored), band.thresholds(request, 1)[0])
    return with_scores_to_send(band)


def with_scores_to_send(band: Any) -> Any:
    """The band with all its scores, as it is sent to rows."""
    if isinstance(band, Split):
        return replace(band, scored=sent(band.scored))
    if isinstance(band, Cross):
        return replace(band, model=sendable(band.model), fits=tuple(map(sent, band.fits)))
    return band


def sent(scored: Scored) -> Scored:
    """With the model as it is sent."""
    return replace(scored, model=sendable(scored.model, scored.score == "variance"))


SIDES = ("both", "lower", "upper")


def _of_side(scores: Array, side: str) -> Array:
    """One score per row and output of those below and above."""
    return np.asarray(scores.max(axis=0) if side == "both" else scores[SIDES.index(side) - 1])


def ordered(scores: Array) -> NDArray[np.uint64]:
    """Whole numbers in the order of the scores: their bits, turned where they are negative.

    >>> keys = ordered(np.array([-np.inf, -2.0, -0.5, 0.0, 1e-300, 3.0, np.inf]))
    >>> bool((np.diff(keys.astype(object)) > 0).all())
    True
    """
    bits = np.ascontiguousarray(scores + 0.0, np.float64).view(np.uint64)
    top = np.uint64(1 << 63)
    return np.where(bits & top, ~bits, bits | top)


@dataclass(frozen=True)
class CountsOf:
    """How many scores are in every bin, (bins, k)."""

    scored: Scored
    side: str

    def __call__(self, block: Block[Any]) -> NDArray[np.int64]:
        keys = ordered(_of_side(ScoresOf(self.scored)(block), self.side)) >> np.uint64(64 - _BITS)
        return np.stack([np.bincount(own.astype(np.intp), minlength=2**_BITS) for own in keys.T], axis=1)


@dataclass(frozen=True)
class InBins:
    """The scores of some bins of every output."""

    scored: Scored
    side: str
    bins: tuple[frozenset[int], ...]

    def __call__(self, block: Block[Any]) -> list[Array]:
        scores = _of_side(ScoresOf(self.scored)(block), self.side)
        keys = (ordered(scores) >> np.uint64(64 - _BITS)).astype(np.intp)
        pairs = zip(scores.T, keys.T, self.bins, strict=True)
        return [own[np.isin(key, list(bins))] for own, key, bins in pairs]


def _selected(source: Rows[Any], scored: Scored, n: int, levels: Sequence[Any], side: str) -> dict[Any, Array]:
    """The scores of the ranks that the levels ask for, exactly, by two passes."""
    counts = np.cumsum(source.map_reduce(CountsOf(scored, side), np.add), axis=0)
    ranks = {level: rank(n, level) for level in levels}
    inside = {level: at for level, at in ranks.items() if at <= n}
    bins = {level: [int(np.searchsorted(own, at)) for own in counts.T] for level, at in inside.items()}
    k = counts.shape[1]
    wanted = tuple(frozenset(own[output] for own in bins.values()) for output in range(k))
    found = source.map_reduce(InBins(scored, side, wanted), _extended)
    result = {level: np.full(k, np.inf) for level in levels}
    for level, at in inside.items():
        for output in range(k):
            place = bins[level][output]
            own = found[output]
            here = np.sort(own[(ordered(own) >> np.uint64(64 - _BITS)).astype(np.intp) == place])
            before = int(counts[place - 1, output]) if place else 0
            result[level][output] = here[at - before - 1]
    return result


def _extended(a: list[Array], b: list[Array]) -> list[Array]:
    return [np.concatenate(pair) for pair in zip(a, b, strict=True)]


def fit_elsewhere(estimator: Any, score: str, source: Rows[Any]) -> Scored:
    """Fit the regressor to a source; scores that need a second fit to its rows are for rows in memory."""
    if score not in ("variance", "absolute"):
        raise ValueError(f"score={score!r} needs a second fit to rows in memory; take score='variance' or 'absolute'.")
    if not isinstance(estimator, KernelMachine):
        raise TypeError(
            "Rows in files or on a cluster are fitted by the regressors of mlkm; got"
            f" {type(estimator).__name__}: fit it first, then call conformalize."
        )
    model = estimator.fit(source)
    scale = 1.0 if source.single_output else None
    return Scored(model, score, scale=scale)


@dataclass(frozen=True)
class IntervalOf:
    """Mean and interval within limits, as a function that can be sent to rows."""

    band: Any
    request: Request
    limits: tuple[float, float]
    single: bool

    def __call__(self, rows: Any) -> tuple[Array, Array]:
        mean, interval = self.band.interval(rows, self.request)
        interval = np.clip(interval, *self.limits)
        return (mean[:, 0], interval[..., 0]) if self.single else (mean, interval)
