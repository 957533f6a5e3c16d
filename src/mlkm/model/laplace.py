"""Features K(x, z_m) of the l1-Laplacian kernel at landmarks z_m drawn from the data, each input with its own relevance
gamma_j:

    K(x, z) = exp(-sum_j gamma_j |x_j - z_j|),

with 1[x_j != z_j] in place of |x_j - z_j| where input j is a level, and less |T (x - z)|^2 / 2 for the texts of levels.

Fourier features of a kernel this rough need many thousands of frequencies; landmarks (Nystroem's method) need a couple
of thousand points.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from .._types import Array
from .features import features, pullback
from .levels import along_texts, less_apart, less_unlike, seen_levels


@dataclass(frozen=True)
class LandmarkMap:
    """Landmarks (M, d), relevances gamma (d,) of numbers and of levels (d,), and directions T (q, d) of texts, None
    where there are none; inputs of relevance 0 are not looked at."""

    points: Array
    relevance: Array
    unlike: Array | None = None
    texts: Array | None = None

    @property
    def n_features(self) -> int:
        return len(self.points)


def scaled_points(phi: LandmarkMap, X: Array) -> Array:
    """The inputs that are looked at, times their relevance: numbers whose l1 distance is the exponent. In float64 and
    row by row, the way `cdist` is fastest with."""
    seen = np.flatnonzero(phi.relevance)
    return np.ascontiguousarray(X[:, seen] * phi.relevance[seen], np.float64)


def minus_distances(a: Array, b: Array, dtype: Any) -> Array:
    """-|a - b|_1 for all pairs of rows; nothing but zeros without columns."""
    K: Array = cdist(a, b, "cityblock").astype(dtype, copy=False) if a.shape[1] else np.zeros((len(a), len(b)), dtype)
    return np.negative(K, out=K)


@features.register
def _(phi: LandmarkMap, X: Array) -> Array:
    levels, points = seen_levels(phi.unlike), phi.points
    K = minus_distances(scaled_points(phi, X), scaled_points(phi, points), points.dtype)
    K = less_apart(K, *(along_texts(phi.texts, Z, K.dtype) for Z in (X, points)))
    if len(levels) and phi.unlike is not None:
        K = less_unlike(K, X[:, levels], points[:, levels], phi.unlike[levels])
    return np.exp(K, out=K)


@pullback.register
def _(phi: LandmarkMap, X: Array, G: Array) -> Array:
    weighted = G * features(phi, X)
    result = np.zeros((len(X), X.shape[1]))
    for j in np.flatnonzero(phi.relevance):
        sides = np.sign(X[:, [j]] - phi.points[:, j])
        result[:, j] = -phi.relevance[j] * np.einsum("nm,nm->n", weighted, sides)
    if phi.texts is not None:
        result -= (weighted.sum(axis=1)[:, None] * X - weighted @ phi.points) @ phi.texts.T @ phi.texts
    return result
