"""Kernels of categories: sums over the columns in which two rows have the same level, or different ones, and distances
of the texts of levels along directions T.

    unlike(x, z) = sum_c w_c 1[x_c != z_c],    apart(x, z) = |T (x - z)|^2 / 2

stand in the exponent of a product kernel, beside distances of numbers; on its own, `LevelMap` is a random effect of
every level, v_c 1[x_c = z_c].
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._types import Array, IntArray
from .features import features, pullback

_LOST = 0.01  # share of the exponent that directions of texts may have without being looked at
_PIECE = 2**18  # entries of a kernel that stay in a processor's cache
_FEW = 8  # levels up to which a product of indicators takes less time than comparisons


def seen_levels(weights: Array | None) -> IntArray:
    """The columns that are looked at."""
    return np.zeros(0, np.intp) if weights is None else np.flatnonzero(weights)


def less_unlike(K: Array, a: Array, b: Array, weights: Array) -> Array:
    """K less sum_c w_c 1[a_c != b_c] for all pairs of rows, in place; a and b have the columns that are looked at."""
    own, other = a.astype(np.int32), b.astype(np.int32)
    sizes = 1 + np.maximum(own.max(axis=0, initial=-1), other.max(axis=0, initial=-1))
    few, tall = sizes <= _FEW, max(1, _PIECE // max(len(b), 1))
    for c in np.flatnonzero(~few):
        small = np.min_scalar_type(int(sizes[c]))  # bytes are compared in half the time of whole numbers
        left, right, weight = (own[:, [c]] + 1).astype(small), (other[:, c] + 1).astype(small), K.dtype.type(weights[c])
        for at in range(0, len(K), tall):
            K[at : at + tall] -= weight * (left[at : at + tall] != right)
    if few.any():
        K -= K.dtype.type(weights[few].sum())
        roots = np.sqrt(weights[few]).astype(K.dtype)
        K += _indicators(own[:, few], sizes[few], roots) @ _indicators(other[:, few], sizes[few], roots).T
    return K


def along_texts(directions: Array | None, X: Array, dtype: Any) -> Array:
    """T x for every row; in any precision, since texts are no longer than 1."""
    if directions is None:
        return np.zeros((len(X), 0), dtype)
    seen = np.flatnonzero(directions.any(axis=0))
    product: Array = X[:, seen].astype(dtype, copy=False) @ directions[:, seen].T.astype(dtype)
    return product


def fewer_directions(directions: Array, X: Array) -> Array:
    """T with the leading directions in which the texts of the rows X differ: the others together have less than
    `_LOST` of what texts add to the exponent, on average over pairs of rows."""
    F = along_texts(directions, X, np.float64)
    values, V = np.linalg.eigh(np.cov(F, rowvar=False, ddof=0).reshape(F.shape[1], -1))
    values = np.maximum(values, 0)
    kept = np.cumsum(values) > _LOST * values.sum()
    return np.asarray(V[:, kept].T @ directions)


def less_apart(K: Array, a: Array, b: Array) -> Array:
    """K less |a - b|^2 / 2 for all pairs of rows of T x, in place."""
    if a.shape[1]:
        K += minus_half_squares(a, b)
    return K


def minus_half_squares(a: Array, b: Array) -> Array:
    """-|a - b|^2 / 2 for all pairs of rows, by one matrix product."""
    K: Array = a @ b.T
    K -= 0.5 * np.einsum("nr,nr->n", a, a)[:, None]
    K -= 0.5 * np.einsum("nr,nr->n", b, b)
    return np.minimum(K, 0, out=K)


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
