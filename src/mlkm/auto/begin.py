"""Where a search begins: its rows, the inputs that go on, and a climb by their scales on some of the rows."""

import numpy as np
from sklearn.preprocessing import PowerTransformer

from .._types import Array, IntArray
from ..model.warp import Warp, warped
from ..rows import Rows
from . import joint
from .inputs import few, still_telling, telling_inputs
from .joint_evidence import learn
from .plan import Plan
from .policy import Policy

_LEADERS = 2  # inputs together with which others are tested in pairs
_GRID = 2.0**20  # steps per standard deviation to which the rows of a search are rounded
_LEAST_TO_WARP = 20  # rows for a power to be told


def sample_of(rows: Rows, ranks: Warp, at: slice, k: int, policy: Policy) -> joint.Sample:
    """Return the rows of search k, with winsorised targets in every other search.

    Inputs and targets are rounded to about a millionth of their standard deviation. A search amplifies rounding errors
    of its rows to hundredths of the prediction error; with rounded rows, the same table in other units, or computed in
    another way, has the same search. The final solve uses the rows as they are.
    """
    Y, weights = _rounded(rows.Y[at]), rows.weights[at]
    if k % 2 == 0:
        Y = drawn_in(Y, policy.spread)
    inputs, X = rows.inputs, _rounded(rows.X[at])
    texts = tuple(X[:, inputs.texts & (inputs.owners == owner)] for owner in np.unique(inputs.owners[inputs.texts]))
    return joint.Sample(X, _rounded(warped(ranks, rows.X[at])), Y, weights / weights.mean(), inputs.levels, texts)


def _rounded(x: Array) -> Array:
    return np.asarray(np.round(x * _GRID) / _GRID)


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
        leaders = kept[np.argsort(-joint.relevance(p, seen.levels[kept]), kind="stable")[:_LEADERS]]
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
