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
_BEYOND = 1.0  # ranges beyond the training values to which later ones are clipped
OVERSHOOT = 0.5  # ranges by which predictions may exceed the targets where no input is beyond its range


@dataclass(frozen=True)
class InputRange:
    """The least and the largest training value of every input, extreme ones winsorised, and the limits to which later
    values are clipped. Only inputs that are `numbers` have limits (None: all of them): a level that no training row had
    counts as one range outside."""

    low: Array
    high: Array
    clip_low: Array
    clip_high: Array
    numbers: BoolArray | None = None

    @classmethod
    def from_ends(cls, ends: Array, winsorise: bool, numbers: BoolArray | None = None) -> "InputRange":
        """Return the range from the two least and the two largest values of every input, in increasing order (4, d)."""
        low, high = ends[0], ends[3]
        least, most = low, high
        if winsorise:
            with np.errstate(over="ignore", invalid="ignore"):
                reach = _OTHERS * (ends[2] - ends[1])
            doubted = np.isfinite(reach) & (reach > 0)
            low = np.where(doubted, np.maximum(low, ends[1] - reach), low)
            high = np.where(doubted, np.minimum(high, ends[2] + reach), high)
        with np.errstate(over="ignore"):  # the standardiser refuses such values
            beyond = _BEYOND * (high - low)
        clip_low, clip_high = np.where(low > least, low, low - beyond), np.where(high < most, high, high + beyond)
        if numbers is None or numbers.all():
            return cls(low, high, clip_low, clip_high)
        low, clip_low = (np.where(numbers, end, -np.inf) for end in (low, clip_low))
        high, clip_high = (np.where(numbers, end, np.inf) for end in (high, clip_high))
        return cls(low, high, clip_low, clip_high, numbers)

    @property
    def steps(self) -> tuple[Array, Array]:
        """How far values may be beyond the least and the largest training value; 0 where that was winsorised."""
        with np.errstate(invalid="ignore"):
            return np.nan_to_num(self.low - self.clip_low), np.nan_to_num(self.clip_high - self.high)

    def winsorise(self, X: Array) -> Array:
        """Return training values, none of them outside the range."""
        return np.clip(X, self.low, self.high)

    def clip(self, X: Array) -> Array:
        """Return later values clipped to the limits, and moved back to the training values where they are much further
        out."""
        (down, up), clipped = self.steps, np.clip(X, self.clip_low, self.clip_high)
        with np.errstate(over="ignore"):
            back = np.clip(X - (self.clip_high + up), 0, up) - np.clip((self.clip_low - down) - X, 0, down)
        return np.asarray(clipped - back)

    def outside(self, X: Array) -> Array:
        """Return how far out every row is: the largest distance of an input from its range, in units of that range."""
        far = _ranges_beyond(X, self.low, self.high)
        if self.numbers is not None:
            far = np.where(self.numbers, far, X == -1)
        return np.asarray(far.max(axis=1))

    def room(self, Z: Array, scaler: Standardiser) -> Array:
        """Return by how many ranges predictions at clipped and standardised inputs may exceed the training targets,
        (n, 1)."""
        far = _ranges_beyond(Z, *scaler.forward(np.stack([self.low, self.high])))
        return np.asarray(OVERSHOOT + far.sum(axis=1, keepdims=True))


def units_of(low: Array, high: Array) -> Array:
    """Return the ranges of inputs; 1 where an input has no finite, positive range."""
    with np.errstate(over="ignore"):
        span = high - low
    return np.where((span > 0) & np.isfinite(span), span, 1.0)


def _ranges_beyond(X: Array, low: Array, high: Array) -> Array:
    """Return how far every input is beyond its range, in units of that range."""
    with np.errstate(over="ignore"):
        return np.maximum(np.maximum(low - X, X - high) / units_of(low, high), 0)
