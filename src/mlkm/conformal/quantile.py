"""Quantile fits on random features, by iteratively reweighted ridge.

The check loss rho_tau(r) = (tau - 1[r < 0]) r is |r| (tau for r > 0, 1 - tau for r < 0). Each pass fits a ridge with
weights
|tau - 1[r < 0]| / max(|r|, small): at its fixed point the gradient is that of the check loss. The penalty is chosen by
the check loss on rows held out.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from sklearn.utils.validation import check_array

from .._seeds import Purpose, generator
from .._types import Array
from ..kernels import Gaussian
from ..model.features import FeatureMap, draw_features, features
from ..rows.scaling import Standardiser, standardiser

_PENALTIES = 10.0 ** np.arange(-5, 1)
_PASSES = 25


@dataclass(frozen=True)
class QuantileBand:
    """Lower and upper quantile as linear functions of random features, one pair per output."""

    x_scaler: Standardiser
    phi: FeatureMap
    lower: Array
    upper: Array

    def predict(self, X: Any) -> tuple[Array, Array]:
        """Both quantiles, (n, k); where they cross, they change places."""
        F = _design(self.phi, self.x_scaler.forward(_numbers(X)))
        a, b = F @ self.lower, F @ self.upper
        return np.minimum(a, b), np.maximum(a, b)


def fit_quantiles(X: Any, y: Array, level: Fraction, seed: int, n_features: int | None = None) -> QuantileBand:
    """Fit the quantiles alpha/2 and 1 - alpha/2 of y given x."""
    X = _numbers(X)
    Y = np.asarray(y, np.float64).reshape(len(X), -1)
    n, d = X.shape
    x_scaler, y_scaler = standardiser(X, np.ones(n)), standardiser(Y, np.ones(n))
    D = n_features or int(np.clip(4 * np.sqrt(n), 50, 400))
    rng = generator(seed, Purpose.QUANTILES)
    phi = draw_features(rng, d, D, Gaussian(), 1 / np.sqrt(d), (1, "full"))
    F, Z = _design(phi, x_scaler.forward(X)), y_scaler.forward(Y)
    held_out = rng.permutation(n) < max(1, n // 5)
    alpha = float(1 - level)
    fits = []
    for tau in (alpha / 2, 1 - alpha / 2):
        columns = [_fit(F, z, tau, held_out) for z in Z.T]
        W = np.column_stack(columns) * y_scaler.sd
        W[0] += y_scaler.mean
        fits.append(W)
    return QuantileBand(x_scaler, phi, *fits)


def _numbers(X: Any) -> Array:
    try:
        return np.asarray(check_array(X, dtype=np.float64))
    except (TypeError, ValueError) as error:
        remedy = "fill gaps and encode labels first, or take score='absolute' or 'residual'"
        raise ValueError(
            f"score='quantile' needs inputs that are finite numbers in a dense table: {remedy}."
        ) from error


def _design(phi: FeatureMap, Z: Array) -> Array:
    """1, the inputs and their random features."""
    return np.hstack([np.ones((len(Z), 1)), Z, features(phi, Z)])


def _fit(F: Array, z: Array, tau: float, held_out: NDArray[np.bool_]) -> Array:
    """The penalty with the least check loss on the rows held out, then all rows."""
    losses = [
        _check_loss(z[held_out] - F[held_out] @ _reweighted(F[~held_out], z[~held_out], tau, penalty), tau)
        for penalty in _PENALTIES
    ]
    return _reweighted(F, z, tau, float(_PENALTIES[int(np.argmin(losses))]))


def _check_loss(residuals: Array, tau: float) -> float:
    return float(np.mean(np.where(residuals > 0, tau, tau - 1) * residuals))


def _reweighted(F: Array, z: Array, tau: float, penalty: float) -> Array:
    n, p = F.shape
    ridge = np.full(p, n * penalty)
    ridge[0] = 1e-10 * n
    W: Array = np.zeros(p)
    W[0] = np.quantile(z, tau)
    small = 0.1
    for _ in range(_PASSES):
        r = z - F @ W
        weights = np.where(r > 0, tau, 1 - tau) / np.maximum(np.abs(r), small)
        small = max(0.8 * small, 1e-3)
        A = (F * weights[:, None]).T @ F
        A[np.diag_indices(p)] += ridge
        new = scipy.linalg.solve(A, F.T @ (weights * z), assume_a="pos", check_finite=False)
        done = np.abs(F @ (new - W)).max() < 1e-3
        W = new
        if done:
            break
    return W
