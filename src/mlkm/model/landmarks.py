"""Features K(x, z_m) of the l1-Laplacian kernel at landmarks z_m drawn from the data, each input with its own relevance
gamma_j:

    K(x, z) = exp(-sum_j gamma_j |x_j - z_j|).

Fourier features of a kernel this rough need many thousands of frequencies; landmarks (Nystroem's method) need a couple
of thousand points.
"""

from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from .._types import Array
from .features import features, pullback


@dataclass(frozen=True)
class LandmarkMap:
    """Landmarks (M, d) and relevances gamma (d,); inputs of relevance 0 are not looked at."""

    points: Array
    relevance: Array

    @property
    def n_features(self) -> int:
        return len(self.points)


def scaled_points(phi: LandmarkMap, X: Array) -> Array:
    """The inputs that are looked at, times their relevance: numbers whose l1 distance is the exponent. In float64 and
    row by row, the way `cdist` is fastest with."""
    seen = np.flatnonzero(phi.relevance)
    return np.ascontiguousarray(X[:, seen] * phi.relevance[seen], np.float64)


@features.register
def _(phi: LandmarkMap, X: Array) -> Array:
    distances = cdist(scaled_points(phi, X), scaled_points(phi, phi.points), "cityblock")
    distances = distances.astype(phi.points.dtype, copy=False)
    np.negative(distances, out=distances)
    return np.exp(distances, out=distances)


@pullback.register
def _(phi: LandmarkMap, X: Array, G: Array) -> Array:
    weighted = G * features(phi, X)
    result = np.zeros((len(X), X.shape[1]))
    for j in np.flatnonzero(phi.relevance):
        sides = np.sign(X[:, [j]] - phi.points[:, j])
        result[:, j] = -phi.relevance[j] * np.einsum("nm,nm->n", weighted, sides)
    return result
