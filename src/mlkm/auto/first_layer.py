"""What "auto" means for the first layer: a sum of a smooth and a rough Gaussian process, both with relevances learned
by the evidence.

1. Screening (`search`): inputs that tell nothing about y are set aside.
2. Smooth part (`smooth`): random features of orders 1, 2 and full and a linear term, on the inputs or on their ranks.
3. Rough part (`rough`): the l1-Laplacian kernel at landmarks, likewise.
4. The variances of both parts and of the noise, by the evidence of the sum on rows not used before where there are
   enough.
5. Ridge on all rows, with the penalty, the width and the weight of the rough part by leave-one-out (`last_layer`).

Searches work on 400 to 1500 rows, so that steps 1 to 4 cost the same for any number of rows.
"""

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from .._seeds import generator
from .._threads import limited, side_by_side
from .._types import Array, IntArray
from ..model.features import FeatureMap, features
from ..model.landmarks import LandmarkMap
from ..model.prior import FirstLayer, Part
from ..model.warp import Warp, fit_warp, warped
from ..rows import Rows
from .orders import Sizes, draw, feature_map
from .search import (
    FoundRough,
    Search,
    Wanted,
    available_sizes,
    best_factors,
    best_two_factors,
    fresh_rows,
    screen,
    search_sizes,
)
from .smooth import strongest_pairs
from .width import EXACT_ROWS

_SINGLE, _PAIR = (16, 24), (200, 300)  # features of a narrow and of a wide layer: per input in order 1, and of order 2,
_FULL = (24, 250, 500), (12, 500, 1000)  # and of full order: one per so many rows, at least and at most
_LANDMARKS = (12, 500, 800), (6, 1000, 1600), (6, 1000, 2000)  # likewise, for the widest layer too
_WIDEST = 3000  # features of full order where leave-one-out asks for most,
# and where the last ridge is exact, with so few rows that many features cost little: airfoil, energy, housing gain 5 %
# over 500
_EXACT = 1500


@dataclass(frozen=True)
class Variances:
    """Factors of the smooth and the rough part, and the noise variance."""

    smooth: float
    rough: float
    noise: float


def learn_first_layer(rows: Rows, wanted: Wanted, seed: int) -> FirstLayer:
    """Steps 1 to 4."""
    ranks = fit_warp(rows.X, rows.weights)
    search = Search(rows, ranks, wanted, seed)
    begin, kept, started = search.begin(screen(rows))
    best, found = side_by_side(
        lambda: search.finish_smooth(begin, kept),
        lambda: search.finish_rough(begin, started or search.begin_rough(kept)) if wanted.rough else None,
    )
    n, d = rows.X.shape
    linear = np.zeros(d) if wanted.linear else None
    if linear is not None:
        linear[kept] = np.exp(best.parameters["linear"])

    def smooth_layer(sizes: Sizes) -> FirstLayer:
        draws = draw(generator(seed, 30), len(kept), sizes, wanted.kernel, strongest_pairs(best.parameters))
        phi = _embed(feature_map(draws, best.parameters), kept, d)
        return FirstLayer((Part(ranks if search.on_ranks else None, phi, 1.0),), linear, best.noise + 1e-12, sizes.full)

    variances = None
    if found is not None:
        with limited(1):  # of the widest layer: its features are closest to the kernel, and the rows are few
            variances = _variances(smooth_layer(_sizes(len(kept), n, wanted, width=2)), found, ranks, rows)

    def layer(width: int, rough: bool = True) -> FirstLayer:
        bare = smooth_layer(_sizes(len(kept), n, wanted, width))
        if found is None or variances is None:
            return bare
        weighted = _weighted(bare, variances)
        return _with_rough(weighted, found, variances, ranks, rows, width) if rough else weighted

    at_once = wanted.n_features is not None or n <= EXACT_ROWS or not _sizes(len(kept), n, wanted, width=0).full
    return layer(1) if at_once else replace(layer(0), wider=layer)


