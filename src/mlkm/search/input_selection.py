"""The inputs that a search begins with, and its first climb, by their scales on a few of the rows.

Of many inputs those go on that tell something of y, alone or together with another. y is compared with a few cosines of
every input's ranks, and what a ridge on all of these leaves of y with the products of cosines of every pair: an input
may act through its partner alone (x_3 of Example 2 does). Where an input tells nothing, the scores are chi-squared, and
the probability of one as large is known.
"""

import numpy as np
from scipy.stats import chi2
from sklearn.preprocessing import PowerTransformer

from .._types import Array, BoolArray, IntArray
from ..data import Block, Inputs, tie_numbers
from ..model.terms import Parameters, SearchRows
from ..model.transforms import RankTransform
from ..runtime.sizes import SEARCH_GRID
from ..solve.ridge import ridge
from .evidence import learn, predicted, relevance, start
from .plan import Plan
from .policy import Policy


def search_rows(rows: Block, ranks: RankTransform, at: slice, k: int, policy: Policy) -> SearchRows:
    """Return the rows of search k, with winsorised targets in every other search.

    Inputs and targets are rounded to about a millionth of their standard deviation. A search amplifies rounding errors
    of its rows to hundredths of the prediction error; with rounded rows, the same table in other units, or computed in
    another way, has the same search. The final solve uses the rows as they are.
    """
    Y, weights = _rounded(rows.Y[at]), rows.weights[at]
    if k % 2 == 0 and len(Y) >= policy.least_transformed:
        Y = winsorised(Y, policy.spread)
    inputs, X = rows.inputs, _rounded(rows.X[at])
    texts = tuple(X[:, inputs.texts & (inputs.owners == owner)] for owner in np.unique(inputs.owners[inputs.texts]))
    return SearchRows(X, _rounded(ranks.forward(rows.X[at])), Y, weights / weights.mean(), inputs.levels, texts)


def _rounded(x: Array) -> Array:
    return np.asarray(np.round(x * SEARCH_GRID) / SEARCH_GRID)


def winsorised(Y: Array, spread: float) -> Array:
    """Return targets made nearly normal by Yeo and Johnson's transform and clipped at `spread` standard deviations."""
    columns = []
    for y in Y.T:
        if np.ptp(y) > 0:
            z = PowerTransformer().fit_transform(y[:, None])[:, 0]
            y = np.clip(z, -spread, spread) if np.isfinite(z).all() and z.std() > 0 else y
        columns.append(y / (y.std() or 1.0))
    return np.stack(columns, axis=1)


