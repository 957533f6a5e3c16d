"""Features K(x, z_m) of the Gaussian kernel at points z_m, on directions that are learned:

    K(x, z) = exp(-|B (x - z)|^2 / 2),

what cosines with frequencies B'omega reproduce as their number grows. Levels and their texts enter as further factors,
exp(-sum_c g_c 1[x_c != z_c]) and exp(-|T (x - z)|^2 / 2).
"""

from dataclasses import dataclass

import numpy as np

from .._types import Array
from .features import features, pullback
from .levels import along_texts, less_apart, less_unlike, minus_half_squares, seen_levels


@dataclass(frozen=True)
class GaussianMap:
    """Points (M, d), the matrix B (r, d) of directions, g (d,) of levels and directions T (q, d) of texts, None where
    there are none; zeros are inputs that are not looked at."""

    points: Array
    matrix: Array
    unlike: Array | None = None
    texts: Array | None = None

    @property
    def n_features(self) -> int:
        return len(self.points)


@features.register
def _(phi: GaussianMap, X: Array) -> Array:
    """Squared distances by one matrix product, |u|^2 - 2 u'v + |v|^2, which cancel and are in float64; what follows is
    in the precision of the points."""
    levels, B = seen_levels(phi.unlike), phi.matrix.T
    K = minus_half_squares(X.astype(np.float64) @ B, phi.points @ B).astype(phi.points.dtype, copy=False)
    K = less_apart(K, *(along_texts(phi.texts, Z, K.dtype) for Z in (X, phi.points)))
    if len(levels) and phi.unlike is not None:
        K = less_unlike(K, X[:, levels], phi.points[:, levels], phi.unlike[levels])
    return np.exp(K, out=K)


@pullback.register
def _(phi: GaussianMap, X: Array, G: Array) -> Array:
    """dK/dx = -K B'B (x - z)."""
    weighted = G * features(phi, X)
    total = weighted.sum(axis=1)[:, None] * X - weighted @ phi.points
    through_texts = 0.0 if phi.texts is None else total @ phi.texts.T @ phi.texts
    return np.asarray(-total @ phi.matrix.T @ phi.matrix - through_texts)
