"""The first layer of the default: one or two parts, a linear term, and the prior variance of every feature."""

from dataclasses import dataclass

import numpy as np

from .._types import Array
from .features import FeatureMap, JointMap, features
from .landmarks import LandmarkMap
from .machine import Machine
from .warp import Warp, warped


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

    def rows_of_features(self, X: Array) -> Array:
        """Features with unit prior variance."""
        widths = [part.phi.n_features for part in self.parts] + [0 if self.linear is None else X.shape[1]]
        result = np.empty((len(X), sum(widths)), X.dtype)
        *columns, last = np.split(result, np.cumsum(widths)[:-1], axis=1)
        for part, out in zip(self.parts, columns, strict=True):
            F = features(part.phi, X if part.warp is None else warped(part.warp, X).astype(X.dtype, copy=False))
            if isinstance(part.factor, np.ndarray):
                _times_triangle(F, part.factor, out)
            else:
                np.multiply(F, X.dtype.type(part.factor), out=out)
        if self.linear is not None:
            np.multiply(X, self.linear.astype(X.dtype), out=last)
        return result

    def inputs(self, X: Array) -> Array:
        """X in the precision that sums over many rows are taken in: float32, but for fits with next to no noise."""
        return X if self.noise < 1e-3 else X.astype(np.float32)

    def machine(self, coefficients: Array, intercept: Array) -> Machine:
        """The one-layer machine of a ridge on those features; prior variances are folded into the weights."""
        W, at = [], 0
        for part in self.parts:
            c = coefficients[at : at + part.phi.n_features]
            W.append(part.factor @ c if isinstance(part.factor, np.ndarray) else part.factor * c)
            at += part.phi.n_features
        if self.linear is not None:
            W.append(self.linear[:, None] * coefficients[at:])
        phi = JointMap(tuple((part.warp, part.phi) for part in self.parts))
        return Machine((phi,), ((np.vstack([*W, intercept]),),), linear=self.linear is not None)


def _times_triangle(F: Array, U: Array, out: Array, width: int = 500) -> None:
    """F U into `out` for an upper triangular U, without most of the zeros."""
    U = U.astype(F.dtype, copy=False)
    for begin in range(0, len(U), width):
        end = min(begin + width, len(U))
        np.matmul(F[:, :end], U[:end, begin:end], out=out[:, begin:end])
