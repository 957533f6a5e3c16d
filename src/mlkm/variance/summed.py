"""sigma_y(x) of one layer in closed form from its sums: the paper's estimator where the rows themselves are not kept.

With F'WF and F'WY summed up, sigma^2 = RSS / (n - tr H) with RSS = Y'WY - 2 c'F'WY + c'F'WF c. Where the fit leaves so
little that this is lost in rounding, sigma^2 is the leave-one-out error.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from .._types import Array
from ..data import Rows
from ..model.last import Features
from ..model.machine import Machine, predict_average
from ..solve.sums import Sums
from .functionals import Functionals
from .pieces import row_blocks
from .sides import cholesky

SHOWN = 2000  # rows that are kept of many for effects to be averaged over
_LOST = 1e-5  # share of the variance of y that is lost in the rounding of float32


@dataclass(frozen=True)
class SumsSummary:
    """The features of a fit, its penalty, what its rows sum up to, its leave-one-out error for every output, and some
    of its rows, in an order by what they say, where any are kept."""

    prior: Features
    penalty: float
    sums: Sums
    loo_error: Array
    sample: Rows | None = None


class SummedVariance:
    """f and sigma_y, factorised once: with A = F'WF / n + lambda, the leverage is (|L^{-1} (g - mean)|^2 + 1) / n."""

    def __init__(self, machines: Sequence[Machine], fit: SumsSummary) -> None:
        self.machines, self.fit = machines, fit
        sums, n = fit.sums, fit.sums.weight
        FF, FY, YY = sums.centred()
        A = FF / n
        A[np.diag_indices(len(A))] += max(fit.penalty, 1e-14)
        inverse, _ = lapack.dtrtri(cholesky(A), lower=1, overwrite_c=1)
        self.inverse = np.tril(inverse)
        solved = self.inverse.T @ (self.inverse @ (FY / n))
        rss = YY - 2 * (solved * FY).sum(axis=0) + (solved * (FF @ solved)).sum(axis=0)
        self.degrees = 1 + len(A) - max(fit.penalty, 1e-14) * float(np.einsum("ij,ij->", self.inverse, self.inverse))
        told = rss > _LOST * np.maximum(YY, 1e-300)
        self.noise = np.where(told, rss / max(n - self.degrees, 1.0), np.nan_to_num(fit.loo_error))

    def predict(self, X: Array) -> tuple[Array, Array]:
        """f and sigma_y, both (n, k), in blocks of rows."""
        f = predict_average(self.machines, X)
        return f, np.sqrt(self.noise * (self.leverage(X)[:, None] + 1))

    def leverage(self, X: Array) -> Array:
        """In blocks of rows."""
        return np.concatenate([self._leverage(X[at]) for at in row_blocks(len(X), len(self.inverse))])

    def covariance(self, of: Functionals) -> Array:
        """What the rows leave of linear functionals of f, (k, c, c)."""
        return np.asarray(self.noise[:, None, None] * self.spread(of))

    def spread(self, of: Functionals) -> Array:
        """The same for noise of variance one, (c, c)."""
        g = of.of(self.fit.prior.rows_of_features, len(self.inverse)) - np.outer(of.ones, self.fit.sums.f_mean)
        z = g @ self.inverse.T
        return np.asarray((z @ z.T + np.outer(of.ones, of.ones)) / self.fit.sums.weight)

    def _leverage(self, X: Array) -> Array:
        z = (self.fit.prior.rows_of_features(X) - self.fit.sums.f_mean) @ self.inverse.T
        return np.asarray((np.einsum("np,np->n", z, z) + 1) / self.fit.sums.weight)
