"""Fitted estimators as ONNX models, which run without Python: `to_onnx`.

A machine is a graph of matrix products, exponentials and cosines; the table's encoding is a part of it. Nothing of the
package onnx is imported before it is needed.
"""

from os import PathLike
from typing import Any, Literal

__all__ = ["feed", "register", "to_onnx"]


def to_onnx(
    model: Any, path: str | PathLike[str] | None = None, *, dtype: Literal["float32", "float64"] = "float32"
) -> Any:
    """A fitted regressor, band or pipeline as an `onnx.ModelProto`, written to `path` where one is given: all of it, or
    the file that was there before stays.

    The model predicts what `predict` does: the output "mean", and for a `ConformalRegressor` with method="split" also
    "lower" and "upper" at its `confidence_level`. Inputs are one matrix "X" where all columns were numbers in the fit,
    else one column (n, 1) for each, by its name: numbers as floats (NaN: missing), words as strings (empty: missing),
    dates as microseconds since 1970 in int64. `mlkm.onnx.feed(model, table)` makes them of a table.

    With dtype="float32" numbers go in and out in float32, and inside, what would cancel is in float64.
    """
    from .export import export

    return export(model, path, dtype)


def feed(model: Any, X: Any, *, dtype: Literal["float32", "float64"] = "float32") -> dict[str, Any]:
    """The inputs that the exported model takes, by name, from a table: `session.run(None, feed(model, X))`."""
    from .feeding import feed

    return feed(model, X, dtype)


def register() -> None:
    """Make `skl2onnx.to_onnx` know the regressors of mlkm, alone and in pipelines, on numbers."""
    from .converter import register

    register()
