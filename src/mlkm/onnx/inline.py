"""Steps and regressors of scikit-learn inside a graph, converted by skl2onnx; in float64, since scalers cancel."""

from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline

from .graph import OPSETS, Graph
from .proto import package
from .table import Source


def before_last(pipeline: Pipeline, source: Source) -> Source:
    """What the steps of a pipeline before its last make of the rows."""
    for _, step in pipeline.steps[:-1]:
        if step is not None and not isinstance(step, str):  # "passthrough"
            made = _imputed(step, source) if _imputes(step) else _inlined(step, source)
            source = Source(source.graph, source.dtype, made)
    return source


def _imputes(step: Any) -> bool:
    """Whether it fills in numbers and does nothing else; onnxruntime has an operation for it in float32 only."""
    plain = isinstance(step, SimpleImputer) and not step.add_indicator and step.statistics_.dtype.kind == "f"
    return plain and isinstance(step.missing_values, float) and bool(np.isnan(step.missing_values))


def _imputed(step: SimpleImputer, source: Source) -> str:
    """Columns without a number in the fit are dropped, as the imputer does."""
    graph, kept = source.graph, np.flatnonzero(~np.isnan(step.statistics_))
    X = graph.columns(_rows(source, int(step.n_features_in_)), kept)
    return graph("Where", graph("IsNaN", X), step.statistics_[kept].astype(np.float64), X)


def other_regressor(model: Any, source: Source) -> str:
    """The mean by a regressor of scikit-learn, (n, k), in float64."""
    return source.graph.cast(_inlined(model, source), np.float64)


def _inlined(model: Any, source: Source) -> str:
    """The output of a converted model at the rows of the source."""
    skl2onnx, number = package("skl2onnx"), package("skl2onnx.common.data_types").DoubleTensorType
    d, columns = int(model.n_features_in_), _columns(model)
    X = _rows(source, d)
    given = [("X", X, d)] if columns is None else [(c, source.graph.columns(X, [j]), 1) for j, c in enumerate(columns)]
    try:
        converted = skl2onnx.convert_sklearn(
            model, initial_types=[(name, number([None, width])) for name, _, width in given], target_opset=OPSETS
        )
    except Exception as error:  # of many kinds
        raise ValueError(
            f"{type(model).__name__} on numbers is not exported, since skl2onnx says: {str(error).splitlines()[0]}"
        ) from error
    return _merged(source.graph, converted, {name: tensor for name, tensor, _ in given})


def _rows(source: Source, d: int) -> str:
    return source.numbers("X", d) if source.given is None else source.given


def _columns(model: Any) -> list[str] | None:
    """The names of columns where a step finds them by name."""
    by_name = isinstance(model, ColumnTransformer) and hasattr(model, "feature_names_in_")
    return list(model.feature_names_in_) if by_name else None


def _merged(graph: Graph, model: Any, inputs: dict[str, str]) -> str:
    """All nodes of a model under names of their own, with its inputs; the name of its first output."""
    onnx, begin = package("onnx"), graph.new("step") + "/"
    names = {"": "", **inputs}

    def named(name: str) -> str:
        return names.setdefault(name, begin + name)

    for tensor in model.graph.initializer:
        graph.constants[named(tensor.name)] = onnx.numpy_helper.to_array(tensor)
    for node in model.graph.node:
        own = onnx.NodeProto()
        own.CopyFrom(node)
        own.name = begin + node.name
        own.input[:], own.output[:] = [named(name) for name in node.input], [named(name) for name in node.output]
        graph.nodes.append(own)
    return named(model.graph.output[0].name)
