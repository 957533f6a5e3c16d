"""The kernels of the default, learned from samples of the rows, and their variances.

1. Input selection, and a first climb by the scales on a few of the rows.
2. Several searches, which climb the evidence, on other rows where there are enough of them: the first on winsorised
   targets made nearly normal by a power transform, which heavy tails do not mislead, the next on the targets as they
   are, and so on in turn.
3. Variances of all their kernels and of the noise by leave-one-out, on rows that no search has seen where there are
   enough, else on the last ones: for every scale of the targets that is solved on.

All searches are kept: weighting by leave-one-out gives useless ones a variance near zero.

A search sees a few hundred rows, and its two product kernels each have one set of relevances: a weaker interaction
between inputs that do little else is lost beside a strong one. The residuals of rows that the kernels have not seen
have that interaction as their strongest part. So where features stand for kernels there is a residual search: many more
rows are needed to tell it from the noise, and the evidence is the mean of the evidences of several samples, each by
itself, since one of all their rows would take n^3. Its kernels stand beside the first ones, with variances by
leave-one-out of the targets; where nothing is left to learn they get next to none.

Of many inputs those associated with y, alone or together with another, are selected. The scores are squared
correlations of y with a few cosines of every input's ranks, and of the residuals of a ridge on all of these with the
products of cosines of every pair: an input may act in an interaction alone (x_3 of Example 2 does). Without association
the scores are chi-squared, which gives p-values.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.stats import chi2, rankdata
from sklearn.preprocessing import PowerTransformer

from .._types import Array, BoolArray, IntArray
from ..data import Block, Inputs, tie_numbers
from ..model.features import RankTransform
from ..model.machine import predict
from ..model.sum_kernel import SumKernel, joined
from ..model.transforms import fit_rank_transform
from ..runtime.progress import search_is_late, stage
from ..runtime.resources import limited, side_by_side
from ..runtime.sizes import SEARCH_GRID
from ..solve.dual import solve_dual
from ..solve.ridge import ridge
from .evidence import kernel_variances, learn, learn_together, predicted, refined, relevance, start, sum_kernel
from .plan import Plan
from .policy import Policy, Seen
from .terms import Parameters, Placement, SearchRows


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
    """Return the selected inputs, and the parameters of a first climb from which the first search starts.

    A few inputs are all selected. Of many, those associated with y are taken first. The less relevant half is then
    dropped repeatedly, until few inputs are left and rows that the climb has not seen are predicted clearly worse. The
    largest set that is not clearly worse than the best is selected, and inputs associated with its residuals are added.
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
        errors = _squared(_residuals(p, first, others, inputs, policy), others)
        tried.append((inputs, p, errors))
        if len(inputs) <= 2 or (len(inputs) <= fewest and _clearly_less(best, errors)):
            break
        best = errors if errors.mean() < best.mean() else best
        inputs = inputs[np.sort(_by_relevance(p, seen, inputs, policy)[: (len(inputs) + 1) // 2])]
        p = first_climb(first.with_inputs(inputs), plan)
    inputs, p = next((inputs, p) for inputs, p, errors in tried if not _clearly_less(best, errors))
    return _with_second_look(inputs, p, seen, np.flatnonzero(~rows.inputs.texts), plan)


def _with_second_look(
    inputs: IntArray, p: Parameters, seen: SearchRows, every: IntArray, plan: Plan
) -> tuple[IntArray, Parameters]:
    """Add inputs associated with the residuals that a fit to half of the rows has at the others, unless these are then
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
        if _clearly_less(_squared(left, rest), _squared(now, rest)):
            return inputs, p
        inputs, p, left = both, more, now


def _residuals(p: Parameters, known: SearchRows, others: SearchRows, inputs: IntArray, policy: Policy) -> Array:
    """Return the residuals that the fit to known rows has at others."""
    return others.Y - predicted(p, known.with_inputs(inputs), others.with_inputs(inputs), policy.terms)


def _squared(residuals: Array, rows: SearchRows) -> Array:
    return np.asarray(rows.weights * (residuals**2).sum(axis=1))


def _by_relevance(p: Parameters, rows: SearchRows, inputs: IntArray, policy: Policy) -> IntArray:
    """Return the places of the inputs, the most relevant first."""
    return np.argsort(-relevance(p, rows.levels[inputs], policy.terms), kind="stable")


def _clearly_less(a: Array, b: Array) -> bool:
    """Return whether errors of the same rows are less by two standard errors of their mean difference."""
    difference = b - a
    return bool(difference.mean() > 2 * difference.std() / np.sqrt(len(difference))) if len(a) == len(b) else False


def first_climb(rows: SearchRows, plan: Plan) -> Parameters:
    """Return the parameters that a climb from the start reaches, directions being fixed."""
    begin = start(rows, plan.policy.terms, plan.parts(rows.X.shape[1]))
    return learn(rows, begin, plan.policy, plan.policy.joint_steps[0])


def few(inputs: Inputs, policy: Policy) -> int:
    """Return the number of inputs up to which all are kept: of a table with categories or missing values as many as a
    search can carry on all of its rows, since its columns were chosen by somebody, and levels of a few rows have little
    power alone."""
    return policy.none_dropped if inputs.plain else max(policy.none_dropped, policy.gaps // policy.joint_rows**2)


def telling_inputs(rows: Block, policy: Policy) -> IntArray:
    """Return all of a few inputs; of many those with small p-values, and no fewer than `few`. Texts are not
    screened."""
    every, fewest = np.flatnonzero(~rows.inputs.texts), few(rows.inputs, policy)
    if len(every) <= fewest:
        return every
    m, (n_waves, n_paired) = policy.screened_rows, policy.screening_waves
    Y, weights = rows.Y[:m], rows.weights[:m]
    waves = _waves(as_numbers(rows.X[:m, every], Y, weights, rows.inputs.levels[every]), n_waves)
    first, alone = _looked_at(waves, Y, weights, policy)
    looked_at = [wave[:, first] for wave in waves]
    F = np.hstack(looked_at)
    fit = ridge(F, Y, weights)
    left = (Y - F @ fit.coefficients - fit.intercept) * weights[:, None]
    chance = np.minimum(alone, _paired(looked_at[:n_paired], left))
    number = max(fewest, int((chance < policy.chance).sum()))
    return np.sort(every[first[np.argsort(chance, kind="stable")[:number]]])


def still_telling(rest: SearchRows, left: Array, every: IntArray, leaders: IntArray, policy: Policy) -> IntArray:
    """Return those of the inputs `every` that are associated with the residuals of a fit, in pairs, or in pairs
    together with a leader: in pumadyn32nm a few inputs act only through products with two others. p-values are
    corrected by Bonferroni's method for all inputs and tests."""
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


def _waves(X: Array, number: int) -> list[Array]:
    """Return cos(pi k u) of the inputs' ranks u in (0, 1): uncorrelated with variance 1/2 for every input."""
    order = [rankdata(tie_numbers(x), method="ordinal") for x in X.T]  # ties in row order
    ranks = (np.stack(order, axis=1) - 0.5) / len(X)
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


@dataclass(frozen=True)
class LearnedKernel:
    """A sum of kernels with their variances, the noise variance, and the rows that these choices have seen."""

    kernel: SumKernel
    noise: float
    seen: Seen = field(default_factory=Seen)


def learn_kernel(rows: Block, plan: Plan) -> LearnedKernel:
    """Return the kernels of steps 1 to 3."""
    searched = search_kernels(rows, plan)
    with stage("kernel variances", plan.policy.variance_steps):
        return weighed(searched, rows, plan)


def search_kernels(rows: Block, plan: Plan) -> LearnedKernel:
    """Return the kernels of all searches (steps 1 and 2), summed up, and the mean of their noises."""
    policy, ranks = plan.policy, fit_rank_transform(rows.X, rows.weights, rows.inputs.numbers)
    with stage("search", policy.draws * sum(policy.joint_steps)):
        with limited(1):  # small products gain nothing from threads
            inputs, begin = select_inputs(rows, ranks, plan)
        places = _samples(rows, inputs, policy)
        samples = [search_rows(rows, ranks, at, k, policy) for k, at in enumerate(places)]
        even, odd = side_by_side(
            lambda: _in_turn(samples[::2], begin, inputs, plan), lambda: _in_turn(samples[1::2], None, inputs, plan)
        )
    learned, place = even + odd, Placement(rows.inputs, inputs, ranks)
    noise = float(np.exp(2 * np.mean([p["noise"]["amplitude"][0] for p in learned])))
    kernel = joined([sum_kernel(p, place, policy.terms) for p in learned])
    seen = _seen_by_search(rows, places, policy)
    return LearnedKernel(kernel.with_short_texts(rows.X[: policy.text_rows]), noise, seen)


def _seen_by_search(rows: Block, places: list[slice], policy: Policy) -> Seen:
    """Return the rows that the choice of the inputs and the searches have seen."""
    first_rows = min(len(rows), policy.first_joint_rows + policy.checked_rows)  # whose targets are transformed together
    seen = Seen().by("kernels", 0, first_rows)
    for at in places:
        seen = seen.by("kernels", at.start, at.stop)
    if np.sum(~rows.inputs.texts) > few(rows.inputs, policy):
        seen = seen.by("inputs", 0, max(first_rows, min(len(rows), policy.screened_rows)))
    return seen


def _samples(rows: Block, inputs: IntArray, policy: Policy) -> list[slice]:
    """Return the rows of every search: next to each other, or the last ones; since rows are in the order of their
    content, that is a random sample."""
    n = len(rows)
    texts = len(np.unique(rows.inputs.owners[rows.inputs.texts]))
    m = min(n, policy.joint_rows, int(np.sqrt(policy.gaps / (len(inputs) + texts))))
    return [slice(begin, begin + m) for begin in (min(k * m, n - m) for k in range(policy.draws))]


def _in_turn(samples: list[SearchRows], begin: Parameters | None, inputs: IntArray, plan: Plan) -> list[Parameters]:
    """Search on one sample after the other as long as there is time; a search with a starting point is always made."""
    learned: list[Parameters] = []
    for sample in samples:
        if begin is None and search_is_late():
            break
        learned.append(_search(sample, begin, inputs, plan))
        begin = None
    return learned


def _search(sample: SearchRows, begin: Parameters | None, inputs: IntArray, plan: Plan) -> Parameters:
    """Learn scales on the first rows of a sample, then all parameters on the whole, with directions that may turn."""
    policy, rows = plan.policy, sample.with_inputs(inputs)
    if begin is None:
        begin = first_climb(rows.take(slice(0, policy.first_joint_rows)), plan)
    turn = 1 < int(rows.numbers.sum()) <= policy.most_turned
    return learn(rows, refined(begin, policy.terms) if turn else begin, policy, policy.joint_steps[1])


def weighed(searched: LearnedKernel, rows: Block, plan: Plan, seen: int | None = None) -> LearnedKernel:
    """Return the kernels with the variances that leave-one-out of these targets asks for (step 3). The first rows have
    been seen by a search: `seen` of them, or as many as those of the plan look at."""
    policy, n, kernel = plan.policy, len(rows), searched.kernel
    seen = policy.draws * policy.joint_rows if seen is None else seen
    begin = min(seen, max(0, n - policy.variance_rows))
    end = min(n, begin + policy.variance_rows)
    these = rows.take(slice(begin, end))
    matrices = kernel.matrices(these.X, these.X)
    Y = these.Y - these.weights @ these.Y / len(these)
    begin_at = np.array([1 / policy.draws] * len(matrices) + [searched.noise])
    with limited(1):
        factors = kernel_variances(matrices, Y, these.weights, begin_at, policy.variance_steps)
    noise = float(factors[-1])
    by_these = searched.seen.by("variances", begin, end).by("noise", begin, end)
    return LearnedKernel(_without_lost(kernel.scaled(list(factors[:-1])), policy.least_local * noise), noise, by_these)


def _without_lost(kernel: SumKernel, least: float) -> SumKernel:
    """Drop local terms of no more than the least variance: each of their rows has few neighbours to learn them from."""
    terms = (term for term in kernel.terms if not term.phi.is_local or term.variance > least)
    return replace(kernel, terms=tuple(terms))


def with_residual_search(learned: LearnedKernel, rows: Block, share: float, plan: Plan) -> LearnedKernel:
    """Return the kernels together with those of their residuals at other rows, by a share of the samples of the
    policy."""
    policy = plan.policy
    number, m = policy.residual_samples(len(rows), rows.X.shape[1], share)
    if number == 0 or search_is_late():
        return learned
    first = rows.take(slice(0, number * m))
    with stage("search", sum(policy.joint_steps)):
        residuals = _cross_residuals(learned, first)
        unit = np.maximum(residuals.std(axis=0), np.finfo(float).tiny)
        others = replace(first, Y=residuals / unit)
        ranks = fit_rank_transform(rows.X, rows.weights, rows.inputs.numbers)
        inputs = telling_inputs(others, policy)
        places = [slice(k * m, k * m + m) for k in range(number)]
        samples = [search_rows(others, ranks, at, 1, policy).with_inputs(inputs) for at in places]
        begin = start(samples[0], policy.terms, plan.parts(len(inputs)))
        p = learn_together(samples, begin, policy, sum(policy.joint_steps))
    kernel = sum_kernel(p, Placement(rows.inputs, inputs, ranks), policy.terms)
    scaled = kernel.scaled([float(np.mean(unit**2))] * (len(kernel.terms) + 1))
    both = LearnedKernel(joined([learned.kernel, scaled]), learned.noise, learned.seen.by("kernels", 0, number * m))
    with stage("kernel variances", policy.variance_steps):
        return weighed(both, rows, plan, number * m)


def _cross_residuals(learned: LearnedKernel, rows: Block) -> Array:
    """Return the residuals that the fit to either half of the rows has at the other half."""
    half, residuals = len(rows) // 2, []
    halves = rows.take(slice(0, half)), rows.take(slice(half, None))
    for left_out, known in (halves, halves[::-1]):
        fit = solve_dual(learned.kernel, known, learned.noise)
        machine = learned.kernel.machine(known.X, fit.alpha, fit.intercept, fit.single)
        residuals.append(left_out.Y - predict(machine, left_out.X))
    return np.vstack(residuals)
