"""Random features of a kernel, drawn from its spectral law.

Interaction orders: a frequency vector with one or two non-zero coordinates gives a feature of one or two inputs. Order
q averages the kernel over all subsets of q inputs: the features of additive (q = 1) and pairwise (q = 2) kernels;
"full" uses every input. A tuple of orders shares the features equally and averages their kernels.
"""

from itertools import combinations
from typing import Literal, TypeAlias

import numpy as np

from .._types import Array, IntArray
from ..kernels import Kernel
from ..runtime.checks import one_of, whole
from ..runtime.resources import check_memory
from .features import FeatureMap, Interactions, as_orders

Sampling: TypeAlias = Literal["iid", "orthogonal"]


def _normal(rng: np.random.Generator, q: int, D: int, sampling: Sampling) -> Array:
    """Return standard normal columns in R^q: independent, or orthogonal within blocks of q (each column still exactly
    N(0, I))."""
    if one_of("sampling", sampling, ("iid", "orthogonal")) == "iid":
        return rng.standard_normal((q, D))
    blocks = -(-D // q)
    Q, R = np.linalg.qr(rng.standard_normal((blocks, q, q)))
    Q *= np.sign(np.diagonal(R, axis1=1, axis2=2))[:, None, :]  # makes Q uniform over the orthogonal group
    lengths = np.sqrt(rng.chisquare(q, size=(blocks, 1, q)))
    return (Q * lengths).transpose(1, 0, 2).reshape(q, blocks * q)[:, :D]


def _subsets(rng: np.random.Generator, d: int, q: int, D: int) -> IntArray:
    """Return D subsets of q of the d inputs, each as a row, every subset drawn as often as any other up to one."""
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
    frequencies, amplitudes = np.zeros((d, n_features)), np.zeros(n_features)
    for order, columns in zip(orders, np.array_split(np.arange(n_features), len(orders)), strict=True):
        omega = kernel.frequencies(_normal(rng, order, len(columns), sampling), rng)
        if order == d:
            frequencies[:, columns] = omega
        else:
            inputs = _subsets(rng, d, order, len(columns))
            frequencies[inputs, columns[:, None]] = omega.T
        amplitudes[columns] = np.sqrt(
            2 / (len(columns) * len(orders))
        )  # so that the kernels of the orders are averaged
    frequencies *= np.broadcast_to(np.asarray(scale, dtype=np.float64), (d,))[:, None]
    phases = rng.uniform(0, 2 * np.pi, n_features)
    return FeatureMap(frequencies, phases, amplitudes)
