"""Feature maps: random cosines phi(x) = sqrt(2/D) cos(Omega'x + b), with E[phi(x)'phi(x')] = K(x, x'), what every other
map of a first layer has in common with them, and the ranks of inputs, which maps may see in place of the inputs.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from .._types import Array, IntArray
from ..runtime.checks import brief
from ..runtime.sizes import PIECE_COLUMNS, PIECE_ROWS

Order: TypeAlias = int | Literal["full"]
Interactions: TypeAlias = Order | Sequence[Order]
Role: TypeAlias = Literal["single inputs", "smooth", "linear", "landmarks"]


def interpolated(X: Array, knots: Iterable[Array], values: Iterable[Array]) -> Array:
    """Return every column of X (..., d) interpolated between its knots, and constant beyond; a column without knots
    stays as it is."""
    columns = zip(np.moveaxis(X, -1, 0), knots, values, strict=True)
    return np.stack([np.interp(x, k, v) if len(k) else x for x, k, v in columns], axis=-1)


def slopes_between(
    X: Array, knots: Iterable[Array], values: Iterable[Array], beyond: Literal["edge", "constant"]
) -> Array:
    """Return the slope of every column of X (..., d) between its knots; beyond them that at the edge, or constantly
    0."""
    columns = zip(np.moveaxis(X, -1, 0), knots, values, strict=True)
    rises = ((x, k, np.pad(np.diff(v) / np.diff(k), 1, beyond)) for x, k, v in columns)
    return np.stack([rise[np.searchsorted(k, x, side="right")] for x, k, rise in rises], axis=-1)


@dataclass(frozen=True)
class RankTransform:
    """A piecewise-linear map of every input to its ranks: its knots (increasing) and the values there; beyond the outer
    knots the value is constant. An input without knots stays as it is."""

    knots: tuple[Array, ...]
    values: tuple[Array, ...]

    def forward(self, X: Array) -> Array:
        """Return the inputs on the scale of their ranks."""
        return interpolated(X, self.knots, self.values)

    def slopes(self, X: Array) -> Array:
        """Return the derivative of each transformed input at every row; 0 beyond the outer knots."""
        return slopes_between(X, self.knots, self.values, "constant")

    def coarser(self, gap: float = 0.1) -> "RankTransform":
        """Return the same map with knots at least so far apart, but for the last: the first value of every other
        cell."""
        knots, values = [], []
        for k, v in zip(self.knots, self.values, strict=True):
            cells = np.floor((k - k[:1]) / gap)
            first_of_cell = np.flatnonzero(np.diff(cells, prepend=-1) > 0)
            chosen = np.union1d(first_of_cell[::2], np.arange(len(k))[-1:])
            knots.append(k[chosen])
            values.append(v[chosen])
        return RankTransform(tuple(knots), tuple(values))


def on_ranks(ranks: RankTransform | None, X: Array) -> Array:
    """Return the inputs on the scale of their ranks, in the precision of X, or as they are without ranks."""
    return X if ranks is None else ranks.forward(X).astype(X.dtype, copy=False)


class Operations(Protocol):
    """The operations that a map may add to a graph, such as ONNX has them; tensors go by their names."""

    def __call__(self, kind: str, *inputs: Any, **attributes: Any) -> str: ...

    def columns(self, tensor: str, at: Sequence[int] | IntArray) -> str:
        """Return these columns of a tensor."""

    def cast(self, tensor: str, dtype: DTypeLike) -> str:
        """Return a tensor in another type."""

    def total(self, parts: Sequence[str]) -> str:
        """Return the sum of tensors."""

    def minus_half_squares(self, directions: Array, Z: str, points: Array) -> str:
        """Return -|T (z - p)|^2 / 2 for all rows z and points p."""

    def minus_distances(self, relevance: Array, Z: str, points: Array) -> str:
        """Return -sum_j gamma_j |z_j - p_j| for all rows z and points p."""

    def same_levels(self, weights: Array, Z: str, points: Array, dtype: DTypeLike) -> str:
        """Return sum_c w_c 1[z_c = p_c] for all rows z and points p."""


class Map(ABC):
    """A feature map phi on R^d."""

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Return D, the length of phi(x)."""

    @property
    def parts(self) -> "Parts":
        """Return the maps that stand side by side in this one."""
        return ((None, self),)

    @abstractmethod
    def features(self, X: Array) -> Array:
        """Return phi(x) for every row x."""

    def output(self, X: Array, W: Array) -> Array:
        """Return phi(x)'W for every row x and weights W (D, k)."""
        F = self.features(X)
        return np.asarray(F @ W.astype(F.dtype))

    @abstractmethod
    def pullback(self, X: Array, G: Array) -> Array:
        """Return sum_k G_ik dphi_k/dx at every row i, shape (n, d): a gradient in the features, carried back to the
        inputs."""

    def graph(self, graph: Operations, Z: str, double: bool) -> str:
        """Add the features at the rows Z to a graph of operations, in float64 if `double`, and return their name."""
        raise TypeError(f"{type(self).__name__} is a feature map that to_onnx does not know.")

    def dtype(self, double: bool) -> DTypeLike:
        """Return the type of the features that `graph` adds."""
        return np.float64


