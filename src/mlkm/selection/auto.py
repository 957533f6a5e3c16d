"""What "auto" means for the first layer: a sum of a smooth and a rough Gaussian process, both with relevances learned by the evidence.

1. Screening: beyond 100 inputs, those whose ranks tell least about y are set aside.
2. Smooth part (`smooth`): random features of orders 1, 2 and full and a linear term, on the inputs or on their ranks, whichever has the larger
evidence.
3. Rough part (`rough`): the l1-Laplacian kernel at landmarks, likewise.
4. The variances of both parts and of the noise, by the evidence of the sum on rows not used before where there are enough.
5. Ridge on all rows, with the penalty by leave-one-out.

Searches work on 500 to 1500 rows, so that steps 1 to 4 cost the same for any number of rows.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.optimize
from threadpoolctl import threadpool_limits

from .._seeds import generator
from .._threads import side_by_side
from .._types import Array, IntArray
from ..features import FeatureMap, JointMap, features
from ..kernels import Kernel
from ..landmarks import LandmarkMap
from ..machine import Machine
from ..rows import Rows
from ..solvers.blocked import blocked_ridge
from ..solvers.ridge import RidgeFit, ridge
from ..warp import Warp, fit_warp, warped
from . import rough, smooth
from .evidence import kernel_evidence
from .orders import Sizes, draw, feature_map

_MOST_INPUTS = 100  # inputs kept by screening
_MOST_ROUGH_INPUTS = 40
_MOST_LANDMARKS = 2000
_MOST_ROTATED = 25  # inputs up to which the full order learns a matrix rather than scales
_EXACT_ROWS = 1500  # up to this many rows the last ridge is one eigendecomposition in float64


@dataclass(frozen=True)
class Wanted:
    """What the caller left open: interaction orders, kernel of the smooth part, number of features, whether there is a linear and a rough part."""

    orders: tuple[int, ...]
    kernel: Kernel
    n_features: int | None
    linear: bool
    rough: bool


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
    n, d = rows.X.shape
    kept = screen(rows)
    ranks = fit_warp(rows.X, rows.weights)
    search = _Search(rows, kept, ranks, wanted, seed)
    plain, ranked = side_by_side(lambda: search.learn_smooth(False, 1000, max_iter=25), lambda: search.learn_smooth(True, 1000, max_iter=25))
    on_ranks = ranked.value < plain.value
    begin = ranked if on_ranks else plain
    best, found = side_by_side(lambda: search.finish_smooth(on_ranks, begin), lambda: search.learn_rough(begin) if wanted.rough else None)
    sizes = _final_sizes(len(kept), n, wanted, rough=found is not None)
    draws = draw(generator(seed, 30), len(kept), sizes, wanted.kernel, best.pairs)
    phi = _embed(feature_map(draws, best.parameters), kept, d)
    linear = np.zeros(d) if wanted.linear else None
    if linear is not None:
        linear[kept] = np.exp(best.parameters["linear"])
    layer = FirstLayer((Part(ranks if on_ranks else None, phi, 1.0),), linear, best.noise + 1e-12)
    if found is None:
        return layer
    with threadpool_limits(1):
        return _with_rough(layer, found, ranks, rows, kept)


class _Search:
    """The searches of steps 2 and 3 on the kept inputs, or on their ranks."""

    def __init__(self, rows: Rows, kept: IntArray, ranks: Warp, wanted: Wanted, seed: int) -> None:
        self.rows, self.wanted, self.seed = rows, wanted, seed
        X = rows.X[:_EXACT_ROWS]
        self.inputs = {False: X[:, kept], True: warped(ranks, X)[:, kept]}
        self.sizes = _search_sizes(len(kept), len(rows.X), wanted)

    def learn_smooth(self, on_ranks: bool, m: int, **options: Any) -> smooth.Smooth:
        X, Y, weights = self.inputs[on_ranks][:m], self.rows.Y[:m], self.rows.weights[:m]
        return smooth.learn(X, Y, weights, self.wanted.kernel, self.sizes, self.seed, linear=self.wanted.linear, **options)

    def finish_smooth(self, on_ranks: bool, begin: smooth.Smooth) -> smooth.Smooth:
        """A longer search, with a whole matrix of scales in the full order where there are few inputs; in float64 where the noise is small."""
        d = self.inputs[on_ranks].shape[1]
        best = self.learn_smooth(on_ranks, 1500, max_iter=30, warm=begin, rotation=d <= _MOST_ROTATED and self.sizes.full > 0)
        if best.noise < 1e-3:
            best = self.learn_smooth(on_ranks, 1500, max_iter=60, warm=best, rotation="rotation" in best.parameters, precise=True)
        return best

    def learn_rough(self, begin: smooth.Smooth) -> tuple[rough.Rough, bool, IntArray] | None:
        """Relevances of the most relevant inputs; None where the rough kernel is far from explaining y as the smooth part does."""
        seen = np.sort(np.argsort(-smooth.relevance(begin.parameters), kind="stable")[:_MOST_ROUGH_INPUTS])

        def learn(on_ranks: bool, m: int, **options: Any) -> rough.Rough:
            return rough.learn(self.inputs[on_ranks][:m, seen], self.rows.Y[:m], self.rows.weights[:m], **options)

        plain, ranked = learn(False, 500), learn(True, 500)
        on_ranks = ranked.value < plain.value
        best = ranked if on_ranks else plain
        if best.value > begin.value + 0.5:
            return None
        return learn(on_ranks, 1000, warm=best, max_iter=20), on_ranks, seen


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


def screen(rows: Rows, most: int = _MOST_INPUTS, n_waves: int = 5) -> IntArray:
    """Inputs in order of place, at most `most`: those with the largest share of y explained by five cosines of their ranks."""
    n, d = rows.X.shape
    if d <= most:
        return np.arange(d)
    ranks = np.argsort(np.argsort(rows.X, axis=0, kind="stable"), axis=0, kind="stable") / n
    target = rows.Y * rows.weights[:, None]
    share = np.zeros(d)
    for wave in range(1, n_waves + 1):
        share += ((np.cos(np.pi * wave * ranks).T @ target) ** 2).sum(axis=1)
    return np.sort(np.argsort(-share, kind="stable")[:most])


def _search_sizes(d: int, n: int, wanted: Wanted) -> Sizes:
    small = n < 150
    return _sizes(d, wanted, int(np.clip(1000 // d, 2, 6 if small else 10)), 60 if small else 200, 60 if small else 200)


def _final_sizes(d: int, n: int, wanted: Wanted, rough: bool) -> Sizes:
    if wanted.n_features is not None:
        return _shared(d, wanted, wanted.n_features)
    if n < 150:
        return _search_sizes(d, n, wanted)
    return _sizes(d, wanted, int(np.clip(1600 // d, 2, 16)), 400, 500 if n < 5000 else (800 if rough else 2000))


def _sizes(d: int, wanted: Wanted, single: int, pair: int, full: int) -> Sizes:
    """Sizes with the orders that are not wanted, or that coincide with the full one, left out."""
    has_full = d in wanted.orders and d > 1
    return Sizes(single if 1 in wanted.orders else 0, pair if 2 in wanted.orders and d > 2 else 0, full if has_full else 0)


def _shared(d: int, wanted: Wanted, D: int) -> Sizes:
    """D features shared by the orders: a fifth to a third for the single inputs, the rest between pairs and full."""
    open_sizes = _sizes(d, wanted, 1, 1, 1)
    orders = [open_sizes.single, open_sizes.pair, open_sizes.full]
    single = (D // d if sum(orders) == 1 else max(1, D // (3 * d))) if open_sizes.single and d <= D else 0
    rest = D - single * d
    pair = 0 if not open_sizes.pair else (rest if not open_sizes.full else int(0.4 * rest))
    return Sizes(single, pair, rest - pair if open_sizes.full or not (single or pair) else 0)


def _with_rough(layer: FirstLayer, found: tuple[rough.Rough, bool, IntArray], ranks: Warp, rows: Rows, kept: IntArray) -> FirstLayer:
    """Add the rough part, and set the variances of both parts and of the noise."""
    part, warps, seen = found
    relevance = np.zeros(rows.X.shape[1])
    relevance[kept[seen]] = part.relevance
    warp = ranks if warps else None
    points = rows.X[:_MOST_LANDMARKS]
    phi = LandmarkMap(points if warp is None else warped(warp, points), relevance)
    a_smooth, a_rough, noise = _variances(layer, phi, warp, rows, part)
    if a_rough < 1e-4 * a_smooth:
        return FirstLayer(layer.parts, layer.linear, noise)
    K = features(phi, phi.points)
    K[np.diag_indices(len(K))] += 1e-4  # keeps the factor of nearly equal landmarks finite
    whitening = scipy.linalg.solve_triangular(np.linalg.cholesky(K), np.eye(len(K)), lower=True, check_finite=False).T
    smoothest = Part(layer.parts[0].warp, layer.parts[0].phi, float(np.sqrt(a_smooth)))
    linear = None if layer.linear is None else layer.linear * np.sqrt(a_smooth)
    return FirstLayer((smoothest, Part(warp, phi, np.sqrt(a_rough) * whitening)), linear, noise)


def _variances(layer: FirstLayer, phi: LandmarkMap, warp: Warp | None, rows: Rows, part: rough.Rough, m: int = 700) -> tuple[float, float, float]:
    """Factors of the smooth and the rough kernel, and the noise variance, by the evidence on rows the searches have not seen, if there are any."""
    begin = max(0, min(len(rows.X) - m, _EXACT_ROWS))
    at = slice(begin, begin + m)
    X, weights = rows.X[at], rows.weights[at]
    Y = rows.Y[at] - weights @ rows.Y[at] / weights.sum()
    F = layer.rows_of_features(X)
    F -= weights @ F / weights.sum()
    Z = X if warp is None else warped(warp, X)
    kernels = [F @ F.T, part.variance * features(LandmarkMap(Z, phi.relevance), Z), np.diag(1 / weights)]

    def objective(logs: Array) -> tuple[float, Array]:
        factors = np.exp(logs)
        value, dK = kernel_evidence(np.tensordot(factors, kernels, axes=1), Y)
        return value, np.array([f * float(np.vdot(dK, K)) for f, K in zip(factors, kernels, strict=True)])

    begin_logs = np.log([0.5, 0.5, max(min(layer.noise, part.noise), 1e-10)])
    bounds = [(-12.0, 3.0), (-16.0, 3.0), (begin_logs[2] - 2, 1.0)]
    result = scipy.optimize.minimize(objective, begin_logs, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 15})
    a_smooth, a_rough, noise = np.exp(result.x)
    return float(a_smooth), float(a_rough) * part.variance, float(noise)


def _embed(phi: FeatureMap, kept: IntArray, d: int) -> FeatureMap:
    """The same features as functions of all d inputs."""
    if len(kept) == d:
        return phi
    frequencies = np.zeros((d, phi.n_features))
    frequencies[kept] = phi.frequencies
    return FeatureMap(frequencies, phi.phases, phi.amplitudes)
