"""The kernels of the default, each as the feature map of its values at points or of its products.

In a kernel that is a product over inputs, numbers, levels of categories and texts of levels each add to one exponent,

    K(x, z) = exp(-numbers(x, z) - sum_c w_c 1[x_c != z_c] - |T (x - z)|^2 / 2).

Numbers add |B (x - z)|^2 / 2 in the Gaussian kernel, what cosines with frequencies B'omega reproduce as their number
grows, and sum_j gamma_j |x_j - z_j| in the l1-Laplacian one, which is on the ranks of the inputs. Fourier features of a
kernel this rough need many thousands of frequencies; landmarks (Nystroem's method) need a couple of thousand points.

Main effects are cosines and sines of single inputs (`features.FeatureMap`), inputs themselves, and levels. How the
parameters are learned is in `search.terms` and `search.product_terms`.
"""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.spatial.distance import cdist

from .._types import Array, IntArray
from ..kernels import Kernel
from ..runtime.records import record
from ..runtime.rules import RULES
from ..runtime.sizes import CACHE_ENTRIES, INDICATOR_LEVELS
from .draws import draw_features
from .features import FeatureMap, Operations, PointMap, ProductMap, Role


class ProductKernelMap(PointMap):
    """The map of a kernel that is a product: the weights w (d,) of levels and the directions T (q, d) of texts are None
    where there are none. A subclass has the numbers."""

    unlike: Array | None
    texts: Array | None

    @abstractmethod
    def number_codes(self, Z: Array) -> Array:
        """Return the codes of numbers, in float64."""

    @abstractmethod
    def minus_number_exponent(self, a: Array, b: Array, dtype: DTypeLike) -> Array:
        """Return minus what numbers add to the exponent, for all pairs of rows with these codes."""

    def codes(self, Z: Array, dtype: DTypeLike) -> Array:
        """Return codes of numbers, of texts and of levels side by side."""
        texts = along_texts(self.texts, Z, dtype)
        return np.hstack([self.number_codes(Z), texts, Z[:, seen_levels(self.unlike)]])

    def between(self, a: Array, b: Array, dtype: DTypeLike, variance: float = 1.0) -> Array:
        """Return v exp of the sum of all exponents."""
        levels = seen_levels(self.unlike)
        at = a.shape[1] - len(levels)
        k = at - (0 if self.texts is None else len(self.texts))
        K = self.minus_number_exponent(a[:, :k], b[:, :k], dtype)
        if k < at:
            K += minus_half_squares(a[:, k:at].astype(dtype), b[:, k:at].astype(dtype))
        if self.unlike is not None:
            K = less_unlike(K, a[:, at:], b[:, at:], self.unlike[levels])
        np.exp(K, out=K)
        if variance != 1:
            K *= K.dtype.type(variance)
        return K

    def with_short_texts(self, X: Array) -> Self:
        """Return the map with fewer directions of texts, if it has any."""
        if self.texts is None:
            return self
        return replace(self, texts=fewer_directions(self.texts, X))  # type: ignore[type-var]

    def exponential(self, graph: Operations, Z: str, exponent: str, double: bool) -> str:
        """Add exp of the exponent, less what levels have apart, to a graph of operations."""
        if self.unlike is not None and self.unlike.any():
            same = graph.same_levels(self.unlike, Z, self.points, np.float64)
            exponent = graph("Add", exponent, graph("Sub", same, np.array(self.unlike.sum())))
        dtype = self.dtype(double)
        return graph("Exp", exponent if dtype == np.float64 else graph.cast(exponent, dtype))


@record("gaussian map", points="Md", matrix="rd", unlike="d", texts="qd")
@dataclass(frozen=True)
class GaussianMap(ProductKernelMap):
    """Points (M, d), the matrix B (r, d) of directions, weights (d,) of levels and directions T (q, d) of texts, None
    where there are none; zeros are inputs that are not looked at."""

    points: Array
    matrix: Array
    unlike: Array | None = None
    texts: Array | None = None

    @property
    def role(self) -> Role:
        """Cosines may stand for the kernel of numbers alone."""
        return "smooth" if self.texts is None and not len(seen_levels(self.unlike)) else "landmarks"

    @property
    def directions(self) -> Array:
        """Return B, and T below it: texts are further directions."""
        return self.matrix if self.texts is None else np.vstack([self.matrix, self.texts])

    def number_codes(self, Z: Array) -> Array:
        """Return B z, in float64: squares of distances cancel."""
        return np.asarray(Z @ self.matrix.T)

    def minus_number_exponent(self, a: Array, b: Array, dtype: DTypeLike) -> Array:
        """Return -|B (x - z)|^2 / 2."""
        return minus_half_squares(a, b).astype(dtype, copy=False)

    def pullback(self, X: Array, G: Array) -> Array:
        """Return sum_m G_m dK/dx with dK/dx = -K B'B (x - z), and the same for texts."""
        weighted = G * self.features(X)
        total = weighted.sum(axis=1)[:, None] * X - weighted @ self.points
        return np.asarray(-total @ self.directions.T @ self.directions)

    def squared_scales(self) -> Array:
        """Return the squared length of every column of B."""
        return np.asarray((self.matrix**2).sum(axis=0))

    def cosines(self, rng: np.random.Generator, D: int, kernel: Kernel, variance: float) -> FeatureMap:
        """Return D cosines whose frequencies follow the law of a kernel along the directions."""
        drawn = draw_features(rng, len(self.matrix), D, kernel, sampling="orthogonal")
        return FeatureMap(self.matrix.T @ drawn.frequencies, drawn.phases, drawn.amplitudes * np.sqrt(variance))

    def graph(self, graph: Operations, Z: str, double: bool) -> str:
        """Add the kernel at the points to a graph of operations."""
        return self.exponential(graph, Z, graph.minus_half_squares(self.directions, Z, self.points), double)


