"""How far out an input may be: a cell far beyond all others, in training or later, must not carry a prediction away.

The range of an input is that of its training values, an extreme one being drawn in to ten ranges of the others. Later
values count up to one range beyond that on either side, where a kernel has long gone back to its prior.
"""

from dataclasses import dataclass

import numpy as np

from .._types import Array

_OTHERS = 10.0  # ranges of the other values within which an extreme one is believed
_BEYOND = 1.0  # ranges beyond the training values to which later ones are held


@dataclass(frozen=True)
class Fence:
    """The least and the largest training value of every input."""

    low: Array
    high: Array

    def held(self, X: Array) -> Array:
        """X, no further out than one range."""
        reach = _BEYOND * (self.high - self.low)
        return np.clip(X, self.low - reach, self.high + reach)

    def outside(self, X: Array) -> Array:
        """How far out every row is: the largest distance of an input from its range, in units of that range."""
        span = self.high - self.low
        beyond = np.maximum(self.low - X, X - self.high)
        unit = np.where(span > 0, span, 1.0)
        return np.asarray(np.maximum(beyond / unit, 0).max(axis=1))


def fit_fence(X: Array, careful: bool = True) -> Fence:
    """The ranges of the inputs; where not `careful`, without doubting any value."""
    low, high = X.min(axis=0), X.max(axis=0)
    if not careful or len(X) < 4:
        return Fence(low, high)
    inner = np.partition(X, (1, len(X) - 2), axis=0)[[1, -2]]
    reach = _OTHERS * (inner[1] - inner[0])
    doubted = np.isfinite(reach) & (reach > 0)
    low = np.where(doubted, np.maximum(low, inner[0] - reach), low)
    return Fence(low, np.where(doubted, np.minimum(high, inner[1] + reach), high))
