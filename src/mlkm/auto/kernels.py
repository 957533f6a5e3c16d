"""The kernels of the default, learned from samples of the rows, and their variances.

1. Which inputs go on: all of a few, of many those that tell something of y (`inputs`).
2. Several searches (`joint`), on other rows where there are enough of them: the first on targets drawn in by a power
   transform, which heavy tails do not mislead, the next on the targets as they are, and so on in turn.
3. Variances of all their kernels and of the noise by leave-one-out (`weigh`), on rows that no search has seen where
   there are enough, else on the last ones.

Between searches nothing is chosen: one that found little gets little variance.
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
from .inputs import still_telling, telling_inputs
from .plan import Plan
from .policy import Policy
from .weigh import weigh

_LOST = 1e-3  # variance of a rough term, relative to the noise, below which it is dropped
_LEADERS = 2  # inputs together with which others are tested in pairs
_LEAST_TO_WARP = 20  # rows for a power to be told


@dataclass(frozen=True)
class LearnedKernel:
    """A sum of kernels with their variances, and the noise variance."""

    kernel: SumKernel
    noise: float


def learn_kernel(rows: Rows, plan: Plan) -> LearnedKernel:
    """Steps 1 to 3."""
    policy, ranks, d = plan.policy, fit_warp(rows.X, rows.weights), rows.X.shape[1]
    kept, begin = begun(rows, ranks, plan)
    samples = [_sample(rows, ranks, at, k, policy) for k, at in enumerate(_samples(rows, kept, policy))]
    begins = [begin, *[None] * (len(samples) - 1)]
    found, other = side_by_side(
        lambda: [_search(*pair, kept, plan) for pair in zip(samples[::2], begins[::2], strict=True)],
        lambda: [_search(*pair, kept, plan) for pair in zip(samples[1::2], begins[1::2], strict=True)],
    )
    found += other
    kernels = [joint.sum_kernel(p, ranks, kept, d, policy.joint_frequencies) for p in found]
    noise = float(np.exp(2 * np.mean([p["noise"][0] for p in found])))
    return _weighed(joined(kernels), noise, rows, plan)


def begun(rows: Rows, ranks: Warp, plan: Plan) -> tuple[IntArray, joint.Parameters]:
    """The inputs that go on, and a climb by their scales on some rows, from which the first search goes on.

    All of a few inputs go on. Of many those that tell something of y; then the less relevant half leaves, again and
    again, until they are few and rows that the climb has not seen are predicted clearly worse. The largest set that is
    not clearly worse than the best of them stays, and those come back that tell something of what it leaves there.
    """
    policy, m = plan.policy, plan.policy.first_joint_rows
    kept = telling_inputs(rows.X, rows.Y, rows.weights, policy)
    seen = _sample(rows, ranks, slice(0, m + policy.checked_rows), 0, policy)
    some, others = seen.take(slice(0, m)), seen.take(slice(m, None))
    p = _climbed(some.of(kept), plan)
    if rows.X.shape[1] <= policy.none_dropped or len(others.Y) < policy.none_dropped:
        return kept, p
    tried: list[tuple[IntArray, joint.Parameters, Array]] = []
    best = np.array([np.inf])
    while True:
        left = others.Y - joint.predicted(p, some.of(kept), others.of(kept), policy.joint_frequencies)
        errors = others.weights * (left**2).sum(axis=1)
        tried.append((kept, p, left))
        if len(kept) <= 2 or (len(kept) <= policy.none_dropped and _clearly_less(best, errors)):
            break
        best = errors if errors.mean() < best.mean() else best
        kept = kept[np.sort(np.argsort(-joint.relevance(p), kind="stable")[: (len(kept) + 1) // 2])]
        p = _climbed(some.of(kept), plan)
    kept, p, _ = next(one for one in tried if not _clearly_less(best, others.weights * (one[2] ** 2).sum(axis=1)))
    return _second_look(kept, p, seen, plan)


def _second_look(
    kept: IntArray, p: joint.Parameters, seen: joint.Sample, plan: Plan
) -> tuple[IntArray, joint.Parameters]:
    """With inputs that tell something of what a fit to half of the rows leaves of the others, unless these are then
    predicted clearly worse."""
    policy, m = plan.policy, plan.policy.first_joint_rows
    half = (len(seen.Y) + m) // 2
    some, known, rest = (seen.take(at) for at in (slice(0, m), slice(0, half), slice(half, None)))
    left = rest.Y - joint.predicted(p, known.of(kept), rest.of(kept), policy.joint_frequencies)
    while True:
        leaders = kept[np.argsort(-joint.relevance(p), kind="stable")[:_LEADERS]]
        both = np.union1d(kept, still_telling(rest.X, left, rest.weights, leaders, policy))
        if len(both) == len(kept):
            return kept, p
        more = _climbed(some.of(both), plan)
        now = rest.Y - joint.predicted(more, known.of(both), rest.of(both), policy.joint_frequencies)
        if _clearly_less(*(rest.weights * (missed**2).sum(axis=1) for missed in (left, now))):
            return kept, p
        kept, p, left = both, more, now


def _clearly_less(a: Array, b: Array) -> bool:
    """Whether errors of the same rows are less by two standard errors of their mean difference."""
    difference = b - a
    return bool(difference.mean() > 2 * difference.std() / np.sqrt(len(difference))) if len(a) == len(b) else False


def _samples(rows: Rows, kept: IntArray, policy: Policy) -> list[slice]:
    """Rows of every search: next to each other, or the last ones; in the order of content that is a random sample."""
    n = len(rows)
    m = min(n, policy.joint_rows, int(np.sqrt(policy.gaps / len(kept))))
    return [slice(begin, begin + m) for begin in (min(k * m, n - m) for k in range(policy.draws))]


def _sample(rows: Rows, ranks: Warp, at: slice, k: int, policy: Policy) -> joint.Sample:
    """The rows of search k; targets are drawn in for every other one."""
    Y, weights = rows.Y[at], rows.weights[at]
    if k % 2 == 0:
        Y = drawn_in(Y, policy.spread)
    return joint.Sample(rows.X[at], warped(ranks, rows.X[at]), Y, weights / weights.mean())


def drawn_in(Y: Array, spread: float) -> Array:
    """Targets made nearly normal by Yeo and Johnson's transform, without their tails."""
    if len(Y) < _LEAST_TO_WARP:
        return Y
    columns = []
    for y in Y.T:
        if np.ptp(y) > 0:
            z = PowerTransformer().fit_transform(y[:, None])[:, 0]
            y = np.clip(z, -spread, spread) if np.isfinite(z).all() and z.std() > 0 else y
        columns.append(y / (y.std() or 1.0))
    return np.stack(columns, axis=1)


def _search(sample: joint.Sample, begin: joint.Parameters | None, kept: IntArray, plan: Plan) -> joint.Parameters:
    """One search: by scales on some of the rows, then on all with directions that may turn."""
    policy, here = plan.policy, sample.of(kept)
    if begin is None:
        begin = _climbed(here.take(slice(0, policy.first_joint_rows)), plan)
    turn = 1 < len(kept) <= policy.most_turned
    return joint.learn(here, joint.turned(begin) if turn else begin, policy, policy.joint_steps[1])


def _climbed(sample: joint.Sample, plan: Plan) -> joint.Parameters:
    """By scales, from the start."""
    d = sample.X.shape[1]
    begin = joint.start(d, plan.linear, plan.parts(d))
    return joint.learn(sample, begin, plan.policy, plan.policy.joint_steps[0])


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