@record("laplace map", points="Md", relevance="d", unlike="d", texts="qd")
@dataclass(frozen=True)
class LaplaceMap(ProductKernelMap):
    """Points (M, d), relevances gamma (d,) of numbers and of levels (d,), and directions T (q, d) of texts, None
    where there are none; inputs of relevance 0 are not looked at."""

    points: Array
    relevance: Array
    unlike: Array | None = None
    texts: Array | None = None

    is_local = True

    def number_codes(self, Z: Array) -> Array:
        """Return the inputs that are looked at, times their relevance: numbers whose l1 distance is the exponent."""
        seen = np.flatnonzero(self.relevance)
        return np.asarray(Z[:, seen] * self.relevance[seen], np.float64)

    def minus_number_exponent(self, a: Array, b: Array, dtype: DTypeLike) -> Array:
        """Return -|a - b|_1, from rows that lie one after the other: `cdist` is fastest with these."""
        if not a.shape[1]:
            return np.zeros((len(a), len(b)), dtype)
        a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
        K: Array = cdist(a, b, "cityblock").astype(dtype, copy=False)
        return np.negative(K, out=K)

    def pullback(self, X: Array, G: Array) -> Array:
        """Return sum_m G_m dK/dx with dK/dx_j = -K gamma_j sign(x_j - z_j), and that through texts."""
        weighted = G * self.features(X)
        result = np.zeros((len(X), X.shape[1]))
        for j in np.flatnonzero(self.relevance):
            sides = np.sign(X[:, [j]] - self.points[:, j])
            result[:, j] = -self.relevance[j] * np.einsum("nm,nm->n", weighted, sides)
        if self.texts is not None:
            result -= (weighted.sum(axis=1)[:, None] * X - weighted @ self.points) @ self.texts.T @ self.texts
        return result

    def graph(self, graph: Operations, Z: str, double: bool) -> str:
        """Add the kernel at the points to a graph of operations."""
        exponents = [graph.minus_distances(self.relevance, Z, self.points)] if self.relevance.any() else []
        if self.texts is not None and (self.texts.any() or not exponents):
            exponents.append(graph.minus_half_squares(self.texts, Z, self.points))
        if not exponents:
            exponents = [graph("MatMul", graph.columns(Z, [0]), np.zeros((1, len(self.points))))]
        return self.exponential(graph, Z, graph.total(exponents), double)


@record("level map", points="Md", variances="d")
@dataclass(frozen=True)
class LevelMap(PointMap):
    """Random effects of levels, K(x, z) = sum_c v_c 1[x_c = z_c]: points (M, d) and variances (d,), zero where an input
    is not a level or is not looked at."""

    points: Array
    variances: Array

    def codes(self, Z: Array, dtype: DTypeLike) -> Array:
        """Return the levels that are looked at."""
        return np.asarray(Z[:, seen_levels(self.variances)])

    def between(self, a: Array, b: Array, dtype: DTypeLike, variance: float = 1.0) -> Array:
        """Return v sum_c v_c 1[a_c = b_c]."""
        variances = variance * self.variances[seen_levels(self.variances)]
        return less_unlike(np.full((len(a), len(b)), variances.sum(), dtype), a, b, variances)

    def diagonal(self, Z: Array) -> float:
        """Return the sum of the variances."""
        return float(self.variances.sum())

    def pullback(self, X: Array, G: Array) -> Array:
        """Return zeros: a level has no neighbours."""
        return np.zeros(X.shape)

    def graph(self, graph: Operations, Z: str, double: bool) -> str:
        """Add the effects at the points to a graph of operations."""
        return graph.same_levels(self.variances, Z, self.points, self.dtype(double))


