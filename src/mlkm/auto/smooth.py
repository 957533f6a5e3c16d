"""The smooth part of the default model: scales and amplitudes of every input in every interaction order, by climbing
the evidence."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from .._seeds import Purpose, generator
from .._types import Array, IntArray
from ..model.features import angles
from .climb import climb
from .evidence import evidence
from .orders import Draws, Parameters, Sizes, draw, feature_map, parameter_gradient, start, with_rotation
from .plan import Plan
from .policy import Policy

_LEAST_NOISE = {np.dtype(np.float32): 1e-6, np.dtype(np.float64): 1e-13}


@dataclass(frozen=True)
class Smooth:
    """Learned parameters, the pairs of inputs worth a feature, the value of the negative log evidence per row, the mean
    squared gradient of the fit along each input, and its residuals."""

    parameters: Parameters
    pairs: tuple[tuple[int, int], ...]
    value: float
    slopes: Array
    residuals: Array

    @property
    def noise(self) -> float:
        return float(np.exp(2 * self.parameters["noise"][0]))


def learn(
    X: Array,
    Y: Array,
    weights: Array,
    plan: Plan,
    sizes: Sizes,
    *,
    max_iter: int,
    warm: Smooth | None = None,
    rotation: bool = False,
    precise: bool = False,
) -> Smooth:
    """Climb the evidence with L-BFGS, from the default start or from an earlier result."""
    d, policy = X.shape[1], plan.policy
    pairs = first_pairs(d, plan.seed, policy.searched_pairs[0]) if warm is None else warm.pairs
    if sizes.pair:
        sizes = replace(sizes, pair=max(sizes.pair, len(pairs)))  # every pair has its feature
    draws = draw(generator(plan.seed, Purpose.SEARCH), d, sizes, plan.kernel, pairs)
    origin = start(d, plan.linear)
    begin = origin if warm is None else warm.parameters
    if rotation and "rotation" not in begin:
        begin = with_rotation(begin)
    origin = {name: begin[name] if name == "rotation" else origin[name] for name in begin}
    objective = _Objective(X, Y, weights, draws, origin, plan, np.float64 if precise else np.float32)
    least_gain = 0.0 if precise else policy.least_gain
    x, value = climb(objective, _ravel(begin), objective.bounds, max_iter, least_gain, policy, longer=warm is not None)
    parameters = objective.unravel(x)
    return Smooth(parameters, best_pairs(parameters, policy), value, *objective.slopes_and_residuals(parameters))


class _Objective:
    """Negative log evidence and prior as a function of the flat parameter vector."""

    def __init__(
        self, X: Array, Y: Array, weights: Array, draws: Draws, origin: Parameters, plan: Plan, dtype: type
    ) -> None:
        self.X: Array = X.astype(dtype)
        self.draws, self.linear, self.prior = draws, plan.linear, plan.policy.prior
        self.root: Array = np.sqrt(weights)[:, None].astype(dtype)
        self.share = (weights / weights.sum()).astype(dtype)
        self.Y = (self.root * (Y - weights @ Y / weights.sum())).astype(dtype)
        self.names, self.sizes = list(origin), [value.size for value in origin.values()]
        self.origin = _ravel(origin)
        self.floor = _LEAST_NOISE[np.dtype(dtype)]
        self.bounds = [
            (-30.0, 30.0) if name == "rotation" else (-16.0 if name == "noise" else -9.0, 4.0)
            for name in self.names
            for _ in origin[name]
        ]

    def unravel(self, vector: Array) -> Parameters:
        return dict(zip(self.names, np.split(vector, np.cumsum(self.sizes)[:-1]), strict=True))

    def slopes_and_residuals(self, p: Parameters) -> tuple[Array, Array]:
        """The mean squared gradient of the posterior mean along each input, over the rows, and what it leaves of the
        targets."""
        phi = feature_map(self.draws, p)
        X = self.X.astype(np.float64)
        theta = angles(phi, X)
        linear = np.exp(p["linear"]) if self.linear else np.zeros(X.shape[1])
        F = np.hstack([phi.amplitudes * np.cos(theta), linear * X])
        F -= self.share @ F
        F *= self.root
        gram = F.T @ F
        gram[np.diag_indices(len(gram))] += np.exp(2 * p["noise"][0]) + self.floor
        C = np.linalg.solve(gram, F.T @ self.Y)
        D = phi.n_features
        total = np.zeros(X.shape[1])
        for c in C.T:
            G = linear * c[D:] - (np.sin(theta) * (phi.amplitudes * c[:D])) @ phi.frequencies.T
            total += self.share @ G**2
        return total, (self.Y - F @ C) / self.root

    def __call__(self, vector: Array) -> tuple[float, Array]:
        p = self.unravel(vector)
        phi = feature_map(self.draws, p).astype(self.X.dtype)
        theta, D = angles(phi, self.X), phi.n_features
        F = np.empty((len(theta), D + self.linear * self.X.shape[1]), self.X.dtype)
        np.cos(theta, out=F[:, :D])
        F[:, :D] *= phi.amplitudes
        if self.linear:
            F[:, D:] = self.X * np.exp(p["linear"]).astype(F.dtype)
        F -= self.share @ F
        F *= self.root
        variance = float(np.exp(2 * p["noise"][0]))
        value, dF, dnoise = evidence(F, self.Y, variance + self.floor)
        d_log_amplitudes = np.einsum("nk,nk->k", dF, F).astype(np.float64)
        dF = dF[:, :D]  # columns of dF have no part along the weights, so that the centring of F adds nothing
        dF *= self.root
        slope = np.sin(theta, out=theta)
        slope *= -phi.amplitudes
        slope *= dF
        gradient = parameter_gradient(self.draws, p, (self.X.T @ slope).astype(np.float64), d_log_amplitudes[:D])
        gradient["noise"] = np.array([2 * variance * dnoise])
        if self.linear:
            gradient["linear"] = d_log_amplitudes[D:]
        away = vector - self.origin
        flat = _ravel({name: gradient[name] for name in self.names})
        return value + self.prior * float(away @ away), flat + 2 * self.prior * away


def _ravel(parameters: Parameters) -> Array:
    return np.concatenate(list(parameters.values()))


def first_pairs(d: int, seed: int, most: int) -> tuple[tuple[int, int], ...]:
    """Pairs to begin with: all, or as many at random. With two inputs a pair is the full order."""
    every = list(combinations(range(d), 2)) if d > 2 else []
    chosen = generator(seed, Purpose.PAIRS).permutation(len(every))[:most]
    return tuple(every[k] for k in chosen)


def relevance(p: Parameters) -> Array:
    """The variance each standardised input may contribute, over all orders and the linear term.

    A Gaussian process of variance a^2 and frequency scale s varies along a standard normal input by a^2 (1 - 1/sqrt(1 +
    2 s^2)).
    """

    def moved(log_scale: Array) -> Array:
        return np.asarray(1 - 1 / np.sqrt(1 + 2 * np.exp(2 * log_scale)))

    total = np.exp(2 * p["amplitude1"]) * moved(p["scale1"])
    partner = np.exp(2 * p["amplitude2"])
    total = total + np.exp(2 * p["pairs"]) * partner * moved(p["scale2"]) * partner.max()
    if "scale" in p:
        total = total + np.exp(2 * p["full"]) * moved(p["scale"])
    return np.asarray(total + np.exp(2 * p["linear"]) if "linear" in p else total)


def strongest_pairs(p: Parameters, policy: Policy) -> tuple[tuple[int, int], ...]:
    """The fewest pairs that carry most of the variance of order 2: where the final features go."""
    share, least, most = policy.final_pairs
    variance = np.exp(2 * p["amplitude2"]) * (1 - 1 / np.sqrt(1 + 2 * np.exp(2 * p["scale2"])))
    every = list(combinations(range(len(variance)), 2)) if len(variance) > 2 else []
    if not every:
        return ()
    carried = np.array([variance[i] * variance[j] for i, j in every])
    order = np.argsort(-carried, kind="stable")
    enough = int(np.searchsorted(np.cumsum(carried[order]), share * carried.sum())) + 1
    return tuple(every[k] for k in order[: min(max(enough, least), most)])


def restricted(result: Smooth, chosen: IntArray, policy: Policy) -> Smooth:
    """The same result for some of the inputs only."""
    parameters = {name: value if len(value) == 1 else value[chosen] for name, value in result.parameters.items()}
    return Smooth(parameters, best_pairs(parameters, policy), result.value, result.slopes[chosen], result.residuals)


def best_pairs(p: Parameters, policy: Policy) -> tuple[tuple[int, int], ...]:
    """Pairs of relevant inputs, and every pair with one of the few most relevant: an input may act through its partner
    alone."""
    r, (most, leaders) = relevance(p), policy.searched_pairs
    d = len(r)
    if d <= 2:
        return ()
    order = np.argsort(-r)
    rank = np.empty(d, dtype=int)
    rank[order] = np.arange(d)
    every = sorted(combinations(range(d), 2), key=lambda pair: -float(r[pair[0]] * r[pair[1]]))
    led = [pair for pair in every if min(rank[pair[0]], rank[pair[1]]) < leaders]
    chosen: Sequence[tuple[int, int]] = list(dict.fromkeys([*every[: most // 2], *led, *every]))
    return tuple(chosen[: max(most, min(len(led), 2 * most))])
