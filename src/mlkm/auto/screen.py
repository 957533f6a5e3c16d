"""Which inputs matter, by correlations alone: before the search, beside its leaders, and in what its fit has left."""

from collections.abc import Sequence

import numpy as np

from .._types import Array, IntArray
from ..rows import Rows
from . import smooth
from .policy import Policy


def screen(rows: Rows, policy: Policy) -> IntArray:
    """At most `policy.most_inputs` inputs: those with the largest share of y explained by some cosines of their
    ranks."""
    d, most = rows.X.shape[1], policy.most_inputs
    if d <= most:
        return np.arange(d)
    target = rows.Y * rows.weights[:, None]
    share = sum(((waves.T @ target) ** 2).sum(axis=1) for waves in _waves(rows.X, policy.screen_waves[0]))
    return np.sort(np.argsort(-share, kind="stable")[:most])


def _waves(X: Array, n_waves: int) -> list[Array]:
    """cos(pi k u) of the inputs' ranks u in (0, 1), for k = 1..n_waves: uncorrelated with variance 1/2 for every
    input."""
    ranks = (np.argsort(np.argsort(X, axis=0, kind="stable"), axis=0, kind="stable") + 0.5) / len(X)
    return [np.cos(np.pi * k * ranks) for k in range(1, n_waves + 1)]


def telling_pairs(X: Array, Y: Array, weights: Array, leaders: IntArray, policy: Policy) -> list[tuple[int, int]]:
    """Pairs of a leader and another input whose products of waves correlate with Y beyond chance, the strongest first.

    An input may act through its partner alone (x_3 of Example 2 does), where neither a search by single inputs nor one
    on random pairs finds it. Under independence a score is chi-squared with 9 degrees of freedom per output.
    """
    waves = _waves(X, policy.screen_waves[1])
    target = Y * weights[:, None]
    scores: dict[tuple[int, int], float] = {}
    for i in leaders.tolist():
        score = np.zeros(X.shape[1])
        for first in waves:
            turned = first[:, [i]] * target
            for second in waves:
                score += ((second.T @ turned) ** 2).sum(axis=1) * 2 / (turned**2).sum()
        for j in range(X.shape[1]):
            if j != i:
                pair = (min(i, j), max(i, j))
                scores[pair] = max(scores.get(pair, 0.0), float(score[j]))
    ordered = sorted(scores, key=lambda pair: -scores[pair])
    return [pair for pair in ordered[: policy.most_telling[0]] if scores[pair] > policy.pair_chance * Y.shape[1]]


def missed(X: Array, residuals: Array, weights: Array, leaders: IntArray, policy: Policy) -> IntArray:
    """Inputs whose products of two waves, alone or times a wave of a leader, correlate with what a fit has left of the
    targets; the strongest first.

    A search among many inputs may settle for the strongest: in pumadyn32nm two inputs act through their product with a
    third only. Under independence the scores are chi-squared with 9 and 27 degrees of freedom per output.
    """
    waves = _waves(X, policy.screen_waves[1])
    strength = np.zeros(X.shape[1])
    for leader in [None, *leaders.tolist()]:
        score = np.zeros((X.shape[1], X.shape[1]))
        for target in (residuals * weights[:, None]).T:
            for third in [np.ones(len(X))] if leader is None else [wave[:, leader] for wave in waves]:
                turned = target * third
                for first in waves:
                    for second in waves:
                        score += ((first * turned[:, None]).T @ second) ** 2 * 4 / max(float(turned @ turned), 1e-300)
        np.fill_diagonal(score, 0)
        if leader is not None:
            score[leader] = score[:, leader] = 0
        chance = policy.residual_chance[leader is not None] * residuals.shape[1]
        strength = np.maximum(strength, np.maximum(score, score.T).max(axis=0) / chance)
    order = np.argsort(-strength, kind="stable")
    return order[strength[order] > 1]


def relevant(found: smooth.Smooth, pairs: Sequence[tuple[int, int]], policy: Policy) -> IntArray:
    """Places of the inputs along which the fit moves, of those with a prior variance of weight, and of the given
    pairs."""
    by_slope, by_variance = found.slopes, smooth.relevance(found.parameters)
    moving = np.argsort(-by_slope, kind="stable")[: policy.most_kept]
    share, most = policy.moving  # the smaller the noise, the less may be missed
    moving = moving[by_slope[moving] > min(share * found.noise, most)]
    varying = np.argsort(-by_variance, kind="stable")[: policy.most_kept // 2]
    varying = varying[by_variance[varying] > policy.varying * min(by_variance.max(), 1.0)]
    return np.unique([*moving, *varying, *(j for pair in pairs for j in pair)]).astype(np.intp)
