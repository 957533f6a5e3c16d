"""One end of a band in time order, and how it moves with every outcome."""

from bisect import bisect_left, insort
from collections import deque
from math import floor
from typing import Any

import numpy as np

from .._types import Array

_MEMORY = 200  # latest scores that say of what size scores are


class End:
    """One end of the band: how far it reaches, in units of the score."""

    def __init__(
        self, scores: Array, alpha: float, method: str, step: float | None, decay: float, window: int | None
    ) -> None:
        self.alpha = self.level = alpha
        self.adaptive, self.decay = method == "adaptive", decay
        self.step = (0.05 if self.adaptive else 3.0) if step is None else step
        self.recent = deque(scores[-(window or len(scores)) :].tolist(), maxlen=window)
        self.ordered = sorted(self.recent)
        self.least = self.unit = float(np.abs(scores[-_MEMORY:]).mean())
        self.swing = float(np.abs(np.diff(scores[-_MEMORY:])).mean()) if len(scores) > 1 else 0.0
        self.last, self.n_seen = float(scores[-1]), len(scores)
        self.t = 0
        self.threshold = _upper_quantile(self.ordered, alpha, self.swing)

    def __getstate__(self) -> dict[str, Any]:
        """With plain lists, which every file can carry."""
        return {**vars(self), "recent": (list(self.recent), self.recent.maxlen)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, recent=deque(*state["recent"]))

    def update(self, score: float, reached: float) -> None:
        """A new outcome: a miss, that is a score beyond what was `reached` when it was predicted, widens this end, a
        hit narrows it."""
        miss = float(score > reached)
        self.t += 1
        self._remember(score)
        if self.adaptive:
            self.level += self.step * (self.alpha - miss)
            if len(self.recent) == self.recent.maxlen:
                del self.ordered[bisect_left(self.ordered, self.recent[0])]
            self.recent.append(score)
            insort(self.ordered, score)
            self.threshold = _upper_quantile(self.ordered, self.level, self.swing)
        else:
            unit = max(self.least, self.unit)  # steps that shrink with the scores would be slow to narrow a wide band
            self.threshold += self.step * unit * self.t**-self.decay * (miss - self.alpha)

    def _remember(self, score: float) -> None:
        """The mean absolute score, and how much one differs from the next, over the latest scores or so."""
        self.n_seen += 1
        share = 1 / min(self.n_seen, _MEMORY)
        self.unit += share * (abs(score) - self.unit)
        self.swing += share * (abs(score - self.last) - self.swing)
        self.last = score


def _upper_quantile(scores: list[float], alpha: float, swing: float) -> float:
    """The 1 - alpha quantile of scores in increasing order; beyond them, where alpha has left [0, 1], further out by
    their range, or by how much one differs from the next where they are too few to have a range."""
    if alpha <= 0:
        return scores[-1] - alpha * 10 * max(scores[-1] - scores[0], swing)
    if alpha >= 1:
        return scores[0]
    at = (1 - alpha) * (len(scores) - 1)
    below = floor(at)
    above = min(below + 1, len(scores) - 1)
    return scores[below] + (at - below) * (scores[above] - scores[below])
