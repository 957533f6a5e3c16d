"""Fitted estimators as ONNX models, which run without Python: `to_onnx`.

A machine is a graph of matrix products, exponentials and cosines, which also encodes the columns of the table. The
package onnx is not imported before it is needed.
"""

from os import PathLike
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from onnx import ModelProto
    from sklearn.base import BaseEstimator

__all__ = ["feed", "register", "to_onnx"]

FloatType: TypeAlias = Literal["float32", "float64"]


def to_onnx(
    model: "BaseEstimator", path: str | PathLike[str] | None = None, *, dtype: FloatType = "float32"
) -> "ModelProto":
    """Return a fitted regressor, band or pipeline as an ONNX model, and write it to `path` where one is given.

    Parameters
    ----------
    model : regressor, ConformalRegressor or Pipeline
        A fitted regressor of mlkm, a band with method="split" around any regressor that skl2onnx converts, or a
        pipeline that ends with one of them.
    path : str or path, default=None
        The file to write: it is written as a whole, or the file that was there before stays.
    dtype : {"float32", "float64"}, default="float32"
        The type of numbers that go in and out. With "float32", operations that would cancel are still in float64.

    Returns
    -------
    onnx.ModelProto
        A model that predicts what `predict` does: its output "mean", and for a `ConformalRegressor` also "lower" and
        "upper" at its `confidence_level`. Its input is one matrix "X" where all columns were numbers in the fit, else
        one column (n, 1) for each, by its name: numbers as floats (NaN: missing), words as strings (empty: missing),
        dates as microseconds since 1970 in int64. `mlkm.onnx.feed(model, table)` makes them from a table.

    Examples
    --------
    >>> from mlkm import RandomFeatureRidge, to_onnx
    >>> from mlkm.datasets import make_example1
    >>> X, y, f = make_example1(n=100, d=4, random_state=0)
    >>> graph = to_onnx(RandomFeatureRidge(50, scale=1.0, random_state=0).fit(X, y)).graph
    >>> [one.name for one in graph.input], [one.name for one in graph.output]
    (['X'], ['mean'])
    """
    from .export import export

    return export(model, path, dtype)


def feed(model: "BaseEstimator", X: object, *, dtype: FloatType = "float32") -> dict[str, NDArray[np.generic]]:
    """Return the inputs that the exported model takes: `session.run(None, feed(model, X))`.

    Parameters
    ----------
    model : regressor, ConformalRegressor or Pipeline
        The fitted estimator that was exported.
    X : array or frame
        A table like that of the fit.
    dtype : {"float32", "float64"}, default="float32"
        The type of numbers in the export.

    Returns
    -------
    dict of arrays, by the names of the inputs.

    Examples
    --------
    >>> from mlkm import MLKMRegressor
    >>> model = MLKMRegressor().fit([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]], [0.0, 1.0, 2.0])
    >>> {name: values.shape for name, values in feed(model, [[0.5, 1.0]]).items()}
    {'X': (1, 2)}
    """
    from .inputs import feed

    return feed(model, X, dtype)


def register() -> None:
    """Make `skl2onnx.to_onnx` convert the regressors and `RandomFeatures` of mlkm, alone and in pipelines, on numbers.

    Examples
    --------
    >>> import numpy as np, skl2onnx
    >>> from mlkm import RandomFeatureRidge
    >>> X = np.linspace(0, 1, 40).reshape(20, 2)
    >>> register()
    >>> model = RandomFeatureRidge(20, scale=1.0, random_state=0).fit(X, X[:, 0])
    >>> skl2onnx.to_onnx(model, X).graph.input[0].name
    'X'
    """
    from .scikit_learn import register

    register()
