"""Scales gamma: they multiply the frequencies, so that the length scale is 1/gamma."""

from dataclasses import dataclass

import numpy as np

from .._types import Array
from ..runtime.checks import brief, number


@dataclass(frozen=True)
class Geometric:
    """The paper's schedule: layer l = 1..L has the scale c0 gamma^l.

    The paper writes c0 gamma^l into its kernels as a length and multiplies frequencies by it in its experiments; here
    scales always multiply frequencies, as in the experiments.

    >>> Geometric(0.125, 2.0).of_layers(4)
    [0.25, 0.5, 1.0, 2.0]
    """

    c0: float = 1.0
    gamma: float = 2.0

    def of_layers(self, depth: int) -> list[float]:
        """Return the scales of layers 1..depth."""
        c0, gamma = number("c0", self.c0, above=0), number("gamma", self.gamma, above=0)
        with np.errstate(over="ignore"):  # infinite scales are refused by `check_scale`
            return [float(c0 * np.float64(gamma) ** l) for l in range(1, depth + 1)]


def check_scale(scale: object, d: int) -> Array:
    """Return gamma as an array of one number or d numbers, all positive.

    >>> check_scale([1.0, -1.0], d=2)
    Traceback (most recent call last):
    ...
    ValueError: A scale must be a positive number, or one per input (2 here); got [1.0, -1.0].
    """
    try:
        value = np.asarray(scale, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        value = np.array(np.nan)
    if value.shape not in ((), (d,)) or not (np.isfinite(value).all() and (value > 0).all()):
        raise ValueError(f"A scale must be a positive number, or one per input ({d} here); got {brief(scale)}.")
    return value
