"""The estimators as operators of skl2onnx, for its `to_onnx` and pipelines of its own."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..estimators import MLKMRegressor, RandomFeatureRidge, RKMRegressor
from ..random_features import RandomFeatures
from .graph import OPSETS, Graph
from .proto import attributes, package
from .regressors import regressor_mean
from .table import Source


def register() -> None:
    """See `mlkm.onnx.register`."""
    update = package("skl2onnx").update_registered_converter
    for kind in (MLKMRegressor, RKMRegressor, RandomFeatureRidge):
        outputs = _shape(lambda model: len(model.y_scaler_.mean))
        update(kind, f"Mlkm{kind.__name__}", outputs, _converter(_mean), overwrite=True)
    outputs = _shape(lambda model: model.map_.n_features)
    update(RandomFeatures, "MlkmRandomFeatures", outputs, _converter(_random_features), overwrite=True)


def _mean(model: Any, X: str, graph: Graph, double: bool) -> str:
    return regressor_mean(model, Source(graph, "float64", X), double)


def _random_features(model: RandomFeatures, X: str, graph: Graph, double: bool) -> str:
    return model.map_.graph(graph, X, double)


def _shape(width: Callable[[Any], int]) -> Callable[[Any], None]:
    """Says that the output is (n, width), in float64 if the first input is."""

    def shape(operator: Any) -> None:
        types = package("skl2onnx.common.data_types")
        double = isinstance(operator.inputs[0].type, types.DoubleTensorType)
        number = types.DoubleTensorType if double else types.FloatTensorType
        operator.outputs[0].type = number([None, width(operator.raw_operator)])

    return shape


def _converter(said: Callable[[Any, str, Graph, bool], str]) -> Callable[[Any, Any, Any], None]:
    """Adds the graph of what is `said` of a model, node by node, under names of its own."""

    def convert(scope: Any, operator: Any, container: Any) -> None:
        onnx, types = package("onnx"), package("skl2onnx.common.data_types")
        double = isinstance(operator.outputs[0].type, types.DoubleTensorType)
        graph = Graph(prefix=scope.get_unique_variable_name("mlkm") + "/")
        X = graph.side_by_side([graph.cast(name, np.float64) for name in operator.input_full_names])
        result = graph.cast(said(operator.raw_operator, X, graph, double), np.float64 if double else np.float32)
        for name, array in graph.constants.items():
            tensor = onnx.numpy_helper.from_array(array, name)
            container.add_initializer(name, tensor.data_type, array.shape, tensor)
        for node in graph.nodes:
            settings = {"op_domain": node.domain, "op_version": OPSETS[node.domain], "name": node.outputs[0]}
            container.add_node(node.kind, list(node.inputs), list(node.outputs), **settings, **attributes(node))
        named = operator.outputs[0].full_name
        container.add_node("Identity", [result], [named], name=result + "/named", op_version=OPSETS[""])

    return convert
