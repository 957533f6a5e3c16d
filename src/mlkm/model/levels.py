"""Kernels of categories: sums over the columns in which two rows have the same level, or different ones.

    unlike(x, z) = sum_c w_c 1[x_c != z_c]

stands in the exponent of a product kernel, beside distances of numbers; on its own, `LevelMap` is a random effect of
every level, v_c 1[x_c = z_c].
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._types import Array, IntArray
from .features import features, pullback


def seen_levels(weights: Array | None) -> IntArray:
    """The columns that are looked at."""
    return np.zeros(0, np.intp) if weights is None else np.flatnonzero(weights)


def less_unlike(K: Array, a: Array, b: Array, weights: Array) -> Array:
    """K less sum_c w_c 1[a_c != b_c] for all pairs of rows, in place; a and b have the columns that are looked at."""
    for c, w in enumerate(weights):
        own, other = a[:, c].astype(np.int32), b[:, c].astype(np.int32)
        K -= K.dtype.type(w) * (own[:, None] != other)
    return K


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
