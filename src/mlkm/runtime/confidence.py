"""Confidence levels in exact arithmetic, and labels of groups.

A level is the decimal number its user wrote, not the nearest binary fraction.
"""

from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from numbers import Rational, Real
from typing import TypeGuard

import numpy as np

from .._types import Array, IntArray
from .checks import brief


def exact_level(confidence_level: object, name: str = "confidence_level") -> Fraction:
    """Return the level as the rational number that its shortest decimal form stands for; `name` is what messages call
    it.

    >>> exact_level(0.95)
    Fraction(19, 20)
    >>> exact_level(95)
    Traceback (most recent call last):
    ...
    ValueError: confidence_level must be a number between 0 and 1, as in 0.95; got 95.
    """
    level = Fraction(-1)
    if isinstance(confidence_level, (Real, Decimal)) and not isinstance(confidence_level, bool):
        with suppress(ValueError, OverflowError):  # NaN and infinity; NumPy numbers are taken in shortest form
            level = Fraction(
                confidence_level if isinstance(confidence_level, (Rational, Decimal)) else str(confidence_level)
            )
    if not 0 < level < 1:
        raise ValueError(f"{name} must be a number between 0 and 1, as in 0.95; got {brief(confidence_level)}.")
    return level


def exact_levels(confidence_level: object, name: str = "confidence_level") -> list[Fraction]:
    """Return one level or several as a list."""
    levels = confidence_level if are_several(confidence_level) else [confidence_level]
    if not len(levels):
        raise ValueError(f"{name} must name at least one level, as in 0.95 or [0.8, 0.95]; got none.")
    return [exact_level(level, name) for level in levels]


def are_several(confidence_level: object) -> TypeGuard[Sequence[object]]:
    """Return whether this is a sequence of levels rather than one."""
    if isinstance(confidence_level, np.ndarray):
        return confidence_level.ndim == 1
    return isinstance(confidence_level, (list, tuple))


def groups_of(labels: object, n: int, name: str = "groups") -> tuple[Array, IntArray]:
    """Return the distinct labels, and the place of every row's label among them.

    >>> groups_of(["b", "a", "b"], 3)[1].tolist()
    [1, 0, 1]
    >>> groups_of([1.0, float("nan")], 2)
    Traceback (most recent call last):
    ...
    ValueError: groups must be labels of one kind, all strings or all numbers, none missing; row 1 has none.
    """
    # A list is looked at as objects first: NumPy turns a gap beside strings into the string "nan".
    given = labels if isinstance(labels, np.ndarray) else np.asarray(labels, dtype=object)
    if given.shape != (n,):
        raise ValueError(f"{name} must have one label per row, shape ({n},); got shape {given.shape}.")
    kind = f"{name} must be labels of one kind, all strings or all numbers, none missing"
    for row, label in enumerate(given if given.dtype.kind in "OfcmM" else ()):
        if _is_missing(label):
            raise ValueError(f"{kind}; row {row} has none.")
    try:
        values, place = np.unique(np.asarray(labels), return_inverse=True)
    except TypeError as mixed:
        kinds = ", ".join(sorted({type(label).__name__ for label in given}))
        raise ValueError(f"{kind}; got {kinds}.") from mixed
    return values, place


def _is_missing(label: object) -> bool:
    """Return whether a label is None, NaN, NaT or pandas' NA, which has no truth value."""
    try:
        return label is None or bool(label != label)
    except (TypeError, ValueError):
        return True