Parts: TypeAlias = tuple[tuple[RankTransform | None, Map], ...]


class KernelMap(Map):
    """A feature map that is a kernel of the default, K(x, z), as well.

    `codes` are numbers per row from which `between` computes K for all pairs of rows. A subclass says what it stands
    for where features are wanted rather than kernels (`role`): "landmarks" is its values at landmarks, which any
    kernel can have.
    """

    is_product = False  # whether K is the product of codes
    is_local = False  # whether K falls off so fast that a row has few neighbours

    @property
    def role(self) -> Role:
        """Return which features stand for the kernel where features are wanted."""
        return "landmarks"

    @abstractmethod
    def codes(self, Z: Array, dtype: DTypeLike) -> Array:
        """Return the codes of the rows of Z; what does not cancel may be in the precision `dtype`."""

    @abstractmethod
    def between(self, a: Array, b: Array, dtype: DTypeLike, variance: float = 1.0) -> Array:
        """Return the kernel times its variance for all pairs of rows with codes a and b."""

    def diagonal(self, Z: Array) -> Array | float:
        """Return K(z, z) for every row of Z, or the number that all rows share."""
        return 1.0

    @abstractmethod
    def at(self, points: Array) -> Self:
        """Return the map whose features have the kernel of these points in their span."""

    @abstractmethod
    def weights(self, Z: Array, alpha: Array) -> Array:
        """Return the weights of the features of `at(Z)` that make sum_i alpha_i K(x, z_i), for alpha (n, k)."""

    def squared_scales(self) -> Array | None:
        """Return the square of every input's scale (d,), None where the kernel has none."""
        return None

    def with_short_texts(self, X: Array) -> Self:
        """Return the map with no more directions of texts than the rows X tell apart."""
        return self


class ProductMap(KernelMap):
    """A map whose kernel is the product of its features."""

    is_product = True

    def codes(self, Z: Array, dtype: DTypeLike) -> Array:
        """Return the features."""
        return self.features(Z)

    def between(self, a: Array, b: Array, dtype: DTypeLike, variance: float = 1.0) -> Array:
        """Return a b'; the codes that a term makes have its variance in them."""
        product: Array = a @ b.T
        return product

    def diagonal(self, Z: Array) -> Array:
        """Return |phi(z)|^2 for every row."""
        return np.asarray((self.features(Z) ** 2).sum(axis=1))

    def at(self, points: Array) -> Self:
        """Return the map itself, which has no points."""
        return self

    def weights(self, Z: Array, alpha: Array) -> Array:
        """Return sum_i alpha_i phi(z_i)."""
        return np.asarray(self.features(Z).T @ alpha)


