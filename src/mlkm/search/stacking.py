"""A convex stack: non-negative weights that sum to one, by predictions of rows that no member has seen.

Averaged over Bayesian bootstraps of those rows (weights from the exponential law), so that members between which the
rows can hardly decide share the weight.
"""

import numpy as np
from numpy.linalg import LinAlgError
from scipy.optimize import lsq_linear, nnls

from .._types import Array
from ..runtime.sizes import UNIT_SUM_PENALTY


def convex_weights(predictions: Array, Y: Array, weights: Array, rng: np.random.Generator, bootstraps: int) -> Array:
    """Weights (members,) for predictions (members, rows, outputs) of Y (rows, outputs); the last member is the mean.

    Chance lets a member look better than the mean, the more so the fewer the rows. With s the mean square by which the
    combination leaves the mean and e its error, chance is worth some e / m per member, and the combination is drawn
    towards the mean as much as that asks for: not noticeably where e is small beside s.
    """
    found = _averaged(predictions, Y, weights, rng, bootstraps, 0.0)
    combined, mean, share = np.tensordot(found, predictions, axes=1), predictions[-1], weights / weights.sum()
    left, moved = (float((share @ part**2).sum()) for part in (Y - combined, combined - mean))
    if moved == 0:
        return found
    return _averaged(predictions, Y, weights, rng, bootstraps, 3 * len(predictions) * left / (len(Y) * moved))


def shared_weights(predictions: Array, Y: Array, weights: Array, rng: np.random.Generator, bootstraps: int) -> Array:
    """Weights for members none of which is to be preferred."""
    return _averaged(predictions, Y, weights, rng, bootstraps, 0.0)


def _averaged(
    predictions: Array, Y: Array, weights: Array, rng: np.random.Generator, bootstraps: int, drawn: float
) -> Array:
    """Over bootstraps: weights with the least error, plus `drawn` times the mean square by which the mean is left."""
    total, mean = np.zeros(len(predictions)), predictions[-1]
    for _ in range(bootstraps):
        own = np.sqrt(weights * rng.exponential(size=len(weights)))[:, None]
        A = np.stack([(own * (f - mean)).ravel() for f in predictions], axis=1)
        b = (own * (Y - mean)).ravel()
        held = UNIT_SUM_PENALTY * (np.abs(A).max() or 1.0)
        rows = [A, np.sqrt(drawn) * A, np.full((1, A.shape[1]), held)]
        found = _non_negative(np.vstack(rows), np.concatenate([b, np.zeros(len(A)), [held]]))
        total += found / (found.sum() or 1.0)
    return np.asarray(total / bootstraps)


def _non_negative(A: Array, b: Array) -> Array:
    """The x >= 0 with the least ||A x - b||. Where two members say nearly the same, `nnls` of SciPy 1.13, which squares
    A, goes round in circles or meets a singular matrix; `lsq_linear` is slower and does not square."""
    try:
        return np.asarray(nnls(A, b)[0])
    except (RuntimeError, LinAlgError):
        return np.asarray(lsq_linear(A, b, (0, np.inf), method="bvls").x)
