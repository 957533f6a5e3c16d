"""What "auto" means for the first layer: a sum of a smooth and a rough Gaussian process, both with relevances learned
by the evidence.

1. Screening (`search`): inputs that tell nothing about y are set aside.
2. Smooth part (`smooth`): random features of orders 1, 2 and full and a linear term, on the inputs or on their ranks.
3. Rough part (`rough`): the l1-Laplacian kernel at landmarks, likewise.
4. The variances of both parts and of the noise, by the evidence of the sum on rows not used before where there are
   enough.
5. Ridge on all rows, with the penalty, the width and the weight of the rough part by leave-one-out (`width`).

Searches work on 400 to 1500 rows, so that steps 1 to 4 cost the same for any number of rows.
"""

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from .._seeds import Purpose, generator
from .._threads import limited, side_by_side
from .._types import Array, IntArray
from ..model.features import FeatureMap, features
from ..model.landmarks import LandmarkMap
from ..model.prior import Part, Prior
from ..model.warp import Warp, fit_warp, warped
from ..rows import Rows
from ..solvers.ridge import EXACT_ROWS
from .factors import best_factors, best_two_factors
from .orders import Sizes, draw, feature_map
from .plan import Plan
from .policy import Policy
from .screen import screen
from .search import FoundRough, Search, fresh_rows
from .sizes import NARROW, WIDE, WIDEST, final_sizes, share_of
from .smooth import Smooth, strongest_pairs


@dataclass(frozen=True)
class Variances:
    """Factors of the smooth and the rough part, and the noise variance."""

    smooth: float
    rough: float
    noise: float


@dataclass(frozen=True)
class Learned:
    """What a search has found; `layer_of` makes a first layer of it, as wide as it is asked for."""

    rows: Rows
    plan: Plan
    ranks: Warp
    on_ranks: bool
    kept: IntArray
    smooth: Smooth
    rough: FoundRough | None
    variances: Variances | None = None


def learn_first_layer(rows: Rows, plan: Plan) -> Prior | Learned:
    """Steps 1 to 4; the layer itself where its width is no question."""
    ranks = fit_warp(rows.X, rows.weights)
    search = Search(rows, ranks, plan)
    begin, kept, started = search.begin(screen(rows, plan.policy))
    best, found = side_by_side(
        lambda: search.finish_smooth(begin, kept),
        lambda: search.finish_rough(begin, started or search.begin_rough(kept)) if plan.rough else None,
    )
    learned = Learned(rows, plan, ranks, search.on_ranks, kept, best, found)
    if found is not None:
        with limited(1):  # of the widest layer: its features are closest to the kernel, and the rows are few
            learned = replace(learned, variances=_variances(_smooth_layer(learned, WIDEST), found, ranks, rows, plan))
    open_width = plan.n_features is None and len(rows) > EXACT_ROWS and _sizes(learned, NARROW).full
    return learned if open_width else layer_of(learned, WIDE)


def layer_of(source: Prior | Learned, width: int, rough: bool = True) -> Prior:
    """The first layer, narrow, wide or widest, with or without its rough part."""
    if isinstance(source, Prior):
        return source
    bare = _smooth_layer(source, width)
    if source.rough is None or source.variances is None:
        return bare
    weighted = _weighted(bare, source.variances, source.plan.policy)
    return _with_rough(weighted, source, source.rough, source.variances, width) if rough else weighted


def _sizes(learned: Learned, width: int) -> Sizes:
    return final_sizes(len(learned.kept), len(learned.rows), learned.plan, width)


def _smooth_layer(learned: Learned, width: int) -> Prior:
    """The smooth part alone, with its linear term."""
    plan, p, d = learned.plan, learned.smooth.parameters, learned.rows.X.shape[1]
    linear = np.zeros(d) if plan.linear else None
    if linear is not None:
        linear[learned.kept] = np.exp(p["linear"])
    sizes, pairs = _sizes(learned, width), strongest_pairs(p, plan.policy)
    draws = draw(generator(plan.seed, Purpose.FINAL), len(learned.kept), sizes, plan.kernel, pairs)
    phi = _embed(feature_map(draws, p), learned.kept, d)
    part = Part(learned.ranks if learned.on_ranks else None, phi, 1.0)
    noise = learned.smooth.noise + 1e-12
    return Prior((part,), linear, noise, sizes.full, precise=noise < plan.policy.precise_noise)


def _variances(layer: Prior, found: FoundRough, ranks: Warp, rows: Rows, plan: Plan) -> Variances:
    """The variances of both parts and of the noise that maximise the evidence, on fresh rows where there are enough."""
    part, at = found.part, fresh_rows(len(rows), plan.policy)
    X, Y, weights = rows.X[at], rows.Y[at], rows.weights[at]
    F = layer.rows_of_features(X)
    F -= weights @ F / weights.sum()
    phi = _landmarks(found, ranks, X)
    Y = Y - weights @ Y / weights.sum()
    smooth_kernel = F @ F.T
    _, alone = best_two_factors(smooth_kernel, Y, weights, layer.noise)
    kernels = [smooth_kernel, part.variance * features(phi, phi.points), np.diag(1 / weights)]
    begin = [0.5 * alone[0], 0.5, min(alone[1], part.noise)]
    _, both = best_factors(kernels, Y, begin, plan.policy.rough_variance_steps)
    return Variances(*map(float, both))


def _landmarks(found: FoundRough, ranks: Warp, X: Array) -> LandmarkMap:
    """The Laplacian kernel's values at the rows of X."""
    relevance = np.zeros(X.shape[1])
    relevance[found.kept] = found.part.relevance
    return LandmarkMap(warped(ranks, X) if found.on_ranks else X, relevance)


def _weighted(layer: Prior, variances: Variances, policy: Policy) -> Prior:
    root = float(np.sqrt(variances.smooth))
    linear = None if layer.linear is None else layer.linear * root
    precise = variances.noise < policy.precise_noise
    part = replace(layer.parts[0], factor=root)
    return replace(layer, parts=(part,), linear=linear, noise=variances.noise, precise=precise)


def _with_rough(layer: Prior, learned: "Learned", found: FoundRough, variances: Variances, width: int) -> Prior:
    """The layer with the rough part at landmarks."""
    rows, ranks = learned.rows, learned.ranks
    phi = _landmarks(found, ranks, rows.X[: share_of(len(rows), learned.plan.policy.landmarks[width])])
    K = features(phi, phi.points)
    K[np.diag_indices(len(K))] += 1e-4  # keeps the factor of nearly equal landmarks finite
    root = np.linalg.cholesky(K)
    whitening = scipy.linalg.solve_triangular(root, np.eye(len(K)), lower=True, check_finite=False).T
    factor = np.sqrt(variances.rough * found.part.variance) * whitening
    return replace(layer, parts=(*layer.parts, Part(ranks if found.on_ranks else None, phi, factor)))


def _embed(phi: FeatureMap, kept: IntArray, d: int) -> FeatureMap:
    """The same features as functions of all d inputs."""
    if len(kept) == d:
        return phi
    frequencies = np.zeros((d, phi.n_features))
    frequencies[kept] = phi.frequencies
    return FeatureMap(frequencies, phi.phases, phi.amplitudes)
