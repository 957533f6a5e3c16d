"""The first layer where features are wanted rather than kernels: for more rows than a kernel can be solved on, a number
of features that was given, hidden layers, rotations.

The kernels are those of the default (`kernels`), and features stand for them: cosines of single inputs stay as they
are, the sum of all other kernels becomes its values at landmarks, whitened. Where cosines were asked for, by their
number or as the paper's random features, the Gaussian kernel on learned directions is cosines of random frequencies.
Ridge on all rows follows, with the penalty by leave-one-out.

The scale gamma of one layer by exact leave-one-out, over a grid that shrinks like 1/sqrt(order).
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

import numpy as np
from scipy.linalg import lapack

from .._types import Array
from ..data import Rows
from ..model.features import FeatureMap, LinearMap, draw_features, features
from ..model.gaussian import GaussianMap
from ..model.levels import seen_levels
from ..model.prior import Part, Prior, SumPart
from ..model.sum_kernel import SumKernel, Term
from ..runtime.seeds import Purpose, generator
from ..runtime.sizes import LANDMARK_FLOORS, PRECISE_NOISE
from ..solve.ridge import ridge
from .kernel_search import LearnedKernel, learn_kernel
from .plan import Plan
from .residual_search import with_leftovers


def learn_first_layer(rows: Rows, plan: Plan) -> Prior:
    """Features for the terms of the learned kernel."""
    d, (_, most) = rows.X.shape[1], _widths(rows, plan)
    several = "full" in plan.parts(d)
    waves = plan.policy.joint_frequencies if several else int(np.clip(most // (2 * d), 1, plan.policy.most_frequencies))
    once = replace(plan, policy=replace(plan.policy, draws=1, joint_frequencies=waves))
    learned = learn_kernel(rows, once)
    if several:
        share = plan.policy.residual_share(plan.n_rows or len(rows), plan.n_features)
        learned = with_leftovers(learned, rows, share, once)
    return features_of(learned, rows, plan)


def features_of(learned: LearnedKernel, rows: Rows, plan: Plan) -> Prior:
    """Features in the place of kernels: where all kinds of them are wanted, their sum at landmarks, else D cosines."""
    d, D, most = rows.X.shape[1], *_widths(rows, plan)
    waves, smooth, linear, rough = by_kind(learned.kernel)
    precise = learned.noise < PRECISE_NOISE
    maps = [_waves(term, most // len(waves)) for term in waves] if most > 0 else []
    if not plan.rough:
        left = max(D - sum(phi.n_features for phi in maps), 1)
        maps += [_cosines(k, term, n, plan) for k, (term, n) in enumerate(shared(smooth, left))]
    parts: list[Part | SumPart] = [Part(None, _side_by_side(maps, d), 1.0)]
    parts += [Part(None, term.phi, float(np.sqrt(term.variance))) for term in linear]
    if plan.rough and smooth + rough:
        parts.append(landmarks_of(SumKernel((*smooth, *rough)), rows.X[: plan.policy.landmarks_beside(D)], precise))
    return Prior(tuple(parts), learned.kernel.linear, learned.noise + 1e-12, precise=precise)


def by_kind(kernel: SumKernel) -> tuple[list[Term], ...]:
    """Terms of single inputs, smooth ones of numbers, linear ones, and all others."""
    kinds: tuple[list[Term], ...] = [], [], [], []
    for term in kernel.terms:
        kinds[_kind(term)].append(term)
    return kinds


def _kind(term: Term) -> int:
    if isinstance(term.phi, FeatureMap):
        return 0
    if isinstance(term.phi, GaussianMap) and term.phi.texts is None and not len(seen_levels(term.unlike)):
        return 1
    return 2 if isinstance(term.phi, LinearMap) else 3


def shared(terms: list[Term], D: int) -> Iterator[tuple[Term, int]]:
    """Terms with their numbers of features, in proportion to their standard deviations: an error of variance / number,
    summed over the terms, is least there. Those that have none are left out."""
    deviations = np.sqrt([term.variance for term in terms])
    for term, number in zip(terms, np.round(D * deviations / max(deviations.sum(), 1e-300)).astype(int), strict=True):
        if number > 0:
            yield term, int(number)


def _widths(rows: Rows, plan: Plan) -> tuple[int, int]:
    """The number of features, and of those that see single inputs, at most."""
    D = plan.n_features or plan.policy.width(plan.n_rows or len(rows))
    return D, D // 3 if "full" in plan.parts(rows.X.shape[1]) else D


def relevant_scales(rows: Rows, plan: Plan) -> Array:
    """Scales of the inputs relative to each other, of mean square one: those of a Gaussian kernel that is learned
    alone."""
    d = rows.X.shape[1]
    learned = learn_kernel(rows, replace(plan, orders=(d,), policy=replace(plan.policy, draws=1)))
    scales = scale_of_kernel(learned.kernel, d)
    size = float(np.sqrt(np.mean(scales**2)))
    return scales / size if size > 0 else np.ones(len(scales))


def scale_of_kernel(kernel: SumKernel, d: int) -> Array:
    """The root mean square of the scales of the Gaussian terms, by their variances."""
    terms = [(term.variance, term.phi.matrix) for term in kernel.terms if isinstance(term.phi, GaussianMap)]
    total = sum(variance for variance, _ in terms)
    if not total:
        return np.zeros(d)
    return np.asarray(np.sqrt(sum(variance * (B**2).sum(axis=0) for variance, B in terms) / total))


def _waves(term: Term, most: int) -> FeatureMap:
    """The cosines and sines of single inputs, those of the largest amplitudes where they are too many."""
    phi = cast(FeatureMap, term.phi)
    half = phi.n_features // 2
    kept = np.sort(np.argsort(-phi.amplitudes[:half], kind="stable")[: max(most // 2, 1)])
    both = np.concatenate([kept, kept + half])[: max(most, 1)]
    amplitudes = phi.amplitudes[both] * np.sqrt(term.variance)
    return FeatureMap(phi.frequencies[:, both], phi.phases[both], amplitudes)


def _cosines(k: int, term: Term, D: int, plan: Plan) -> FeatureMap:
    """D cosines whose frequencies follow the kernel's law along the learned directions of term k."""
    phi = cast(GaussianMap, term.phi)
    rng, r = generator(plan.seed, Purpose.FINAL, *([k] if k else [])), len(phi.matrix)
    drawn = draw_features(rng, r, D, plan.kernel, sampling="orthogonal")
    return FeatureMap(phi.matrix.T @ drawn.frequencies, drawn.phases, drawn.amplitudes * np.sqrt(term.variance))


