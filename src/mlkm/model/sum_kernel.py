"""The default's model: a random function that is a sum of independent ones, each with a kernel of its own.

    K(x, x') = sum_t v_t K_t(x, x') + sum_j l_j^2 x_j x'_j

A term is cosines or coordinates of texts (their products are its kernel), the Gaussian kernel on learned directions,
the l1-Laplacian kernel on ranks, or random effects of levels. The fit on rows z_1..z_n is
f(x) = sum_i alpha_i K(x, z_i) + a: one layer whose features are the terms'.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from .._types import Array
from ..data import blocks
from ..runtime.threads import stop_if_asked
from .features import FeatureMap, JointMap, LinearMap, features
from .gaussian import GaussianMap
from .laplace import LandmarkMap, minus_distances, scaled_points
from .levels import (
    LevelMap,
    along_texts,
    fewer_directions,
    less_apart,
    less_unlike,
    minus_half_squares,
    same_levels,
    seen_levels,
)
from .machine import Machine
from .rank_transform import Warp, warped
from .target_transform import Link, Power

Map: TypeAlias = FeatureMap | LinearMap | GaussianMap | LandmarkMap | LevelMap
PRODUCTS = (FeatureMap, LinearMap)  # maps whose kernel is the product of their features
_TALL, _WIDE = 128, 2048  # rows and columns of a piece


@dataclass(frozen=True)
class Term:
    """One kernel, on the inputs or on their ranks, and its variance; the points of its map are replaced as needed."""

    warp: Warp | None
    phi: Map
    variance: float

    def seen(self, X: Array) -> Array:
        """The rows of X as this kernel sees them."""
        return X if self.warp is None else warped(self.warp, X).astype(X.dtype, copy=False)

    def at(self, X: Array, dtype: Any) -> Map:
        """The map with its features at the rows of X; cosines stay as they are."""
        return self.phi if isinstance(self.phi, PRODUCTS) else replace(self.phi, points=self.seen(X).astype(dtype))

    def codes(self, X: Array) -> Array:
        """Numbers per row from which the kernel between two rows follows: their product, or their distance, the levels
        that are looked at last."""
        Z = self.seen(X)
        if isinstance(self.phi, PRODUCTS):
            return features(self.phi, Z) * Z.dtype.type(np.sqrt(self.variance))
        levels = Z[:, seen_levels(self.unlike)]
        if isinstance(self.phi, LevelMap):
            return levels
        texts = along_texts(self.phi.texts, Z, Z.dtype)
        if isinstance(self.phi, GaussianMap):
            return np.hstack([Z @ self.phi.matrix.T, texts, levels])  # in float64: squares of distances cancel
        return np.hstack([scaled_points(self.phi, Z), texts, levels])

    def with_short_texts(self, X: Array) -> "Term":
        phi = self.phi
        if not isinstance(phi, GaussianMap | LandmarkMap) or phi.texts is None:
            return self
        return replace(self, phi=replace(phi, texts=fewer_directions(phi.texts, X)))

    @property
    def unlike(self) -> Array | None:
        """The weights of levels."""
        if isinstance(self.phi, PRODUCTS):
            return None
        return self.phi.variances if isinstance(self.phi, LevelMap) else self.phi.unlike

    def diagonal(self, X: Array) -> Array | float:
        """K(x, x) for every row, without the variance."""
        if isinstance(self.phi, PRODUCTS):
            return np.asarray((features(self.phi, self.seen(X)) ** 2).sum(axis=1))
        return float(self.phi.variances.sum()) if isinstance(self.phi, LevelMap) else 1.0

    def between(self, a: Array, b: Array, dtype: Any) -> Array:
        """v K for all pairs of rows, by their codes."""
        if isinstance(self.phi, PRODUCTS):
            product: Array = a @ b.T
            return product
        levels = seen_levels(self.unlike)
        if isinstance(self.phi, LevelMap):
            return same_levels(a, b, self.variance * self.phi.variances[levels], dtype)
        at, weights = a.shape[1] - len(levels), None if self.unlike is None else self.unlike[levels]
        k = at - (0 if self.phi.texts is None else len(self.phi.texts))
        if isinstance(self.phi, GaussianMap):
            K = minus_half_squares(a[:, :k], b[:, :k]).astype(dtype, copy=False)
        else:
            K = minus_distances(np.ascontiguousarray(a[:, :k]), np.ascontiguousarray(b[:, :k]), dtype)
        K = less_apart(K, a[:, k:at].astype(dtype), b[:, k:at].astype(dtype))
        if weights is not None and len(weights):
            K = less_unlike(K, a[:, at:], b[:, at:], weights)
        np.exp(K, out=K)
        K *= K.dtype.type(self.variance)
        return K


def compressed(F: Array) -> Array:
    """Fewer columns with the same products of rows, to the precision of F: its leading principal directions."""
    if F.shape[1] == 0:
        return F
    values, V = np.linalg.eigh((F.T @ F).astype(np.float64))
    lost = np.cumsum(np.maximum(values, 0)) < np.finfo(F.dtype).eps * values.sum()
    return F @ V[:, ~lost].astype(F.dtype)


@dataclass(frozen=True)
class SumKernel:
    """Terms and, for a linear one, the prior standard deviations of its slopes (d,)."""

    terms: tuple[Term, ...]
    linear: Array | None = None

    def codes(self, X: Array) -> list[Array]:
        """Of the rows, for every term, the linear one last."""
        result = [term.codes(X) for term in self.terms]
        return result if self.linear is None else [*result, X * self.linear.astype(X.dtype)]

    def matrices(self, A: Array, B: Array) -> list[Array]:
        """K_t(a, b) with its variance, for all rows a of A and b of B: one for every term, the linear one last."""
        own, others = self.codes(A), self.codes(B)
        result = [term.between(a, b, A.dtype) for term, a, b in zip(self.terms, own, others, strict=False)]
        return result if self.linear is None else [*result, own[-1] @ others[-1].T]

    def matrix(self, A: Array, B: Array) -> Array:
        """K(a, b) for all rows a of A and b of B."""
        return self.between(self.codes(A), self.codes(B), A.dtype)

    def between(self, own: list[Array], others: list[Array], dtype: Any) -> Array:
        """The same, by their codes."""
        K: Array = np.empty((len(own[0]), len(others[0])), dtype)
        left, right = self.products(own), self.products(others)
        for at in blocks(len(K), _TALL):
            self._fill(K[at], [codes[at] for codes in own], others, left[at], right)
        return K

    def apart(self, own: list[Array], others: list[Array], dtype: Any) -> Array:
        """The same without the terms whose kernel is a product of codes, in one piece."""
        K: Array = np.zeros((len(own[0]), len(others[0])), dtype)
        self._add(K, own, others)
        return K

    def strips(self, X: Array) -> Iterator[tuple[slice, Array]]:
        """K(x, x') by strips of rows x, each for the rows x' from its own first one on: the upper triangle."""
        own = self.codes(X)
        P = compressed(self.products(own))
        for at in blocks(len(X), _TALL):
            stop_if_asked()
            strip: Array = np.empty((at.stop - at.start, len(X) - at.start), X.dtype)
            others = [codes[at.start :] for codes in own]
            self._fill(strip, [codes[at] for codes in own], others, P[at], P[at.start :])
            yield at, strip

    def upper(self, X: Array) -> Array:
        """K(x, x') for all pairs of rows of X, its upper triangle; squares on the diagonal are whole."""
        K: Array = np.zeros((len(X), len(X)), X.dtype)
        for at, strip in self.strips(X):
            K[at, at.start :] = strip
        return K

    def gram(self, X: Array) -> Array:
        """K(x, x') for all pairs of rows of X."""
        K = self.upper(X)
        for at in blocks(len(X), _TALL):
            K[at.start :, at] = K[at, at.start :].T
        return K

    def products(self, codes: list[Array]) -> Array:
        """The codes of all terms whose kernel is their product, side by side."""
        parts = [own for term, own in zip(self.terms, codes, strict=False) if isinstance(term.phi, PRODUCTS)]
        parts += [codes[-1]] if self.linear is not None else []
        return np.hstack(parts) if parts else np.zeros((len(codes[0]), 0), codes[0].dtype)

    def _fill(self, K: Array, own: list[Array], others: list[Array], left: Array, right: Array) -> None:
        """In pieces that stay in a processor's cache."""
        for at in blocks(K.shape[1], _WIDE):
            piece: Array = left @ right[at].T
            self._add(piece, own, [codes[at] for codes in others])
            K[:, at] = piece

    def _add(self, piece: Array, own: list[Array], others: list[Array]) -> None:
        """To a piece of K the terms whose kernel is no product."""
        for term, a, b in zip(self.terms, own, others, strict=False):
            if not isinstance(term.phi, PRODUCTS):
                piece += term.between(a, b, piece.dtype)

    def diagonal(self, X: Array) -> Array:
        """K(x, x) for every row."""
        total = np.zeros(len(X)) if self.linear is None else ((X * self.linear) ** 2).sum(axis=1)
        for term in self.terms:
            total = total + term.variance * term.diagonal(X)
        return np.asarray(total)

    def scaled(self, factors: Sequence[float]) -> "SumKernel":
        """Every term's variance times its factor, the linear one's last."""
        terms = tuple(replace(term, variance=term.variance * f) for term, f in zip(self.terms, factors, strict=False))
        linear = None if self.linear is None else self.linear * np.sqrt(factors[-1])
        return SumKernel(terms, linear)

    def with_short_texts(self, X: Array) -> "SumKernel":
        """With no more directions of texts than the rows X tell apart."""
        return replace(self, terms=tuple(term.with_short_texts(X) for term in self.terms))

    def machine(self, X: Array, alpha: Array, intercept: Array, single: bool = False) -> Machine:
        """sum_i alpha_i K(x, x_i) + a as a machine of one layer; alpha is (n, k). Kernels are in float32
        if `single`."""
        maps, weights = [], []
        for term in self.terms:
            maps.append((term.warp, term.at(X, np.float32 if single else np.float64)))
            own = features(term.phi, term.seen(X)).T @ alpha if isinstance(term.phi, PRODUCTS) else alpha
            weights.append(term.variance * own)
        if self.linear is not None:
            weights.append(self.linear[:, None] ** 2 * (X.T @ alpha))
        W = np.vstack([*weights, intercept])
        return Machine((JointMap(tuple(maps)),), ((W,),), linear=self.linear is not None)


def joined(kernels: Sequence[SumKernel]) -> SumKernel:
    """The sum of several; slopes of the linear terms are those of their sum."""
    linears = [kernel.linear for kernel in kernels if kernel.linear is not None]
    linear = np.sqrt(sum(np.square(slopes) for slopes in linears)) if linears else None
    return SumKernel(tuple(term for kernel in kernels for term in kernel.terms), linear)


@dataclass(frozen=True)
class WarpedKernel:
    """The kernel, the noise variance of its solve, the way there and back, its share of the fit, and the share of the
    noise that has one size on that scale rather than on that of the targets."""

    kernel: SumKernel
    noise: float
    power: Power
    link: Link
    share: float
    noise_share: float
