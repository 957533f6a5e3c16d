"""The kernels of the default, learned from samples of the rows, and their variances.

1. Which inputs go on, and a first climb (`begin`).
2. Several searches (`joint`), on other rows where there are enough of them: the first on targets drawn in by a power
   transform, which heavy tails do not mislead, the next on the targets as they are, and so on in turn.
3. Variances of all their kernels and of the noise by leave-one-out (`weigh`), on rows that no search has seen where
   there are enough, else on the last ones: for every scale of the targets that is solved on.

Between searches nothing is chosen: one that found little gets little variance.
"""

from dataclasses import dataclass, replace

import numpy as np

from .._types import IntArray
from ..data import Rows
from ..model.laplace import LandmarkMap
from ..model.rank_transform import fit_warp
from ..model.sum_kernel import SumKernel, joined
from ..runtime.deadline import search_is_late
from ..runtime.progress import stage
from ..runtime.threads import limited, side_by_side
from . import kernel_parameters as joint
from .input_selection import begun, climbed, sample_of
from .kernel_evidence import learn
from .kernel_variances import weigh
from .plan import Plan
from .policy import Policy

_TEXTS = 2000  # rows by which directions of texts are told apart
_LOST = 1e-3  # variance of a rough term, relative to the noise, below which it is dropped


@dataclass(frozen=True)
class LearnedKernel:
    """A sum of kernels with their variances, and the noise variance."""

    kernel: SumKernel
    noise: float


def learn_kernel(rows: Rows, plan: Plan) -> LearnedKernel:
    """Steps 1 to 3."""
    found = search_kernels(rows, plan)
    with stage("weigh", plan.policy.weigh_steps):
        return weighed(found, rows, plan)


def search_kernels(rows: Rows, plan: Plan) -> LearnedKernel:
    """Steps 1 and 2: the kernels of all searches, and the mean of their noises."""
    with stage("search", plan.policy.draws * sum(plan.policy.joint_steps)):
        return _searched(rows, plan)


def _searched(rows: Rows, plan: Plan) -> LearnedKernel:
    policy, ranks = plan.policy, fit_warp(rows.X, rows.weights, rows.inputs.numbers)
    with limited(1):  # small products gain nothing from threads
        kept, begin = begun(rows, ranks, plan)
    samples = [sample_of(rows, ranks, at, k, policy) for k, at in enumerate(_samples(rows, kept, policy))]
    found, other = side_by_side(
        lambda: _in_turn(samples[::2], begin, kept, plan), lambda: _in_turn(samples[1::2], None, kept, plan)
    )
    found += other
    kernels = [joint.sum_kernel(p, ranks, kept, rows.inputs, policy.joint_frequencies) for p in found]
    noise = float(np.exp(2 * np.mean([p["noise"][0] for p in found])))
    return LearnedKernel(joined(kernels).with_short_texts(rows.X[:_TEXTS]), noise)


def _samples(rows: Rows, kept: IntArray, policy: Policy) -> list[slice]:
    """Rows of every search: next to each other, or the last ones; in the order of content that is a random sample."""
    n = len(rows)
    texts = len(np.unique(rows.inputs.owners[rows.inputs.texts]))
    m = min(n, policy.joint_rows, int(np.sqrt(policy.gaps / (len(kept) + texts))))
    return [slice(begin, begin + m) for begin in (min(k * m, n - m) for k in range(policy.draws))]


def _in_turn(
    samples: list[joint.Sample], begin: joint.Parameters | None, kept: IntArray, plan: Plan
) -> list[joint.Parameters]:
    """One search after the other as long as there is time; the one that has begun is made in any case."""
    found: list[joint.Parameters] = []
    for k, sample in enumerate(samples):
        started = begin if k == 0 else None
        if started is None and search_is_late():
            break
        found.append(_search(sample, started, kept, plan))
    return found


def _search(sample: joint.Sample, begin: joint.Parameters | None, kept: IntArray, plan: Plan) -> joint.Parameters:
    """One search: by scales on some of the rows, then on all with directions that may turn."""
    policy, here = plan.policy, sample.of(kept)
    if begin is None:
        begin = climbed(here.take(slice(0, policy.first_joint_rows)), plan)
    turn = 1 < int((~here.levels).sum()) <= policy.most_turned
    return learn(here, joint.turned(begin) if turn else begin, policy, policy.joint_steps[1])


def weighed(found: LearnedKernel, rows: Rows, plan: Plan, seen: int | None = None) -> LearnedKernel:
    """Step 3: with the variances that leave-one-out of these targets asks for. The first rows have been seen by a
    search: `seen` of them, or as many as those of the plan look at."""
    policy, n, kernel = plan.policy, len(rows), found.kernel
    seen = policy.draws * policy.joint_rows if seen is None else seen
    begin = min(seen, max(0, n - policy.weigh_rows))
    some = rows.take(slice(begin, min(n, begin + policy.weigh_rows)))
    matrices = kernel.matrices(some.X, some.X)
    Y = some.Y - some.weights @ some.Y / len(some)
    begin_at = np.array([1 / policy.draws] * len(matrices) + [found.noise])
    with limited(1):
        factors = weigh(matrices, Y, some.weights, begin_at, policy.weigh_steps)
    noise = float(factors[-1])
    return LearnedKernel(_told(kernel.scaled(list(factors[:-1])), noise), noise)


def _told(kernel: SumKernel, noise: float) -> SumKernel:
    """Without rough terms that are lost in the noise: each of their rows has few neighbours to tell them by."""
    terms = (term for term in kernel.terms if not isinstance(term.phi, LandmarkMap) or term.variance > _LOST * noise)
    return replace(kernel, terms=tuple(terms))