def _side_by_side(maps: list[FeatureMap], d: int) -> FeatureMap:
    maps = maps or [FeatureMap(np.zeros((d, 1)), np.zeros(1), np.zeros(1))]  # a search that found no smooth part
    return FeatureMap(
        np.hstack([phi.frequencies for phi in maps]),
        np.concatenate([phi.phases for phi in maps]),
        np.concatenate([phi.amplitudes for phi in maps]),
    )


def landmarks_of(kernel: SumKernel, X: Array, precise: bool) -> SumPart:
    """The values of the kernel at the rows of X, whitened."""
    K = kernel.gram(X)
    K[np.diag_indices(len(K))] += LANDMARK_FLOORS[precise] * np.trace(K) / len(K)
    inverse, _ = lapack.dtrtri(np.linalg.cholesky(K), lower=1)
    return SumPart(kernel, X, inverse.T)


def scale_by_leave_one_out(rows: Rows, plan: Plan, relative: Array) -> Array:
    """The scale, times the inputs' relative ones, with the smallest leave-one-out error of a small fit to some rows."""
    n, D, factors = plan.policy.scale_search
    some = rows.take(slice(0, n))
    d = some.X.shape[1]
    unit = (relative if np.ptp(relative) else relative[0]) / np.sqrt(max(plan.orders))
    errors = {}
    for factor in factors:
        phi = draw_features(generator(plan.seed, Purpose.FEATURES), d, D, plan.kernel, factor * unit, plan.orders)
        F = features(phi, some.X)
        F = np.hstack([F, some.X]) if plan.linear else F
        errors[factor] = ridge(F, some.Y, some.weights).loo_error.mean()
    return np.array(min(errors, key=lambda factor: errors[factor]) * unit)
