"""What "auto" means for the first layer: a sum of a smooth and a rough Gaussian process, both with relevances learned by the evidence.

1. Screening (`search`): inputs that tell nothing about y are set aside.
2. Smooth part (`smooth`): random features of orders 1, 2 and full and a linear term, on the inputs or on their ranks.
3. Rough part (`rough`): the l1-Laplacian kernel at landmarks, likewise.
4. The variances of both parts and of the noise, by the evidence of the sum on rows not used before where there are enough.
5. Ridge on all rows, with the penalty by leave-one-out.

Searches work on 500 to 1500 rows, so that steps 1 to 4 cost the same for any number of rows.
"""

from dataclasses import dataclass, replace

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
from ..solvers.blocked import Products, best_penalty, line_search, loo, products, restricted, solve, solved
from ..solvers.ridge import RidgeFit, ridge
from ..warp import Warp, fit_warp, warped
from .orders import Sizes, draw, feature_map
from .search import FoundRough, Search, Wanted, available_sizes, best_factors, best_two_factors, fresh_rows, screen, search_sizes
from .smooth import strongest_pairs

_MOST_LANDMARKS = 2000
_CHANCE = 5.0  # nats on those rows that are not chance
_MOST_FULL = 1200
_WIDEST = 3000  # features of full order where leave-one-out asks for more
_WORTH_WIDTH = 1.08  # ratio of leave-one-out errors that asks for more
_WIDEN_ROWS = 8000
_WORTH_A_LOSS = 1.01  # leave-one-out error, relative to the best, at which the rough part is left away
_LOO_DECIDES = 5000  # rows from which leave-one-out, not the evidence on some rows, weighs the rough part
_MANY = 1500  # features above which the balance is sought with half of them
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
    n_full: int = 0  # how many features, the last of the first part, are of full order
    wider: "FirstLayer | None" = None  # the same layer with more of them

    def rows_of_features(self, X: Array) -> Array:
        """Features with unit prior variance."""
        columns = []
        for part in self.parts:
            F = features(part.phi, X if part.warp is None else warped(part.warp, X).astype(X.dtype, copy=False))
            columns.append(_times_triangle(F, part.factor) if isinstance(part.factor, np.ndarray) else F * X.dtype.type(part.factor))
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

    sizes = _final_sizes(len(kept), n, wanted)
    layer = smooth_layer(sizes)
    if found is not None:
        with threadpool_limits(1):
            layer = _with_rough(layer, found, ranks, rows)
    if wanted.n_features is None and n >= _WIDEN_ROWS and sizes.full:
        more = smooth_layer(replace(sizes, full=_WIDEST))
        first = replace(layer.parts[0], phi=more.parts[0].phi)
        layer = replace(layer, wider=replace(layer, parts=(first, *layer.parts[1:]), n_full=_WIDEST))
    return layer


def fit_last_layer(layer: FirstLayer, rows: Rows, penalty: float | None, part: IntArray | None = None) -> tuple[FirstLayer, Machine, RidgeFit]:
    """Step 5, on all rows or on a part of them. The layer returned is the one in use: where rows are many, its width and the weight of its rough
    part are chosen here, by leave-one-out."""
    at = slice(None) if part is None else part
    X, Y, weights = rows.X[at], rows.Y[at], rows.weights[at] / rows.weights[at].mean()
    n = len(X)
    if n <= _EXACT_ROWS:
        fit = ridge(layer.rows_of_features(X), Y, weights, penalty)
        return layer, layer.machine(fit), fit
    inputs: Array = X if layer.noise < 1e-3 else X.astype(np.float32)
    sums = products(lambda block: layer.rows_of_features(inputs[block]), Y, weights)
    if penalty is not None or part is not None:  # all parts share one layer
        fit = best_penalty(sums, layer.noise / n) if penalty is None else solved(sums, penalty)
        return layer, layer.machine(fit), fit
    chosen, fit, penalties = _balanced(layer, sums, layer.noise / n)
    if layer.wider is not None and _width_pays(layer, sums, penalties, loo(fit)):
        chosen = replace(layer.wider, parts=(layer.wider.parts[0], *chosen.parts[1:]))
        sums = products(lambda block: chosen.rows_of_features(inputs[block]), Y, weights)
        fit = best_penalty(sums, fit.penalty)
    return chosen, chosen.machine(fit), fit


