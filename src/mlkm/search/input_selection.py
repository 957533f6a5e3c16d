"""Where a search begins: its rows, the inputs that go on, and a climb by their scales on some of the rows.

Which of many inputs a search begins with: those that tell something of y, alone or together with another.

y is compared with some cosines of every input's ranks, and what a ridge on all of these leaves of y with the products
of cosines of every pair: an input may act through its partner alone (x_3 of Example 2 does). Where an input tells
nothing, the scores are chi-squared, and the probability of one as large is known.
"""

import numpy as np
from scipy.stats import chi2
from sklearn.preprocessing import PowerTransformer

from .._types import Array, BoolArray, IntArray
from ..data import Inputs, Rows, tie_numbers
from ..model.rank_transform import Warp, warped
from ..runtime.sizes import SEARCH_GRID
from ..solve.ridge import ridge
from . import kernel_parameters as joint
from .kernel_evidence import learn
from .kernel_parameters import Sample
from .plan import Plan
from .policy import Policy


def sample_of(rows: Rows, ranks: Warp, at: slice, k: int, policy: Policy) -> joint.Sample:
    """Return the rows of search k, with winsorised targets in every other search.

    Inputs and targets are rounded to about a millionth of their standard deviation. A search amplifies rounding errors
    of its rows to hundredths of the prediction error; with rounded rows, the same table in other units, or computed in
    another way, has the same search. The final solve uses the rows as they are.
    """
    Y, weights = _rounded(rows.Y[at]), rows.weights[at]
    if k % 2 == 0 and len(Y) >= policy.least_transformed:
        Y = drawn_in(Y, policy.spread)
    inputs, X = rows.inputs, _rounded(rows.X[at])
    texts = tuple(X[:, inputs.texts & (inputs.owners == owner)] for owner in np.unique(inputs.owners[inputs.texts]))
    return joint.Sample(X, _rounded(warped(ranks, rows.X[at])), Y, weights / weights.mean(), inputs.levels, texts)


def _rounded(x: Array) -> Array:
    return np.asarray(np.round(x * SEARCH_GRID) / SEARCH_GRID)


def drawn_in(Y: Array, spread: float) -> Array:
    """Targets made nearly normal by Yeo and Johnson's transform, without their tails."""
    columns = []
    for y in Y.T:
        if np.ptp(y) > 0:
            z = PowerTransformer().fit_transform(y[:, None])[:, 0]
            y = np.clip(z, -spread, spread) if np.isfinite(z).all() and z.std() > 0 else y
        columns.append(y / (y.std() or 1.0))
    return np.stack(columns, axis=1)


