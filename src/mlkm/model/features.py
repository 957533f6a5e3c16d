"""Random features phi(x) = sqrt(2/D) cos(Omega'x + b), with E[phi(x)'phi(x')] = K(x, x').

Interaction orders: a frequency vector with one or two non-zero coordinates gives a feature of one or two inputs. Order
q averages the kernel over all subsets of q inputs: the features of additive (q = 1) and pairwise (q = 2) kernels;
"full" uses every input. A tuple of orders shares the features equally and averages their kernels.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from itertools import combinations
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from .._types import Array, IntArray
from ..kernels import Kernel
from ..runtime.checks import brief, one_of, whole
from ..runtime.memory import check_memory
from .rank_transform import Warp, slopes, warped

Order: TypeAlias = int | Literal["full"]
Interactions: TypeAlias = Order | Sequence[Order]
Sampling: TypeAlias = Literal["iid", "orthogonal"]


@dataclass(frozen=True)
class FeatureMap:
    """Omega (d, D), scales included; phases b (D,); amplitudes (D,), sqrt(2/D) unless features are weighted."""

    frequencies: Array
    phases: Array
    amplitudes: Array

    @property
    def n_features(self) -> int:
        return len(self.phases)

    def astype(self, dtype: DTypeLike) -> "FeatureMap":
        return replace(self, **{k: np.asarray(v, dtype) for k, v in vars(self).items()})


def angles(phi: FeatureMap, X: Array) -> Array:
    """Omega'x + b for every row x, in the precision of X."""
    z = X @ phi.frequencies.astype(X.dtype, copy=False)
    z += phi.phases.astype(X.dtype, copy=False)
    return z


@singledispatch
def features(phi: Any, X: Array) -> Array:
    """phi(x) for every row x."""
    raise TypeError(f"{type(phi).__name__} is not a feature map.")


@features.register
def _(phi: FeatureMap, X: Array) -> Array:
    z = angles(phi, X)
    np.cos(z, out=z)
    z *= phi.amplitudes.astype(X.dtype, copy=False)
    return z


@singledispatch
def pullback(phi: Any, X: Array, G: Array) -> Array:
    """sum_k G_ik dphi_k/dx at every row i, shape (n, d): a gradient with respect to features carried back to the
    inputs."""
    raise TypeError(f"{type(phi).__name__} is not a feature map.")


@pullback.register
def _(phi: FeatureMap, X: Array, G: Array) -> Array:
    slope = np.sin(angles(phi, X))
    slope *= -phi.amplitudes
    slope *= G
    return slope @ phi.frequencies.T


@dataclass(frozen=True)
class LinearMap:
    """Inputs themselves, times their prior standard deviations (d,); inputs of none are not looked at."""

    slopes: Array

    @property
    def n_features(self) -> int:
        return int(np.count_nonzero(self.slopes))


@features.register
def _(phi: LinearMap, X: Array) -> Array:
    seen = np.flatnonzero(phi.slopes)
    return X[:, seen] * phi.slopes[seen].astype(X.dtype)


@pullback.register
def _(phi: LinearMap, X: Array, G: Array) -> Array:
    result = np.zeros(X.shape)
    result[:, np.flatnonzero(phi.slopes)] = G * phi.slopes[np.flatnonzero(phi.slopes)]
    return result


@dataclass(frozen=True)
class JointMap:
    """Several feature maps side by side, each on the inputs as they are or on their ranks."""

    parts: tuple[tuple[Warp | None, Any], ...]

    @property
    def n_features(self) -> int:
        return sum(part.n_features for _, part in self.parts)


@features.register
def _(phi: JointMap, X: Array) -> Array:
    parts = (
        features(part, X if warp is None else warped(warp, X).astype(X.dtype, copy=False)) for warp, part in phi.parts
    )
    return np.hstack([np.zeros((len(X), 0), X.dtype), *parts])


@pullback.register
def _(phi: JointMap, X: Array, G: Array) -> Array:
    total, at = np.zeros(X.shape), 0
    for warp, part in phi.parts:
        g = G[:, at : at + part.n_features]
        total += pullback(part, X, g) if warp is None else pullback(part, warped(warp, X), g) * slopes(warp, X)
        at += part.n_features
    return total


