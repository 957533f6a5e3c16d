"""The search for relevances on a sample of the rows: which inputs, on which scale, with what interactions.

Every step is kept only if the evidence is for it: ranks instead of the inputs as they are, and a whole matrix of scales
in the full order (d^2 parameters) only if it also explains rows the search has not seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.optimize

from .._seeds import generator
from .._threads import side_by_side
from .._types import Array, IntArray
from ..kernels import Kernel
from ..model.features import features
from ..model.warp import Warp, warped
from ..rows import Rows
from . import rough, smooth
from .evidence import kernel_evidence
from .orders import Sizes, draw, feature_map

_MOST_INPUTS = 150  # inputs a search can begin with
_NONE_DROPPED = 12  # inputs up to which all are kept
_MOST_KEPT = 30  # inputs it goes on with
_MOST = 0.7  # share of relevant inputs above which the others are not worth another climb without them
_MOST_ROTATED = 25  # inputs up to which the full order may learn a matrix rather than scales
# of the smooth part's climbs, but for the first, which chooses between inputs and ranks and goes most of the way
_ROWS = 1500
_FIRST_ROWS = 600, 1000  # for few and for many inputs
_SOME_FIRST, _SOME = 100, 200  # features of order 2 and of full order in the first climb and in later ones
_FIRST, _STEPS = 40, 12  # most iterations of a climb from the start, and of one that goes on and makes little progress
_ROUGH_FIRST, _ROUGH_ROWS = 400, 700  # rows of the rough part's climbs
_UNDECIDED = 0.02  # noise variance below which the first climb does not decide between inputs and ranks
_PAIR_ROWS = 5000  # by which pairs of inputs are tested
_WORTH_RANKS = 0.02  # nats per row: ranks carry sampling noise of their own


@dataclass(frozen=True)
class Wanted:
    """What the caller left open: interaction orders, kernel of the smooth part, number of features, whether there is a
    linear and a rough part."""

    orders: tuple[int, ...]
    kernel: Kernel
    n_features: int | None
    linear: bool
    rough: bool


def screen(rows: Rows, most: int = _MOST_INPUTS, n_waves: int = 5) -> IntArray:
    """At most `most` inputs: those with the largest share of y explained by five cosines of their ranks."""
    d = rows.X.shape[1]
    if d <= most:
        return np.arange(d)
    target = rows.Y * rows.weights[:, None]
    share = sum(((waves.T @ target) ** 2).sum(axis=1) for waves in _waves(rows.X, n_waves))
    return np.sort(np.argsort(-share, kind="stable")[:most])


def _waves(X: Array, n_waves: int) -> list[Array]:
    """cos(pi k u) of the inputs' ranks u in (0, 1), for k = 1..n_waves: uncorrelated with variance 1/2 for every
    input."""
    ranks = (np.argsort(np.argsort(X, axis=0, kind="stable"), axis=0, kind="stable") + 0.5) / len(X)
    return [np.cos(np.pi * k * ranks) for k in range(1, n_waves + 1)]


def telling_pairs(
    X: Array, Y: Array, weights: Array, leaders: IntArray, most: int = 100, n_waves: int = 3
) -> list[tuple[int, int]]:
    """Pairs of a leader and another input whose products of waves correlate with Y beyond chance, the strongest first.

    An input may act through its partner alone (x_3 of Example 2 does), where neither a search by single inputs nor one
    on random pairs finds it. Under independence a score is chi-squared with 9 degrees of freedom per output; 45 has
    probability 1e-6.
    """
    waves = _waves(X, n_waves)
    target = Y * weights[:, None]
    scores: dict[tuple[int, int], float] = {}
    for i in leaders.tolist():
        score = np.zeros(X.shape[1])
        for first in waves:
            turned = first[:, [i]] * target
            for second in waves:
                score += ((second.T @ turned) ** 2).sum(axis=1) * 2 / (turned**2).sum()
        for j in range(X.shape[1]):
            if j != i:
                pair = (min(i, j), max(i, j))
                scores[pair] = max(scores.get(pair, 0.0), float(score[j]))
    ordered = sorted(scores, key=lambda pair: -scores[pair])
    return [pair for pair in ordered[:most] if scores[pair] > 45 * Y.shape[1]]


def missed(X: Array, residuals: Array, weights: Array, leaders: IntArray, n_waves: int = 3) -> IntArray:
    """Inputs whose products of two waves, alone or times a wave of a leader, correlate with what a fit has left of the
    targets; the strongest first.

    A search among many inputs may settle for the strongest: in pumadyn32nm two inputs act through their product with a
    third only. Under independence the scores are chi-squared with 9 and 27 degrees of freedom per output; 60 and 120
    have probabilities below 1e-8 and 1e-12.
    """
    waves = _waves(X, n_waves)
    strength = np.zeros(X.shape[1])
    for leader in [None, *leaders.tolist()]:
        score = np.zeros((X.shape[1], X.shape[1]))
        for target in (residuals * weights[:, None]).T:
            for third in [np.ones(len(X))] if leader is None else [wave[:, leader] for wave in waves]:
                turned = target * third
                for first in waves:
                    for second in waves:
                        score += ((first * turned[:, None]).T @ second) ** 2 * 4 / max(float(turned @ turned), 1e-300)
        np.fill_diagonal(score, 0)
        if leader is not None:
            score[leader] = score[:, leader] = 0
        score = np.maximum(score, score.T) / ((60 if leader is None else 120) * residuals.shape[1])
        strength = np.maximum(strength, score.max(axis=0))
    order = np.argsort(-strength, kind="stable")
    return order[strength[order] > 1]


def _relevant(found: smooth.Smooth, pairs: Sequence[tuple[int, int]]) -> IntArray:
    """Places of the inputs along which the fit moves, of those with a prior variance of weight, and of the given
    pairs."""
    by_slope, by_variance = found.slopes, smooth.relevance(found.parameters)
    moving = np.argsort(-by_slope, kind="stable")[:_MOST_KEPT]
    moving = moving[
        by_slope[moving] > min(0.02 * found.noise, 3e-3)
    ]  # y has variance 1; the smaller the noise, the less may be missed
    varying = np.argsort(-by_variance, kind="stable")[: _MOST_KEPT // 2]
    varying = varying[by_variance[varying] > 3e-2 * min(by_variance.max(), 1.0)]
    return np.unique([*moving, *varying, *(j for pair in pairs for j in pair)]).astype(np.intp)


def fresh_rows(n: int, m: int = 500) -> slice:
    """Rows that no search has seen, if there are enough; else the last rows."""
    begin = max(0, min(n - m, _ROWS)) if n < _ROWS + 300 else _ROWS
    return slice(begin, min(begin + m, n))


def search_sizes(d: int, n: int, wanted: Wanted, *, first: bool = False) -> Sizes:
    """Features while searching: fewer per input where there are many inputs, and few in all where there are few rows or
    in the first climb."""
    single, some = (6, 60) if n < 150 else (6, _SOME_FIRST) if first else (10, _SOME)
    return available_sizes(d, wanted, int(np.clip(400 // d, 3, single)), some, some)


def available_sizes(d: int, wanted: Wanted, single: int, pair: int, full: int) -> Sizes:
    """Sizes with the orders that are not wanted, or that coincide with the full one, left out."""
    has_full = wanted.orders[-1] > 2 or (d > 1 and wanted.orders[-1] == d)
    return Sizes(
        single if 1 in wanted.orders else 0,
        pair if 2 in wanted.orders and d > 2 else 0,
        full if has_full and d > 1 else 0,
    )


def best_factors(kernels: Sequence[Array], Y: Array, begin: Sequence[float]) -> tuple[float, Array]:
    """Non-negative factors of a sum of kernels with the largest evidence of Y, and the negative log evidence there."""

    def objective(logs: Array) -> tuple[float, Array]:
        factors = np.exp(logs)
        value, dK = kernel_evidence(np.tensordot(factors, kernels, axes=1), Y)
        return value, np.array([f * float(np.vdot(dK, K)) for f, K in zip(factors, kernels, strict=True)])

    logs = np.log(np.maximum(begin, 1e-12))
    bounds = [(-16.0, 3.0)] * (len(logs) - 1) + [
        (logs[-1] - 2, 1.0)
    ]  # the last is the noise, which a search has already seen
    result = scipy.optimize.minimize(
        objective, logs, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 10}
    )
    return float(result.fun), np.exp(result.x)


def best_two_factors(kernel: Array, Y: Array, weights: Array, noise: float) -> tuple[float, Array]:
    """As `best_factors` for one kernel and noise of variance proportional to 1/weights: one eigendecomposition, then
    sums over eigenvalues."""
    root = np.sqrt(weights)
    eigenvalues, U = np.linalg.eigh(root[:, None] * kernel * root)
    eigenvalues = np.maximum(eigenvalues, 0)
    squares = ((U.T @ (root[:, None] * Y)) ** 2).mean(axis=1)
    n, shift = len(Y), float(np.log(weights).sum())

    def objective(logs: Array) -> tuple[float, Array]:
        factor, s2 = np.exp(logs)
        total = factor * eigenvalues + s2
        slope = 0.5 * (1 / total - squares / total**2) / n
        return 0.5 * (float((np.log(total) + squares / total).sum()) - shift) / n, np.array(
            [factor * slope @ eigenvalues, s2 * slope.sum()]
        )

    begin = np.array([0.0, np.log(max(noise, 1e-12))])
    bounds = [(-16.0, 3.0), (begin[1] - 2, 1.0)]
    result = scipy.optimize.minimize(objective, begin, jac=True, method="L-BFGS-B", bounds=bounds)
    return float(result.fun), np.exp(result.x)


@dataclass(frozen=True)
class FoundRough:
    """The rough part as far as it is learned: its parameters, whether they are on ranks, and the inputs they belong
    to."""

    part: rough.Rough
    on_ranks: bool
    kept: IntArray


class Search:
    """Searches on the inputs and on their ranks; `on_ranks` says which of the two the smooth part uses."""

    def __init__(self, rows: Rows, ranks: Warp, wanted: Wanted, seed: int) -> None:
        self.rows, self.wanted, self.seed = rows, wanted, seed
        sample = slice(0, fresh_rows(len(rows.X)).stop)
        self.inputs = {False: rows.X[sample], True: warped(ranks, rows.X[sample])}
        self.on_ranks = False

    def learn(self, on_ranks: bool, kept: IntArray, m: int, *, first: bool = False, **options: Any) -> smooth.Smooth:
        """One climb of the smooth part's evidence on m rows."""
        X, Y, weights = self.inputs[on_ranks][:m, kept], self.rows.Y[:m], self.rows.weights[:m]
        sizes = search_sizes(len(kept), len(self.rows.X), self.wanted, first=first)
        return smooth.learn(X, Y, weights, self.wanted.kernel, sizes, self.seed, linear=self.wanted.linear, **options)

    def begin(self, kept: IntArray) -> tuple[smooth.Smooth, IntArray, FoundRough | None]:
        """The better of inputs and ranks; of many inputs the relevant ones, after every input had its chance beside the
        most relevant. Where no input is dropped, the rough part begins at the same time."""

        def first_climb(on_ranks: bool) -> smooth.Smooth:
            rows = int(np.clip(40 * len(kept), *_FIRST_ROWS))
            return self.learn(on_ranks, kept, rows, max_iter=_FIRST, first=True)

        plain, ranked = side_by_side(lambda: first_climb(False), lambda: first_climb(True))
        first = self._better(plain, ranked)
        many = len(kept) > _NONE_DROPPED
        telling = []
        if many:
            leaders = np.argsort(-smooth.relevance(first.parameters), kind="stable")[:5]
            telling = telling_pairs(
                self.rows.X[:_PAIR_ROWS, kept], self.rows.Y[:_PAIR_ROWS], self.rows.weights[:_PAIR_ROWS], leaders
            )

        def go_on(on_ranks: bool, warm: smooth.Smooth) -> smooth.Smooth:
            warm = replace(warm, pairs=tuple(dict.fromkeys([*telling, *warm.pairs])))
            return self.learn(on_ranks, kept, _ROWS, max_iter=_STEPS, warm=warm)

        started = None
        if (
            first.noise < _UNDECIDED and abs(plain.value - ranked.value) < 0.5
        ):  # few rows say little about functions without noise
            best = self._better(*side_by_side(lambda: go_on(False, plain), lambda: go_on(True, ranked)))
        else:
            begin_rough = self.wanted.rough and not many
            best, started = side_by_side(
                lambda: go_on(self.on_ranks, first), lambda: self.begin_rough(kept) if begin_rough else None
            )
        if not many:
            return best, kept, started
        m = len(best.residuals)
        also = missed(
            self.rows.X[:m, kept], best.residuals, self.rows.weights[:m], np.argsort(-best.slopes, kind="stable")[:3]
        )
        chosen = np.union1d(_relevant(best, telling[:10]), also[:_MOST_KEPT])
        if len(kept) <= _MOST_ROTATED and len(chosen) > _MOST * len(kept):
            return best, kept, None
        return smooth.restricted(best, chosen), kept[chosen], None

    def _better(self, plain: smooth.Smooth, ranked: smooth.Smooth) -> smooth.Smooth:
        self.on_ranks = ranked.value < plain.value - _WORTH_RANKS
        return ranked if self.on_ranks else plain

    def finish_smooth(self, begin: smooth.Smooth, kept: IntArray) -> smooth.Smooth:
        """A longer climb where inputs were dropped, then one with a matrix in the full order; in float64 where the
        noise is small."""
        best, d = begin, self.rows.X.shape[1]
        if len(kept) < d:
            best = self.learn(self.on_ranks, kept, _ROWS, max_iter=_STEPS, warm=begin)
        if 2 * len(kept) < d or best.value > begin.value + 0.05:
            # What was learned among inputs that are gone may mislead: begin afresh, and on the inputs as they are.
            afresh = self.learn(False, kept, _ROWS, max_iter=_FIRST)
            if afresh.value < best.value:
                best, self.on_ranks = afresh, False
        if 1 < len(kept) <= _MOST_ROTATED and search_sizes(len(kept), len(self.rows.X), self.wanted).full:
            turned = self.learn(self.on_ranks, kept, _ROWS, max_iter=_STEPS, warm=best, rotation=True)
            if self._explains_better(turned, best, kept):
                best = turned
        if best.noise < 1e-3:
            # Begin where the system can be factorised; a climb that went astray is not taken.
            begin = replace(best, parameters=best.parameters | {"noise": np.maximum(best.parameters["noise"], -8.0)})
            fine = self.learn(
                self.on_ranks,
                kept,
                _ROWS,
                max_iter=60,
                warm=begin,
                rotation="rotation" in best.parameters,
                precise=True,
            )
            best = fine if fine.value < best.value else best
        return best

    def _explains_better(self, turned: smooth.Smooth, straight: smooth.Smooth, kept: IntArray) -> bool:
        """On fresh rows, by the evidence; without fresh rows, if the gain exceeds a nat for every added parameter."""
        n, d = len(self.rows.X), len(kept)
        if n < _ROWS + 300:
            return turned.value < straight.value - d * (d - 1) / min(n, _ROWS)
        at = fresh_rows(n)
        X, weights = self.inputs[self.on_ranks][at][:, kept], self.rows.weights[at]
        Y = self.rows.Y[at] - weights @ self.rows.Y[at] / weights.sum()
        values = []
        for candidate in (turned, straight):
            sizes = replace(search_sizes(d, n, self.wanted), full=400)
            phi = feature_map(
                draw(
                    generator(self.seed, 22), d, sizes, self.wanted.kernel, smooth.strongest_pairs(candidate.parameters)
                ),
                candidate.parameters,
            )
            F = features(phi, X)
            if self.wanted.linear:
                F = np.hstack([F, X * np.exp(candidate.parameters["linear"])])
            F -= weights @ F / weights.sum()
            values.append(best_two_factors(F @ F.T, Y, weights, candidate.noise)[0])
        return values[0] < values[1]

    def begin_rough(self, kept: IntArray) -> FoundRough:
        """Relevances of the Laplacian kernel on few rows, on the inputs or on their ranks."""
        plain, ranked = self._learn_rough(False, kept, _ROUGH_FIRST), self._learn_rough(True, kept, _ROUGH_FIRST)
        on_ranks = ranked.value < plain.value - _WORTH_RANKS / 10
        return FoundRough(ranked if on_ranks else plain, on_ranks, kept)

    def finish_rough(self, begin: smooth.Smooth, start: FoundRough) -> FoundRough | None:
        """The same on more rows; None where the kernel is far from explaining y as the smooth part does."""
        if start.part.value > begin.value + 0.5:
            return None
        return replace(
            start, part=self._learn_rough(start.on_ranks, start.kept, _ROUGH_ROWS, warm=start.part, max_iter=15)
        )

    def _learn_rough(self, on_ranks: bool, kept: IntArray, m: int, **options: Any) -> rough.Rough:
        return rough.learn(self.inputs[on_ranks][:m, kept], self.rows.Y[:m], self.rows.weights[:m], **options)
