"""Targets on a scale where they are nearly normal, and predictions back-transformed to their mean.

    z = g(y),    E[y | f] = mean over the errors e of g^{-1}(f + e)

g is Yeo and Johnson's transform of (y - median) / spread, with a power between 0 (a logarithm of large values) and 2
(of small ones): its inverse grows no faster than an exponential, and beyond the training targets it goes on straight.
Effects on prices, incomes or counts multiply rather than add, and so does their noise: there a sum of kernels fits z
better than y. The mean of y is more than g^{-1}(f) by what the errors of z bring (Duan's smearing).

Inputs on the scale of their ranks: a monotone piecewise-linear map of each input to a nearly uniform law with mean 0
and standard deviation 1.

Long tails and lumps in the inputs cost a stationary kernel dearly; trees do not notice them. On ranks neither does the
kernel. Which scale serves better differs from data to data, so the evidence chooses between the inputs as they are and
their ranks.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import boxcox1p, inv_boxcox1p

from .._types import Array, BoolArray
from ..data import midranks
from ..runtime.rules import RULES
from ..runtime.sizes import RANK_SHIFT
from .features import RankTransform, interpolated, slopes_between


@dataclass(frozen=True)
class TargetTransform:
    """g for every output: power, the centre and spread of y, mean and sd of z, and the range of z in training."""

    power: Array
    centre: Array
    spread: Array
    mean: Array
    sd: Array
    low: Array
    high: Array

    def forward(self, Y: Array) -> Array:
        """Return z, of mean 0 and variance 1 in training."""
        U = (Y - self.centre) / self.spread
        return np.asarray((yeo_johnson(U, self.power) - self.mean) / self.sd)

    def backward(self, Z: Array) -> Array:
        """Return y; beyond the range of training along the tangent at its end."""
        held = np.clip(Z, self.low, self.high)
        return self._inverse(held) + (Z - held) * self._slope(held)

    def _inverse(self, Z: Array) -> Array:
        return inverse_yeo_johnson(Z * self.sd + self.mean, self.power) * self.spread + self.centre

    def _slope(self, Z: Array) -> Array:
        """Return dy/dz: with u = (y - centre) / spread, du/dv is (1 + |u|) to the power 1 - p above, p - 1 below."""
        U = (self._inverse(Z) - self.centre) / self.spread
        exponents = np.where(U >= 0, 1 - self.power, self.power - 1)
        return np.asarray((1 + np.abs(U)) ** exponents * self.spread * self.sd)


@dataclass(frozen=True)
class BackTransform:
    """A table for every output, from a prediction f of z to y: the mean of y and its standard deviation at knots of f,
    (q, k) each; linear in between, and beyond."""

    knots: Array
    means: Array
    deviations: Array

    def mean(self, F: Array) -> Array:
        """Return E[y] where z is predicted as f, for F (..., k)."""
        held = np.clip(F, self.knots[0], self.knots[-1])
        return interpolated(held, self.knots.T, self.means.T) + (F - held) * self.slope(F)

    def deviation(self, F: Array) -> Array:
        """Return the standard deviation of y there, constant beyond the knots."""
        return interpolated(F, self.knots.T, self.deviations.T)

    def slope(self, F: Array) -> Array:
        """Return dE[y]/df."""
        return slopes_between(F, self.knots.T, self.means.T, "edge")

    def times(self, factor: float) -> "BackTransform":
        """Return the table of a factor times y."""
        return BackTransform(self.knots, factor * self.means, factor * self.deviations)


def fit_target_transform(Y: Array, weights: Array) -> TargetTransform:
    """Return the transform with the power of the largest likelihood, were z normal, for every output."""
    each = []
    for y in Y.T:
        low, centre, high = _quantiles(y, weights, (0.25, 0.5, 0.75))
        spread = (high - low) / 1.35 or float(np.sqrt(np.average((y - centre) ** 2, weights=weights))) or 1.0
        u = (y - centre) / spread
        power = float(minimize_scalar(_unlikely, bounds=(0, 2), args=(u, weights), method="bounded").x)
        z = yeo_johnson(u, power)
        mean = float(np.average(z, weights=weights))
        sd = float(np.sqrt(np.average((z - mean) ** 2, weights=weights))) or 1.0
        each.append((power, centre, spread, mean, sd, (z.min() - mean) / sd, (z.max() - mean) / sd))
    return TargetTransform(*np.array(each).T)


def fit_back_transform(transform: TargetTransform, errors: Array, weights: Array) -> BackTransform:
    """Return the back-transform of a fit with these leave-one-out residuals (m, k)."""
    shares = (np.arange(RULES.back_transform_errors) + 0.5) / RULES.back_transform_errors
    E = np.stack([_quantiles(e, weights, shares) for e in errors.T], axis=1)
    low, high = transform.low + E[0], transform.high + E[-1]
    high = np.where(high > low, high, low + 1)  # an output that does not vary has a range, too
    knots = np.linspace(low, high, RULES.back_transform_knots)
    values = np.stack([transform.backward(knots + e) for e in E])
    return BackTransform(knots, values.mean(axis=0), values.std(axis=0))


def share_of_spread(loo_residuals: Array, spread: Array, weights: Array) -> float:
    """Return how much of the noise follows the transformed scale: the v between 0 and 1 under which leave-one-out
    residuals (m, k), normal with variances in proportion to 1 - v + v u, are most likely, u being the spread squared
    over its mean."""
    squares = spread**2 + 1e-300
    u = squares / np.average(squares, axis=0, weights=weights)

    def unlikely(v: float) -> float:
        """Return the negative log likelihood of the share v."""
        relative = 1 - v + v * u
        size = np.average(loo_residuals**2 / relative, axis=0, weights=weights)
        return float(np.sum(np.average(np.log(relative), axis=0, weights=weights) + np.log(size + 1e-300)))

    return float(minimize_scalar(unlikely, bounds=(0, 0.999), method="bounded").x)


def straightness(Y: Array, Z: Array, weights: Array) -> float:
    """Return the least squared correlation of y and z among the outputs: where it is near 1, they are as good as the
    same."""
    centred = [V - np.average(V, axis=0, weights=weights) for V in (Y, Z)]
    product = weights @ (centred[0] * centred[1])
    squares = [weights @ V**2 for V in centred]
    return float(np.min(np.where(product == 0, 1.0, product**2 / np.maximum(squares[0] * squares[1], 1e-300))))


def yeo_johnson(u: Array, power: float | Array) -> Array:
    """Return ((1 + u)^p - 1) / p above zero, -((1 - u)^{2 - p} - 1) / (2 - p) below; where a power is 0, a
    logarithm."""
    return np.where(u >= 0, boxcox1p(np.maximum(u, 0), power), -boxcox1p(np.maximum(-u, 0), 2 - power))


def inverse_yeo_johnson(v: Array, power: float | Array) -> Array:
    """Return u for `yeo_johnson(u, power)`."""
    return np.where(v >= 0, inv_boxcox1p(np.maximum(v, 0), power), -inv_boxcox1p(np.maximum(-v, 0), 2 - power))


def _unlikely(power: float, u: Array, weights: Array) -> float:
    """Return the negative log likelihood per row, the variance being the best one."""
    z = yeo_johnson(u, power)
    variance = np.average((z - np.average(z, weights=weights)) ** 2, weights=weights)
    slope = np.average(np.sign(u) * np.log1p(np.abs(u)), weights=weights)
    return float(0.5 * np.log(max(variance, 1e-300)) - (power - 1) * slope)


def _quantiles(y: Array, weights: Array, shares: tuple[float, ...] | Array) -> Array:
    """Return weighted quantiles: where the cumulated weights, taken at their middles, reach the shares."""
    order = np.argsort(y, kind="stable")
    mass = np.cumsum(weights[order]) - weights[order] / 2
    return np.asarray(np.interp(np.asarray(shares) * weights.sum(), mass, y[order]))


def fit_rank_transform(X: Array, weights: Array, numbers: BoolArray | None = None) -> RankTransform:
    """Return the weighted mid-rank of each input that is a number, at no more than 256 of its values, standardised."""
    wanted = np.ones(X.shape[1], bool) if numbers is None else numbers
    none = np.zeros(0), np.zeros(0)
    columns = [_rank_knots(x, weights) if is_number else none for x, is_number in zip(X.T, wanted, strict=True)]
    return RankTransform(tuple(knots for knots, _ in columns), tuple(values for _, values in columns))


def _rank_knots(column: Array, weights: Array) -> tuple[Array, Array]:
    """Return knots of an input, and its standardised ranks there."""
    points, rank, place = midranks(column, weights)
    spread = np.sqrt(max(float(weights @ (rank[place] - 0.5) ** 2 / weights.sum()), 1e-12))  # they average to 1/2
    n_distinct = 1 + int(np.count_nonzero(np.diff(rank)))
    # Ranks often lie on an even grid: which knots are chosen must not hang on the rounding of either.
    wanted = np.linspace(rank[0], rank[-1], min(RULES.rank_knots, n_distinct)) - RANK_SHIFT
    chosen = np.unique(np.searchsorted(rank, wanted))
    return points[chosen], (rank[chosen] - 0.5) / spread
