"""The kernels of the default, learned from samples of the rows, and their variances.

1. Which inputs go on, and a first climb (`input_selection`).
2. Several searches (`evidence`), on other rows where there are enough of them: the first on winsorised targets made
   nearly normal by a power transform, which heavy tails do not mislead, the next on the targets as they are, and so on
   in turn.
3. Variances of all their kernels and of the noise by leave-one-out (`kernel_variances`), on rows that no search has
   seen where there are enough, else on the last ones: for every scale of the targets that is solved on.

All searches are kept: weighting by leave-one-out gives useless ones a variance near zero.

A search sees a few hundred rows, and its two product kernels each have one set of relevances: a weaker interaction
between inputs that do little else is lost beside a strong one. The residuals of rows that the kernels have not seen
have that interaction as their strongest part. So where features stand for kernels there is a residual search: many more
rows are needed to tell it from the noise, and the evidence is the mean of the evidences of several samples, each by
itself, since one of all their rows would take n^3. Its kernels stand beside the first ones, with variances by
leave-one-out of the targets; where nothing is left to learn they get next to none.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from .._types import Array, IntArray
from ..data import Block
from ..model.machine import predict
from ..model.sum_kernel import SumKernel, joined
from ..model.terms import Parameters, Placement, SearchRows
from ..model.transforms import fit_rank_transform
from ..runtime.deadline import search_is_late
from ..runtime.progress import stage
from ..runtime.threads import limited, side_by_side
from ..solve.dual import solve_dual
from .evidence import learn, learn_together, refined, start, sum_kernel
from .input_selection import few, first_climb, search_rows, select_inputs, telling_inputs
from .kernel_variances import weigh
from .plan import Plan
from .policy import Policy
from .seen import Seen


@dataclass(frozen=True)
class LearnedKernel:
    """A sum of kernels with their variances, the noise variance, and the rows that these choices have seen."""

    kernel: SumKernel
    noise: float
    seen: Seen = field(default_factory=Seen)


def learn_kernel(rows: Block, plan: Plan) -> LearnedKernel:
    """Return the kernels of steps 1 to 3."""
    searched = search_kernels(rows, plan)
    with stage("weigh", plan.policy.weigh_steps):
        return weighed(searched, rows, plan)


def search_kernels(rows: Block, plan: Plan) -> LearnedKernel:
    """Return the kernels of all searches (steps 1 and 2), and the mean of their noises."""
    with stage("search", plan.policy.draws * sum(plan.policy.joint_steps)):
        return _searched(rows, plan)


def _searched(rows: Block, plan: Plan) -> LearnedKernel:
    """Select inputs, search on every sample, and sum up the kernels."""
    policy, ranks = plan.policy, fit_rank_transform(rows.X, rows.weights, rows.inputs.numbers)
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
    return LearnedKernel(
        kernel.with_short_texts(rows.X[: policy.text_rows]), noise, _seen_by_search(rows, places, policy)
    )


def _seen_by_search(rows: Block, places: list[slice], policy: Policy) -> Seen:
    """Return the rows that the choice of the inputs and the searches have seen."""
    # The targets of all rows of the selection are transformed together.
    end_of_selection = min(len(rows), policy.first_joint_rows + policy.checked_rows)
    seen = Seen().by("kernels", 0, end_of_selection)
    for at in places:
        seen = seen.by("kernels", at.start, at.stop)
    if np.sum(~rows.inputs.texts) > few(rows.inputs, policy):
        seen = seen.by("inputs", 0, max(end_of_selection, min(len(rows), policy.screened_rows)))
    return seen


def _samples(rows: Block, inputs: IntArray, policy: Policy) -> list[slice]:
    """Return the rows of every search: next to each other, or the last ones; since rows are in the order of their
    content, that is a random sample."""
    n = len(rows)
    texts = len(np.unique(rows.inputs.owners[rows.inputs.texts]))
    m = min(n, policy.joint_rows, int(np.sqrt(policy.gaps / (len(inputs) + texts))))
    return [slice(begin, begin + m) for begin in (min(k * m, n - m) for k in range(policy.draws))]


def _in_turn(samples: list[SearchRows], begin: Parameters | None, inputs: IntArray, plan: Plan) -> list[Parameters]:
    """Search on one sample after the other as long as there is time; a search that has started is finished in any
    case."""
    learned: list[Parameters] = []
    for k, sample in enumerate(samples):
        started = begin if k == 0 else None
        if started is None and search_is_late():
            break
        learned.append(_search(sample, started, inputs, plan))
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
    begin = min(seen, max(0, n - policy.weigh_rows))
    end = min(n, begin + policy.weigh_rows)
    these = rows.take(slice(begin, end))
    matrices = kernel.matrices(these.X, these.X)
    Y = these.Y - these.weights @ these.Y / len(these)
    begin_at = np.array([1 / policy.draws] * len(matrices) + [searched.noise])
    with limited(1):
        factors = weigh(matrices, Y, these.weights, begin_at, policy.weigh_steps)
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
    with stage("weigh", policy.weigh_steps):
        return weighed(both, rows, plan, number * m)


def _cross_residuals(learned: LearnedKernel, rows: Block) -> Array:
    """Return what the fit to either half of the rows leaves of the other one."""
    half = len(rows) // 2
    first, second = rows.take(slice(0, half)), rows.take(slice(half, None))
    return np.vstack([_residuals(learned, first, second), _residuals(learned, second, first)])


def _residuals(learned: LearnedKernel, rows: Block, known: Block) -> Array:
    fit = solve_dual(learned.kernel, known, learned.noise)
    return rows.Y - predict(learned.kernel.machine(known.X, fit.alpha, fit.intercept, fit.single), rows.X)