def begun(rows: Rows, ranks: Warp, plan: Plan) -> tuple[IntArray, joint.Parameters]:
    """The inputs that go on, and a climb by their scales on some rows, from which the first search goes on.

    All of a few inputs go on. Of many those that tell something of y; then the less relevant half leaves, again and
    again, until they are few and rows that the climb has not seen are predicted clearly worse. The largest set that is
    not clearly worse than the best of them stays, and those come back that tell something of what it leaves there.
    """
    policy, m = plan.policy, plan.policy.first_joint_rows
    kept = telling_inputs(rows, policy)
    seen = sample_of(rows, ranks, slice(0, m + policy.checked_rows), 0, policy)
    some, others = seen.take(slice(0, m)), seen.take(slice(m, None))
    p = climbed(some.of(kept), plan)
    fewest = few(rows.inputs, policy)
    if np.sum(~rows.inputs.texts) <= fewest or len(others.Y) < fewest:
        return kept, p
    tried: list[tuple[IntArray, joint.Parameters, Array]] = []
    best = np.array([np.inf])
    while True:
        left = others.Y - joint.predicted(p, some.of(kept), others.of(kept), policy.joint_frequencies)
        errors = others.weights * (left**2).sum(axis=1)
        tried.append((kept, p, left))
        if len(kept) <= 2 or (len(kept) <= fewest and _clearly_less(best, errors)):
            break
        best = errors if errors.mean() < best.mean() else best
        kept = kept[np.sort(np.argsort(-joint.relevance(p, seen.levels[kept]), kind="stable")[: (len(kept) + 1) // 2])]
        p = climbed(some.of(kept), plan)
    kept, p, _ = next(one for one in tried if not _clearly_less(best, others.weights * (one[2] ** 2).sum(axis=1)))
    return _second_look(kept, p, seen, np.flatnonzero(~rows.inputs.texts), plan)


def _second_look(
    kept: IntArray, p: joint.Parameters, seen: joint.Sample, every: IntArray, plan: Plan
) -> tuple[IntArray, joint.Parameters]:
    """With inputs that tell something of what a fit to half of the rows leaves of the others, unless these are then
    predicted clearly worse."""
    policy, m = plan.policy, plan.policy.first_joint_rows
    half = (len(seen.Y) + m) // 2
    some, known, rest = (seen.take(at) for at in (slice(0, m), slice(0, half), slice(half, None)))
    left = rest.Y - joint.predicted(p, known.of(kept), rest.of(kept), policy.joint_frequencies)
    while True:
        leaders = kept[np.argsort(-joint.relevance(p, seen.levels[kept]), kind="stable")[: policy.leaders]]
        both = np.union1d(kept, still_telling(rest, left, every, leaders, policy))
        if len(both) == len(kept):
            return kept, p
        more = climbed(some.of(both), plan)
        now = rest.Y - joint.predicted(more, known.of(both), rest.of(both), policy.joint_frequencies)
        if _clearly_less(*(rest.weights * (missed**2).sum(axis=1) for missed in (left, now))):
            return kept, p
        kept, p, left = both, more, now


def _clearly_less(a: Array, b: Array) -> bool:
    """Whether errors of the same rows are less by two standard errors of their mean difference."""
    difference = b - a
    return bool(difference.mean() > 2 * difference.std() / np.sqrt(len(difference))) if len(a) == len(b) else False


def climbed(sample: joint.Sample, plan: Plan) -> joint.Parameters:
    """By scales, from the start."""
    return learn(sample, beginning(sample, plan), plan.policy, plan.policy.joint_steps[0])


def beginning(sample: joint.Sample, plan: Plan) -> joint.Parameters:
    """The parts that the plan asks for and the sample has."""
    d, parts = sample.X.shape[1], plan.parts(sample.X.shape[1])
    if sample.levels.all():  # nothing that a smooth kernel of numbers could see
        parts = tuple(part for part in parts if part != "full")
    return joint.start(d, plan.linear, parts, len(sample.texts))


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
    m, (n_waves, n_paired) = policy.screened_rows, policy.screening_waves
    Y, weights = rows.Y[:m], rows.weights[:m]
    waves = _waves(as_numbers(rows.X[:m, every], Y, weights, rows.inputs.levels[every]), n_waves)
    first, alone = _looked_at(waves, Y, weights, policy)
    some = [wave[:, first] for wave in waves]
    left = _left_by_single_inputs(some, Y, weights)
    chance = np.minimum(alone, _paired(some[:n_paired], left))
    kept = max(fewest, int((chance < policy.chance).sum()))
    return np.sort(every[first[np.argsort(chance, kind="stable")[:kept]]])


def still_telling(rest: Sample, left: Array, every: IntArray, leaders: IntArray, policy: Policy) -> IntArray:
    """Of the inputs `every` those that tell something of what a fit has left of y, in pairs, or in pairs together with
    a leader: in pumadyn32nm some inputs act through the product of two others only. Chance is shared by all inputs and
    tests."""
    weights, (n_waves, n_paired) = rest.weights, policy.screening_waves
    waves = _waves(as_numbers(rest.X, left, weights, rest.levels), n_waves)
    first, _ = _looked_at([wave[:, every] for wave in waves], left, weights, policy)
    first = every[first]
    some, target = [wave[:, first] for wave in waves[:n_paired]], left * weights[:, None]
    chances = [_paired(some, target)]
    for leader in leaders:
        turned = [np.sqrt(2) * wave[:, [leader]] * target for wave in waves[:n_paired]]
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


def _waves(X: Array, number: int) -> list[Array]:
    """cos(pi k u) of the inputs' ranks u in (0, 1): uncorrelated with variance 1/2 for every input."""
    order = [np.argsort(np.argsort(tie_numbers(x), kind="stable"), kind="stable") for x in X.T]  # ties in row order
    ranks = (np.stack(order, axis=1) + 0.5) / len(X)
    return [np.cos(np.pi * k * ranks) for k in range(1, number + 1)]


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
