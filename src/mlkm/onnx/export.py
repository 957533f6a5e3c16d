"""The export of a fitted estimator to a model of the package onnx."""

from functools import singledispatch
from os import PathLike
from typing import TYPE_CHECKING

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..base import KernelMachine
from ..conformal.regressor import ConformalRegressor
from ..runtime.atomic import atomic_write
from ..runtime.checks import file_path, one_of
from .graph import Graph, package
from .inputs import Source
from .intervals import add_band
from .machines import machine_mean
from .scikit_learn import through_steps

if TYPE_CHECKING:
    from onnx import ModelProto


def export(model: BaseEstimator, path: str | PathLike[str] | None, dtype: str) -> "ModelProto":
    """Return a fitted estimator as a model of onnx, and write it; see `mlkm.onnx.to_onnx`."""
    one_of("dtype", dtype, ("float32", "float64"))
    target = None if path is None else file_path("path", path)
    package("onnx")
    graph = Graph()
    _add_outputs(*through_steps(model, Source(graph, dtype)))
    result = graph.model()
    if target is not None:
        with atomic_write(target) as file:
            file.write(result.SerializeToString())
    return result


@singledispatch
def _add_outputs(model: BaseEstimator, source: Source) -> None:
    """Add the outputs of a fitted estimator to the graph, in the shapes that its methods return."""
    raise TypeError(
        "to_onnx exports MLKMRegressor, RKMRegressor, RandomFeatureRidge, ConformalRegressor and pipelines that end"
        f" with one of them; got {type(model).__name__}."
    )


@_add_outputs.register
def _add_mean(model: KernelMachine, source: Source) -> None:
    check_is_fitted(model)
    preparation = model.fitted_.preparation
    shape = () if preparation.single_output else (preparation.n_outputs,)
    source.graph.output("mean", machine_mean(model, source), source.dtype, shape)


_add_outputs.register(ConformalRegressor, add_band)
