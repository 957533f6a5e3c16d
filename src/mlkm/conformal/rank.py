"""Which order statistic of the calibration scores bounds a new one: the ceil((1 - alpha)(m + 1))-th smallest, in exact
arithmetic.

In floating point 0.9 x 10 or 0.7 x 110 may fall on the wrong side of a whole number, so levels are exact fractions
(`mlkm.runtime.levels`).
"""

import warnings
from collections.abc import Sequence
from fractions import Fraction
from inspect import currentframe
from math import ceil
from pathlib import Path

import numpy as np

from .._types import Array, IntArray

_PACKAGE = str(Path(__file__).parents[1])


def rank(m: int, level: Fraction) -> int:
    """ceil(level (m + 1)): which of m scores in increasing order bounds a new one; m + 1 stands for infinity.

    >>> from mlkm.runtime.levels import exact_level
    >>> rank(19, exact_level(0.95)), rank(18, exact_level(0.95))
    (19, 19)
    """
    return ceil(level * (m + 1))


def rows_needed(level: Fraction) -> int:
    """The least m with rank(m, level) <= m.

    >>> from mlkm.runtime.levels import exact_level
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


def counts_up_to(scores: Array, base: Array, unit: Array, y: Array) -> IntArray:
    """How many of base + scores unit are at most y, all of one shape; scores in increasing order.

    A binary search among the very numbers that quantiles are, so that rounding cannot tell a quantile from itself.

    >>> counts_up_to(np.array([-1.0, 0.0, 0.0, 2.0]), np.zeros(3), np.ones(3), np.array([-1.5, 0.0, 5.0])).tolist()
    [0, 3, 4]
    """
    m = len(scores)
    padded = np.append(scores, np.inf)
    low, high = np.zeros(y.shape, np.int64), np.full(y.shape, m, np.int64)
    for _ in range(m.bit_length()):
        middle = (low + high) // 2
        reached = base + padded[middle] * unit <= y
        low, high = np.where(reached, middle + 1, low), np.where(reached, high, middle)
    return np.minimum(low, m)


def shares_up_to(counts: IntArray, weights: Array, new_weights: Array) -> Array:
    """Of all weight, that of the new row of weight w included, the share of the first scores, so many of them as
    `counts` (rows, points) says."""
    total = np.append(0.0, np.cumsum(weights))
    if not total[-1] > 0:
        return np.zeros(counts.shape)
    return np.asarray(total[counts] / (total[-1] + new_weights[:, None]))


def warn_too_few(m: int, level: Fraction, where: str = "", what: str = "interval") -> None:
    """Say that the interval or bound is infinite, and how many rows would make it finite."""
    warn(
        f"{m} calibration rows{where} are too few for the level {float(level):g}, so its {what} is infinite;"
        f" {rows_needed(level)} rows would do."
    )


def warn_too_heavy(rows: int, n: int, level: Fraction, where: str = "", what: str = "interval") -> None:
    """Say that the weights leave some intervals or bounds infinite."""
    warn(
        f"The weights of {rows} of {n} new rows{where} are too large beside the sum of the calibration weights for the"
        f" level {float(level):g}, so their {what}s are infinite; more calibration rows, or weights that differ less,"
        " would do."
    )


def warn_no_rows(where: str) -> None:
    """Say that nothing is known of a distribution."""
    warn(f"There are no calibration rows{where}, so all of its distribution is at infinity.")


def warn(message: str) -> None:
    """A warning at the line outside this package that led here."""
    frame, level = currentframe(), 1
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, UserWarning, stacklevel=level)
