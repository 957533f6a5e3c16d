"""The first layer of the default: one or two parts, a linear term, and the prior variance of every feature."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from .._types import Array
from .features import FeatureMap, JointMap, LinearMap, features
from .gaussians import GaussianMap
from .landmarks import LandmarkMap
from .levels import LevelMap
from .machine import Machine
from .warp import Warp, warped

Map: TypeAlias = FeatureMap | LinearMap | GaussianMap | LandmarkMap | LevelMap


@dataclass(frozen=True)
class Part:
    """A feature map on the inputs or their ranks, and the factor that gives its features their prior variance."""

    warp: Warp | None
    phi: Map
    factor: Array | float  # a matrix whitens landmarks


@dataclass(frozen=True)
class Prior:
    """phi_1 with the prior variances of its features, and the noise variance."""

    parts: tuple[Part, ...]
    linear: Array | None
    noise: float
    precise: bool = False  # whether sums over many rows are in float64, for fits with next to no noise

    def columns(self) -> Iterator[tuple[Part | None, Array | float, slice]]:
        """The walk over the parts: each with its factor and its columns; the linear term, part None, comes last."""
        at = 0
        for part in self.parts:
            yield part, part.factor, slice(at, at + part.phi.n_features)
            at += part.phi.n_features
        if self.linear is not None:
            yield None, self.linear, slice(at, at + len(self.linear))

    @property
    def n_features(self) -> int:
        return int(max(at.stop for _, _, at in self.columns()))

    def rows_of_features(self, X: Array) -> Array:
        """Features with unit prior variance."""
        result = np.empty((len(X), self.n_features), X.dtype)
        for part, factor, at in self.columns():
            F = X if part is None else _features(part, X)
            if np.ndim(factor) == 2:
                _times_triangle(F, np.asarray(factor), result[:, at])
            else:
                np.multiply(F, np.asarray(factor, X.dtype), out=result[:, at])
        return result

    def scaled(self, B: Array, transposed: bool = False) -> Array:
        """B T, or B T', with T the factors on the diagonal."""
        result = np.empty_like(B)
        for _, factor, at in self.columns():
            T = np.asarray(factor)
            result[:, at] = B[:, at] @ (T.T if transposed else T) if T.ndim == 2 else B[:, at] * T
        return result

    def inputs(self, X: Array) -> Array:
        """X in the precision that sums over many rows are taken in."""
        return X if self.precise else X.astype(np.float32)

    def machine(self, coefficients: Array, intercept: Array) -> Machine:
        """The one-layer machine of a ridge on those features; prior variances are folded into the weights."""
        W = self.scaled(coefficients.T, transposed=True).T
        phi = JointMap(tuple((part.warp, part.phi) for part in self.parts))
        return Machine((phi,), ((np.vstack([W, intercept]),),), linear=self.linear is not None)


def _features(part: Part, X: Array) -> Array:
    return features(part.phi, X if part.warp is None else warped(part.warp, X).astype(X.dtype, copy=False))


def _times_triangle(F: Array, U: Array, out: Array, width: int = 500) -> None:
    """F U into `out` for an upper triangular U, without most of the zeros."""
    U = U.astype(F.dtype, copy=False)
    for begin in range(0, len(U), width):
        end = min(begin + width, len(U))
        np.matmul(F[:, :end], U[:end, begin:end], out=out[:, begin:end])
