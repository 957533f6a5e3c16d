"""sigma_y(x) of an average of machines that were trained on rows in pieces, from the sums of their last layers:

    sigma_y^2(x) = sigma^2 (h(x) + 1),   sigma^2 = RSS / (n - tr H),

with RSS the squared errors of the average on all rows, and h and tr H the averages over machines of leverage and trace
of the ridge on the last layer. Hidden weights are taken as known: their part of the leverage is about their number over
n, and rows are in pieces because n is large.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .._types import Array
from ..data import Rows
from ..model.last import Features
from ..model.machine import Machine, predict_average
from ..solve.sums import Sums
from .functionals import Functionals
from .summed import SummedVariance, SumsSummary


@dataclass(frozen=True)
class LayersSummary:
    """What the last layer of every machine sees, the penalty, the sums over all rows, for every output the mean squared
    error of the average and the leave-one-out error, and some of the rows, where any are kept."""

    layers: tuple[Features, ...]
    penalty: float
    sums: tuple[Sums, ...]
    error: Array
    loo_error: Array
    sample: Rows | None = None
    prior: None = None  # no fit of one layer in closed form


class LayersVariance:
    """f and sigma_y, factorised once for every machine."""

    def __init__(self, machines: Sequence[Machine], fit: LayersSummary) -> None:
        self.machines = machines
        self.sides = [
            SummedVariance([machine], SumsSummary(layer, fit.penalty, sums, fit.loo_error))
            for machine, layer, sums in zip(machines, fit.layers, fit.sums, strict=True)
        ]
        n = fit.sums[0].weight
        degrees = float(np.mean([side.degrees for side in self.sides]))
        self.noise = np.asarray(fit.error * n / max(n - degrees, 1.0))

    def predict(self, X: Array) -> tuple[Array, Array]:
        """f and sigma_y, both (n, k), in blocks of rows."""
        leverage = np.mean([side.leverage(X) for side in self.sides], axis=0)
        return predict_average(self.machines, X), np.sqrt(self.noise * (leverage[:, None] + 1))

    def covariance(self, of: Functionals) -> Array:
        """What the rows leave of linear functionals of f, (k, c, c)."""
        return np.asarray(self.noise[:, None, None] * np.mean([side.spread(of) for side in self.sides], axis=0))
