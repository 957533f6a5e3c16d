"""Bands for effects: values +- z sd at one place, and with a larger factor at all places at once.

The posterior of a linear functional of f is normal. With C its covariance at the places looked at, the simultaneous
factor is the quantile of max |u| / sd for u ~ N(0, C), by simulation.
"""

from statistics import NormalDist

import numpy as np

from .._types import Array
from ..runtime.seeds import Purpose, generator

_DRAWS = 4000


def factors(covariance: Array, level: float) -> tuple[float, float]:
    """Of standard deviations: at one place, and at all at once."""
    one = NormalDist().inv_cdf((1 + level) / 2)
    sd = np.sqrt(np.maximum(np.diag(covariance), 0))
    seen = sd > 1e-9 * sd.max(initial=0)
    if not seen.any():
        return one, one
    values, V = np.linalg.eigh(covariance[np.ix_(seen, seen)] / np.outer(sd[seen], sd[seen]))
    kept = values > 1e-8 * values[-1]
    draws = generator(0, Purpose.EFFECTS).standard_normal((_DRAWS, int(kept.sum())))
    largest = np.abs(draws @ (V[:, kept] * np.sqrt(values[kept])).T).max(axis=1)
    return one, max(one, float(np.quantile(largest, level, method="higher")))


def deviations(covariances: Array) -> Array:
    """(places, k), of covariances (k, places, places)."""
    return np.asarray(np.sqrt(np.maximum(np.einsum("kcc->ck", covariances), 0)))
