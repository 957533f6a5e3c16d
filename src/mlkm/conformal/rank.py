"""The order statistic of the calibration scores that bounds a new score: the ceil((1 - alpha)(m + 1))-th smallest, in
exact arithmetic.

In floating point 0.9 x 10 or 0.7 x 110 may fall on the wrong side of a whole number, so levels are exact fractions
(`mlkm.runtime.confidence`). In time order the bound is a `Threshold` that moves with every outcome.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Sequence
from fractions import Fraction
from math import ceil
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .._types import Array, IntArray
from ..runtime.sizes import WEIGHT_ROUNDING


class RowWeights(NamedTuple):
    """Weights dQ/dP of calibration rows (m,) and of new rows (n,), on the same scale."""

    old: Array
    new: Array


def rank(m: int, level: Fraction) -> int:
    """Return ceil(level (m + 1)): which of m scores in increasing order bounds a new one; m + 1 stands for infinity.

    >>> from mlkm.runtime.confidence import exact_level
    >>> rank(19, exact_level(0.95)), rank(18, exact_level(0.95))
    (19, 19)
    """
    return ceil(level * (m + 1))


def rows_needed(level: Fraction) -> int:
    """Return the least m with rank(m, level) <= m.

    >>> from mlkm.runtime.confidence import exact_level
    >>> rows_needed(exact_level(0.95))
    19
    """
    return ceil(level / (1 - level))


def conformal_quantiles(values: Array, levels: Sequence[Fraction], weights: RowWeights | None = None) -> Array:
    """Return the conformal quantile of values (n or 1, m) in any order at each level, infinite where they are too few.

    Values are those of each new row, or one row of them for all. Without weights the result is (n or 1, levels). With
    weights, under covariate shift, it is (n, levels): for a new row of weight w the least q with
    sum(weights[values <= q]) >= level (sum(weights) + w).
    """
    m = values.shape[1]
    if weights is None:
        at = [min(rank(m, level), m + 1) - 1 for level in levels]
        with_infinity = np.hstack([values, np.full((len(values), 1), np.inf)])
        return np.partition(with_infinity, sorted(set(at)), axis=1)[:, at]
    shares = np.array([float(level) for level in levels]) * (1 - WEIGHT_ROUNDING)
    needed = np.outer(weights.old.sum() + weights.new, shares)
    if not weights.old.any():  # nothing bounds a new value, even one without weight
        return np.full(needed.shape, np.inf)
    order = np.argsort(values, axis=1)  # ties have the same quantile in any order
    rows = zip(np.cumsum(weights.old[order], axis=1), needed.reshape(len(values), -1), strict=True)
    places = np.array([np.searchsorted(total, least) for total, least in rows]).reshape(len(values), -1)
    reached = np.take_along_axis(order, np.minimum(places, m - 1), axis=1)
    return np.where(places < m, np.take_along_axis(values, reached, axis=1), np.inf).reshape(needed.shape)


def counts_up_to(scores: Array, base: Array, unit: Array, y: Array) -> IntArray:
    """Return how many of base + scores unit are at most y, all of one shape; scores in increasing order.

    The binary search compares y with the quantiles exactly as they are computed elsewhere, so that rounding cannot make
    a quantile differ from itself.

    >>> counts_up_to(np.array([-1.0, 0.0, 0.0, 2.0]), np.zeros(3), np.ones(3), np.array([-1.5, 0.0, 5.0])).tolist()
    [0, 3, 4]
    """
    m = len(scores)
    padded = np.append(scores, np.inf)
    low, high = np.zeros(y.shape, np.int64), np.full(y.shape, m, np.int64)
    for _ in range(m.bit_length()):
        middle = (low + high) // 2
        reached = base + padded[middle] * unit <= y
        low, high = np.where(reached, middle + 1, low), np.where(reached, high, middle)
    return np.minimum(low, m)


def shares_up_to(scores: Array, base: Array, unit: Array, y: Array, weights: RowWeights | None = None) -> Array:
    """Return the share of the values base + scores unit of each new row up to each of its points y (n, points), with
    the row itself counted at infinity; by weight where there are weights."""
    order = np.argsort(scores, kind="stable")
    counts = counts_up_to(scores[order], base[:, None], unit[:, None], y)
    old, new = weights or RowWeights(np.ones(len(scores)), np.ones(len(y)))
    totals = np.append(0.0, np.cumsum(old[order]))
    return _shares(totals[counts], totals[-1] + new)


def row_shares(values: Array, y: Array, weights: RowWeights | None) -> Array:
    """Return the share of each row's values (n, m) up to each of its points y (n, points), as `shares_up_to` does."""
    if weights is None:  # counts take less time than sums of weights
        counts = [np.count_nonzero(values <= point[:, None], axis=1) for point in y.T]
        return np.asarray(np.stack(counts, axis=1) / (values.shape[1] + 1))
    below = np.stack([(values <= point[:, None]) @ weights.old for point in y.T], axis=1)
    return _shares(below, weights.old.sum() + weights.new)


