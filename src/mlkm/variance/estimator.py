"""The paper's variance estimator, Section "Variance estimator for MLKM", for any machine:

    sigma_y^2(x) = sigma^2 (g' (F'F + N Lambda)^{-1} g + 1),   sigma^2 = RSS / (N - tr H),   H = F (F'F + N Lambda)^{-1}
    F',

with g the gradient of f at x with respect to the weights, F its rows at the N training rows, and Lambda the ridge in
use. With Lambda = 0 and p < N it is the paper's formula, where N - tr H = N - p. The last intercept is not penalised: g
and F are centred, and 1/N is added. Biases inside hidden layers are damped like the weights beside them: a direction
that the rows do not determine would have no finite variance.

Weights are scaled to a ridge of 1 (`Gradients`), and one side is factorised in float64:

* p not much above N: the p x p matrix F'F + N I, summed over blocks of rows (`Primal`);
* p well above N: the N x N matrix F F' + N I (`Dual`). F is never formed: the gradient with respect to one weight
  matrix is an outer product, so F F' is a sum of elementwise products of two thin products;
* both above `LARGEST_SIDE`: the gradients are brought down to that many numbers by random projection, which keeps inner
  products on average (`Projected`). This is an approximation: leverages come out low by about tr H / `LARGEST_SIDE`.
  Memory stays below 1 GB.

An average of machines (cross-fitting) takes the average of their leverages, each on all rows: every layer of a rotation
saw one part of the rows, and the rotations together saw them all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .._types import Array
from ..data.distinct import Rows
from ..model.machine import Machine, predict_average
from ..model.prior import Prior
from ..solve.ridge import EXACT_ROWS, Spectrum, decomposed
from .functionals import Functionals
from .gradients import Gradients, Layered, OneLayer
from .pieces import row_blocks
from .sides import LARGEST_SIDE, factorise

_LEAST_PENALTY = 1e-14  # on standardised rows: below it the ridge is lost in rounding
_LEAST_DEGREES = 1.0  # of freedom left for the noise, where a fit interpolates


@dataclass(frozen=True)
class FitSummary:
    """What the variance needs to know of a fit beside its machines and rows: the prior of its first layer where it is
    one layer in closed form, the ridge in use, and its leave-one-out error for every output."""

    prior: Prior | None
    penalty: float
    hidden_penalty: float
    loo_error: Array


class Variance:
    """sigma_y(x) of an average of machines, factorised once."""

    def __init__(
        self, machines: Sequence[Machine], rows: Rows, fit: FitSummary, largest_side: int = LARGEST_SIDE
    ) -> None:
        self.rows, self.fit = rows, fit
        self.sides = [
            [factorise(gradients, rows, fit.penalty, largest_side) for gradients in _gradients(machine, rows, fit)]
            for machine in machines
        ]
        self.residuals = rows.Y - predict_average(machines, rows.X)
        n = rows.counts.sum()
        degrees = np.mean([[side.trace for side in of_machine] for of_machine in self.sides], axis=0)
        self.noise = rows.counts @ self.residuals**2 / np.maximum(n - degrees, _LEAST_DEGREES)
        # A fit that interpolates has no residuals, and its leave-one-out error is all that tells of its errors.
        self.least = np.nan_to_num(np.minimum(degrees / n, 1.0) ** 2 * fit.loo_error, nan=0.0, posinf=0.0)

    def predict(self, X: Array) -> tuple[Array, Array]:
        """f and sigma_y, both (n, k), in blocks of rows."""
        widest = max(side.width for of_machine in self.sides for side in of_machine)
        f, leverage = zip(*(self._block(X[at]) for at in row_blocks(len(X), widest)), strict=True)
        return np.vstack(f), np.sqrt(np.maximum(self.noise * (np.vstack(leverage) + 1), self.least))

    def covariance(self, of: Functionals) -> Array:
        """What the rows leave of linear functionals of f, (k, c, c)."""
        noise = np.maximum(self.noise, self.least)
        each = [np.stack([side.covariance(of) for side in of_machine]) for of_machine in self.sides]
        return np.asarray(noise[:, None, None] * np.mean(each, axis=0))

    @cached_property
    def _left_out(self) -> tuple[Array, Array]:
        """For one layer: the leave-one-out residuals y_i - f_{-i}(x_i), (distinct rows, k), and 1 - h_i, with h_i the
        leverage of one copy of every distinct training row."""
        if self.spectrum is not None:
            return self.spectrum.left_out(self.fit.penalty, self.rows.copies)
        (side,) = self.sides[0]
        at_rows = row_blocks(len(self.rows), side.width)
        leverage = np.concatenate([side.leverage(self.rows.X[at])[1] for at in at_rows])
        room = np.maximum(1 - leverage * self.rows.counts / self.rows.copies, 1e-12)
        return self.residuals / room[:, None], room

    @cached_property
    def spectrum(self) -> Spectrum | None:
        """The decomposition of one layer with few rows: 1 - h_i from a Cholesky factor would be inaccurate if the fit
        nearly interpolates."""
        if self.fit.prior is None or len(self.rows) > EXACT_ROWS:
            return None
        return decomposed(self.fit.prior.rows_of_features(self.rows.X), self.rows.Y, self.rows.weights)

    @property
    def left_out_residuals(self) -> Array:
        """For one layer: y_i - f_{-i}(x_i), (distinct rows, k)."""
        return self._left_out[0]

    @property
    def left_out_std(self) -> Array:
        """For one layer: sigma_y at every distinct training row by the fit without it."""
        return np.asarray(np.sqrt(self.noise / self._left_out[1][:, None]))

    def left_out_changes(self, X: Array) -> Array:
        """For one layer: f - f_{-i} at X without one copy of each distinct training row i, (rows of X, distinct rows,
        k)."""
        (side,) = self.sides[0]
        if self.fit.prior is None or self.spectrum is None:
            weights = side.smoother(X, self.rows)
        else:
            weights = self.spectrum.smoother(self.fit.prior.rows_of_features(X), self.fit.penalty)
        return np.asarray((weights / self.rows.copies)[:, :, None] * self.left_out_residuals)

    def _block(self, X: Array) -> tuple[Array, Array]:
        means, leverages = [], []
        for of_machine in self.sides:
            results = [side.leverage(X) for side in of_machine]
            means.append(results[0][0])
            leverages.append(np.column_stack([leverage for _, leverage in results]))
        return np.mean(means, axis=0), np.mean(leverages, axis=0)


def _gradients(machine: Machine, rows: Rows, fit: FitSummary) -> list[Gradients]:
    """One for all outputs of a single layer, where outputs do not share weights; else one per output."""
    scale = 1 / np.sqrt(max(fit.penalty, _LEAST_PENALTY))
    if fit.prior is not None:
        return [OneLayer(machine, fit.prior, scale)]
    hidden_scale = 1 / np.sqrt(max(fit.hidden_penalty, _LEAST_PENALTY))
    outputs = range(1 if machine.depth == 1 else rows.Y.shape[1])
    return [Layered(machine, output, hidden_scale, scale) for output in outputs]
