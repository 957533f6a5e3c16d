"""How far out an input may be: a cell far beyond all others, in training or later, must not dominate a prediction.

The range of an input is that of its training values. A training value more than ten ranges of the others away from them
is winsorised to that distance, and so are later values on that side. Otherwise later values are used as they are up to
one range beyond the training values, so that a trend continues, and replaced by the value one range beyond up to two.
Further out a value is more likely an error than part of a trend: between two and three ranges beyond, the replacement
moves back to the nearest training value, where it stays (a redescending influence, as in Hampel's estimators).

Predictions may exceed the training targets by half the range of these, since a fit overshoots between its rows or at
inputs that never occurred together, and by one more range for every range by which inputs lie beyond theirs, which a
linear trend needs. `python -m benchmarks.far_out` compares this with other rules.
"""

from dataclasses import dataclass

import numpy as np

from .._types import Array, BoolArray
from .scaling import Standardiser

_OTHERS = 10.0  # ranges of the other values within which an extreme one is believed
_BEYOND = 1.0  # ranges beyond the training values to which later ones are held
OVERSHOOT = 0.5  # ranges by which predictions may exceed the targets where no input is beyond its range


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

    @property
    def steps(self) -> tuple[Array, Array]:
        """How far values may be beyond the least and the largest training value; 0 where that was winsorised."""
        with np.errstate(invalid="ignore"):
            return np.nan_to_num(self.low - self.least), np.nan_to_num(self.most - self.high)

    def held(self, X: Array) -> Array:
        """Return X clipped to the limits, and moved back to the training values where it is much further out."""
        (down, up), held = self.steps, np.clip(X, self.least, self.most)
        with np.errstate(over="ignore"):
            back = np.clip(X - (self.most + up), 0, up) - np.clip((self.least - down) - X, 0, down)
        return np.asarray(held - back)

    def outside(self, X: Array) -> Array:
        """How far out every row is: the largest distance of an input from its range, in units of that range."""
        far = _ranges_beyond(X, self.low, self.high)
        if self.numbers is not None:
            far = np.where(self.numbers, far, X == -1)
        return np.asarray(far.max(axis=1))

    def room(self, Z: Array, scaler: Standardiser) -> Array:
        """By how many ranges predictions at held and standardised inputs may exceed the training targets, (n, 1)."""
        far = _ranges_beyond(Z, *scaler.forward(np.stack([self.low, self.high])))
        return np.asarray(OVERSHOOT + far.sum(axis=1, keepdims=True))


def units_of(low: Array, high: Array) -> Array:
    """Ranges of inputs; 1 where an input has no finite, positive range."""
    with np.errstate(over="ignore"):
        span = high - low
    return np.where((span > 0) & np.isfinite(span), span, 1.0)


def _ranges_beyond(X: Array, low: Array, high: Array) -> Array:
    """How far every input is beyond its range, in units of that range."""
    with np.errstate(over="ignore"):
        return np.maximum(np.maximum(low - X, X - high) / units_of(low, high), 0)


def fit_fence(X: Array, careful: bool = True, numbers: BoolArray | None = None, weights: Array | None = None) -> Fence:
    """Find the ranges of the inputs, without rows of weight zero; no value is winsorised unless `careful`."""
    if weights is not None and weights.any():
        X = X[weights > 0]
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
    with np.errstate(over="ignore"):  # the standardiser refuses such values
        beyond = _BEYOND * (high - low)
    held = np.where(low > least, low, low - beyond), np.where(high < most, high, high + beyond)
    if numbers is None or numbers.all():
        return Fence(low, high, *held)
    least, most = np.where(numbers, held[0], -np.inf), np.where(numbers, held[1], np.inf)
    return Fence(np.where(numbers, low, -np.inf), np.where(numbers, high, np.inf), least, most, numbers)
