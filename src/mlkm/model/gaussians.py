"""Features K(x, z_m) of the Gaussian kernel at points z_m, on directions that are learned:

    K(x, z) = exp(-|B (x - z)|^2 / 2),

what cosines with frequencies B'omega reproduce as their number grows. Levels enter as another factor,
exp(-sum_c g_c 1[x_c != z_c]).
"""

from dataclasses import dataclass

import numpy as np

from .._types import Array
from .features import features, pullback
from .levels import less_unlike, seen_levels


@dataclass(frozen=True)
class GaussianMap:
    """Points (M, d), the matrix B (r, d) of directions and g (d,) of levels, None where there are none; a column of
    zeros is an input that is not looked at."""

    points: Array
    matrix: Array
    unlike: Array | None = None

    @property
    def n_features(self) -> int:
        return len(self.points)


@features.register
def _(phi: GaussianMap, X: Array) -> Array:
    """Squared distances by one matrix product, |u|^2 - 2 u'v + |v|^2, which cancel and are in float64; what follows is
    in the precision of the points."""
    levels, B = seen_levels(phi.unlike), phi.matrix.T
    K = minus_half_squares(X.astype(np.float64) @ B, phi.points @ B).astype(phi.points.dtype, copy=False)
    if len(levels) and phi.unlike is not None:
        K = less_unlike(K, X[:, levels], phi.points[:, levels], phi.unlike[levels])
    return np.exp(K, out=K)


def minus_half_squares(a: Array, b: Array) -> Array:
    """-|a - b|^2 / 2 for all pairs of rows, by one matrix product."""
    K: Array = a @ b.T
    K -= 0.5 * np.einsum("nr,nr->n", a, a)[:, None]
    K -= 0.5 * np.einsum("nr,nr->n", b, b)
    return np.minimum(K, 0, out=K)


@pullback.register
def _(phi: GaussianMap, X: Array, G: Array) -> Array:
    """dK/dx = -K B'B (x - z)."""
    weighted = G * features(phi, X)
    total = weighted.sum(axis=1)[:, None] * X - weighted @ phi.points
    return np.asarray(-total @ phi.matrix.T @ phi.matrix)
