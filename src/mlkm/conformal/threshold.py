"""The threshold of one end of a band in time order, and how it moves with every outcome.

For exchangeable scores the share of misses is alpha from the first outcome on. The level of "adaptive" fluctuates
around a mean below alpha, because a band that is far too wide misses no less often than one that is slightly too wide;
a level that began at alpha would miss too often at first. It is therefore updated with the later half of the
calibration scores before the first outcome. The threshold of "decaying" begins at the quantile of all calibration
scores. Large first steps would spoil it, so steps begin as small as if calibration scores had been outcomes, as long
as scores keep their size.
"""

from bisect import bisect_left, insort
from collections import deque
from math import ceil
from typing import Any

import numpy as np

from .._types import Array

_MEMORY = 200  # latest scores whose mean is the current size of scores
_COUNTED = 100  # calibration scores, at most, that count as earlier steps of "decaying"
_MOST_GAPS = 4.0  # a quantile exceeds the largest score by at most so many gaps between the two largest


class Threshold:
    """How far one end of the band reaches, in units of the score: `value`, which every outcome moves."""

    def __init__(
        self, scores: Array, alpha: float, method: str, step: float | None, decay: float, window: int | None
    ) -> None:
        self.alpha = self.level = alpha
        self.adaptive, self.decay = method == "adaptive", decay
        self.step = (0.05 if self.adaptive else 3.0) if step is None else step
        first = scores[: (len(scores) + 1) // 2] if self.adaptive else scores
        self.recent = deque(first[-(window or len(first)) :].tolist(), maxlen=window)
        self.ordered = sorted(self.recent)
        self.least = self.unit = float(np.abs(first[-_MEMORY:]).mean())
        self.swing = float(np.abs(np.diff(first[-_MEMORY:])).mean()) if len(first) > 1 else 0.0
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
            followed = self.t + min(self.n_seen - self.t, _COUNTED) * (self.least / unit if unit > 0 else 1.0)
            self.value += self.step * unit * followed**-self.decay * (miss - self.alpha)

    def _remember(self, score: float) -> None:
        """Update the mean absolute score, and the mean difference of consecutive scores, over about the latest 200."""
        self.n_seen += 1
        share = 1 / min(self.n_seen, _MEMORY)
        self.unit += share * (abs(score) - self.unit)
        self.swing += share * (abs(score - self.last) - self.swing)
        self.last = score


def _upper_quantile(scores: list[float], alpha: float, swing: float) -> float:
    """Return the threshold that a new score exceeds with probability alpha, from n scores in increasing order.

    A new score exceeds the j-th largest with probability j / (n + 1). Between two scores and beyond the largest, the
    threshold is interpolated so that this holds on average for exponential tails, whose gap below the j-th largest has
    mean 1 / j. Where alpha is below 0, the threshold moves further out by ten times their range, or the mean difference
    of consecutive scores if that is larger, per unit of alpha.
    """
    n, above = len(scores), min(max(alpha, 0.0), 1.0) * (len(scores) + 1)
    j = min(max(ceil(above) - 1, 0), n - 1)  # number of scores above the one from which the threshold is interpolated
    share = min(j + 1 - above, 1.0)
    base = scores[n - 1 - j]
    if j > 0:
        return base + max(j * share / (j + 1 - share), 0.0) * (scores[n - j] - base)
    gap = base - scores[-2] if n > 1 else swing
    beyond = _MOST_GAPS if share > _MOST_GAPS / (1 + _MOST_GAPS) else share / (1 - share)
    return base + max(beyond, 0.0) * gap + max(-alpha, 0.0) * 10 * max(base - scores[0], swing)
