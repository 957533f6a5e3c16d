"""From a fitted estimator to a graph."""

from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ..base import KernelMachine
from ..conformal.regressor import ConformalRegressor
from ..runtime.atomic import atomic_write
from ..runtime.checks import file_path, one_of
from .bands import band_ends
from .graph import Graph
from .inline import before_last
from .proto import as_model, package
from .regressors import regressor_mean
from .table import Source


def export(model: Any, path: Any, dtype: str) -> Any:
    """See `mlkm.to_onnx`."""
    one_of("dtype", dtype, ("float32", "float64"))
    target = None if path is None else file_path("path", path)
    package("onnx")
    result = as_model(graph_of(model, dtype))
    if target is not None:
        with atomic_write(target) as file:
            file.write(result.SerializeToString())
    return result


def graph_of(model: Any, dtype: str) -> Graph:
    """Inputs, operations and outputs."""
    graph, double = Graph(), dtype == "float64"
    last, source = through_steps(model, Source(graph, dtype))
    if isinstance(last, ConformalRegressor):
        _band(last, source, double)
        return graph
    if not isinstance(last, KernelMachine):
        raise TypeError(
            "to_onnx exports MLKMRegressor, RKMRegressor, RandomFeatureRidge, ConformalRegressor and pipelines that end"
            f" with one of them; got {type(last).__name__}."
        )
    mean = regressor_mean(last, source, double)
    _output(
        graph,
        "mean",
        mean,
        dtype,
        () if last.fitted_.preparation.single_output else (last.fitted_.preparation.n_outputs,),
    )
    return graph


def _band(band: ConformalRegressor, source: Source, double: bool) -> None:
    """Mean, lower and upper, without the axis of levels where one was asked for, nor that of a single output."""
    check_is_fitted(band, "estimator_")
    _, source = through_steps(band.estimator_, source)
    mean, lower, upper, (levels, k) = band_ends(band, source, double)
    outputs = () if band._single_output else (k,)
    shape = outputs if np.ndim(band.confidence_level) == 0 else (levels, *outputs)
    for name, tensor, own in (("mean", mean, outputs), ("lower", lower, shape), ("upper", upper, shape)):
        _output(source.graph, name, tensor, source.dtype, own)


def through_steps(model: Any, source: Source) -> tuple[Any, Source]:
    """The last step of a pipeline, and the rows as it sees them."""
    if isinstance(model, FrozenEstimator):
        return through_steps(model.estimator, source)
    if not isinstance(model, Pipeline):
        return model, source
    check_is_fitted(model)
    return through_steps(model.steps[-1][1], before_last(model, source))


def _output(graph: Graph, name: str, tensor: str, dtype: str, shape: tuple[int, ...]) -> None:
    """In the shape that `predict` has."""
    shaped = graph("Reshape", tensor, np.array([-1, *shape]))
    graph.output(name, graph.cast(shaped, dtype), dtype, shape)
