"""A kernel of the default: a term of its sum, and a term of the search that learns it.

A term of the search knows its parameters, its features or values on the rows of a search and their gradient in the
parameters, what every input has to do with it, and the terms of the fitted kernel that it becomes. Nothing else of the
package names a single kernel: the sum, the evidence, the relevance, the features of many rows and ONNX go over terms.

In a kernel that is a product over inputs, numbers, levels of categories and texts of levels each add to one exponent,

    K(x, z) = exp(-numbers(x, z) - sum_c w_c 1[x_c != z_c] - |T (x - z)|^2 / 2).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, Self, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..._types import Array, BoolArray, IntArray
from ...data import Inputs
from ...runtime.rules import RULES
from ...runtime.sizes import CACHE_ENTRIES, INDICATOR_LEVELS
from ..features import KernelMap, Operations, PointMap
from ..transforms import RankTransform

Parameters: TypeAlias = dict[str, dict[str, Array]]  # by the name of the term, then of the parameter; logarithms


@dataclass(frozen=True)
class Term:
    """One kernel of a sum, on the inputs or on their ranks, and its variance; the points of its map are replaced as
    needed."""

    ranks: RankTransform | None
    phi: KernelMap
    variance: float

    def seen(self, X: Array) -> Array:
        """Return the rows of X as this kernel sees them."""
        return X if self.ranks is None else self.ranks.forward(X).astype(X.dtype, copy=False)

    def at(self, X: Array, dtype: DTypeLike) -> KernelMap:
        """Return the map with its features at the rows of X; cosines stay as they are."""
        return self.phi if self.phi.is_product else self.phi.at(self.seen(X).astype(dtype))

    def codes(self, X: Array) -> Array:
        """Return numbers per row from which the kernel between two rows follows: their product, or their distance."""
        codes = self.phi.codes(self.seen(X), X.dtype)
        return codes * X.dtype.type(np.sqrt(self.variance)) if self.phi.is_product else codes

    def between(self, a: Array, b: Array, dtype: DTypeLike) -> Array:
        """Return v K for all pairs of rows, by their codes."""
        return self.phi.between(a, b, dtype, self.variance)

    def diagonal(self, X: Array) -> Array | float:
        """Return K(x, x) for every row, without the variance."""
        return self.phi.diagonal(self.seen(X) if self.phi.is_product else X)

    def with_short_texts(self, X: Array) -> "Term":
        """Return the term with no more directions of texts than the rows X tell apart."""
        return replace(self, phi=self.phi.with_short_texts(X))


@dataclass(frozen=True)
class SearchRows:
    """Rows of a search: numbers and levels (m, d), the same with ranks in place of numbers, targets (m, k), weights,
    which of the inputs are levels (d,), and the coordinates of texts, one array (m, r) for every column that has
    them. Distances that several terms need are computed once, in float32."""

    X: Array
    ranks: Array
    Y: Array
    weights: Array
    levels: BoolArray
    texts: tuple[Array, ...] = ()

    def with_inputs(self, at: IntArray) -> "SearchRows":
        """Return the rows with these inputs only."""
        return replace(self, X=self.X[:, at], ranks=self.ranks[:, at], levels=self.levels[at])

    def take(self, at: slice) -> "SearchRows":
        """Return these of the rows."""
        texts = tuple(text[at] for text in self.texts)
        return replace(self, X=self.X[at], ranks=self.ranks[at], Y=self.Y[at], weights=self.weights[at], texts=texts)

    @property
    def numbers(self) -> BoolArray:
        """Return which of the inputs are numbers (d,)."""
        return ~self.levels

    @cached_property
    def text_columns(self) -> Array:
        """Return the coordinates of all texts side by side."""
        return np.hstack([np.zeros((len(self.X), 0)), *self.texts])

    @property
    def text_of(self) -> IntArray:
        """Return the number of the text that each of these coordinates belongs to."""
        return np.repeat(np.arange(len(self.texts)), [text.shape[1] for text in self.texts])

    @cached_property
    def unlike(self) -> Array:
        """Return 1 where the levels of two rows differ, else 0: a row of m^2 numbers for every input that is a
        level."""
        codes = (self.ranks[:, j].astype(np.float32) for j in np.flatnonzero(self.levels))
        return np.stack([(r[:, None] != r).astype(np.float32).ravel() for r in codes])

    @cached_property
    def text_distances(self) -> Array:
        """Return half of the squared distance of the texts of two rows, a row of m^2 numbers for every text."""
        return np.stack([_half_squares(text).astype(np.float32).ravel() for text in self.texts])

    def text_gradient(self, logs: Array, weights: Array) -> Array:
        """Return the gradient in the scales of texts of a kernel whose exponent has them: `weights` (m, m) is the
        gradient in the kernel times the kernel."""
        return np.asarray(-2 * squares_of(logs) * (self.text_distances @ weights.ravel()))


def _half_squares(text: Array) -> Array:
    squares = 0.5 * np.einsum("mr,mr->m", text, text)
    return np.asarray(np.maximum(squares[:, None] + squares - text @ text.T, 0))


@dataclass(frozen=True)
class Parameter:
    """A parameter of a search, an array of logarithms: where it starts, which is the centre of its prior; the weight of
    the prior, in nats per squared distance, or which of the policy's weights that is; its bounds; and its place in the
    flat vector of all, those of a lower one first, then by term. The path of a search depends on that order by its
    rounding."""

    name: str
    start: Array
    prior: float | Literal["amplitude", "scale"] = "amplitude"
    low: float | Array = RULES.least_log_amplitude
    high: float | Array = RULES.largest_log
    place: int = 0


@dataclass(frozen=True)
class Prepared:
    """The rows of a search, and what a term has computed once for all of it, such as distances of all pairs of rows."""

    rows: SearchRows
    fixed: Array


@dataclass(frozen=True)
class Values:
    """A term on the rows of a search: features (m, q), whose products are its kernel, and values (m, m) of a kernel
    that has no such features."""

    features: tuple[Array, ...] = ()
    dense: tuple[Array, ...] = ()


@dataclass(frozen=True)
class Placement:
    """The place of searched parameters in a fitted kernel: all inputs, those that were searched, and the ranks."""

    inputs: Inputs
    searched: IntArray
    ranks: RankTransform

    @property
    def levels(self) -> BoolArray:
        """Return which of the searched inputs are levels."""
        return self.inputs.levels[self.searched]

    def spread(self, values: Array, at: IntArray | None = None) -> Array:
        """Return values of searched inputs as those of all inputs (d,), zero elsewhere."""
        result = np.zeros(len(self.inputs.kinds))
        result[self.searched if at is None else at] = values
        return result

    def of_texts(self, logs: Array) -> Array:
        """Return the scale or the slope of every coordinate of a text (d,), that of its column; zero for other
        inputs."""
        values = np.zeros(len(self.inputs.kinds))
        texts = self.inputs.texts
        values[texts] = np.exp(logs)[np.unique(self.inputs.owners[texts], return_inverse=True)[1]]
        return values


class SearchTerm(ABC):
    """A kernel of the default before its parameters are known."""

    name: str

    @abstractmethod
    def parameters(self, rows: SearchRows) -> list[Parameter]:
        """Return all parameters that a search on these rows may have. The one called "amplitude" gives the kernel its
        variance."""

    def start(self, rows: SearchRows, wanted: bool) -> dict[str, Array]:
        """Return where a search begins. A term that is not wanted has next to no variance, and keeps it."""
        start = {q.name: q.start for q in self.parameters(rows)}
        if not wanted and "amplitude" in start:
            start["amplitude"] = np.full(start["amplitude"].size, RULES.least_log_amplitude)
        return start

    def refined(self, logs: dict[str, Array]) -> dict[str, Array]:
        """Return the term's parameters for the second climb of a search, with the same kernel."""
        return logs

    def sees(self, rows: SearchRows) -> bool:
        """Return whether there is anything in these rows that the kernel depends on."""
        return True

    def is_missing(self, p: Parameters) -> bool:
        """Return whether the term has no variance, and so stays without."""
        return bool((p[self.name]["amplitude"] <= RULES.least_log_amplitude).all())

    def variance(self, p: Parameters) -> float:
        """Return the variance of a kernel with one amplitude."""
        return float(np.exp(2 * p[self.name]["amplitude"][0]))

    def prepare(self, rows: SearchRows, begin: Parameters) -> Prepared | None:
        """Return the rows with what stays the same in a search; None leaves the term out of it."""
        return Prepared(rows, np.zeros((0, 0)))

    @abstractmethod
    def evaluate(self, p: Parameters, on: Prepared) -> Values:
        """Return the features of the term, or its values, at these parameters."""

    @abstractmethod
    def gradient(self, p: Parameters, on: Prepared, at: Values, dF: Sequence[Array], dK: Array) -> Parameters:
        """Return the gradient of the evidence in the parameters, from its gradients in the term's features, one array
        for each of `at.features`, and in the kernel."""

    @abstractmethod
    def relevance(self, p: Parameters, levels: BoolArray) -> Array:
        """Return the prior variance that moving one standardised input brings, or another level, for every input."""

    @abstractmethod
    def fitted(self, p: Parameters, place: Placement) -> list[Term]:
        """Return what the term becomes in the fitted kernel, with points yet to be given."""

    def weighty(self, weights: Array, p: Parameters) -> Array:
        """Return the weights of inputs in the exponent of a product kernel, zero where its variance times the weight is
        lost in the noise: a large variance makes a small weight tell."""
        noise = float(np.exp(2 * p["noise"]["amplitude"][0]))
        return np.where(weights * self.variance(p) < RULES.unseen_share * noise, 0, weights)

    def text_directions(self, p: Parameters, place: Placement) -> Array | None:
        """Return the directions of texts (q, d) that a product kernel looks at, None where there are none."""
        if "text" not in p[self.name]:
            return None
        squares = self.weighty(place.of_texts(p[self.name]["text"]) ** 2, p)
        return np.diag(np.sqrt(squares))[squares > 0] if squares.any() else None