def as_orders(interactions: Interactions, d: int) -> tuple[int, ...]:
    """The interaction orders as numbers of inputs, "full" being d; orders above d are full.

    >>> as_orders((1, 2, "full"), d=5)
    (1, 2, 5)
    >>> as_orders(0, d=5)
    Traceback (most recent call last):
    ...
    ValueError: interactions must be 'full', a positive number of inputs or a tuple of these, ...; got 0.
    """
    given: list[Any] = list(interactions) if isinstance(interactions, (list, tuple)) else [interactions]
    valid = all(_is_order(q) for q in given)
    if not given or not valid:
        raise ValueError(
            "interactions must be 'full', a positive number of inputs or a tuple of these, as in (1, 2, 'full'); got"
            f" {brief(interactions)}."
        )
    return tuple(sorted({d if isinstance(q, str) else min(int(q), d) for q in given}))


def _is_order(q: Any) -> bool:
    whole = isinstance(q, (int, np.integer)) and not isinstance(q, (bool, np.timedelta64))
    return bool(q >= 1) if whole else isinstance(q, str) and q == "full"


def _normal(rng: np.random.Generator, q: int, D: int, sampling: Sampling) -> Array:
    """Standard normal columns in R^q: independent, or orthogonal within blocks of q (each column still exactly N(0,
    I))."""
    if one_of("sampling", sampling, ("iid", "orthogonal")) == "iid":
        return rng.standard_normal((q, D))
    blocks = -(-D // q)
    Q, R = np.linalg.qr(rng.standard_normal((blocks, q, q)))
    Q *= np.sign(np.diagonal(R, axis1=1, axis2=2))[:, None, :]  # makes Q uniform over the orthogonal group
    lengths = np.sqrt(rng.chisquare(q, size=(blocks, 1, q)))
    return (Q * lengths).transpose(1, 0, 2).reshape(q, blocks * q)[:, :D]


def _subsets(rng: np.random.Generator, d: int, q: int, D: int) -> IntArray:
    """D subsets of q of the d inputs, each as a row, every subset drawn as often as any other up to one."""
    if q <= 2 or d <= 12:
        every = np.array(list(combinations(range(d), q)), dtype=np.intp)
        rounds = [rng.permutation(len(every)) for _ in range(-(-D // len(every)))]
        return every[np.concatenate(rounds)[:D]]
    return np.argsort(rng.random((D, d)), axis=1)[:, :q]


def draw_features(
    rng: np.random.Generator,
    d: int,
    n_features: int,
    kernel: Kernel,
    scale: float | Array = 1.0,
    interactions: Interactions = "full",
    sampling: Sampling = "iid",
) -> FeatureMap:
    """Draw phi for inputs in R^d. It depends on the generator and the sizes only, never on data."""
    orders = as_orders(interactions, d)
    n_features = whole("The number of random features", n_features)
    if n_features < len(orders):
        raise ValueError(
            f"The number of random features must be at least {len(orders)}, one per interaction order; got"
            f" {n_features}."
        )
    check_memory(8.0 * d * n_features, f"{n_features} features of {d} inputs", "ask for fewer")
    frequencies = np.zeros((d, n_features))
    for order, columns in zip(orders, np.array_split(np.arange(n_features), len(orders)), strict=True):
        omega = kernel.frequencies(_normal(rng, order, len(columns), sampling), rng)
        if order == d:
            frequencies[:, columns] = omega
        else:
            inputs = _subsets(rng, d, order, len(columns))
            frequencies[inputs, columns[:, None]] = omega.T
    frequencies *= np.broadcast_to(np.asarray(scale, dtype=np.float64), (d,))[:, None]
    phases = rng.uniform(0, 2 * np.pi, n_features)
    return FeatureMap(frequencies, phases, _amplitudes(n_features, len(orders)))


def _amplitudes(n_features: int, n_orders: int) -> Array:
    """sqrt(2/D_q) / sqrt(number of orders) for each of the D_q features of order q, so that the kernels of the orders
    are averaged."""
    shares = [len(part) for part in np.array_split(np.arange(n_features), n_orders)]
    return np.concatenate([np.full(share, np.sqrt(2 / (max(share, 1) * n_orders))) for share in shares])
