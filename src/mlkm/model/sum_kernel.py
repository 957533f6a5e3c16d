"""The default's model: a random function that is a sum of independent ones, each with a kernel of its own.

    K(x, x') = sum_t v_t K_t(x, x') + sum_j l_j^2 x_j x'_j

A term is cosines (their products are its kernel), the Gaussian kernel on learned directions, or the l1-Laplacian kernel
on ranks. The fit on rows z_1..z_n is f(x) = sum_i alpha_i K(x, z_i) + a: one layer whose features are the terms'.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from scipy.spatial.distance import cdist

from .._threads import stop_if_asked
from .._types import Array
from ..rows import blocks
from .features import FeatureMap, JointMap, features
from .gaussians import GaussianMap
from .landmarks import LandmarkMap
from .machine import Machine
from .warp import Warp, warped

Map: TypeAlias = FeatureMap | GaussianMap | LandmarkMap

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

    def at(self, X: Array) -> Map:
        """The map with its features at the rows of X; cosines stay as they are."""
        return self.phi if isinstance(self.phi, FeatureMap) else replace(self.phi, points=self.seen(X))

    def codes(self, X: Array) -> Array:
        """Numbers per row from which the kernel between two rows follows: their product, or their distance."""
        Z = self.seen(X)
        if isinstance(self.phi, FeatureMap):
            return features(self.phi, Z) * Z.dtype.type(np.sqrt(self.variance))
        if isinstance(self.phi, GaussianMap):
            return Z @ self.phi.matrix.T.astype(Z.dtype)
        return Z[:, self.phi.relevance > 0] * self.phi.relevance[self.phi.relevance > 0].astype(Z.dtype)

    def between(self, a: Array, b: Array) -> Array:
        """v K for all pairs of rows, by their codes."""
        if isinstance(self.phi, FeatureMap):
            product: Array = a @ b.T
            return product
        K = (
            -cdist(a, b, "cityblock").astype(a.dtype)
            if isinstance(self.phi, LandmarkMap)
            else _minus_half_squares(a, b)
        )
        np.exp(K, out=K)
        K *= K.dtype.type(self.variance)
        return K


def _minus_half_squares(a: Array, b: Array) -> Array:
    """-|a - b|^2 / 2 for all pairs of rows, by one matrix product."""
    K: Array = a @ b.T
    K -= 0.5 * np.einsum("nr,nr->n", a, a)[:, None]
    K -= 0.5 * np.einsum("nr,nr->n", b, b)
    return np.minimum(K, 0, out=K)


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
        result = [term.between(a, b) for term, a, b in zip(self.terms, own, others, strict=False)]
        return result if self.linear is None else [*result, own[-1] @ others[-1].T]

    def matrix(self, A: Array, B: Array) -> Array:
        """K(a, b) for all rows a of A and b of B."""
        K: Array = np.empty((len(A), len(B)), A.dtype)
        own, others = self.codes(A), self.codes(B)
        for at in blocks(len(A), _TALL):
            self._fill(K[at], [codes[at] for codes in own], others)
        return K

    def gram(self, X: Array) -> Array:
        """K(x, x') for all pairs of rows of X: one triangle, and its mirror image."""
        n, own = len(X), self.codes(X)
        K: Array = np.empty((n, n), X.dtype)
        for at in blocks(n, _TALL):
            stop_if_asked()
            self._fill(K[at, at.start :], [codes[at] for codes in own], [codes[at.start :] for codes in own])
            K[at.stop :, at] = K[at, at.stop :].T
        return K

    def _fill(self, K: Array, own: list[Array], others: list[Array]) -> None:
        """In pieces that stay in a processor's cache; products of features at once."""
        products = [t for t, term in enumerate(self.terms) if isinstance(term.phi, FeatureMap)]
        products += [len(self.terms)] if self.linear is not None else []
        K[:] = 0
        if products:
            K += np.hstack([own[t] for t in products]) @ np.hstack([others[t] for t in products]).T
        for at in blocks(K.shape[1], _WIDE):
            for term, a, b in zip(self.terms, own, others, strict=False):
                if not isinstance(term.phi, FeatureMap):
                    K[:, at] += term.between(a, b[at])

    def diagonal(self, X: Array) -> Array:
        """K(x, x) for every row."""
        total = np.zeros(len(X)) if self.linear is None else ((X * self.linear) ** 2).sum(axis=1)
        for term in self.terms:
            own = (features(term.phi, term.seen(X)) ** 2).sum(axis=1) if isinstance(term.phi, FeatureMap) else 1.0
            total = total + term.variance * own
        return np.asarray(total)

    def scaled(self, factors: Sequence[float]) -> "SumKernel":
        """Every term's variance times its factor, the linear one's last."""
        terms = tuple(replace(term, variance=term.variance * f) for term, f in zip(self.terms, factors, strict=False))
        linear = None if self.linear is None else self.linear * np.sqrt(factors[-1])
        return SumKernel(terms, linear)

    def machine(self, X: Array, alpha: Array, intercept: Array) -> Machine:
        """sum_i alpha_i K(x, x_i) + a as a machine of one layer; alpha is (n, k)."""
        maps, weights = [], []
        for term in self.terms:
            maps.append((term.warp, term.at(X)))
            own = features(term.phi, term.seen(X)).T @ alpha if isinstance(term.phi, FeatureMap) else alpha
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
