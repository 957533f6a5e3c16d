"""Quantile fits on random features, at about the cost of a ridge path.

The check loss rho_tau(r) = (tau - 1/2) r + |r|/2 is minimised with a ridge beside it,

    (1/n) sum_i w_i rho_tau(y_i - a - c'F_i) + (penalty/2) |c|^2,

with |r| smoothed within h of zero, as the convolution of the check loss with a uniform kernel (Fernandes, Guerre and
Horta 2021; He, Pan, Tan and Zhou 2023): it is then differentiable, and off by order h^2. The features are rotated once
to the axes of their second moments, where directions too weak to matter at any penalty are dropped and the others are
scaled to about the same curvature, so that L-BFGS needs few steps, each of two products with the features. Penalties
are tried from the largest down, each fit starting from the one before, and chosen by the check loss on rows held out.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.stats import norm

from .._types import Array, BoolArray
from ..data.level_encoding import LevelNumbers, numbers_in_memory
from ..data.preparation import Standardiser, standardiser
from ..data.tables import TableEncoder
from ..kernels import Gaussian
from ..model.draws import draw_features
from ..model.features import FeatureMap
from ..runtime.resources import Purpose, generator
from ..runtime.rules import RULES
from ..runtime.sizes import WEAK_MOMENT
from ..solve.ridge import eigen

_PENALTIES = np.power(10.0, np.arange(*RULES.quantile_decades, -1))


@dataclass(frozen=True)
class QuantileBand:
    """Lower and upper quantile as linear functions of random features, one pair per output. Tables are encoded first,
    with the levels of categories as numbers."""

    encoder: TableEncoder
    levels: LevelNumbers
    x_scaler: Standardiser
    phi: FeatureMap
    lower: Array
    upper: Array

    def predict(self, X: object) -> tuple[Array, Array]:
        """Return both quantiles, each (n, k); where they cross, they are exchanged."""
        F = _inputs_and_features(
            self.phi, self.x_scaler.forward(self.levels.numbers(self.encoder.transform(_dense(X))))
        )
        a, b = (F @ W[1:] + W[0] for W in (self.lower, self.upper))
        return np.minimum(a, b), np.maximum(a, b)


@dataclass(frozen=True)
class _Axes:
    """Features U = (F - mean) V along the principal axes V of their second moments, the second moments along these, and
    the weights of the rows, whose mean is one."""

    U: Array
    V: Array
    mean: Array
    moments: Array
    weights: Array

    def rows(self, mask: BoolArray) -> "_Axes":
        """Return the rows of a mask, with weights whose mean is one again."""
        weights = self.weights[mask]
        return _Axes(self.U[mask], self.V, self.mean, self.moments, weights / (weights.mean() or 1.0))


def fit_quantiles(
    X: object, y: Array, level: Fraction, seed: int, weights: Array | None = None, n_features: int | None = None
) -> QuantileBand:
    """Fit the quantiles alpha/2 and 1 - alpha/2 of y given x."""
    encoder = TableEncoder()
    inputs = encoder.fit_transform(_dense(X))
    n = len(inputs)
    check_rows(n)
    Y, rng = np.asarray(y, np.float64).reshape(n, -1), generator(seed, Purpose.QUANTILES)
    w = np.ones(n) if weights is None else weights / weights.mean()
    y_scaler = standardiser(Y, w)
    levels, X = numbers_in_memory(inputs, y_scaler.forward(Y), encoder.reader_.inputs, weights)
    d, x_scaler = X.shape[1], standardiser(X, w)
    D = n_features or int(np.clip(4 * np.sqrt(n), 50, 400))
    phi = draw_features(rng, d, D, Gaussian(), 1 / np.sqrt(d), (1, "full"))
    held_out = rng.permutation(n) < max(1, n // 5)
    axes, Z, alpha = _axes(_inputs_and_features(phi, x_scaler.forward(X)), w), y_scaler.forward(Y), float(1 - level)
    fits = []
    for tau in (alpha / 2, 1 - alpha / 2):
        W = np.column_stack([_fit(axes, z, tau, held_out) for z in Z.T]) * y_scaler.sd
        C = axes.V @ W[1:]
        fits.append(np.vstack([W[0] + y_scaler.mean - axes.mean @ C, C]))
    return QuantileBand(encoder, levels, x_scaler, phi, *fits)


def check_rows(n: int, least_rows: int = 5) -> None:
    """Refuse too few rows before anything is fitted; one of five is held out."""
    if n < least_rows:
        raise ValueError(
            f"score='quantile' needs at least {least_rows} rows to fit two quantiles; got {n}: give more rows, or take"
            " score='absolute'."
        )


def check_table(X: object) -> None:
    """Refuse inputs that are no table before anything is fitted."""
    TableEncoder().fit(_dense(X))


def _dense(X: object) -> Any:
    """Return a sparse matrix as an array, and other tables as they are."""
    return X.toarray() if hasattr(X, "toarray") else X


def _inputs_and_features(phi: FeatureMap, Z: Array) -> Array:
    return np.hstack([Z, phi.features(Z)])


def _axes(F: Array, weights: Array) -> _Axes:
    """Rotate features to their principal axes, by one eigendecomposition of F'F or FF', whichever is smaller."""
    n, p = F.shape
    mean = weights @ F / n
    F = F - mean
    A = F * np.sqrt(weights)[:, None]
    moments, V = eigen((A.T @ A if p <= n else A @ A.T) / n)
    relevant = moments > max(WEAK_MOMENT * _PENALTIES[-1], moments[-1] * 1e-13)
    moments, V = moments[relevant], V[:, relevant]
    if p > n:
        V = A.T @ V / np.sqrt(n * moments)
    return _Axes(F @ V, V, mean, moments, weights)


def _fit(axes: _Axes, z: Array, tau: float, held_out: BoolArray) -> Array:
    """Return intercept and coefficients (1 + directions,) of a fit to all rows, with the penalty of least check loss on
    the rows held out."""
    train, test = axes.rows(~held_out), axes.rows(held_out)
    W = np.zeros(1 + len(axes.moments))
    W[0] = np.quantile(z, tau)
    losses, fits = [], []
    for penalty in _PENALTIES:
        W = _smoothed(train, z[~held_out], tau, float(penalty), W)
        losses.append(_check_loss(z[held_out] - test.U @ W[1:] - W[0], tau, test.weights))
        fits.append(W)
        if len(losses) > 2 and min(losses[-2:]) > min(losses):  # it has risen twice
            break
    best = int(np.argmin(losses))
    return _smoothed(axes, z, tau, float(_PENALTIES[best]), fits[best])


def _check_loss(residuals: Array, tau: float, weights: Array) -> float:
    return float(np.mean(weights * np.where(residuals > 0, tau, tau - 1) * residuals))


def _smoothed(axes: _Axes, z: Array, tau: float, penalty: float, start: Array) -> Array:
    """Minimise the smoothed check loss with a ridge penalty, from `start`.

    h is a tenth of the mean absolute residual there. The curvature of the loss is about the density of residuals at
    the quantile, for which that of a normal law is taken to scale the directions.
    """
    U, weights, n = axes.U, axes.weights, len(z)
    spread = float(np.abs(z - U @ start[1:] - start[0]).mean())
    h = max(0.1 * spread, 1e-3)
    density = norm.pdf(norm.ppf(tau)) / max(spread, h)
    scale = np.r_[1 / np.sqrt(density), 1 / np.sqrt(density * axes.moments + penalty)]

    def loss(v: Array) -> tuple[float, Array]:
        """Return the smoothed, penalised check loss at scaled coefficients v, and its gradient."""
        W = scale * v
        r = z - U @ W[1:] - W[0]
        size = np.abs(r)
        smooth = np.where(size < h, (r * r / h + h) / 2, size)
        slope = weights * (tau - 0.5 + np.clip(r / h, -1, 1) / 2) / n
        value = (weights @ ((tau - 0.5) * r + smooth / 2)) / n + penalty / 2 * W[1:] @ W[1:]
        return float(value), -scale * np.r_[slope.sum(), slope @ U - penalty * W[1:]]

    least = minimize(
        loss,
        start / scale,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": RULES.quantile_steps, "ftol": 1e-7, "gtol": 1e-6},
    )
    return np.asarray(scale * least.x)
