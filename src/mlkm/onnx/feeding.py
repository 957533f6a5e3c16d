"""A table as the inputs of an exported model."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base import KernelMachine
from ..conformal.regressor import ConformalRegressor
from ..tables.columns import CategoryColumn, DateColumn
from .table import column_names, is_plain, missing_word


def feed(model: Any, X: Any, dtype: str) -> dict[str, Any]:
    """See `mlkm.onnx.feed`."""
    if isinstance(model, ConformalRegressor):
        return feed(model.estimator_, X, dtype)
    if not isinstance(model, KernelMachine):
        return {"X": np.asarray(X, dtype)}
    reader = model._reader
    cells = reader.table(model, X).columns
    if is_plain(reader):
        return {"X": np.stack(cells, axis=1).astype(dtype)}
    named = zip(column_names(reader), reader.columns, cells, strict=True)
    return {name: _cells(column, raw, dtype)[:, None] for name, column, raw in named}


def _cells(column: Any, raw: NDArray[Any], dtype: str) -> NDArray[Any]:
    if isinstance(column, CategoryColumn):
        missing = missing_word(column)
        return np.array([missing if word is None else word for word in raw], object)
    if isinstance(column, DateColumn):
        return raw.astype("datetime64[us]").astype(np.int64)
    return raw.astype(dtype)
