"""Features K(x, z_m) of the Gaussian kernel at points z_m, on directions that are learned:

    K(x, z) = exp(-|B (x - z)|^2 / 2),

what cosines with frequencies B'omega reproduce as their number grows.
"""

from dataclasses import dataclass

import numpy as np

from .._types import Array
from .features import features, pullback


@dataclass(frozen=True)
class GaussianMap:
    """Points (M, d) and the matrix B (r, d) of directions; a column of zeros is an input that is not looked at."""

    points: Array
    matrix: Array

    @property
    def n_features(self) -> int:
        return len(self.points)


@features.register
def _(phi: GaussianMap, X: Array) -> Array:
    """Squared distances by one matrix product, |u|^2 - 2 u'v + |v|^2, in the precision of the points."""
    B = phi.matrix.T.astype(phi.points.dtype)
    U, V = X.astype(B.dtype, copy=False) @ B, phi.points @ B
    K: Array = U @ V.T
    K -= 0.5 * np.einsum("nr,nr->n", U, U)[:, None]
    K -= 0.5 * np.einsum("nr,nr->n", V, V)
    np.minimum(K, 0, out=K)
    return np.exp(K, out=K)


@pullback.register
def _(phi: GaussianMap, X: Array, G: Array) -> Array:
    """dK/dx = -K B'B (x - z)."""
    weighted = G * features(phi, X)
    total = weighted.sum(axis=1)[:, None] * X - weighted @ phi.points
    return np.asarray(-total @ phi.matrix.T @ phi.matrix)