def _sizes(d: int, n: int, wanted: Wanted, width: int) -> Sizes:
    """Features of the final layer: narrow (0), wide (1) or widest (2)."""
    if wanted.n_features is not None:
        return _shared(d, wanted, wanted.n_features)
    if n < 150:
        return search_sizes(d, n, wanted)
    wide = min(width, 1)
    single = _SINGLE[wide]
    full = _EXACT if n <= EXACT_ROWS else _WIDEST if width == 2 else _some_of(n, *_FULL[wide])
    return available_sizes(d, wanted, int(np.clip(50 * single // d, 2, single)), _PAIR[wide], full)


def _some_of(n: int, every: int, least: int, most: int) -> int:
    return int(np.clip(n // every, least, most))


def _shared(d: int, wanted: Wanted, D: int) -> Sizes:
    """D features shared by the orders: a fifth to a third for the single inputs, the rest between pairs and full."""
    open_sizes = available_sizes(d, wanted, 1, 1, 1)
    orders = [open_sizes.single, open_sizes.pair, open_sizes.full]
    single = (D // d if sum(orders) == 1 else max(1, D // (3 * d))) if open_sizes.single and d <= D else 0
    rest = D - single * d
    pair = 0 if not open_sizes.pair else (rest if not open_sizes.full else int(0.4 * rest))
    return Sizes(single, pair, rest - pair if open_sizes.full or not (single or pair) else 0)


def _variances(layer: FirstLayer, found: FoundRough, ranks: Warp, rows: Rows) -> Variances:
    """The variances of both parts and of the noise that maximise the evidence, on fresh rows where there are enough."""
    part, at = found.part, fresh_rows(len(rows.X))
    X, Y, weights = rows.X[at], rows.Y[at], rows.weights[at]
    F = layer.rows_of_features(X)
    F -= weights @ F / weights.sum()
    phi = _landmarks(found, ranks, X)
    Y = Y - weights @ Y / weights.sum()
    smooth_kernel = F @ F.T
    _, alone = best_two_factors(smooth_kernel, Y, weights, layer.noise)
    kernels = [smooth_kernel, part.variance * features(phi, phi.points), np.diag(1 / weights)]
    _, both = best_factors(kernels, Y, [0.5 * alone[0], 0.5, min(alone[1], part.noise)])
    return Variances(*map(float, both))


def _landmarks(found: FoundRough, ranks: Warp, X: Array) -> LandmarkMap:
    """The Laplacian kernel's values at the rows of X."""
    relevance = np.zeros(X.shape[1])
    relevance[found.kept] = found.part.relevance
    return LandmarkMap(warped(ranks, X) if found.on_ranks else X, relevance)


def _weighted(layer: FirstLayer, variances: Variances) -> FirstLayer:
    root = float(np.sqrt(variances.smooth))
    linear = None if layer.linear is None else layer.linear * root
    return replace(layer, parts=(replace(layer.parts[0], factor=root),), linear=linear, noise=variances.noise)


def _with_rough(
    layer: FirstLayer, found: FoundRough, variances: Variances, ranks: Warp, rows: Rows, width: int
) -> FirstLayer:
    """The layer with the rough part at landmarks."""
    n = len(rows.X)
    phi = _landmarks(found, ranks, rows.X[: _some_of(n, *_LANDMARKS[width])])
    K = features(phi, phi.points)
    K[np.diag_indices(len(K))] += 1e-4  # keeps the factor of nearly equal landmarks finite
    whitening = scipy.linalg.solve_triangular(np.linalg.cholesky(K), np.eye(len(K)), lower=True, check_finite=False).T
    rough_part = Part(
        ranks if found.on_ranks else None, phi, np.sqrt(variances.rough * found.part.variance) * whitening
    )
    return replace(layer, parts=(*layer.parts, rough_part))


def _embed(phi: FeatureMap, kept: IntArray, d: int) -> FeatureMap:
    """The same features as functions of all d inputs."""
    if len(kept) == d:
        return phi
    frequencies = np.zeros((d, phi.n_features))
    frequencies[kept] = phi.frequencies
    return FeatureMap(frequencies, phi.phases, phi.amplitudes)
