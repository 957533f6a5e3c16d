"""Which order statistic of the calibration scores bounds a new score: the ceil((1 - alpha)(m + 1))-th smallest, in
exact arithmetic.

In floating point 0.9 x 10 or 0.7 x 110 may fall on the wrong side of a whole number, so levels are exact fractions
(`mlkm.runtime.levels`).
"""

from collections.abc import Sequence
from fractions import Fraction
from math import ceil
from typing import NamedTuple

import numpy as np

from .._types import Array, IntArray

_ROUNDING = 1e-12  # relative error of a sum of weights, by which it may miss a level that it reaches


class RowWeights(NamedTuple):
    """Weights dQ/dP of calibration rows (m,) and of new rows (n,), on the same scale."""

    old: Array
    new: Array


def rank(m: int, level: Fraction) -> int:
    """Return ceil(level (m + 1)): which of m scores in increasing order bounds a new one; m + 1 stands for infinity.

    >>> from mlkm.runtime.levels import exact_level
    >>> rank(19, exact_level(0.95)), rank(18, exact_level(0.95))
    (19, 19)
    """
    return ceil(level * (m + 1))


def rows_needed(level: Fraction) -> int:
    """Return the least m with rank(m, level) <= m.

    >>> from mlkm.runtime.levels import exact_level
    >>> rows_needed(exact_level(0.95))
    19
    """
    return ceil(level / (1 - level))


def _indices(m: int, levels: Sequence[Fraction]) -> list[int]:
    """Return the index of each level's rank among m scores in increasing order, and m for infinity."""
    return [min(rank(m, level), m + 1) - 1 for level in levels]


def quantiles(scores: Array, levels: Sequence[Fraction]) -> Array:
    """Return the conformal quantile of scores in increasing order at each level, infinite where there are too few."""
    return np.append(scores, np.inf)[_indices(len(scores), levels)]


def weighted_quantiles(scores: Array, weights: Array, new_weights: Array, levels: Sequence[Fraction]) -> Array:
    """Return conformal quantiles under covariate shift, (rows, levels), of scores in increasing order: for each new row
    of weight w the least q with sum(weights[scores <= q]) >= level (sum(weights) + w)."""
    total = np.cumsum(weights)
    everything = total[-1] if len(total) else 0.0
    if not everything > 0:
        return np.full((len(new_weights), len(levels)), np.inf)
    needed = np.array([float(level) for level in levels]) * (everything + new_weights[:, None])
    at = np.searchsorted(total, needed * (1 - _ROUNDING), side="left")
    return np.append(scores, np.inf)[at]


def row_quantiles(values: Array, levels: Sequence[Fraction], weights: RowWeights | None) -> Array:
    """Return conformal quantiles (n, levels) where every new row has values (n, m) of its own, in any order; with
    weights as in `weighted_quantiles`."""
    n, m = values.shape
    padded = np.hstack([values, np.full((n, 1), np.inf)])
    if weights is None:
        at = _indices(m, levels)
        return np.partition(padded, sorted(set(at)), axis=1)[:, at]
    order = np.argsort(values, axis=1, kind="stable")
    total = np.cumsum(weights.old[order], axis=1)
    result = np.empty((n, len(levels)))
    for number, level in enumerate(levels):
        needed = float(level) * (weights.old.sum() + weights.new) * (1 - _ROUNDING)
        place = (total < needed[:, None]).sum(axis=1)
        column = np.take_along_axis(order, np.minimum(place, m - 1)[:, None], axis=1)[:, 0] if m else place
        result[:, number] = padded[np.arange(n), np.where(place < m, column, m)]
    return result


def counts_up_to(scores: Array, base: Array, unit: Array, y: Array) -> IntArray:
    """Return how many of base + scores unit are at most y, all of one shape; scores in increasing order.

    The binary search compares y with the very numbers that quantiles are, so that rounding cannot tell a quantile from
    itself.

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
    """Return the share of the first `counts` (rows, points) scores in the sum of all weights, that of the new row
    included."""
    total = np.append(0.0, np.cumsum(weights))
    if not total[-1] > 0:
        return np.zeros(counts.shape)
    return np.asarray(total[counts] / (total[-1] + new_weights[:, None]))


def row_shares(values: Array, y: Array, weights: RowWeights | None) -> Array:
    """Return the share of each row's values (n, m) up to each of its points y (n, points), with the row itself counted
    at infinity; by weight where there are weights."""
    if weights is None:
        counts = [np.count_nonzero(values <= point[:, None], axis=1) for point in y.T]
        return np.asarray(np.stack(counts, axis=1) / (values.shape[1] + 1))
    below = np.stack([(values <= point[:, None]) @ weights.old for point in y.T], axis=1)
    total = (weights.old.sum() + weights.new)[:, None]
    return np.asarray(np.divide(below, total, out=np.zeros_like(below), where=total > 0))