class PointMap(KernelMap):
    """A map whose features are the values K(x, z_m) of its kernel at points z_m, (M, d); its features are in their
    precision."""

    points: Array

    @cached_property
    def point_codes(self) -> Array:
        """Return the codes of the points, which every prediction needs; they are computed once and not stored."""
        return self.codes(self.points, self.points.dtype)

    def __getstate__(self) -> dict[str, Any]:
        """Return the map without the codes of its points."""
        return {name: value for name, value in vars(self).items() if name != "point_codes"}

    @property
    def n_features(self) -> int:
        """Return the number of points."""
        return len(self.points)

    def features(self, X: Array) -> Array:
        """Return K(x, z_m) for every row x and point z_m."""
        return self.between(self.codes(X, self.points.dtype), self.point_codes, self.points.dtype)

    def output(self, X: Array, W: Array) -> Array:
        """Return sum_m K(x, z_m) W_m for every row x, in pieces that stay in a processor's cache."""
        dtype, W = self.points.dtype, W.astype(self.points.dtype)
        a, b = self.codes(X, dtype), self.point_codes
        total, width = np.zeros((len(X), W.shape[1])), PIECE_COLUMNS * max(1, PIECE_ROWS // max(len(X), 1))
        for row in range(0, len(a), PIECE_ROWS):
            rows = slice(row, row + PIECE_ROWS)
            for column in range(0, len(b), width):
                columns = slice(column, column + width)
                total[rows] += self.between(a[rows], b[columns], dtype) @ W[columns]
        return total

    def at(self, points: Array) -> Self:
        """Return the map with other points."""
        return replace(self, points=points)  # type: ignore[type-var]  # subclasses are dataclasses

    def weights(self, Z: Array, alpha: Array) -> Array:
        """Return alpha: the points are the rows."""
        return alpha

    def dtype(self, double: bool) -> DTypeLike:
        """Return the type of the points, or float64."""
        return np.float64 if double else self.points.dtype


@dataclass(frozen=True)
class FeatureMap(ProductMap):
    """Omega (d, D), scales included; phases b (D,); amplitudes (D,), sqrt(2/D) unless features are weighted."""

    frequencies: Array
    phases: Array
    amplitudes: Array

    @property
    def n_features(self) -> int:
        """Return the number of cosines."""
        return len(self.phases)

    @property
    def role(self) -> Role:
        """Return the role of cosines: they stay as they are, those of single inputs in the default."""
        return "single inputs"

    def astype(self, dtype: DTypeLike) -> "FeatureMap":
        """Return the map in another precision."""
        return replace(self, **{k: np.asarray(v, dtype) for k, v in vars(self).items()})

    def angles(self, X: Array) -> Array:
        """Return Omega'x + b for every row x, in the precision of X."""
        z = X @ self.frequencies.astype(X.dtype, copy=False)
        z += self.phases.astype(X.dtype, copy=False)
        return z

    def features(self, X: Array) -> Array:
        """Return a cos(Omega'x + b) for every row x."""
        z = self.angles(X)
        np.cos(z, out=z)
        z *= self.amplitudes.astype(X.dtype, copy=False)
        return z

    def pullback(self, X: Array, G: Array) -> Array:
        """Return -G * a sin(Omega'x + b) Omega'."""
        slope = np.sin(self.angles(X))
        slope *= -self.amplitudes
        slope *= G
        return slope @ self.frequencies.T

    def leading(self, most: int, variance: float) -> "FeatureMap":
        """Return pairs of cosines and sines of the largest amplitudes, at most so many features, with the variance in
        their amplitudes."""
        half = self.n_features // 2
        first = np.sort(np.argsort(-self.amplitudes[:half], kind="stable")[: max(most // 2, 1)])
        both = np.concatenate([first, first + half])[: max(most, 1)]
        amplitudes = self.amplitudes[both] * np.sqrt(variance)
        return FeatureMap(self.frequencies[:, both], self.phases[both], amplitudes)

    def graph(self, graph: Operations, Z: str, double: bool) -> str:
        """Cosines are sines a quarter of a turn on, which older versions of onnxruntime have in float64."""
        product = graph("MatMul", Z, np.asarray(self.frequencies, np.float64))
        turned = graph("Sin", graph("Add", product, np.asarray(self.phases, np.float64) + np.pi / 2))
        return graph("Mul", turned, np.asarray(self.amplitudes, np.float64))


@dataclass(frozen=True)
class JointMap(Map):
    """Several feature maps side by side, each on the inputs as they are or on their ranks."""

    maps: Parts

    @property
    def n_features(self) -> int:
        """Return the number of features of all maps."""
        return sum(part.n_features for _, part in self.maps)

    @property
    def parts(self) -> Parts:
        """Return the maps, each with the ranks that it sees."""
        return self.maps

    def features(self, X: Array) -> Array:
        """Return the features of all maps side by side."""
        parts = (part.features(on_ranks(ranks, X)) for ranks, part in self.maps)
        return np.hstack([np.zeros((len(X), 0), X.dtype), *parts])

    def pullback(self, X: Array, G: Array) -> Array:
        """Return the sum over the maps, through the slopes of ranks."""
        total, at = np.zeros(X.shape), 0
        for ranks, part in self.maps:
            slopes = 1.0 if ranks is None else ranks.slopes(X)
            total += part.pullback(on_ranks(ranks, X), G[:, at : at + part.n_features]) * slopes
            at += part.n_features
        return total


def as_orders(interactions: Interactions, d: int) -> tuple[int, ...]:
    """Return the interaction orders as numbers of inputs, "full" being d; orders above d are full.

    >>> as_orders((1, 2, "full"), d=5)
    (1, 2, 5)
    >>> as_orders(0, d=5)
    Traceback (most recent call last):
    ...
    ValueError: interactions must be 'full', a positive number of inputs or a tuple of these, ...; got 0.
    """
    given: list[Any] = list(interactions) if isinstance(interactions, (list, tuple)) else [interactions]
    if not given or not all(map(_is_order, given)):
        raise ValueError(
            "interactions must be 'full', a positive number of inputs or a tuple of these, as in (1, 2, 'full'); got"
            f" {brief(interactions)}."
        )
    return tuple(sorted({d if isinstance(q, str) else min(int(q), d) for q in given}))


def _is_order(q: Any) -> bool:
    whole = isinstance(q, (int, np.integer)) and not isinstance(q, (bool, np.timedelta64))
    return bool(q >= 1) if whole else isinstance(q, str) and q == "full"
