"""The default's model: a random function that is a sum of independent ones, each with a kernel of its own.

    K(x, x') = sum_t v_t K_t(x, x') + sum_j l_j^2 x_j x'_j

The maps of the terms are in `kernel_maps`. The fit on rows z_1..z_n is f(x) = sum_i alpha_i K(x, z_i) + a: one layer
whose features are the terms'.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import DTypeLike

from .._types import Array
from ..data import blocks
from ..runtime.resources import stop_if_asked
from ..runtime.sizes import PIECE_COLUMNS, PIECE_ROWS
from .features import JointMap, KernelMap, RankTransform, on_ranks
from .kernel_maps import LinearMap, leading_directions
from .machine import Machine
from .transforms import BackTransform, TargetTransform


def compressed(F: Array) -> Array:
    """Return fewer columns with the same products of rows, to the precision of F: its leading principal directions."""
    V = leading_directions((F.T @ F).astype(np.float64), np.finfo(F.dtype).eps)
    return np.asarray(F @ V.astype(F.dtype))


@dataclass(frozen=True)
class Term:
    """One kernel of a sum, on the inputs or on their ranks, and its variance; the points of its map are replaced as
    needed."""

    ranks: RankTransform | None
    phi: KernelMap
    variance: float

    def seen(self, X: Array) -> Array:
        """Return the rows of X as this kernel sees them."""
        return on_ranks(self.ranks, X)

    def at(self, X: Array, dtype: DTypeLike) -> KernelMap:
        """Return the map with its features at the rows of X; cosines stay as they are."""
        return self.phi.at(self.seen(X).astype(dtype))

    def codes(self, X: Array) -> Array:
        """Return numbers per row from which the kernel between two rows follows: their product, or their distance."""
        codes = self.phi.codes(self.seen(X), X.dtype)
        return codes * X.dtype.type(np.sqrt(self.variance)) if self.phi.is_product else codes

    def between(self, a: Array, b: Array, dtype: DTypeLike) -> Array:
        """Return v K for all pairs of rows, by their codes."""
        return self.phi.between(a, b, dtype, self.variance)

    def diagonal(self, X: Array) -> Array | float:
        """Return K(x, x) for every row, without the variance."""
        return self.phi.diagonal(self.seen(X))


@dataclass(frozen=True)
class SumKernel:
    """Terms and, for a linear one, the prior standard deviations of its slopes (d,)."""

    terms: tuple[Term, ...]
    linear: Array | None = None

    @property
    def every_term(self) -> tuple[Term, ...]:
        """Return the terms, the linear one last."""
        return self.terms if self.linear is None else (*self.terms, Term(None, LinearMap(self.linear), 1.0))

    def codes(self, X: Array) -> list[Array]:
        """Return the codes of the rows for every term."""
        return [term.codes(X) for term in self.every_term]

    def matrices(self, A: Array, B: Array) -> list[Array]:
        """Return K_t(a, b) with its variance, for all rows a of A and b of B, for every term."""
        both = zip(self.every_term, self.codes(A), self.codes(B), strict=True)
        return [term.between(a, b, A.dtype) for term, a, b in both]

    def matrix(self, A: Array, B: Array) -> Array:
        """Return K(a, b) for all rows a of A and b of B."""
        return self.between(self.codes(A), self.codes(B), A.dtype)

    def between(self, a: list[Array], b: list[Array], dtype: DTypeLike) -> Array:
        """Return K for all pairs of rows with these codes."""
        K: Array = np.empty((len(a[0]), len(b[0])), dtype)
        left, right = self.products(a), self.products(b)
        for at in blocks(len(K), PIECE_ROWS):
            self._fill(K[at], [codes[at] for codes in a], b, left[at], right)
        return K

    def apart(self, a: list[Array], b: list[Array], dtype: DTypeLike) -> Array:
        """Return the same without the terms whose kernel is a product of codes, in one piece."""
        K: Array = np.zeros((len(a[0]), len(b[0])), dtype)
        self._add(K, a, b)
        return K

    def strips(self, X: Array) -> Iterator[tuple[slice, Array]]:
        """Yield K(x, x') by strips of rows x, each for the rows x' from its first one on: the upper triangle."""
        codes = self.codes(X)
        P = compressed(self.products(codes))
        for at in blocks(len(X), PIECE_ROWS):
            stop_if_asked()
            strip: Array = np.empty((at.stop - at.start, len(X) - at.start), X.dtype)
            others = [of_term[at.start :] for of_term in codes]
            self._fill(strip, [of_term[at] for of_term in codes], others, P[at], P[at.start :])
            yield at, strip

    def upper(self, X: Array) -> Array:
        """Return K(x, x') for all pairs of rows of X, its upper triangle; squares on the diagonal are whole."""
        K: Array = np.zeros((len(X), len(X)), X.dtype)
        for at, strip in self.strips(X):
            K[at, at.start :] = strip
        return K

    def gram(self, X: Array) -> Array:
        """Return K(x, x') for all pairs of rows of X."""
        K = self.upper(X)
        for at in blocks(len(X), PIECE_ROWS):
            K[at.start :, at] = K[at, at.start :].T
        return K

    def products(self, codes: list[Array]) -> Array:
        """Return the codes of all terms whose kernel is their product, side by side."""
        parts = [of_term for term, of_term in zip(self.every_term, codes, strict=True) if term.phi.is_product]
        return np.hstack(parts) if parts else np.zeros((len(codes[0]), 0), codes[0].dtype)

    def _fill(self, K: Array, a: list[Array], b: list[Array], left: Array, right: Array) -> None:
        """Write K for the codes a and b, in pieces that stay in a processor's cache."""
        for at in blocks(K.shape[1], PIECE_COLUMNS):
            piece: Array = left @ right[at].T
            self._add(piece, a, [codes[at] for codes in b])
            K[:, at] = piece

    def _add(self, piece: Array, a: list[Array], b: list[Array]) -> None:
        """Add the terms whose kernel is no product to a piece of K."""
        for term, of_a, of_b in zip(self.every_term, a, b, strict=True):
            if not term.phi.is_product:
                piece += term.between(of_a, of_b, piece.dtype)

    def diagonal(self, X: Array) -> Array:
        """Return K(x, x) for every row."""
        total = np.zeros(len(X))
        for term in self.every_term:
            total = total + term.variance * term.diagonal(X)
        return total

    def scaled(self, factors: Sequence[float]) -> "SumKernel":
        """Return the kernel with every term's variance times its factor, the linear one's last."""
        terms = tuple(replace(term, variance=term.variance * f) for term, f in zip(self.terms, factors, strict=False))
        linear = None if self.linear is None else self.linear * np.sqrt(factors[-1])
        return SumKernel(terms, linear)

    def with_short_texts(self, X: Array) -> "SumKernel":
        """Return the kernel with no more directions of texts than the rows X tell apart."""
        return replace(self, terms=tuple(replace(term, phi=term.phi.with_short_texts(X)) for term in self.terms))

    def scales(self, d: int) -> Array:
        """Return the root mean square, weighted by variances, of every input's scale over the terms that have one."""
        scales = [(term.variance, term.phi.squared_scales()) for term in self.terms]
        seen = [(variance, squares) for variance, squares in scales if squares is not None]
        total = sum(variance for variance, _ in seen)
        return np.sqrt(sum(variance * squares for variance, squares in seen) / total) if total else np.zeros(d)

    def machine(self, X: Array, alpha: Array, intercept: Array, single: bool = False) -> Machine:
        """Return sum_i alpha_i K(x, x_i) + a as a machine of one layer; alpha is (n, k). Kernels are in float32 if
        `single`."""
        dtype = np.float32 if single else np.float64
        maps = tuple((term.ranks, term.at(X, dtype)) for term in self.terms)
        weights = [term.variance * term.phi.weights(term.seen(X), alpha) for term in self.terms]
        if self.linear is not None:
            weights.append(self.linear[:, None] ** 2 * (X.T @ alpha))
        W = np.vstack([*weights, intercept])
        return Machine((JointMap(maps),), ((W,),), linear=self.linear is not None)


def joined(kernels: Sequence[SumKernel]) -> SumKernel:
    """Return the sum of several; slopes of the linear terms are those of their sum."""
    linears = [kernel.linear for kernel in kernels if kernel.linear is not None]
    linear = np.sqrt(sum(np.square(slopes) for slopes in linears)) if linears else None
    return SumKernel(tuple(term for kernel in kernels for term in kernel.terms), linear)


@dataclass(frozen=True)
class TransformedKernel:
    """A kernel for transformed targets: the kernel, the noise variance of its solve, the transform and the
    back-transform, its share of the fit, and the share of the noise that has one size on the transformed scale rather
    than on that of the targets."""

    kernel: SumKernel
    noise: float
    target_transform: TargetTransform
    back_transform: BackTransform
    share: float
    noise_share: float