@record("linear map", slopes="d")
@dataclass(frozen=True)
class LinearMap(ProductMap):
    """Inputs themselves, times their prior standard deviations (d,); inputs of none are not looked at."""

    slopes: Array

    @property
    def n_features(self) -> int:
        """Return the number of inputs with a slope."""
        return int(np.count_nonzero(self.slopes))

    @property
    def role(self) -> Role:
        """Return the role of linear features: they stay as they are."""
        return "linear"

    def features(self, X: Array) -> Array:
        """Return l_j x_j for every row and input with a slope."""
        seen = np.flatnonzero(self.slopes)
        return np.asarray(X[:, seen] * self.slopes[seen].astype(X.dtype))

    def pullback(self, X: Array, G: Array) -> Array:
        """Return G_j l_j for every input with a slope."""
        result, seen = np.zeros(X.shape), np.flatnonzero(self.slopes)
        result[:, seen] = G * self.slopes[seen]
        return result

    def graph(self, graph: Operations, Z: str, double: bool) -> str:
        """Add the features to a graph of operations."""
        seen = np.flatnonzero(self.slopes)
        return graph("Mul", graph.columns(Z, seen), np.asarray(self.slopes[seen], np.float64))


def seen_levels(weights: Array | None) -> IntArray:
    """Return the columns with a weight other than zero."""
    return np.zeros(0, np.intp) if weights is None else np.flatnonzero(weights)


def less_unlike(K: Array, a: Array, b: Array, weights: Array) -> Array:
    """Subtract sum_c w_c 1[a_c != b_c] for all pairs of rows from K, in place; a and b have the weighted columns."""
    codes_a, codes_b = a.astype(np.int32), b.astype(np.int32)
    sizes = 1 + np.maximum(codes_a.max(axis=0, initial=-1), codes_b.max(axis=0, initial=-1))
    few, tall = sizes <= INDICATOR_LEVELS, max(1, CACHE_ENTRIES // max(len(b), 1))
    for c in np.flatnonzero(~few):
        small = np.min_scalar_type(int(sizes[c]))  # bytes are compared in half the time of whole numbers
        left, right = (codes_a[:, [c]] + 1).astype(small), (codes_b[:, c] + 1).astype(small)
        weight = K.dtype.type(weights[c])
        for at in range(0, len(K), tall):
            K[at : at + tall] -= weight * (left[at : at + tall] != right)
    if few.any():
        K -= K.dtype.type(weights[few].sum())
        roots = np.sqrt(weights[few]).astype(K.dtype)
        K += _indicators(codes_a[:, few], sizes[few], roots) @ _indicators(codes_b[:, few], sizes[few], roots).T
    return K


def _indicators(codes: NDArray[np.int32], sizes: NDArray[np.int32], values: Array) -> Array:
    """Return a column for every level of every column, with the value of that column in rows that have the level; a
    level that was not seen has none."""
    begins = np.concatenate([[0], np.cumsum(sizes)])
    result = np.zeros((len(codes), begins[-1]), values.dtype)
    for c, value in enumerate(values):
        at = np.flatnonzero(codes[:, c] >= 0)
        result[at, begins[c] + codes[at, c]] = value
    return result


def along_texts(directions: Array | None, X: Array, dtype: DTypeLike) -> Array:
    """Return T x for every row; in any precision, since texts are no longer than 1."""
    if directions is None:
        return np.zeros((len(X), 0), dtype)
    seen = np.flatnonzero(directions.any(axis=0))
    product: Array = X[:, seen].astype(dtype, copy=False) @ directions[:, seen].T.astype(dtype)
    return product


def fewer_directions(directions: Array, X: Array) -> Array:
    """Return T with the leading directions in which the texts of the rows X differ: the others together have less than
    `RULES.lost_texts` of what texts add to the exponent, on average over pairs of rows."""
    F = along_texts(directions, X, np.float64)
    products = np.cov(F, rowvar=False, ddof=0).reshape(F.shape[1], -1)
    return np.asarray(leading_directions(products, RULES.lost_texts).T @ directions)


def leading_directions(products: Array, lost: float) -> Array:
    """Return the eigenvectors of a matrix of products without those that have a share of up to `lost` together."""
    values, V = np.linalg.eigh(products)
    values = np.maximum(values, 0)
    return V[:, np.cumsum(values) > lost * values.sum()]


def minus_half_squares(a: Array, b: Array) -> Array:
    """Return -|a - b|^2 / 2 for all pairs of rows, by one matrix product."""
    K: Array = a @ b.T
    K -= 0.5 * np.einsum("nr,nr->n", a, a)[:, None]
    K -= 0.5 * np.einsum("nr,nr->n", b, b)
    return np.minimum(K, 0, out=K)
