"""Levels in exact arithmetic: a level is the decimal number its user wrote, not the nearest binary fraction."""

from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from numbers import Rational, Real
from typing import Any

import numpy as np

from ._checks import brief


def exact_level(confidence_level: Any, name: str = "confidence_level") -> Fraction:
    """The level as the rational number that its shortest decimal form stands for; `name` is what messages call it.

    >>> exact_level(0.95)
    Fraction(19, 20)
    >>> exact_level(95)
    Traceback (most recent call last):
    ...
    ValueError: confidence_level must be a number between 0 and 1, as in 0.95; got 95.
    """
    level = Fraction(-1)
    if isinstance(confidence_level, (Real, Decimal)) and not isinstance(confidence_level, bool):
        exact: Any = confidence_level if isinstance(confidence_level, (Rational, Decimal)) else str(confidence_level)
        with suppress(ValueError, OverflowError):  # NaN and infinity; NumPy numbers are taken in shortest form
            level = Fraction(exact)
    if not 0 < level < 1:
        raise ValueError(f"{name} must be a number between 0 and 1, as in 0.95; got {brief(confidence_level)}.")
    return level


def exact_levels(confidence_level: Any, name: str = "confidence_level") -> list[Fraction]:
    """One level or several, as a list."""
    several = are_several(confidence_level)
    if several and not len(confidence_level):
        raise ValueError(f"{name} must name at least one level, as in 0.95 or [0.8, 0.95]; got none.")
    return [exact_level(level, name) for level in (confidence_level if several else [confidence_level])]


def are_several(confidence_level: Any) -> bool:
    """Whether it is a sequence of levels rather than one."""
    if isinstance(confidence_level, np.ndarray):
        return confidence_level.ndim == 1
    return isinstance(confidence_level, (list, tuple))
