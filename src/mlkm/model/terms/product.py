"""What kernels that are products over inputs have in common: numbers, levels of categories and texts of levels each add
to one exponent,

    K(x, z) = exp(-numbers(x, z) - sum_c w_c 1[x_c != z_c] - |T (x - z)|^2 / 2).
"""

from abc import abstractmethod
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..._types import Array, IntArray
from ..features import Operations, PointMap

_LOST = 0.01  # share of the exponent that directions of texts may have without being looked at
_PIECE = 2**18  # entries of a kernel that stay in a processor's cache
_FEW = 8  # levels up to which a product of indicators takes less time than comparisons


class ProductKernelMap(PointMap):
    """The map of such a kernel: the weights w (d,) of levels and the directions T (q, d) of texts are None where there
    are none. A subclass has the numbers."""

    unlike: Array | None
    texts: Array | None

    @abstractmethod
    def number_codes(self, Z: Array) -> Array:
        """Return the codes of numbers, in float64."""

    @abstractmethod
    def minus_number_exponent(self, a: Array, b: Array, dtype: Any) -> Array:
        """Return minus what numbers add to the exponent, for all pairs of rows with these codes."""

    def codes(self, Z: Array, dtype: Any) -> Array:
        """Return codes of numbers, of texts and of levels side by side."""
        texts = along_texts(self.texts, Z, dtype)
        return np.hstack([self.number_codes(Z), texts, Z[:, seen_levels(self.unlike)]])

    def between(self, a: Array, b: Array, dtype: Any, variance: float = 1.0) -> Array:
        """Return v exp of the sum of all exponents."""
        levels = seen_levels(self.unlike)
        at = a.shape[1] - len(levels)
        k = at - (0 if self.texts is None else len(self.texts))
        K = self.minus_number_exponent(a[:, :k], b[:, :k], dtype)
        K = less_apart(K, a[:, k:at].astype(dtype), b[:, k:at].astype(dtype))
        if self.unlike is not None and len(levels):
            K = less_unlike(K, a[:, at:], b[:, at:], self.unlike[levels])
        np.exp(K, out=K)
        if variance != 1:
            K *= K.dtype.type(variance)
        return K

    def with_short_texts(self, X: Array) -> Self:
        """Return the map with fewer directions of texts, if it has any."""
        if self.texts is None:
            return self
        return replace(self, texts=fewer_directions(self.texts, X))  # type: ignore[type-var]

    def exponential(self, graph: Operations, Z: str, exponent: str, double: bool) -> str:
        """Add exp of the exponent, less what levels have apart, to a graph of operations."""
        if self.unlike is not None and self.unlike.any():
            same = graph.same_levels(self.unlike, Z, self.points, np.float64)
            exponent = graph("Add", exponent, graph("Sub", same, np.array(self.unlike.sum())))
        dtype = self.dtype(double)
        return graph("Exp", exponent if dtype == np.float64 else graph.cast(exponent, dtype))


def seen_levels(weights: Array | None) -> IntArray:
    """Return the columns with a weight other than zero."""
    return np.zeros(0, np.intp) if weights is None else np.flatnonzero(weights)


def less_unlike(K: Array, a: Array, b: Array, weights: Array) -> Array:
    """Subtract sum_c w_c 1[a_c != b_c] for all pairs of rows from K, in place; a and b have the weighted columns."""
    codes_a, codes_b = a.astype(np.int32), b.astype(np.int32)
    sizes = 1 + np.maximum(codes_a.max(axis=0, initial=-1), codes_b.max(axis=0, initial=-1))
    few, tall = sizes <= _FEW, max(1, _PIECE // max(len(b), 1))
    for c in np.flatnonzero(~few):
        small = np.min_scalar_type(int(sizes[c]))  # bytes are compared in half the time of whole numbers
        left, right = (codes_a[:, [c]] + 1).astype(small), (codes_b[:, c] + 1).astype(small)
        weight = K.dtype.type(weights[c])
        for at in range(0, len(K), tall):
            K[at : at + tall] -= weight * (left[at : at + tall] != right)
    if few.any():
        K -= K.dtype.type(weights[few].sum())
        roots = np.sqrt(weights[few]).astype(K.dtype)
        K += _indicators(codes_a[:, few], sizes[few], roots) @ _indicators(codes_b[:, few], sizes[few], roots).T
    return K


def along_texts(directions: Array | None, X: Array, dtype: Any) -> Array:
    """Return T x for every row; in any precision, since texts are no longer than 1."""
    if directions is None:
        return np.zeros((len(X), 0), dtype)
    seen = np.flatnonzero(directions.any(axis=0))
    product: Array = X[:, seen].astype(dtype, copy=False) @ directions[:, seen].T.astype(dtype)
    return product


def fewer_directions(directions: Array, X: Array) -> Array:
    """Return T with the leading directions in which the texts of the rows X differ: the others together have less than
    `_LOST` of what texts add to the exponent, on average over pairs of rows."""
    F = along_texts(directions, X, np.float64)
    values, V = np.linalg.eigh(np.cov(F, rowvar=False, ddof=0).reshape(F.shape[1], -1))
    values = np.maximum(values, 0)
    leading = np.cumsum(values) > _LOST * values.sum()
    return np.asarray(V[:, leading].T @ directions)


def less_apart(K: Array, a: Array, b: Array) -> Array:
    """Subtract |a - b|^2 / 2 for all pairs of rows of T x from K, in place."""
    if a.shape[1]:
        K += minus_half_squares(a, b)
    return K


def minus_half_squares(a: Array, b: Array) -> Array:
    """Return -|a - b|^2 / 2 for all pairs of rows, by one matrix product."""
    K: Array = a @ b.T
    K -= 0.5 * np.einsum("nr,nr->n", a, a)[:, None]
    K -= 0.5 * np.einsum("nr,nr->n", b, b)
    return np.minimum(K, 0, out=K)


def _indicators(codes: NDArray[np.int32], sizes: NDArray[np.int32], values: Array) -> Array:
    """Return a column for every level of every column, with the value of that column in rows that have the level; a
    level that was not seen has none."""
    begins = np.concatenate([[0], np.cumsum(sizes)])
    result = np.zeros((len(codes), begins[-1]), values.dtype)
    for c, value in enumerate(values):
        at = np.flatnonzero(codes[:, c] >= 0)
        result[at, begins[c] + codes[at, c]] = value
    return result
