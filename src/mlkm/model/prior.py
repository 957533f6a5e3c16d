"""The first layer of the default: its parts, a linear term, and the prior variance of every feature."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import get_blas_funcs

from .._types import Array
from .features import JointMap, Map, Parts
from .machine import Machine
from .sum_kernel import SumKernel


@dataclass(frozen=True)
class Part:
    """A feature map, and the factor that gives its features their prior variance."""

    phi: Map
    factor: Array | float

    @property
    def n_features(self) -> int:
        """Return the number of features of the map."""
        return self.phi.n_features

    @property
    def maps(self) -> Parts:
        """Return the map, as a part of a joint map."""
        return self.phi.parts

    def features(self, X: Array, out: Array) -> None:
        """Write features with unit prior variance to `out`."""
        F = self.phi.features(X)
        np.multiply(F, np.asarray(self.factor, X.dtype), out=out)

    def scales(self) -> Array | None:
        """Return None: the frequencies of the map say its scales."""
        return None

    def scaled(self, B: Array) -> Array:
        """Return B T, with T the factors on the diagonal: from the features of the maps to those of unit variance."""
        return np.asarray(B * self.factor)

    def folded(self, B: Array) -> Array:
        """Return B T': from weights of these features to weights of the maps."""
        return np.asarray(B * self.factor)


@dataclass(frozen=True)
class SumPart:
    """The values of a sum of kernels at landmarks, whitened by an upper triangular factor. As maps, the kernels stand
    side by side."""

    kernel: SumKernel
    points: Array
    factor: Array

    @property
    def n_features(self) -> int:
        """Return the number of landmarks."""
        return len(self.points)

    @property
    def maps(self) -> Parts:
        """Return the kernels of the sum at the landmarks, side by side."""
        return tuple((term.ranks, term.at(self.points, np.float64)) for term in self.kernel.terms)

    def features(self, X: Array, out: Array) -> None:
        """Write features with unit prior variance to `out`."""
        K, upper = self.kernel.matrix(X, self.points.astype(X.dtype)), self.factor.astype(X.dtype, copy=False)
        (times_triangle,) = get_blas_funcs(("trmm",), (upper, K))
        out[...] = times_triangle(1.0, upper.T, K.T, lower=1, overwrite_b=1).T

    def scales(self) -> Array | None:
        """Return the scales of the inputs, which are those of the kernel."""
        return self.kernel.scales(self.points.shape[1])

    def scaled(self, B: Array) -> Array:
        """Return B T: the kernels of the maps summed up with their variances, and whitened."""
        each = zip(self.kernel.terms, np.split(B, len(self.kernel.terms), axis=1), strict=True)
        return np.asarray(sum(term.variance * of_term for term, of_term in each) @ self.factor)

    def folded(self, B: Array) -> Array:
        """Return B T'."""
        every = B @ self.factor.T
        return np.hstack([term.variance * every for term in self.kernel.terms])


@dataclass(frozen=True)
class Prior:
    """phi_1 with the prior variances of its features, and the noise variance."""

    parts: tuple[Part | SumPart, ...]
    linear: Array | None
    noise: float
    precise: bool = False  # whether sums over many rows are in float64, for fits with next to no noise

    @property
    def width(self) -> int:
        """Return how many features there are beside the linear term."""
        return sum(part.n_features for part in self.parts)

    @property
    def n_features(self) -> int:
        """Return the number of features, linear term included."""
        return self.width + (0 if self.linear is None else len(self.linear))

    def rows_of_features(self, X: Array) -> Array:
        """Return features with unit prior variance."""
        result = np.empty((len(X), self.n_features), X.dtype)
        at = 0
        for part in self.parts:
            part.features(X, result[:, at : at + part.n_features])
            at += part.n_features
        if self.linear is not None:
            np.multiply(X, self.linear.astype(X.dtype), out=result[:, at:])
        return result

    def scaled(self, B: Array, transposed: bool = False) -> Array:
        """Return B T, or B T', with T the factors on the diagonal: from the features of the maps to those of unit
        variance, and back."""
        pieces, at = [], 0
        for part in self.parts:
            width = part.n_features if transposed else sum(phi.n_features for _, phi in part.maps)
            piece = B[:, at : at + width]
            pieces.append(part.folded(piece) if transposed else part.scaled(piece))
            at += width
        return np.hstack(pieces if self.linear is None else [*pieces, B[:, at:] * self.linear])

    def inputs(self, X: Array) -> Array:
        """Return X in the precision that sums over many rows are taken in."""
        return X if self.precise else X.astype(np.float32)

    def machine(self, coefficients: Array, intercept: Array) -> Machine:
        """Return the one-layer machine of a ridge on those features; prior variances are folded into the weights."""
        W = self.scaled(coefficients.T, transposed=True).T
        phi = JointMap(tuple(both for part in self.parts for both in part.maps))
        return Machine((phi,), ((np.vstack([W, intercept]),),), linear=self.linear is not None)
