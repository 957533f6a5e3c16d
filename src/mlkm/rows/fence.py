"""How far out an input may be: a cell far beyond all others, in training or later, must not carry a prediction away.

The range of an input is that of its training values, an extreme one being drawn in to ten ranges of the others, which
is then as far as any value counts. Elsewhere later values count up to one range beyond the training values, where a
kernel has long gone back to its prior.
"""

from dataclasses import dataclass

import numpy as np

from .._types import Array, BoolArray

_OTHERS = 10.0  # ranges of the other values within which an extreme one is believed
_BEYOND = 1.0  # ranges beyond the training values to which later ones are held


@dataclass(frozen=True)
class Fence:
    """The least and the largest training value of every input, extreme ones drawn in, and where later values are held:
    what was drawn in in training is drawn in to the same place later. Only `numbers` are: a level that no training row
    had is as far out as one range."""

    low: Array
    high: Array
    least: Array
    most: Array
    numbers: BoolArray | None = None

    def held(self, X: Array) -> Array:
        """X, no further out than that."""
        return np.clip(X, self.least, self.most)

    def outside(self, X: Array) -> Array:
        """How far out every row is: the largest distance of an input from its range, in units of that range."""
        span = self.high - self.low
        beyond = np.maximum(self.low - X, X - self.high)
        unit = np.where((span > 0) & np.isfinite(span), span, 1.0)
        far = beyond / unit
        if self.numbers is not None:
            far = np.where(self.numbers, far, X == -1)
        return np.asarray(np.maximum(far, 0).max(axis=1))


def fit_fence(X: Array, careful: bool = True, numbers: BoolArray | None = None) -> Fence:
    """The ranges of the inputs; where not `careful`, without doubting any value."""
    if not careful or len(X) < 4:
        low, high = X.min(axis=0), X.max(axis=0)
        return fence_of(np.stack([low, low, high, high]), False, numbers)
    places = [0, 1, len(X) - 2, len(X) - 1]
    return fence_of(np.partition(X, places, axis=0)[places], True, numbers)


def fence_of(ends: Array, careful: bool, numbers: BoolArray | None = None) -> Fence:
    """From the two least and the two largest values of every input, in increasing order (4, d)."""
    low, high = ends[0], ends[3]
    least, most = low, high
    if careful:
        with np.errstate(over="ignore", invalid="ignore"):
            reach = _OTHERS * (ends[2] - ends[1])
        doubted = np.isfinite(reach) & (reach > 0)
        low = np.where(doubted, np.maximum(low, ends[1] - reach), low)
        high = np.where(doubted, np.minimum(high, ends[2] + reach), high)
    beyond = _BEYOND * (high - low)
    held = np.where(low > least, low, low - beyond), np.where(high < most, high, high + beyond)
    if numbers is None or numbers.all():
        return Fence(low, high, *held)
    least, most = np.where(numbers, held[0], -np.inf), np.where(numbers, held[1], np.inf)
    return Fence(np.where(numbers, low, -np.inf), np.where(numbers, high, np.inf), least, most, numbers)
