"""The mean of a fitted regressor at the rows of a source."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..base import KernelMachine
from ..data import InputRange
from .graph import Graph
from .inline import other_regressor
from .machines import average, in_units
from .table import Source, level_numbers, standardised


def regressor_mean(model: Any, source: Source, double: bool) -> str:
    """(n, k) in the units of y; regressors of scikit-learn by skl2onnx."""
    if not isinstance(model, KernelMachine):
        return other_regressor(model, source)
    Z = standard_inputs(model, source)
    return in_units(source.graph, model, average(source.graph, model.machines_, Z, double), Z)


def standard_inputs(model: KernelMachine, source: Source) -> str:
    """The inputs as machines see them: clipped to their limits, and standardised."""
    check_is_fitted(model)
    graph = source.graph
    preparation = model.fitted_.preparation
    X = level_numbers(graph, source.inputs(preparation.reader), preparation.levels)
    if preparation.automatic:
        X = _clipped(graph, preparation.input_range, X)
    return standardised(graph, X, preparation.x_scaler)


def _clipped(graph: Graph, limits: InputRange, X: str) -> str:
    """Return inputs far out replaced as `InputRange.clip` does."""
    down, up = limits.steps
    above = graph.held(graph("Sub", X, limits.clip_high + up), np.zeros_like(up), up)
    below = graph.held(graph("Sub", limits.clip_low - down, X), np.zeros_like(down), down)
    return graph("Add", graph("Sub", graph.held(X, limits.clip_low, limits.clip_high), above), below)
