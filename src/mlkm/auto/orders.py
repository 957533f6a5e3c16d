"""Random features of interaction orders 1, 2 and full whose scales and amplitudes are parameters to be learned.

Every input j has a log-scale and a log-amplitude in order 1, in order 2 (the amplitude of a pair is the product of its
inputs') and a log-scale in the full order, where instead a whole matrix may be learned (`rotation`: the frequencies are
B'omega); the linear term has an amplitude per input. Frequencies of unit scale and phases are drawn once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy.stats import norm

from .._types import Array, IntArray
from ..kernels import Kernel
from ..model.features import FeatureMap

Parameters: TypeAlias = dict[str, Array]


@dataclass(frozen=True)
class Sizes:
    """Features per input in order 1, features of order 2, features of full order."""

    single: int
    pair: int
    full: int


@dataclass(frozen=True)
class Draws:
    """Frequencies of unit scale: (D1,) with their inputs, (2, D2) with their pairs, (d, D3); and phases of all."""

    d: int
    single: Array
    single_input: IntArray
    pair: Array
    pair_inputs: IntArray
    full: Array
    phases: Array

    @property
    def edges(self) -> tuple[int, int]:
        """Where the features of order 2 and of full order begin."""
        return len(self.single), len(self.single) + self.pair.shape[1]


def draw(rng: np.random.Generator, d: int, sizes: Sizes, kernel: Kernel, pairs: Sequence[tuple[int, int]]) -> Draws:
    """Draw unit frequencies; features of order 2 go round the given pairs."""
    single_input = np.repeat(np.arange(d), sizes.single)
    single = kernel.frequencies(np.tile(_half_normal_quantiles(sizes.single), d)[None, :], rng)[0]
    n_pair = sizes.pair if len(pairs) else 0
    chosen = np.array([pairs[k % len(pairs)] for k in range(n_pair)], dtype=np.intp).reshape(n_pair, 2).T
    pair = kernel.frequencies(rng.standard_normal((2, n_pair)), rng)
    full = kernel.frequencies(rng.standard_normal((d, sizes.full)), rng)
    quarter = np.tile(np.arange(sizes.single) % 2 * (-np.pi / 2), d)  # cosine and sine of each frequency
    phases = np.concatenate([quarter, rng.uniform(0, 2 * np.pi, n_pair + sizes.full)])
    return Draws(d, single, single_input, pair, chosen, full, phases)


def _half_normal_quantiles(m: int) -> Array:
    """m numbers in pairs, at evenly spaced quantiles of |N(0, 1)|: in one dimension a few such frequencies replace many
    random ones."""
    k = -(-m // 2)
    return np.repeat(norm.ppf(0.5 + (np.arange(k) + 0.5) / (2 * k)), 2)[:m] if m else np.zeros(0)


def start(d: int, linear: bool) -> Parameters:
    """Where the search begins: unit scales in order 1, scales like 1/sqrt(d) in full order, amplitudes that share a
    variance of about 1."""
    h = np.log(d)
    parameters = {
        "scale1": np.zeros(d),
        "amplitude1": np.full(d, -h / 2),
        "scale2": np.full(d, -0.3),
        "amplitude2": np.full(d, -h / 4),
        "pairs": np.array([-0.5]),
        "scale": np.full(d, -h / 2),
        "full": np.array([-1.5]),
        "noise": np.array([-1.5]),
    }
    if linear:
        parameters["linear"] = np.full(d, -h / 2 - 1)
    return parameters


def with_rotation(parameters: Parameters) -> Parameters:
    """The same features, the full order's log-scales written as a matrix that can then turn."""
    matrix = np.diag(np.exp(parameters["scale"])).ravel()
    return {name: value for name, value in parameters.items() if name != "scale"} | {"rotation": matrix}


def feature_map(draws: Draws, p: Parameters) -> FeatureMap:
    """The features at the given parameters."""
    d, D1, D2, D3 = draws.d, len(draws.single), draws.pair.shape[1], draws.full.shape[1]
    frequencies = np.zeros((d, D1 + D2 + D3))
    frequencies[draws.single_input, np.arange(D1)] = draws.single * np.exp(p["scale1"])[draws.single_input]
    for inputs, omega in zip(draws.pair_inputs, draws.pair, strict=True):
        frequencies[inputs, D1 + np.arange(D2)] = omega * np.exp(p["scale2"])[inputs]
    if "rotation" in p:
        frequencies[:, D1 + D2 :] = p["rotation"].reshape(d, d).T @ draws.full
    else:
        frequencies[:, D1 + D2 :] = draws.full * np.exp(p["scale"])[:, None]
    per_input = max(D1 // d, 1)
    amplitudes = np.concatenate(
        [
            np.exp(p["amplitude1"])[draws.single_input] * np.sqrt(2 / per_input),
            np.exp(p["amplitude2"][draws.pair_inputs].sum(axis=0) + p["pairs"][0])
            * np.sqrt(0.4 / _features_per_pair(draws)),
            np.full(D3, np.exp(p["full"][0]) * np.sqrt(2 / max(D3, 1))),
        ]
    )
    return FeatureMap(frequencies, draws.phases, amplitudes)


def _features_per_pair(draws: Draws) -> Array:
    """For every feature of order 2 the number of features its pair has, so that a pair's variance does not depend on
    it."""
    code = draws.pair_inputs[0] * draws.d + draws.pair_inputs[1]
    _, inverse, count = np.unique(code, return_inverse=True, return_counts=True)
    return count[inverse].astype(np.float64)


def parameter_gradient(draws: Draws, p: Parameters, d_frequencies: Array, d_log_amplitudes: Array) -> Parameters:
    """The chain rule from frequencies (d, D) and log-amplitudes (D,) back to the parameters; linear and noise are the
    caller's."""
    d, (begin2, begin3) = draws.d, draws.edges
    first, second, third = slice(0, begin2), slice(begin2, begin3), slice(begin3, None)
    own = d_frequencies[draws.single_input, np.arange(begin2)] * draws.single
    gradient = {
        "amplitude1": np.bincount(draws.single_input, d_log_amplitudes[first], minlength=d),
        "scale1": np.bincount(draws.single_input, own, minlength=d) * np.exp(p["scale1"]),
        "amplitude2": np.zeros(d),
        "scale2": np.zeros(d),
        "pairs": np.array([d_log_amplitudes[second].sum()]),
        "full": np.array([d_log_amplitudes[third].sum()]),
    }
    for inputs, omega in zip(draws.pair_inputs, draws.pair, strict=True):
        own = d_frequencies[inputs, np.arange(begin2, begin3)] * omega
        gradient["amplitude2"] += np.bincount(inputs, d_log_amplitudes[second], minlength=d)
        gradient["scale2"] += np.bincount(inputs, own, minlength=d) * np.exp(p["scale2"])
    if "rotation" in p:
        gradient["rotation"] = (draws.full @ d_frequencies[:, third].T).ravel()
    else:
        gradient["scale"] = (d_frequencies[:, third] * draws.full).sum(axis=1) * np.exp(p["scale"])
    return gradient
