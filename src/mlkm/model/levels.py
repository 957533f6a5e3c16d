"""Kernels of categories: sums over the columns in which two rows have the same level, or different ones.

    unlike(x, z) = sum_c w_c 1[x_c != z_c]

stands in the exponent of a product kernel, beside distances of numbers; on its own, `LevelMap` is a random effect of
every level, v_c 1[x_c = z_c].
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._types import Array, IntArray
from .features import features, pullback

_FEW = 16  # levels up to which a product of indicators takes less time than comparisons


def seen_levels(weights: Array | None) -> IntArray:
    """The columns that are looked at."""
    return np.zeros(0, np.intp) if weights is None else np.flatnonzero(weights)


def less_unlike(K: Array, a: Array, b: Array, weights: Array) -> Array:
    """K less sum_c w_c 1[a_c != b_c] for all pairs of rows, in place; a and b have the columns that are looked at."""
    own, other = a.astype(np.int32), b.astype(np.int32)
    sizes = 1 + np.maximum(own.max(axis=0, initial=-1), other.max(axis=0, initial=-1))
    few = sizes <= _FEW
    for c in np.flatnonzero(~few):
        K -= K.dtype.type(weights[c]) * (own[:, [c]] != other[:, c])
    if few.any():
        K -= K.dtype.type(weights[few].sum())
        roots = np.sqrt(weights[few]).astype(K.dtype)
        K += _indicators(own[:, few], sizes[few], roots) @ _indicators(other[:, few], sizes[few], roots).T
    return K


def _indicators(codes: NDArray[np.int32], sizes: NDArray[np.int32], values: Array) -> Array:
    """A column for every level of every column, with the value of that column in rows that have the level; a level that
    was not seen has none."""
    begins = np.concatenate([[0], np.cumsum(sizes)])
    result = np.zeros((len(codes), begins[-1]), values.dtype)
    for c, value in enumerate(values):
        at = np.flatnonzero(codes[:, c] >= 0)
        result[at, begins[c] + codes[at, c]] = value
    return result


@dataclass(frozen=True)
class LevelMap:
    """Points (M, d) and variances (d,), zero where an input is not a level or is not looked at."""

    points: Array
    variances: Array

    @property
    def n_features(self) -> int:
        return len(self.points)


def same_levels(a: Array, b: Array, variances: Array, dtype: Any) -> Array:
    """sum_c v_c 1[a_c = b_c] for all pairs of rows."""
    K: Array = np.full((len(a), len(b)), variances.sum(), dtype)
    return less_unlike(K, a, b, variances)


@features.register
def _(phi: LevelMap, X: Array) -> Array:
    seen = seen_levels(phi.variances)
    return same_levels(X[:, seen], phi.points[:, seen], phi.variances[seen], phi.points.dtype)


@pullback.register
def _(phi: LevelMap, X: Array, G: Array) -> Array:
    """A level has no neighbours."""
    return np.zeros(X.shape)
