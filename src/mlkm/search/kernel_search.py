"""The kernels of the default, learned from samples of the rows, and their variances.

1. Which inputs go on, and a first climb (`input_selection`).
2. Several searches (`evidence`), on other rows where there are enough of them: the first on winsorised targets made
   nearly normal by a power transform, which heavy tails do not mislead, the next on the targets as they are, and so on
   in turn.
3. Variances of all their kernels and of the noise by leave-one-out (`kernel_variances`), on rows that no search has
   seen where there are enough, else on the last ones: for every scale of the targets that is solved on.

All searches are kept: weighting by leave-one-out gives useless ones a variance near zero.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from .._types import IntArray
from ..data import Block
from ..model.rank_transform import fit_rank_transform
from ..model.sum_kernel import SumKernel, joined
from ..model.terms import Parameters, Placement, SearchRows
from ..runtime.deadline import search_is_late
from ..runtime.progress import stage
from ..runtime.threads import limited, side_by_side
from .evidence import learn
from .input_selection import few, first_climb, search_rows, select_inputs
from .kernel_parameters import refined, sum_kernel
from .kernel_variances import weigh
from .plan import Plan
from .policy import Policy
from .seen import Seen

_TEXTS = 2000  # rows by which directions of texts are told apart
_LOST = 1e-3  # variance of a local term, relative to the noise, below which it is dropped


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
    return LearnedKernel(kernel.with_short_texts(rows.X[:_TEXTS]), noise, _seen_by_search(rows, places, policy))


def _seen_by_search(rows: Block, places: list[slice], policy: Policy) -> Seen:
    """Return the rows that the choice of the inputs and the searches have seen."""
    begun = min(
        len(rows), policy.first_joint_rows + policy.checked_rows
    )  # targets of all of these are transformed together
    seen = Seen().by("kernels", 0, begun)
    for at in places:
        seen = seen.by("kernels", at.start, at.stop)
    if np.sum(~rows.inputs.texts) > few(rows.inputs, policy):
        seen = seen.by("inputs", 0, max(begun, min(len(rows), policy.screened_rows)))
    return seen


def _samples(rows: Block, inputs: IntArray, policy: Policy) -> list[slice]:
    """Return the rows of every search: next to each other, or the last ones; since rows are in the order of their
    content, that is a random sample."""
    n = len(rows)
    texts = len(np.unique(rows.inputs.owners[rows.inputs.texts]))
    m = min(n, policy.joint_rows, int(np.sqrt(policy.gaps / (len(inputs) + texts))))
    return [slice(begin, begin + m) for begin in (min(k * m, n - m) for k in range(policy.draws))]


def _in_turn(samples: list[SearchRows], begin: Parameters | None, inputs: IntArray, plan: Plan) -> list[Parameters]:
    """Search on one sample after the other as long as there is time; the one that has begun is made in any case."""
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
    return LearnedKernel(_without_lost(kernel.scaled(list(factors[:-1])), noise), noise, by_these)


def _without_lost(kernel: SumKernel, noise: float) -> SumKernel:
    """Drop local terms that are lost in the noise: each of their rows has few neighbours to tell them by."""
    terms = (term for term in kernel.terms if not term.phi.is_local or term.variance > _LOST * noise)
    return replace(kernel, terms=tuple(terms))
