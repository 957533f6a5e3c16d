"""The border to skl2onnx: steps and regressors of scikit-learn inside a graph, and estimators of mlkm as operators of
skl2onnx.

What skl2onnx converts is in float64, since scalers cancel.
"""

from functools import singledispatch
from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ..base import KernelMachine
from ..estimators import MLKMRegressor, RandomFeatureRidge, RKMRegressor
from ..random_features import RandomFeatures
from .graph import OPSETS, Graph, package
from .inputs import Source
from .machines import machine_mean

if TYPE_CHECKING:
    from onnx import ModelProto
    from skl2onnx.common._container import ModelComponentContainer
    from skl2onnx.common._topology import Operator, Scope


@singledispatch
def output_of(model: BaseEstimator, source: Source) -> str:
    """Return the mean of y by any fitted regressor, (n, k), in float64."""
    return source.graph.cast(_inlined(model, source), np.float64)


output_of.register(KernelMachine, machine_mean)


@output_of.register
def _random_features(model: RandomFeatures, source: Source) -> str:
    return model.map_.graph(source.graph, source.matrix(model.n_features_in_), source.double)


def through_steps(model: BaseEstimator, source: Source) -> tuple[BaseEstimator, Source]:
    """Return the last step of a pipeline, and the rows as it sees them."""
    if isinstance(model, FrozenEstimator):
        return through_steps(model.estimator, source)
    if not isinstance(model, Pipeline):
        return model, source
    check_is_fitted(model)
    for _, step in model.steps[:-1]:
        if step is not None and not isinstance(step, str):  # "passthrough"
            made = _imputed(step, source) if _only_imputes(step) else _inlined(step, source)
            source = Source(source.graph, source.dtype, made)
    return through_steps(model.steps[-1][1], source)


def _only_imputes(step: BaseEstimator) -> bool:
    """Return whether a step fills in numbers and does nothing else; onnxruntime has an operation for it in float32
    only."""
    plain = isinstance(step, SimpleImputer) and not step.add_indicator and step.statistics_.dtype.kind == "f"
    return plain and isinstance(step.missing_values, float) and bool(np.isnan(step.missing_values))


def _imputed(step: SimpleImputer, source: Source) -> str:
    """Return columns with missing numbers filled in; those without a number in the fit are dropped, as the imputer
    does."""
    graph, columns = source.graph, np.flatnonzero(~np.isnan(step.statistics_))
    X = graph.columns(source.matrix(int(step.n_features_in_)), columns)
    return graph("Where", graph("IsNaN", X), step.statistics_[columns].astype(np.float64), X)


def _inlined(model: BaseEstimator, source: Source) -> str:
    """Return the output of a converted model at the rows of the source."""
    skl2onnx, number = package("skl2onnx"), package("skl2onnx.common.data_types").DoubleTensorType
    d = int(model.n_features_in_)
    X = source.matrix(d)
    given = [("X", X, d)]
    if isinstance(model, ColumnTransformer) and hasattr(model, "feature_names_in_"):  # it finds columns by name
        given = [(name, source.graph.columns(X, [j]), 1) for j, name in enumerate(model.feature_names_in_)]
    try:
        converted = skl2onnx.convert_sklearn(
            model, initial_types=[(name, number([None, width])) for name, _, width in given], target_opset=OPSETS
        )
    except Exception as error:  # of many kinds
        raise ValueError(
            f"{type(model).__name__} on numbers is not exported, since skl2onnx says: {str(error).splitlines()[0]}"
        ) from error
    return _merged(source.graph, converted, {name: tensor for name, tensor, _ in given})


def _merged(graph: Graph, model: "ModelProto", inputs: dict[str, str]) -> str:
    """Add all operations of a converted model under new names, at the tensors `inputs`, and return the name of its
    first output."""
    onnx, prefix = package("onnx"), graph.new("step") + "/"
    names = {"": "", **inputs}

    def renamed(name: str) -> str:
        return names.setdefault(name, prefix + name)

    for tensor in model.graph.initializer:
        graph.constants[renamed(tensor.name)] = onnx.numpy_helper.to_array(tensor)
    for node in model.graph.node:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.name = prefix + node.name
        copy.input[:], copy.output[:] = [renamed(name) for name in node.input], [renamed(name) for name in node.output]
        graph.nodes.append(copy)
    return renamed(model.graph.output[0].name)


def register() -> None:
    """Register the estimators with skl2onnx; see `mlkm.onnx.register`."""
    update = package("skl2onnx").update_registered_converter
    for kind in (MLKMRegressor, RKMRegressor, RandomFeatureRidge, RandomFeatures):
        update(kind, f"Mlkm{kind.__name__}", _declare, _convert, overwrite=True)


def _declare(operator: "Operator") -> None:
    """Declare the output of an estimator for skl2onnx, in float64 if its first input is."""
    types, model = package("skl2onnx.common.data_types"), operator.raw_operator
    double = isinstance(operator.inputs[0].type, types.DoubleTensorType)
    number = types.DoubleTensorType if double else types.FloatTensorType
    width = model.map_.n_features if hasattr(model, "map_") else model.fitted_.preparation.n_outputs
    operator.outputs[0].type = number([None, width])


def _convert(scope: "Scope", operator: "Operator", container: "ModelComponentContainer") -> None:
    """Add the operations of an estimator, under new names, and the name of their result to a container of skl2onnx."""
    onnx, types = package("onnx"), package("skl2onnx.common.data_types")
    dtype = "float64" if isinstance(operator.outputs[0].type, types.DoubleTensorType) else "float32"
    graph = Graph(prefix=scope.get_unique_variable_name("mlkm") + "/")
    X = graph.side_by_side([graph.cast(name, np.float64) for name in operator.input_full_names])
    tensor = graph.cast(output_of(operator.raw_operator, Source(graph, dtype, X)), dtype)
    for name, array in graph.constants.items():
        constant = onnx.numpy_helper.from_array(array, name)
        container.add_initializer(name, constant.data_type, array.shape, constant)
    for node in graph.nodes:
        attributes = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
        settings = {"op_domain": node.domain, "op_version": OPSETS[node.domain], "name": node.name}
        container.add_node(node.op_type, list(node.input), list(node.output), **settings, **attributes)
    output = operator.outputs[0].full_name
    container.add_node("Identity", [tensor], [output], name=tensor + "/named", op_version=OPSETS[""])
