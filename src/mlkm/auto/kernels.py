"""The kernels of the default, learned from samples of the rows, and their variances.

1. Which inputs go on: all of a few, of many those that a search by random features finds (`search`).
2. Several searches (`joint`), on other rows where there are enough of them: the first on targets drawn in by a power
   transform, which heavy tails do not mislead, the next on the targets as they are, and so on in turn.
3. Variances of all their kernels and of the noise by leave-one-out (`weigh`), on rows that no search has seen where
   there are enough, else on the last ones.

Nothing is chosen between: searches that found little get little variance.
"""

from dataclasses import dataclass, replace

import numpy as np
from sklearn.preprocessing import PowerTransformer

from .._threads import limited, side_by_side
from .._types import Array, IntArray
from ..model.landmarks import LandmarkMap
from ..model.sum_kernel import SumKernel, joined
from ..model.warp import Warp, fit_warp, warped
from ..rows import Rows
from . import joint
from .plan import Plan
from .policy import Policy
from .screen import screen
from .search import Search
from .weigh import weigh

_LOST = 1e-3  # variance of a rough term, relative to the noise, below which it is dropped
_SPREAD = 3.0  # standard deviations to which warped targets are held
_LEAST_TO_WARP = 20  # rows for a power to be told
_GONE = 1e-3  # relevance, relative to the largest, of inputs that are left away after the first climb, if below noise


@dataclass(frozen=True)
class LearnedKernel:
    """A sum of kernels with their variances, and the noise variance."""

    kernel: SumKernel
    noise: float


def learn_kernel(rows: Rows, plan: Plan) -> LearnedKernel:
    """Steps 1 to 3."""
    policy, ranks = plan.policy, fit_warp(rows.X, rows.weights)
    kept = relevant_inputs(rows, plan, ranks)
    samples = [_sample(rows, ranks, at, k) for k, at in enumerate(_samples(rows, kept, policy))]
    found, other = side_by_side(
        lambda: [_search(sample, kept, plan) for sample in samples[::2]],
        lambda: [_search(sample, kept, plan) for sample in samples[1::2]],
    )
    found, d = found + other, rows.X.shape[1]
    kernels = [joint.sum_kernel(p, ranks, chosen, d, policy.final_frequencies) for p, chosen in found]
    noise = float(np.exp(2 * np.mean([p["noise"][0] for p, _ in found])))
    return _weighed(joined(kernels), noise, rows, plan)


def relevant_inputs(rows: Rows, plan: Plan, ranks: Warp) -> IntArray:
    """Inputs that go on."""
    kept = screen(rows, plan.policy)
    if len(kept) <= plan.policy.none_dropped or len(rows) < plan.policy.tiny_rows:
        return kept
    return Search(rows, ranks, plan).begin(kept)[1]


def _samples(rows: Rows, kept: IntArray, policy: Policy) -> list[slice]:
    """Rows of every search: next to each other, or the last ones; in the order of content that is a random sample."""
    n = len(rows)
    m = min(n, policy.joint_rows, int(np.sqrt(policy.gaps / len(kept))))
    return [slice(begin, begin + m) for begin in (min(k * m, n - m) for k in range(policy.draws))]


def _sample(rows: Rows, ranks: Warp, at: slice, k: int) -> joint.Sample:
    """The rows of search k; targets are drawn in for every other one."""
    Y, weights = rows.Y[at], rows.weights[at]
    if k % 2 == 0:
        Y = drawn_in(Y)
    return joint.Sample(rows.X[at], warped(ranks, rows.X[at]), Y, weights / weights.mean())


def drawn_in(Y: Array) -> Array:
    """Targets made nearly normal by Yeo and Johnson's transform, without their tails."""
    if len(Y) < _LEAST_TO_WARP:
        return Y
    columns = []
    for y in Y.T:
        if np.ptp(y) > 0:
            z = PowerTransformer().fit_transform(y[:, None])[:, 0]
            y = np.clip(z, -_SPREAD, _SPREAD) if np.isfinite(z).all() and z.std() > 0 else y
        columns.append(y / (y.std() or 1.0))
    return np.stack(columns, axis=1)


def _search(sample: joint.Sample, kept: IntArray, plan: Plan) -> tuple[joint.Parameters, IntArray]:
    """One search: by scales, then among the inputs that matter with directions that may turn."""
    policy = plan.policy
    first, second = policy.joint_steps
    p, _ = joint.learn(sample.of(kept, policy.first_joint_rows), joint.start(len(kept), plan.linear), policy, first)
    size = joint.relevance(p)
    chosen = np.flatnonzero(size >= min(_GONE * size.max(), float(np.exp(2 * p["noise"][0]))))
    here = sample.of(kept[chosen])
    if 2 * len(chosen) < len(kept):  # what was learned among inputs that are gone may mislead
        some = sample.of(kept[chosen], policy.first_joint_rows)
        p, _ = joint.learn(some, joint.start(len(chosen), plan.linear), policy, first)
    else:
        p = joint.restricted(p, chosen) if len(kept) > 1 else p
    begin = joint.turned(p) if 1 < len(chosen) <= policy.most_turned else p
    return joint.learn(here, begin, policy, second)[0], kept[chosen]


def _weighed(kernel: SumKernel, noise: float, rows: Rows, plan: Plan) -> LearnedKernel:
    """The kernel with the variances that leave-one-out asks for."""
    policy, n = plan.policy, len(rows)
    seen = policy.draws * policy.joint_rows
    begin = min(seen, max(0, n - policy.weigh_rows))
    some = rows.take(slice(begin, min(n, begin + policy.weigh_rows)))
    matrices = kernel.matrices(some.X, some.X)
    Y = some.Y - some.weights @ some.Y / len(some)
    begin_at = np.array([1 / policy.draws] * len(matrices) + [noise])
    with limited(1 if len(some) < policy.weigh_rows else None):  # small products gain nothing from threads
        factors = weigh(matrices, Y, some.weights, begin_at, policy.weigh_steps)
    noise = float(factors[-1])
    return LearnedKernel(_told(kernel.scaled(list(factors[:-1])), noise), noise)


def _told(kernel: SumKernel, noise: float) -> SumKernel:
    """Without rough terms that are lost in the noise: each of their rows has few neighbours to tell them by."""
    terms = (term for term in kernel.terms if not isinstance(term.phi, LandmarkMap) or term.variance > _LOST * noise)
    return replace(kernel, terms=tuple(terms))
