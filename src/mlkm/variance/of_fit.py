"""Which estimator of the variance belongs to a fit: by what is known of its rows."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from .._types import Array
from ..data import Rows
from ..model.last import Features
from ..model.machine import Machine
from ..solve.sums import Sums
from .estimator import Variance
from .layers import LayersSummary, LayersVariance
from .stack import StackSummary, StackVariance
from .summed import SummedVariance, SumsSummary

AnyVariance: TypeAlias = Variance | StackVariance | SummedVariance | LayersVariance


def variance_of(machines: Sequence[Machine], rows: Any, fit: Any) -> AnyVariance:
    """Factorised for the machines of a fit; `rows` are there where the summary needs them."""
    if isinstance(fit, SumsSummary):
        return SummedVariance(machines, fit)
    if isinstance(fit, LayersSummary):
        return LayersVariance(machines, fit)
    return StackVariance(machines, rows, fit) if isinstance(fit, StackSummary) else Variance(machines, rows, fit)


def summed_up(
    layers: Sequence[Features], penalty: float, sums: Sequence[Sums], error: Array | None, loo_error: Array, some: Rows
) -> SumsSummary | LayersSummary:
    """Of a fit in pieces, with some of its rows; without an error of its own it is one machine whose last layer is the
    ridge of its sums."""
    if error is None:
        return SumsSummary(layers[0], penalty, sums[0], loo_error, some)
    return LayersSummary(tuple(layers), penalty, tuple(sums), error, loo_error, some)
