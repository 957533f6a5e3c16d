"""The first layer where features are wanted rather than kernels: for more rows than a kernel can be solved on, a number
of features that was given, hidden layers, rotations.

The kernels are those of the default (`model.kernel_maps`), and features stand for them: cosines of single inputs stay
as they are, the sum of all other kernels becomes its values at landmarks, whitened. Where cosines were asked for, by
their number or as the paper's random features, the Gaussian kernel on learned directions is cosines of random
frequencies. Ridge on all rows follows, with the penalty by leave-one-out.

The scale gamma of one layer by exact leave-one-out, over a grid that shrinks like 1/sqrt(order).
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

import numpy as np
from scipy.linalg import lapack

from .._types import Array
from ..data import Block
from ..model.draws import draw_features
from ..model.features import FeatureMap, Role
from ..model.kernel_maps import GaussianMap
from ..model.prior import Part, Prior, SumPart
from ..model.sum_kernel import SumKernel, Term
from ..runtime.resources import Purpose, generator
from ..runtime.sizes import LANDMARK_FLOORS, PRECISE_NOISE
from ..solve.ridge import ridge
from .kernel_search import LearnedKernel, learn_kernel, with_residual_search
from .plan import Plan


def learn_first_layer(rows: Block, plan: Plan) -> Prior:
    """Return features for the terms of the learned kernel."""
    d, (_, most) = rows.X.shape[1], _widths(rows, plan)
    several = "gaussian" in plan.parts(d)
    waves = plan.policy.joint_frequencies if several else int(np.clip(most // (2 * d), 1, plan.policy.most_frequencies))
    once = replace(plan, policy=replace(plan.policy, draws=1, joint_frequencies=waves))
    learned = learn_kernel(rows, once)
    if several:
        share = plan.policy.residual_share(plan.n_rows or len(rows), plan.n_features)
        learned = with_residual_search(learned, rows, share, once)
    return features_of(learned, rows, plan)


def features_of(learned: LearnedKernel, rows: Block, plan: Plan) -> Prior:
    """Return features in the place of kernels: where all kinds of them are wanted, their sum at landmarks, else D
    cosines."""
    d, D, most = rows.X.shape[1], *_widths(rows, plan)
    kernel, precise = learned.kernel, learned.noise < PRECISE_NOISE
    waves, smooth = with_role(kernel, "single inputs"), with_role(kernel, "smooth")
    leading = most // len(waves) if waves else 0
    maps = [cast(FeatureMap, term.phi).leading(leading, term.variance) for term in waves if most > 0]
    if not plan.rough:
        left = max(D - sum(phi.n_features for phi in maps), 1)
        maps += [_cosines(k, term, n, plan) for k, (term, n) in enumerate(shared(smooth, left))]
    parts: list[Part | SumPart] = [Part(_side_by_side(maps, d), 1.0)]
    parts += [Part(term.phi, float(np.sqrt(term.variance))) for term in with_role(kernel, "linear")]
    at_landmarks = (*smooth, *with_role(kernel, "landmarks"))
    if plan.rough and at_landmarks:
        parts.append(landmarks_of(SumKernel(at_landmarks), rows.X[: plan.policy.landmarks_beside(D)], precise))
    return Prior(tuple(parts), kernel.linear, learned.noise + 1e-12, precise=precise)


def with_role(kernel: SumKernel, role: Role) -> list[Term]:
    """Return the terms of a kernel that have this role where features stand for them."""
    return [term for term in kernel.terms if term.phi.role == role]


def shared(terms: list[Term], D: int) -> Iterator[tuple[Term, int]]:
    """Yield terms with their numbers of features, in proportion to their standard deviations: an error of variance /
    number, summed over the terms, is least there. Terms without any features are left out."""
    deviations = np.sqrt([term.variance for term in terms])
    for term, number in zip(terms, np.round(D * deviations / max(deviations.sum(), 1e-300)).astype(int), strict=True):
        if number > 0:
            yield term, int(number)


def _widths(rows: Block, plan: Plan) -> tuple[int, int]:
    """Return the number of features, and of those that see single inputs, at most."""
    D = plan.n_features or plan.policy.width(plan.n_rows or len(rows))
    return D, D // 3 if "gaussian" in plan.parts(rows.X.shape[1]) else D


def relevant_scales(rows: Block, plan: Plan) -> Array:
    """Return scales of the inputs relative to each other, of mean square one: those of a Gaussian kernel that is
    learned alone."""
    d = rows.X.shape[1]
    learned = learn_kernel(rows, replace(plan, orders=(d,), policy=replace(plan.policy, draws=1)))
    scales = learned.kernel.scales(d)
    size = float(np.sqrt(np.mean(scales**2)))
    return scales / size if size > 0 else np.ones(len(scales))


def _cosines(k: int, term: Term, D: int, plan: Plan) -> FeatureMap:
    """Return D cosines whose frequencies follow the kernel's law along the learned directions of term k."""
    rng = generator(plan.seed, Purpose.FINAL, *([k] if k else []))
    return cast(GaussianMap, term.phi).cosines(rng, D, plan.kernel, term.variance)


def _side_by_side(maps: list[FeatureMap], d: int) -> FeatureMap:
    """Return one map of all cosines."""
    maps = maps or [FeatureMap(np.zeros((d, 1)), np.zeros(1), np.zeros(1))]  # a search without any smooth term
    columns = [(phi.frequencies, phi.phases, phi.amplitudes) for phi in maps]
    return FeatureMap(*(np.concatenate(each, axis=-1) for each in zip(*columns, strict=True)))


def landmarks_of(kernel: SumKernel, X: Array, precise: bool) -> SumPart:
    """Return the values of the kernel at the rows of X, whitened."""
    K = kernel.gram(X)
    K[np.diag_indices(len(K))] += LANDMARK_FLOORS[precise] * np.trace(K) / len(K)
    inverse, _ = lapack.dtrtri(np.linalg.cholesky(K), lower=1)
    return SumPart(kernel, X, inverse.T)


def scale_by_leave_one_out(rows: Block, plan: Plan, relative: Array) -> Array:
    """Return the scale, times the inputs' relative ones, with the smallest leave-one-out error of a small fit to a few
    rows."""
    n, D, factors = plan.policy.scale_search
    first = rows.take(slice(0, n))
    d = first.X.shape[1]
    unit = (relative if np.ptp(relative) else relative[0]) / np.sqrt(max(plan.orders))
    errors = {}
    for factor in factors:
        phi = draw_features(generator(plan.seed, Purpose.FEATURES), d, D, plan.kernel, factor * unit, plan.orders)
        F = phi.features(first.X)
        F = np.hstack([F, first.X]) if plan.linear else F
        errors[factor] = ridge(F, first.Y, first.weights).loo_error.mean()
    return np.array(min(errors, key=lambda factor: errors[factor]) * unit)