def select_inputs(rows: Block, ranks: RankTransform, plan: Plan) -> tuple[IntArray, Parameters]:
    """Return the inputs that go on, and the parameters of a first climb from which the first search goes on.

    All of a few inputs go on. Of many those that tell something of y; then the less relevant half leaves, again and
    again, until they are few and rows that the climb has not seen are predicted clearly worse. The largest set that is
    not clearly worse than the best of them stays, and those come back that tell something of what it leaves there.
    """
    policy, m = plan.policy, plan.policy.first_joint_rows
    inputs = telling_inputs(rows, policy)
    seen = search_rows(rows, ranks, slice(0, m + policy.checked_rows), 0, policy)
    first, others = seen.take(slice(0, m)), seen.take(slice(m, None))
    p = first_climb(first.with_inputs(inputs), plan)
    fewest = few(rows.inputs, policy)
    if np.sum(~rows.inputs.texts) <= fewest or len(others.Y) < fewest:
        return inputs, p
    tried: list[tuple[IntArray, Parameters, Array]] = []
    best = np.array([np.inf])
    while True:
        left = _residuals(p, first, others, inputs, policy)
        errors = others.weights * (left**2).sum(axis=1)
        tried.append((inputs, p, left))
        if len(inputs) <= 2 or (len(inputs) <= fewest and _clearly_less(best, errors)):
            break
        best = errors if errors.mean() < best.mean() else best
        inputs = inputs[np.sort(_by_relevance(p, seen, inputs, policy)[: (len(inputs) + 1) // 2])]
        p = first_climb(first.with_inputs(inputs), plan)
    inputs, p, _ = next(one for one in tried if not _clearly_less(best, others.weights * (one[2] ** 2).sum(axis=1)))
    return _with_second_look(inputs, p, seen, np.flatnonzero(~rows.inputs.texts), plan)


def _with_second_look(
    inputs: IntArray, p: Parameters, seen: SearchRows, every: IntArray, plan: Plan
) -> tuple[IntArray, Parameters]:
    """Add inputs that tell something of what a fit to half of the rows leaves of the others, unless these are then
    predicted clearly worse."""
    policy, m = plan.policy, plan.policy.first_joint_rows
    half = (len(seen.Y) + m) // 2
    first, known, rest = (seen.take(at) for at in (slice(0, m), slice(0, half), slice(half, None)))
    left = _residuals(p, known, rest, inputs, policy)
    while True:
        leaders = inputs[_by_relevance(p, seen, inputs, policy)[: policy.leaders]]
        both = np.union1d(inputs, still_telling(rest, left, every, leaders, policy))
        if len(both) == len(inputs):
            return inputs, p
        more = first_climb(first.with_inputs(both), plan)
        now = _residuals(more, known, rest, both, policy)
        if _clearly_less(*(rest.weights * (residuals**2).sum(axis=1) for residuals in (left, now))):
            return inputs, p
        inputs, p, left = both, more, now


def _residuals(p: Parameters, known: SearchRows, others: SearchRows, inputs: IntArray, policy: Policy) -> Array:
    """Return what the fit to known rows leaves of others."""
    return others.Y - predicted(p, known.with_inputs(inputs), others.with_inputs(inputs), policy.terms)


def _by_relevance(p: Parameters, rows: SearchRows, inputs: IntArray, policy: Policy) -> IntArray:
    """Return the places of the inputs, the most relevant first."""
    return np.argsort(-relevance(p, rows.levels[inputs], policy.terms), kind="stable")


def _clearly_less(a: Array, b: Array) -> bool:
    """Return whether errors of the same rows are less by two standard errors of their mean difference."""
    difference = b - a
    return bool(difference.mean() > 2 * difference.std() / np.sqrt(len(difference))) if len(a) == len(b) else False


def first_climb(rows: SearchRows, plan: Plan) -> Parameters:
    """Return the parameters that a climb from the start reaches, directions being fixed."""
    return learn(
        rows, start(rows, plan.policy.terms, plan.parts(rows.X.shape[1])), plan.policy, plan.policy.joint_steps[0]
    )


def few(inputs: Inputs, policy: Policy) -> int:
    """Return the number of inputs up to which all are kept: of a table with categories or missing values as many as a
    search can carry on all of its rows, since somebody put its columns there, and levels of a few rows tell little by
    themselves."""
    return policy.none_dropped if inputs.plain else max(policy.none_dropped, policy.gaps // policy.joint_rows**2)


def telling_inputs(rows: Block, policy: Policy) -> IntArray:
    """Return all of a few inputs; of many those whose scores are hardly chance, and no fewer than `few`. Texts are not
    looked at."""
    every, fewest = np.flatnonzero(~rows.inputs.texts), few(rows.inputs, policy)
    if len(every) <= fewest:
        return every
    m, (n_waves, n_paired) = policy.screened_rows, policy.screening_waves
    Y, weights = rows.Y[:m], rows.weights[:m]
    waves = _waves(as_numbers(rows.X[:m, every], Y, weights, rows.inputs.levels[every]), n_waves)
    first, alone = _looked_at(waves, Y, weights, policy)
    looked_at = [wave[:, first] for wave in waves]
    left = _left_by_single_inputs(looked_at, Y, weights)
    chance = np.minimum(alone, _paired(looked_at[:n_paired], left))
    number = max(fewest, int((chance < policy.chance).sum()))
    return np.sort(every[first[np.argsort(chance, kind="stable")[:number]]])


def still_telling(rest: SearchRows, left: Array, every: IntArray, leaders: IntArray, policy: Policy) -> IntArray:
    """Return those of the inputs `every` that tell something of what a fit has left of y, in pairs, or in pairs
    together with a leader: in pumadyn32nm a few inputs act through the product of two others only. p-values are
    Bonferroni's, over all inputs and tests."""
    weights, (n_waves, n_paired) = rest.weights, policy.screening_waves
    waves = _waves(as_numbers(rest.X, left, weights, rest.levels), n_waves)
    first, _ = _looked_at([wave[:, every] for wave in waves], left, weights, policy)
    first = every[first]
    looked_at, target = [wave[:, first] for wave in waves[:n_paired]], left * weights[:, None]
    chances = [_paired(looked_at, target)]
    for leader in leaders:
        turned = [np.sqrt(2) * wave[:, [leader]] * target for wave in waves[:n_paired]]
        chances.append(_paired(looked_at, np.hstack(turned), first == leader))
    return np.sort(first[np.min(chances, axis=0) * len(chances) * len(first) < policy.chance])


def as_numbers(X: Array, Y: Array, weights: Array, levels: BoolArray) -> Array:
    """Return X with levels as the mean of y that they have in the other half of the rows, without the rows' own y."""
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
    """Return inputs, at most so many, and the p-values of their scores alone."""
    target = (Y - weights @ Y / weights.sum()) * weights[:, None]
    score = sum((((wave.T @ target) ** 2) * 2 / _squares(target)).sum(axis=1) for wave in waves)
    chance = np.asarray(chi2.sf(score, len(waves) * Y.shape[1]))
    first = np.argsort(chance, kind="stable")[: policy.most_inputs]
    return first, chance[first]


def _left_by_single_inputs(waves: list[Array], Y: Array, weights: Array) -> Array:
    """Return the residuals of a ridge on all waves, times the weights."""
    F = np.hstack(waves)
    fit = ridge(F, Y, weights)
    return np.asarray((Y - F @ fit.coefficients - fit.intercept) * weights[:, None])


def _waves(X: Array, number: int) -> list[Array]:
    """Return cos(pi k u) of the inputs' ranks u in (0, 1): uncorrelated with variance 1/2 for every input."""
    order = [np.argsort(np.argsort(tie_numbers(x), kind="stable"), kind="stable") for x in X.T]  # ties in row order
    ranks = (np.stack(order, axis=1) + 0.5) / len(X)
    return [np.cos(np.pi * k * ranks) for k in range(1, number + 1)]


def _paired(waves: list[Array], targets: Array, apart: Array | None = None) -> Array:
    """Return the Bonferroni p-value of every input's best pairwise score, summed over the targets; without pairs of
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