def _balanced(layer: FirstLayer, sums: Products, begin: float) -> tuple[FirstLayer, RidgeFit, Array]:
    """The penalty and, where there is a rough part, its weight, by leave-one-out; the weight is taken into the layer returned, and the penalty of
    every feature without it is returned, too."""
    if len(layer.parts) == 1:
        fit = best_penalty(sums, begin)
        return layer, fit, np.full(len(sums.gram), fit.penalty)
    D = layer.parts[0].phi.n_features
    rough_columns = slice(D, D + layer.parts[1].phi.n_features)
    fits: dict[tuple[float, float], RidgeFit | None] = {}

    def penalties(penalty: float, ratio: float) -> Array:
        every = np.full(len(sums.gram), penalty)
        every[rough_columns] *= ratio
        return every

    def error(penalty: float, ratio: float) -> float:
        fits[penalty, ratio] = solve(sums, penalties(penalty, ratio))
        return loo(fits[penalty, ratio])

    if len(sums.gram) > _MANY:
        begin, ratio = _balance_of_half(layer, sums, begin)
        penalty = line_search(lambda value: error(value, ratio), begin, downwards=True)
    else:
        penalty = line_search(lambda value: error(value, 1.0), begin)
        ratio = line_search(lambda value: error(penalty, value), 1.0, steps=(6.0,), most=50.0)
    every = penalties(penalty, ratio)
    best = fits[penalty, ratio] or solved(sums, every)
    smooth_part, rough_part = layer.parts
    kept = np.ones(len(every), dtype=bool)
    kept[rough_columns] = False
    alone = solve(restricted(sums, kept), penalty)
    if alone is not None and loo(alone) < _WORTH_A_LOSS * loo(best):
        return replace(layer, parts=(smooth_part,)), best_penalty(restricted(sums, kept), penalty), every[kept]
    weighted = replace(layer, parts=(smooth_part, replace(rough_part, factor=rough_part.factor / np.sqrt(ratio))))
    return weighted, replace(best, coefficients=best.coefficients * np.sqrt(every / penalty)[:, None], penalty=penalty), every


