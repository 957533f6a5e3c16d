"""A convex stack: non-negative weights that sum to one, by predictions of rows that no member has seen.

Averaged over Bayesian bootstraps of those rows (weights from the exponential law), so that members between which the
rows can hardly decide share the weight.
"""

import numpy as np
from scipy.optimize import nnls

from .._types import Array

_SUM = 1e3  # how heavily the sum of the weights is held to one


def convex_weights(predictions: Array, Y: Array, weights: Array, rng: np.random.Generator, bootstraps: int) -> Array:
    """Weights (members,) for predictions (members, rows, outputs) of Y (rows, outputs)."""
    total = np.zeros(len(predictions))
    for _ in range(bootstraps):
        own = np.sqrt(weights * rng.exponential(size=len(weights)))[:, None]
        A = np.stack([(own * f).ravel() for f in predictions], axis=1)
        b = (own * Y).ravel()
        held = _SUM * (np.abs(A).max() or 1.0)
        found = nnls(np.vstack([A, np.full((1, A.shape[1]), held)]), np.append(b, held))[0]
        total += found / (found.sum() or 1.0)
    return np.asarray(total / bootstraps)
