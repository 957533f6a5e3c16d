"""Kernels and their spectral laws.

A shift-invariant kernel with K(0) = 1 is the Fourier transform of a probability law: K(x, x') = E[cos(omega'(x - x'))].
A kernel here is that pair. Calling it evaluates K, between the rows of two matrices or between two vectors, as
`KernelRidge(kernel=...)` and its like call theirs; `frequencies` turns standard normal draws into draws of
omega, so that any coupling between the normal draws (orthogonal columns, say) carries over to every kernel without
changing the law of a single omega.

The scale gamma multiplies the frequencies, so K is evaluated at `gamma * x` and the length scale is 1/gamma.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import gammaln, kve, log_ndtr

from ._types import Array
from .runtime.checks import brief, finite_array, number
from .runtime.sizes import LEAST_ORDER, LONGEST_FREQUENCY

__all__ = ["Cauchy", "Gaussian", "Kernel", "KernelLike", "Laplacian", "Matern", "as_kernel"]


@runtime_checkable
class Kernel(Protocol):
    """A kernel has a value between two rows, and a spectral law."""

    def __call__(self, X: Array, Y: Array) -> Array:
        """Return the matrix K(x_i, y_j); for two vectors, where it is to serve other packages as well, the number K(x,
        y)."""
        ...

    def frequencies(self, normal: Array, rng: np.random.Generator) -> Array:
        """Return frequencies omega, one per column, made from standard normal draws of the same shape (d, D)."""
        ...


KernelLike: TypeAlias = str | Kernel


class _Callable:
    """K between rows, from the matrix of a kernel; between two vectors, a number.

    >>> float(Gaussian()([0.0, 0.0], [1.0, 1.0]).round(3))
    0.368
    """

    def __call__(self, X: Array, Y: Array) -> Array:
        """Return the matrix K(x_i, y_j), or the number K(x, y) for two vectors."""
        X = finite_array("X", X, "a vector or a table", (None,), (None, None))
        Y = finite_array("Y", Y, "a vector or a table as wide as X", (*(None,) * (X.ndim - 1), X.shape[-1]))
        K = self.matrix(np.atleast_2d(X), np.atleast_2d(Y))
        value: Array = K[0, 0] if X.ndim == 1 else K
        return value

    def matrix(self, X: Array, Y: Array) -> Array:
        """Return the matrix K(x_i, y_j)."""
        raise NotImplementedError


@dataclass(frozen=True)
class Gaussian(_Callable):
    """K(x, x') = exp(-|x - x'|^2 / 2), with omega ~ N(0, I)."""

    def matrix(self, X: Array, Y: Array) -> Array:
        """Return exp(-|x - y|^2 / 2)."""
        return np.exp(-0.5 * cdist(X, Y, "sqeuclidean"))

    def frequencies(self, normal: Array, rng: np.random.Generator) -> Array:
        """Return the normal draws themselves."""
        return normal


@dataclass(frozen=True)
class Matern(_Callable):
    """K(x, x') = 2^(1-nu) / Gamma(nu) s^nu K_nu(s) with s = sqrt(2 nu) |x - x'|; omega is multivariate t with 2 nu
    degrees of freedom.

    K_nu is the modified Bessel function of the second kind. nu = 1/2 is exp(-|x - x'|); nu to infinity is the Gaussian
    kernel, nu to 0 is 1 where x = x' and 0 elsewhere.
    """

    nu: float = 2.5

    def __post_init__(self) -> None:
        nu = number("The smoothness nu of a Matern kernel", self.nu, above=0, words="a positive number")
        object.__setattr__(self, "nu", nu)

    def matrix(self, X: Array, Y: Array) -> Array:
        """Return the Matérn kernel of the distances, by Bessel functions where nu has no simple formula."""
        nu = max(self.nu, LEAST_ORDER)
        s: Array = np.sqrt(2 * nu) * cdist(X, Y)
        if self.nu == 0.5:
            return np.exp(-s)
        if self.nu == 1.5:
            return np.asarray((1 + s) * np.exp(-s))
        if self.nu == 2.5:
            return np.asarray((1 + s + s**2 / 3) * np.exp(-s))
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            bessel = kve(nu, s)  # infinite at and near 0, where the kernel is 1
            logarithm = (1 - nu) * np.log(2) - gammaln(nu) + nu * np.log(s) + np.log(bessel) - s
        return np.where(np.isfinite(bessel), np.exp(np.where(np.isfinite(bessel), logarithm, 0)), 1.0)

    def frequencies(self, normal: Array, rng: np.random.Generator) -> Array:
        """Return draws of the multivariate t distribution with 2 nu degrees of freedom."""
        squares = rng.chisquare(2 * self.nu, size=normal.shape[1])  # rounded to 0 for a small nu
        with np.errstate(divide="ignore", over="ignore"):
            lengths: Array = np.minimum(np.sqrt(2 * self.nu / squares), LONGEST_FREQUENCY)
        return normal * lengths


@dataclass(frozen=True)
class Laplacian(_Callable):
    """K(x, x') = exp(-|x - x'|_1), with independent Cauchy frequencies (the paper's "Cauchy random features")."""

    def matrix(self, X: Array, Y: Array) -> Array:
        """Return exp(-|x - y|_1)."""
        return np.exp(-cdist(X, Y, "cityblock"))

    def frequencies(self, normal: Array, rng: np.random.Generator) -> Array:
        """Return independent Cauchy draws."""
        return np.sign(normal) / np.tan(np.pi * np.exp(log_ndtr(-np.abs(normal))))


@dataclass(frozen=True)
class Cauchy(_Callable):
    """K(x, x') = prod_j 1 / (1 + (x_j - x'_j)^2), with independent Laplace frequencies."""

    def matrix(self, X: Array, Y: Array) -> Array:
        """Return prod_j 1 / (1 + (x_j - y_j)^2)."""
        return np.exp(-sum(np.log1p((X[:, [j]] - Y[:, j]) ** 2) for j in range(X.shape[1])))

    def frequencies(self, normal: Array, rng: np.random.Generator) -> Array:
        """Return independent Laplace draws."""
        lengths: Array = -(log_ndtr(-np.abs(normal)) + np.log(2))
        return np.sign(normal) * lengths


_BY_NAME: dict[str, Callable[[], Kernel]] = {
    "gaussian": Gaussian,
    "matern": Matern,
    "laplacian": Laplacian,
    "cauchy": Cauchy,
}


def as_kernel(kernel: KernelLike) -> Kernel:
    """Return a kernel from its name, or the kernel itself.

    >>> as_kernel("gaussian")
    Gaussian()
    >>> as_kernel(Matern(nu=1.5))
    Matern(nu=1.5)
    >>> as_kernel("rbf")
    Traceback (most recent call last):
    ...
    ValueError: A kernel must be one of 'gaussian', 'matern', 'laplacian', 'cauchy' or an object...; got 'rbf'.
    """
    if isinstance(kernel, str) and kernel in _BY_NAME:
        return _BY_NAME[kernel]()
    if not isinstance(kernel, (str, type)) and isinstance(kernel, Kernel):
        return kernel
    names = ", ".join(repr(name) for name in _BY_NAME)
    raise ValueError(
        f"A kernel must be one of {names} or an object such as mlkm.kernels.Matern(nu=1.5); got {brief(kernel)}."
    )
