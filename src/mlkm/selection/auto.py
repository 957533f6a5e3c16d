"""What "auto" means for the first layer: a sum of a smooth and a rough Gaussian process, both with relevances learned by the evidence.

1. Screening (`search`): inputs that tell nothing about y are set aside.
2. Smooth part (`smooth`): random features of orders 1, 2 and full and a linear term, on the inputs or on their ranks.
3. Rough part (`rough`): the l1-Laplacian kernel at landmarks, likewise.
4. The variances of both parts and of the noise, by the evidence of the sum on rows not used before where there are enough.
5. Ridge on all rows, with the penalty by leave-one-out.

Searches work on 500 to 1500 rows, so that steps 1 to 4 cost the same for any number of rows.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from threadpoolctl import threadpool_limits

from .._seeds import generator
from .._threads import side_by_side
from .._types import Array, IntArray
from ..features import FeatureMap, JointMap, features
from ..landmarks import LandmarkMap
from ..machine import Machine
from ..rows import Rows
from ..solvers.blocked import blocked_ridge
from ..solvers.ridge import RidgeFit, ridge
from ..warp import Warp, fit_warp, warped
from . import rough
from .orders import Sizes, draw, feature_map
from .search import Search, Wanted, available_sizes, best_factors, fresh_rows, screen, search_sizes
from .smooth import strongest_pairs

_MOST_LANDMARKS = 2000
_EXACT_ROWS = 1500  # up to this many rows the last ridge is one eigendecomposition in float64
_WORTH_A_PART = 10.0  # nats over all rows that the rough part must promise, by the evidence on fresh rows: it pays with many rows


@dataclass(frozen=True)
class Part:
    """A feature map on the inputs or their ranks, and the factor that gives its features their prior variance."""

    warp: Warp | None
    phi: FeatureMap | LandmarkMap
    factor: Array | float  # a matrix whitens landmarks


@dataclass(frozen=True)
class FirstLayer:
    """phi_1 with the prior variances of its features, and the noise variance."""

    parts: tuple[Part, ...]
    linear: Array | None
    noise: float

    def rows_of_features(self, X: Array) -> Array:
        """Features with unit prior variance."""
        columns = []
        for part in self.parts:
            F = features(part.phi, X if part.warp is None else warped(part.warp, X).astype(X.dtype, copy=False))
            columns.append(F @ part.factor.astype(X.dtype) if isinstance(part.factor, np.ndarray) else F * X.dtype.type(part.factor))
        if self.linear is not None:
            columns.append(X * self.linear.astype(X.dtype))
        return np.hstack(columns)

    def machine(self, fit: RidgeFit) -> Machine:
        """The one-layer machine of a ridge fit on those features; prior variances are folded into the weights."""
        W, at = [], 0
        for part in self.parts:
            c = fit.coefficients[at : at + part.phi.n_features]
            W.append(part.factor @ c if isinstance(part.factor, np.ndarray) else part.factor * c)
            at += part.phi.n_features
        if self.linear is not None:
            W.append(self.linear[:, None] * fit.coefficients[at:])
        phi = JointMap(tuple((part.warp, part.phi) for part in self.parts))
        return Machine((phi,), ((np.vstack([*W, fit.intercept]),),), linear=self.linear is not None)


def learn_first_layer(rows: Rows, wanted: Wanted, seed: int) -> FirstLayer:
    """Steps 1 to 4."""
    ranks = fit_warp(rows.X, rows.weights)
    search = Search(rows, ranks, wanted, seed)
    begin, kept = search.begin(screen(rows))
    best, found = side_by_side(lambda: search.finish_smooth(begin, kept), lambda: search.learn_rough(begin, kept) if wanted.rough else None)
    n, d = rows.X.shape
    sizes = _final_sizes(len(kept), n, wanted, rough=found is not None)
    draws = draw(generator(seed, 30), len(kept), sizes, wanted.kernel, strongest_pairs(best.parameters))
    phi = _embed(feature_map(draws, best.parameters), kept, d)
    linear = np.zeros(d) if wanted.linear else None
    if linear is not None:
        linear[kept] = np.exp(best.parameters["linear"])
    layer = FirstLayer((Part(ranks if search.on_ranks else None, phi, 1.0),), linear, best.noise + 1e-12)
    if found is None:
        return layer
    with threadpool_limits(1):
        return _with_rough(layer, found, ranks, rows)


def fit_last_layer(layer: FirstLayer, rows: Rows, penalty: float | None, part: IntArray | None = None) -> tuple[Machine, RidgeFit]:
    """Step 5, on all rows or on a part of them."""
    at = slice(None) if part is None else part
    X, Y, weights, copies = rows.X[at], rows.Y[at], rows.weights[at] / rows.weights[at].mean(), rows.copies[at]
    n = len(X)
    if n <= _EXACT_ROWS:
        fit = ridge(layer.rows_of_features(X), Y, weights, penalty, copies)
    else:
        inputs: Array = X if layer.noise < 1e-3 else X.astype(np.float32)
        begin = layer.noise / n if penalty is None else penalty
        fit = blocked_ridge(lambda block: layer.rows_of_features(inputs[block]), Y, weights, copies, begin, search=penalty is None)
    return layer.machine(fit), fit


def _final_sizes(d: int, n: int, wanted: Wanted, rough: bool) -> Sizes:
    if wanted.n_features is not None:
        return _shared(d, wanted, wanted.n_features)
    if n < 150:
        return search_sizes(d, n, wanted)
    return available_sizes(d, wanted, int(np.clip(1200 // d, 2, 24)), 400, 500 if n < 5000 else (800 if rough else 2000))


def _shared(d: int, wanted: Wanted, D: int) -> Sizes:
    """D features shared by the orders: a fifth to a third for the single inputs, the rest between pairs and full."""
    open_sizes = available_sizes(d, wanted, 1, 1, 1)
    orders = [open_sizes.single, open_sizes.pair, open_sizes.full]
    single = (D // d if sum(orders) == 1 else max(1, D // (3 * d))) if open_sizes.single and d <= D else 0
    rest = D - single * d
    pair = 0 if not open_sizes.pair else (rest if not open_sizes.full else int(0.4 * rest))
    return Sizes(single, pair, rest - pair if open_sizes.full or not (single or pair) else 0)


def _with_rough(layer: FirstLayer, found: tuple[rough.Rough, bool, IntArray], ranks: Warp, rows: Rows) -> FirstLayer:
    """Add the rough part if the evidence on fresh rows asks for it, and set the variances of both parts and of the noise."""
    part, on_ranks, seen = found
    relevance = np.zeros(rows.X.shape[1])
    relevance[seen] = part.relevance
    warp = ranks if on_ranks else None
    points = rows.X[:_MOST_LANDMARKS]
    phi = LandmarkMap(points if warp is None else warped(warp, points), relevance)
    at = fresh_rows(len(rows.X))
    X, Y, weights = rows.X[at], rows.Y[at], rows.weights[at]
    F = layer.rows_of_features(X)
    F -= weights @ F / weights.sum()
    Z = X if warp is None else warped(warp, X)
    kernels = [F @ F.T, part.variance * features(LandmarkMap(Z, relevance), Z), np.diag(1 / weights)]
    Y = Y - weights @ Y / weights.sum()
    alone, smooth_only = best_factors([kernels[0], kernels[2]], Y, [1.0, layer.noise])
    together, both = best_factors(kernels, Y, [0.5, 0.5, min(layer.noise, part.noise)])
    if together > alone - _WORTH_A_PART / len(rows.X):
        return FirstLayer(layer.parts, layer.linear, float(smooth_only[1] / smooth_only[0]))
    a_smooth, a_rough, noise = both
    K = features(phi, phi.points)
    K[np.diag_indices(len(K))] += 1e-4  # keeps the factor of nearly equal landmarks finite
    whitening = scipy.linalg.solve_triangular(np.linalg.cholesky(K), np.eye(len(K)), lower=True, check_finite=False).T
    smoothest = Part(layer.parts[0].warp, layer.parts[0].phi, float(np.sqrt(a_smooth)))
    linear = None if layer.linear is None else layer.linear * np.sqrt(a_smooth)
    return FirstLayer((smoothest, Part(warp, phi, np.sqrt(a_rough * part.variance) * whitening)), linear, float(noise))


def _embed(phi: FeatureMap, kept: IntArray, d: int) -> FeatureMap:
    """The same features as functions of all d inputs."""
    if len(kept) == d:
        return phi
    frequencies = np.zeros((d, phi.n_features))
    frequencies[kept] = phi.frequencies
    return FeatureMap(frequencies, phi.phases, phi.amplitudes)
