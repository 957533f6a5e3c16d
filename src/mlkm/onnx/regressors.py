"""The mean of a fitted regressor at the rows of a source."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..base import KernelMachine
from ..data import Fence
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
    """The inputs as machines see them: no further out than where they are held, standardised."""
    check_is_fitted(model)
    graph = source.graph
    X = level_numbers(graph, source.inputs(model._reader), model._numbers)
    if model._careful:
        X = _held(graph, model._fence, X)
    return standardised(graph, X, model.x_scaler_)


def _held(graph: Graph, fence: Fence, X: str) -> str:
    """The same as `Fence.held`."""
    down, up = fence.steps
    above = graph.held(graph("Sub", X, fence.most + up), np.zeros_like(up), up)
    below = graph.held(graph("Sub", fence.least - down, X), np.zeros_like(down), down)
    return graph("Add", graph("Sub", graph.held(X, fence.least, fence.most), above), below)