def _balance_of_half(layer: FirstLayer, sums: Products, begin: float) -> tuple[float, float]:
    """Penalty and relative penalty of the rough part for half of the features of full order and half of the landmarks: an eighth of the work.

    The first landmarks' whitened features are those of these landmarks alone; the features of full order get twice the variance each.
    """
    D, half, M = layer.parts[0].phi.n_features, layer.n_full // 2, layer.parts[1].phi.n_features
    kept = np.ones(len(sums.gram), dtype=bool)
    kept[D - half : D] = kept[D + M // 2 : D + M] = False
    some = restricted(sums, kept)

    def error(penalty: float, ratio: float) -> float:
        every = np.full(len(sums.gram), penalty)
        every[D - layer.n_full : D] /= 2
        every[D : D + M] *= ratio
        return loo(solve(some, every[kept]))

    penalty = line_search(lambda value: error(value, 1.0), begin)
    return penalty, line_search(lambda value: error(penalty, value), 1.0, steps=(6.0,), most=50.0)


def _width_pays(layer: FirstLayer, sums: Products, penalties: Array, error: float) -> bool:
    """Whether half of the features of full order, with twice the variance each, do notably worse: then more of them would do better."""
    D, half = layer.parts[0].phi.n_features, layer.n_full // 2
    kept = np.ones(len(sums.gram), dtype=bool)
    kept[D - half : D] = False
    if len(penalties) < len(kept):  # without the rough part
        kept[D : D + layer.parts[1].phi.n_features] = False
        penalties = np.full(len(kept), penalties[0])
    penalties = penalties.copy()
    penalties[D - layer.n_full : D - half] /= 2
    return loo(solve(restricted(sums, kept), penalties[kept])) > _WORTH_WIDTH * error


def _times_triangle(F: Array, U: Array, width: int = 500) -> Array:
    """F U for an upper triangular U, without most of the zeros."""
    U = U.astype(F.dtype, copy=False)
    result = np.empty_like(F)
    for begin in range(0, len(U), width):
        end = min(begin + width, len(U))
        np.matmul(F[:, :end], U[:end, begin:end], out=result[:, begin:end])
    return result


def _final_sizes(d: int, n: int, wanted: Wanted) -> Sizes:
    if wanted.n_features is not None:
        return _shared(d, wanted, wanted.n_features)
    if n < 150:
        return search_sizes(d, n, wanted)
    return available_sizes(d, wanted, int(np.clip(1200 // d, 2, 24)), 300, int(np.clip(n // 12, 500, _MOST_FULL)))


def _shared(d: int, wanted: Wanted, D: int) -> Sizes:
    """D features shared by the orders: a fifth to a third for the single inputs, the rest between pairs and full."""
    open_sizes = available_sizes(d, wanted, 1, 1, 1)
    orders = [open_sizes.single, open_sizes.pair, open_sizes.full]
    single = (D // d if sum(orders) == 1 else max(1, D // (3 * d))) if open_sizes.single and d <= D else 0
    rest = D - single * d
    pair = 0 if not open_sizes.pair else (rest if not open_sizes.full else int(0.4 * rest))
    return Sizes(single, pair, rest - pair if open_sizes.full or not (single or pair) else 0)


def _with_rough(layer: FirstLayer, found: FoundRough, ranks: Warp, rows: Rows) -> FirstLayer:
    """Add the rough part if the evidence on fresh rows asks for it, and set the variances of both parts and of the noise."""
    part = found.part
    n = len(rows.X)
    relevance = np.zeros(rows.X.shape[1])
    relevance[found.kept] = part.relevance
    warp = ranks if found.on_ranks else None
    at = fresh_rows(n)
    X, Y, weights = rows.X[at], rows.Y[at], rows.weights[at]
    F = layer.rows_of_features(X)
    F -= weights @ F / weights.sum()
    Z = X if warp is None else warped(warp, X)
    Y = Y - weights @ Y / weights.sum()
    smooth_kernel = F @ F.T
    without, only = best_two_factors(smooth_kernel, Y, weights, layer.noise)
    kernels = [smooth_kernel, part.variance * features(LandmarkMap(Z, relevance), Z), np.diag(1 / weights)]
    together, both = best_factors(kernels, Y, [0.5 * only[0], 0.5, min(only[1], part.noise)])
    if together > without - max(_WORTH_A_PART / n, _CHANCE / len(Y)) and n < _LOO_DECIDES:
        return replace(layer, noise=float(only[1] / only[0]))
    a_smooth, a_rough, noise = both
    points = rows.X[: int(np.clip(n // 6, min(n, 1000), _MOST_LANDMARKS))]
    phi = LandmarkMap(points if warp is None else warped(warp, points), relevance)
    K = features(phi, phi.points)
    K[np.diag_indices(len(K))] += 1e-4  # keeps the factor of nearly equal landmarks finite
    whitening = scipy.linalg.solve_triangular(np.linalg.cholesky(K), np.eye(len(K)), lower=True, check_finite=False).T
    smoothest = Part(layer.parts[0].warp, layer.parts[0].phi, float(np.sqrt(a_smooth)))
    linear = None if layer.linear is None else layer.linear * np.sqrt(a_smooth)
    return replace(layer, parts=(smoothest, Part(warp, phi, np.sqrt(a_rough * part.variance) * whitening)), linear=linear, noise=float(noise))


def _embed(phi: FeatureMap, kept: IntArray, d: int) -> FeatureMap:
    """The same features as functions of all d inputs."""
    if len(kept) == d:
        return phi
    frequencies = np.zeros((d, phi.n_features))
    frequencies[kept] = phi.frequencies
    return FeatureMap(frequencies, phi.phases, phi.amplitudes)
