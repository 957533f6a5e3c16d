"""A table as the inputs of an exported model."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ..base import KernelMachine
from ..conformal.regressor import ConformalRegressor
from ..data.tables.columns import CategoryColumn, DateColumn
from ..runtime.checks import as_numbers, brief, one_of
from .table import column_names, is_plain, missing_word


def feed(model: Any, X: Any, dtype: str) -> dict[str, Any]:
    """See `mlkm.onnx.feed`."""
    one_of("dtype", dtype, ("float32", "float64"))
    if isinstance(model, type) or not hasattr(model, "predict"):
        raise TypeError(f"model must be a fitted regressor, band or pipeline; got {brief(model)}.")
    check_is_fitted(model)
    if isinstance(model, ConformalRegressor):
        return feed(model.estimator_, X, dtype)
    if not isinstance(model, KernelMachine):
        return {"X": np.asarray(as_numbers("X", X), dtype)}
    reader = model.fitted_.preparation.reader
    cells = reader.table(model, X).columns
    if is_plain(reader):
        return {"X": _held(np.stack(cells, axis=1), dtype)}
    named = zip(column_names(reader), reader.columns, cells, strict=True)
    return {name: _cells(column, raw, dtype)[:, None] for name, column, raw in named}


def _cells(column: Any, raw: NDArray[Any], dtype: str) -> NDArray[Any]:
    if isinstance(column, CategoryColumn):
        missing = missing_word(column)
        return np.array([missing if word is None else word for word in raw], object)
    if isinstance(column, DateColumn):
        return raw.astype("datetime64[us]").astype(np.int64)
    return _held(raw, dtype)


def _held(values: NDArray[Any], dtype: str) -> NDArray[Any]:
    """Convert numbers to another type; refuse those that overflow there."""
    with np.errstate(over="ignore"):
        result = values.astype(dtype)
    if (np.isinf(result) & np.isfinite(values)).any():
        raise ValueError(
            f"X must be numbers that {dtype} holds; got {np.nanmax(np.abs(values)):.3g}: use dtype='float64'."
        )
    return result
