"""The mean of a fitted regressor at the rows of a source."""

from typing import Any

from sklearn.utils.validation import check_is_fitted

from ..base import KernelMachine
from .inline import other_regressor
from .machines import average, in_units
from .table import Source, level_numbers, standardised


def regressor_mean(model: Any, source: Source, double: bool) -> str:
    """(n, k) in the units of y; regressors of scikit-learn by skl2onnx."""
    if not isinstance(model, KernelMachine):
        return other_regressor(model, source)
    Z = standard_inputs(model, source)
    return in_units(source.graph, model, average(source.graph, model.machines_, Z, double))


def standard_inputs(model: KernelMachine, source: Source) -> str:
    """The inputs as machines see them: no further out than where they are held, standardised."""
    check_is_fitted(model)
    graph = source.graph
    X = level_numbers(graph, source.inputs(model._reader), model._numbers)
    if model._careful:
        X = graph.held(X, model._fence.least, model._fence.most)
    return standardised(graph, X, model.x_scaler_)
