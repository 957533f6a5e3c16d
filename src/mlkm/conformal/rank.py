"""Which order statistic of the calibration scores bounds a new one: the ceil((1 - alpha)(m + 1))-th smallest, in exact
arithmetic.

In floating point 0.9 x 10 or 0.7 x 110 may fall on the wrong side of a whole number. Here a level is the decimal number
its user wrote.
"""

import warnings
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from inspect import currentframe
from math import ceil
from numbers import Rational, Real
from pathlib import Path
from typing import Any

import numpy as np

from .._types import Array, IntArray

_PACKAGE = str(Path(__file__).parents[1])


def exact_level(confidence_level: Any) -> Fraction:
    """The level as the rational number that its shortest decimal form stands for.

    >>> exact_level(0.95)
    Fraction(19, 20)
    >>> exact_level(95)
    Traceback (most recent call last):
    ...
    ValueError: confidence_level must be a number between 0 and 1, as in 0.95; got 95.
    """
    level = Fraction(-1)
    if isinstance(confidence_level, (Rational, Decimal)) and not isinstance(confidence_level, bool):
        level = Fraction(confidence_level)
    elif (
        isinstance(confidence_level, Real)
        and np.isfinite(float(confidence_level))
        and not isinstance(confidence_level, bool)
    ):
        level = Fraction(str(confidence_level))  # of a NumPy number too: the shortest decimal form in its own precision
    if not 0 < level < 1:
        raise ValueError(f"confidence_level must be a number between 0 and 1, as in 0.95; got {confidence_level!r}.")
    return level


def exact_levels(confidence_level: Any) -> list[Fraction]:
    """One level or several, as a list."""
    several = isinstance(confidence_level, (list, tuple, np.ndarray)) and np.ndim(confidence_level) == 1
    if several and not len(confidence_level):
        raise ValueError("confidence_level must name at least one level, as in 0.95 or [0.8, 0.95]; got none.")
    return [exact_level(level) for level in (confidence_level if several else [confidence_level])]


def rank(m: int, level: Fraction) -> int:
    """ceil(level (m + 1)): which of m scores in increasing order bounds a new one; m + 1 stands for infinity.

    >>> rank(19, exact_level(0.95)), rank(18, exact_level(0.95))
    (19, 19)
    """
    return ceil(level * (m + 1))


def rows_needed(level: Fraction) -> int:
    """The least m with rank(m, level) <= m.

    >>> rows_needed(exact_level(0.95))
    19
    """
    return ceil(level / (1 - level))


def quantiles(scores: Array, levels: Sequence[Fraction]) -> Array:
    """The scores' conformal quantiles, one per level; scores in increasing order. Infinite where there are too few."""
    padded = np.append(scores, np.inf)
    return padded[[min(rank(len(scores), level), len(scores) + 1) - 1 for level in levels]]


def weighted_quantiles(scores: Array, weights: Array, new_weights: Array, levels: Sequence[Fraction]) -> Array:
    """Under covariate shift: for each new row of weight w, the least q with sum(weights[scores <= q]) >= level
    (sum(weights) + w); (rows, levels)."""
    total = np.cumsum(weights)
    everything = total[-1] if len(total) else 0.0
    if not everything > 0:
        return np.full((len(new_weights), len(levels)), np.inf)
    needed = np.array([float(level) for level in levels]) * (everything + new_weights[:, None])
    at = np.searchsorted(total, needed * (1 - 1e-12), side="left")
    return np.append(scores, np.inf)[at]


def warn_too_few(m: int, level: Fraction, where: str = "") -> None:
    """Say that the interval is infinite, and how many rows would make it finite."""
    _warn(
        f"{m} calibration rows{where} are too few for the level {float(level):g}, so its interval is infinite;"
        f" {rows_needed(level)} rows would do."
    )


def warn_too_heavy(rows: int, n: int, level: Fraction, where: str = "") -> None:
    """Say that the weights leave some intervals infinite."""
    _warn(
        f"The weights of {rows} of {n} new rows{where} are too large beside the sum of the calibration weights for the"
        f" level {float(level):g}, so their intervals are infinite; more calibration rows, or weights that differ less,"
        " would do."
    )


def _warn(message: str) -> None:
    """A warning at the line outside this package that led here."""
    frame, level = currentframe(), 1
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, UserWarning, stacklevel=level)


def groups_of(labels: Any, n: int, name: str = "groups") -> tuple[Array, IntArray]:
    """Distinct labels, and the place of every row's label among them."""
    labels = np.asarray(labels)
    if labels.shape != (n,):
        raise ValueError(f"{name} must have one label per row, shape ({n},); got shape {labels.shape}.")
    try:
        values, place = np.unique(labels, return_inverse=True)
    except TypeError as mixed:
        kinds = ", ".join(sorted({type(label).__name__ for label in labels}))
        raise ValueError(
            f"{name} must be labels of one kind, all strings or all numbers, none missing; got {kinds}."
        ) from mixed
    return values, place
