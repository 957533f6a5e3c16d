"""Which of many inputs a search begins with: those that tell something of y, alone or together with another.

y is compared with some cosines of every input's ranks, and what a ridge on all of these leaves of y with the products
of cosines of every pair: an input may act through its partner alone (x_3 of Example 2 does). Where an input tells
nothing, the scores are chi-squared, and the probability of one as large is known.
"""

import numpy as np
from scipy.stats import chi2

from .._types import Array, BoolArray, IntArray
from ..rows import Inputs, Rows, tie_numbers
from ..solvers.ridge import ridge
from .joint import Sample
from .policy import Policy

_WAVES = 5  # cosines of an input alone,
_PAIRED = 3  # and of each in a product
_ROWS = 4000  # by which inputs are compared


def few(inputs: Inputs, policy: Policy) -> int:
    """Inputs up to which all are kept: of a table with categories or missing values as many as a search can carry on
    all of its rows, since somebody put its columns there, and levels of a few rows tell little by themselves."""
    return policy.none_dropped if inputs.plain else max(policy.none_dropped, policy.gaps // policy.joint_rows**2)


def telling_inputs(rows: Rows, policy: Policy) -> IntArray:
    """All of a few inputs; of many those whose scores are hardly chance, and no fewer than `few`. Texts are not looked
    at."""
    every, fewest = np.flatnonzero(~rows.inputs.texts), few(rows.inputs, policy)
    if len(every) <= fewest:
        return every
    Y, weights = rows.Y[:_ROWS], rows.weights[:_ROWS]
    waves = _waves(as_numbers(rows.X[:_ROWS, every], Y, weights, rows.inputs.levels[every]))
    first, alone = _looked_at(waves, Y, weights, policy)
    some = [wave[:, first] for wave in waves]
    left = _left_by_single_inputs(some, Y, weights)
    chance = np.minimum(alone, _paired(some[:_PAIRED], left))
    kept = max(fewest, int((chance < policy.chance).sum()))
    return np.sort(every[first[np.argsort(chance, kind="stable")[:kept]]])


def still_telling(rest: Sample, left: Array, every: IntArray, leaders: IntArray, policy: Policy) -> IntArray:
    """Of the inputs `every` those that tell something of what a fit has left of y, in pairs, or in pairs together with
    a leader: in pumadyn32nm some inputs act through the product of two others only. Chance is shared by all inputs and
    tests."""
    weights = rest.weights
    waves = _waves(as_numbers(rest.X, left, weights, rest.levels))
    first, _ = _looked_at([wave[:, every] for wave in waves], left, weights, policy)
    first = every[first]
    some, target = [wave[:, first] for wave in waves[:_PAIRED]], left * weights[:, None]
    chances = [_paired(some, target)]
    for leader in leaders:
        turned = [np.sqrt(2) * wave[:, [leader]] * target for wave in waves[:_PAIRED]]
        chances.append(_paired(some, np.hstack(turned), first == leader))
    return np.sort(first[np.min(chances, axis=0) * len(chances) * len(first) < policy.chance])


def as_numbers(X: Array, Y: Array, weights: Array, levels: BoolArray) -> Array:
    """Levels as the mean of y that they have in the other half of the rows, which their own y has no part in."""
    if not levels.any():
        return X
    X, y = X.copy(), (Y - weights @ Y / weights.sum()).sum(axis=1)
    halves = np.arange(len(X)) % 2 == 0
    for j in np.flatnonzero(levels):
        codes, column = np.unique(X[:, j], return_inverse=True)[1], np.zeros(len(X))
        for half in (halves, ~halves):
            n, total = (np.bincount(codes[half], w[half], codes.max() + 1) for w in (weights, weights * y))
            column[~half] = (total / (n + 1))[codes[~half]]
        X[:, j] = column
    return X


def _looked_at(waves: list[Array], Y: Array, weights: Array, policy: Policy) -> tuple[IntArray, Array]:
    """Inputs, at most so many, and the probabilities of scores as large as theirs alone."""
    target = (Y - weights @ Y / weights.sum()) * weights[:, None]
    score = sum((((wave.T @ target) ** 2) * 2 / _squares(target)).sum(axis=1) for wave in waves)
    chance = np.asarray(chi2.sf(score, len(waves) * Y.shape[1]))
    first = np.argsort(chance, kind="stable")[: policy.most_inputs]
    return first, chance[first]


def _left_by_single_inputs(waves: list[Array], Y: Array, weights: Array) -> Array:
    """What a ridge on all waves leaves, times the weights."""
    F = np.hstack(waves)
    fit = ridge(F, Y, weights)
    return np.asarray((Y - F @ fit.coefficients - fit.intercept) * weights[:, None])


def _waves(X: Array) -> list[Array]:
    """cos(pi k u) of the inputs' ranks u in (0, 1): uncorrelated with variance 1/2 for every input."""
    order = [np.argsort(np.argsort(tie_numbers(x), kind="stable"), kind="stable") for x in X.T]  # ties in row order
    ranks = (np.stack(order, axis=1) + 0.5) / len(X)
    return [np.cos(np.pi * k * ranks) for k in range(1, _WAVES + 1)]


def _paired(waves: list[Array], targets: Array, apart: Array | None = None) -> Array:
    """The chance of every input's best score with a partner, there being many of them, summed over the targets; without
    those that are to stay `apart`, a leader being in the targets already."""
    d = waves[0].shape[1]
    score = np.zeros((d, d))
    for target in (targets / np.sqrt(_squares(targets))).T:
        for k, first in enumerate(waves):
            turned = first * target[:, None]
            for second in waves[k:]:
                products = (turned.T @ second) ** 2 * 4
                score += products if second is first else products + products.T
    np.fill_diagonal(score, 0)
    if apart is not None:
        score[apart] = score[:, apart] = 0
    return np.asarray(np.minimum(chi2.sf(score.max(axis=1), len(waves) ** 2 * targets.shape[1]) * (d - 1), 1))


def _squares(target: Array) -> Array:
    return np.asarray(np.maximum((target**2).sum(axis=0), 1e-300))