def _shares(below: Array, total: Array) -> Array:
    """Return the shares of weights (n, points) in the total of each row, 0 where that is 0."""
    return np.divide(below, total[:, None], out=np.zeros_like(below), where=total[:, None] > 0)


class Threshold:
    """The threshold of one end of a band in time order: `value`, the distance to which it reaches in units of the
    score, which is updated after every outcome.

    For exchangeable scores the share of misses is alpha from the first outcome on. The level of "adaptive" fluctuates
    around a mean below alpha, because a band that is far too wide misses no less often than one that is slightly too
    wide; a level that began at alpha would miss too often at first. It is therefore updated with the later half of the
    calibration scores before the first outcome. The threshold of "decaying" begins at the quantile of all calibration
    scores. Large first steps would spoil it, so steps begin as small as if calibration scores had been outcomes, as
    long as scores keep their size.
    """

    memory: ClassVar = 200  # latest scores whose mean is the current size of scores
    earlier_steps: ClassVar = 100  # calibration scores, at most, that count as earlier steps of "decaying"

    def __init__(
        self, scores: Array, alpha: float, method: str, step: float | None, decay: float, window: int | None
    ) -> None:
        self.alpha = self.level = alpha
        self.adaptive, self.decay = method == "adaptive", decay
        self.step = (0.05 if self.adaptive else 3.0) if step is None else step
        first = scores[: (len(scores) + 1) // 2] if self.adaptive else scores
        self.recent = deque(first[-(window or len(first)) :].tolist(), maxlen=window)
        self.ordered = sorted(self.recent)
        self.least = self.unit = float(np.abs(first[-self.memory :]).mean())
        self.swing = float(np.abs(np.diff(first[-self.memory :])).mean()) if len(first) > 1 else 0.0
        self.last, self.n_seen = float(first[-1]), len(first)
        self.t = 0
        self.value = _upper_quantile(self.ordered, alpha, self.swing)
        for score in scores[len(first) :].tolist():
            self.update(score, self.value)

    def __getstate__(self) -> dict[str, object]:
        """Return the state with plain lists, which can be saved without a pickle."""
        return {**vars(self), "recent": (list(self.recent), self.recent.maxlen)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, recent=deque(*state["recent"]))

    def update(self, score: float, reached: float) -> None:
        """Move the threshold by a new outcome: a miss, which is a score above the threshold `reached` when its row was
        predicted, widens this end, and a hit narrows it."""
        miss = float(score > reached)
        self.t += 1
        self._remember(score)
        if self.adaptive:
            self.level += self.step * (self.alpha - miss)
            if len(self.recent) == self.recent.maxlen:
                del self.ordered[bisect_left(self.ordered, self.recent[0])]
            self.recent.append(score)
            insort(self.ordered, score)
            self.value = _upper_quantile(self.ordered, self.level, self.swing)
        else:
            unit = max(self.least, self.unit)  # steps that shrink with the scores would be slow to narrow a wide band
            # Calibration scores count as earlier steps, and less so if scores have grown: steps stay large enough.
            followed = self.t + min(self.n_seen - self.t, self.earlier_steps) * (self.least / unit if unit > 0 else 1.0)
            self.value += self.step * unit * followed**-self.decay * (miss - self.alpha)

    def _remember(self, score: float) -> None:
        """Update the mean absolute score, and the mean difference of consecutive scores, over about the latest 200."""
        self.n_seen += 1
        share = 1 / min(self.n_seen, self.memory)
        self.unit += share * (abs(score) - self.unit)
        self.swing += share * (abs(score - self.last) - self.swing)
        self.last = score


def _upper_quantile(scores: list[float], alpha: float, swing: float, most_gaps: float = 4.0) -> float:
    """Return the threshold that a new score exceeds with probability alpha, from n scores in increasing order.

    A new score exceeds the j-th largest with probability j / (n + 1). Between two scores and beyond the largest, the
    threshold is interpolated so that this holds on average for exponential tails, whose gap below the j-th largest has
    mean 1 / j. It exceeds the largest score by at most `most_gaps` gaps between the two largest. Where alpha is below
    0, the threshold moves further out by ten times the range of the scores, or the mean difference of consecutive
    scores if that is larger, per unit of alpha.
    """
    n, above = len(scores), min(max(alpha, 0.0), 1.0) * (len(scores) + 1)
    j = min(max(ceil(above) - 1, 0), n - 1)  # number of scores above the one from which the threshold is interpolated
    share = min(j + 1 - above, 1.0)
    base = scores[n - 1 - j]
    if j > 0:
        return base + max(j * share / (j + 1 - share), 0.0) * (scores[n - j] - base)
    gap = base - scores[-2] if n > 1 else swing
    beyond = most_gaps if share > most_gaps / (1 + most_gaps) else share / (1 - share)
    return base + max(beyond, 0.0) * gap + max(-alpha, 0.0) * 10 * max(base - scores[0], swing)