def squares_of(logs: Array) -> Array:
    """Return the squares of numbers whose logarithms are given, in float32."""
    result: Array = np.exp(2 * logs).astype(np.float32)
    return result


class ProductKernelMap(PointMap):
    """The map of such a kernel: the weights w (d,) of levels and the directions T (q, d) of texts are None where there
    are none. A subclass has the numbers."""

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
        K = less_apart(K, a[:, k:at].astype(dtype), b[:, k:at].astype(dtype))
        if self.unlike is not None and len(levels):
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
    values, V = np.linalg.eigh(np.cov(F, rowvar=False, ddof=0).reshape(F.shape[1], -1))
    values = np.maximum(values, 0)
    leading = np.cumsum(values) > RULES.lost_texts * values.sum()
    return np.asarray(V[:, leading].T @ directions)


def less_apart(K: Array, a: Array, b: Array) -> Array:
    """Subtract |a - b|^2 / 2 for all pairs of rows of T x from K, in place."""
    if a.shape[1]:
        K += minus_half_squares(a, b)
    return K


def minus_half_squares(a: Array, b: Array) -> Array:
    """Return -|a - b|^2 / 2 for all pairs of rows, by one matrix product."""
    K: Array = a @ b.T
    K -= 0.5 * np.einsum("nr,nr->n", a, a)[:, None]
    K -= 0.5 * np.einsum("nr,nr->n", b, b)
    return np.minimum(K, 0, out=K)


def _indicators(codes: NDArray[np.int32], sizes: NDArray[np.int32], values: Array) -> Array:
    """Return a column for every level of every column, with the value of that column in rows that have the level; a
    level that was not seen has none."""
    begins = np.concatenate([[0], np.cumsum(sizes)])
    result = np.zeros((len(codes), begins[-1]), values.dtype)
    for c, value in enumerate(values):
        at = np.flatnonzero(codes[:, c] >= 0)
        result[at, begins[c] + codes[at, c]] = value
    return result
