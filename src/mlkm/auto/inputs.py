"""Which of many inputs a search begins with: those that tell something of y, alone or together with another.

y is compared with some cosines of every input's ranks, and what a ridge on all of these leaves of y with the products
of cosines of every pair: an input may act through its partner alone (x_3 of Example 2 does). Where an input tells
nothing, the scores are chi-squared, and the probability of one as large is known.
"""

import numpy as np
from scipy.stats import chi2

from .._types import Array, IntArray
from ..solvers.ridge import ridge
from .policy import Policy

_WAVES = 5  # cosines of an input alone,
_PAIRED = 3  # and of each in a product
_ROWS = 4000  # by which inputs are compared


def telling_inputs(X: Array, Y: Array, weights: Array, policy: Policy) -> IntArray:
    """All of a few inputs; of many those whose scores are hardly chance, and no fewer than `policy.none_dropped`."""
    d, fewest = X.shape[1], policy.none_dropped
    if d <= fewest:
        return np.arange(d)
    first, chance = _chances(X[:_ROWS], Y[:_ROWS], weights[:_ROWS], policy)
    kept = max(fewest, int((chance < policy.chance).sum()))
    return np.sort(first[np.argsort(chance, kind="stable")[:kept]])


def by_chance(X: Array, Y: Array, weights: Array, policy: Policy) -> IntArray:
    """Inputs, of those that are looked at in pairs, whose scores are hardly chance, however many inputs there are."""
    first, chance = _chances(X, Y, weights, policy)
    return np.sort(first[chance * len(first) < policy.chance])


def _chances(X: Array, Y: Array, weights: Array, policy: Policy) -> tuple[IntArray, Array]:
    """Inputs, at most so many, and the probability of scores as large as theirs."""
    waves = _waves(X)
    alone = _alone(waves, Y, weights)
    first = np.argsort(alone, kind="stable")[: policy.most_inputs]
    return first, np.minimum(alone[first], _paired([wave[:, first] for wave in waves], Y, weights))


def _waves(X: Array) -> list[Array]:
    """cos(pi k u) of the inputs' ranks u in (0, 1): uncorrelated with variance 1/2 for every input."""
    ranks = (np.argsort(np.argsort(X, axis=0, kind="stable"), axis=0, kind="stable") + 0.5) / len(X)
    return [np.cos(np.pi * k * ranks) for k in range(1, _WAVES + 1)]


def _alone(waves: list[Array], Y: Array, weights: Array) -> Array:
    """The chance of every input's own score."""
    target = (Y - weights @ Y / weights.sum()) * weights[:, None]
    score = sum((((wave.T @ target) ** 2) * 2 / _squares(target)).sum(axis=1) for wave in waves)
    return np.asarray(chi2.sf(score, len(waves) * Y.shape[1]))


def _paired(waves: list[Array], Y: Array, weights: Array) -> Array:
    """The chance of every input's best score with a partner, there being many of them."""
    F, d = np.hstack(waves), waves[0].shape[1]
    fit = ridge(F, Y, weights)
    left = (Y - F @ fit.coefficients - fit.intercept) * weights[:, None]
    score, few = np.zeros((d, d)), waves[:_PAIRED]
    for target in (left / np.sqrt(_squares(left))).T:
        for k, first in enumerate(few):
            turned = first * target[:, None]
            for second in few[k:]:
                products = (turned.T @ second) ** 2 * 4
                score += products if second is first else products + products.T
    np.fill_diagonal(score, 0)
    return np.asarray(np.minimum(chi2.sf(score.max(axis=1), len(few) ** 2 * Y.shape[1]) * (d - 1), 1))


def _squares(target: Array) -> Array:
    return np.asarray(np.maximum((target**2).sum(axis=0), 1e-300))
