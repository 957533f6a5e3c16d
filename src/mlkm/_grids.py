"""Rows along one input, the others fixed: of numbers, or of a frame whose columns keep their types."""

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from numbers import Integral
from typing import Any

import numpy as np

from ._types import Array
from .runtime.checks import brief


def one_row(at: Any, columns: Sequence[str] | None, n_inputs: int | None) -> Any:
    """`at` as a vector of numbers, or as a frame of one row where it has names or values that are no numbers."""
    if hasattr(at, "to_dicts"):  # a frame of polars
        at = _only(at.to_dicts())
    if hasattr(at, "keys"):
        return _framed_row(at, columns)
    values = at if isinstance(at, (list, tuple, np.ndarray)) else [at]
    if columns is not None and len(values) == len(columns) and any(isinstance(value, str) for value in values):
        return _framed_row(dict(zip(columns, values, strict=True)), columns)
    try:
        row = np.asarray(values, np.float64)
    except (TypeError, ValueError, OverflowError):
        row = np.empty((0, 0))
    if row.ndim != 1 or n_inputs not in (None, len(row)):
        raise ValueError(
            f"at must be one number for each of the {n_inputs or 'known'} inputs, or a row of a frame; got {brief(at)}."
        )
    return row


def _only(rows: Sequence[Any]) -> Any:
    if len(rows) != 1:
        raise ValueError(f"at must be one row, such as frame.iloc[[0]]; got {len(rows)} rows.")
    return rows[0]


def _framed_row(at: Any, columns: Sequence[str] | None) -> Any:
    """A frame of one row, its columns in the order in which the model knows them."""
    pandas = import_module("pandas")
    row = at if isinstance(at, pandas.DataFrame) else pandas.DataFrame({name: [at[name]] for name in at.keys()})  # noqa: SIM118
    if len(row) != 1:
        _only(range(len(row)))
    absent = [] if columns is None else [name for name in columns if name not in row]
    if absent:
        raise ValueError(f"at must have all inputs of the model; got none for {', '.join(map(repr, absent))}.")
    return row if columns is None else row[list(columns)]


def row_names(row: Any, columns: Sequence[str] | None) -> list[str] | None:
    """Names of the inputs, where there are any."""
    if columns is not None:
        return [str(name) for name in columns]
    return None if isinstance(row, np.ndarray) else [str(name) for name in row.columns]


def place_of(j: Any, names: Sequence[str] | None, n_inputs: int) -> int:
    """The place of an input given by its place or its name."""
    if isinstance(j, str) and names is not None and j in list(names):
        return list(names).index(j)
    if isinstance(j, Integral) and not isinstance(j, (bool, np.timedelta64)) and -n_inputs <= int(j) < n_inputs:
        return int(j) % n_inputs
    known = (
        "" if names is None else f", or one of the names {', '.join(map(repr, names[:8]))}{', ...' * (len(names) > 8)}"
    )
    raise ValueError(f"An input must be a place from 0 to {n_inputs - 1}{known}; got {brief(j)}.")


def rows_along(row: Any, j: int, grid: Array) -> Any:
    """The row once for every value of the grid, which input j takes."""
    if isinstance(row, np.ndarray):
        X = np.tile(row, (len(grid), 1))
        X[:, j] = grid
        return X
    name, dtype = row.columns[j], row.dtypes.iloc[j]
    if not import_module("pandas").api.types.is_numeric_dtype(dtype):
        raise ValueError(
            f"A band is drawn along inputs that are numbers; got {brief(name)}, which is {row.iloc[0, j]!r}."
        )
    frame = row.iloc[np.zeros(len(grid), np.intp)].reset_index(drop=True)
    frame[name] = grid.astype(dtype) if dtype in (np.float32, np.float64) else grid
    return frame


def framed(X: Any, columns: Sequence[str] | None) -> Any:
    """Numbers with the names the model knows, so that it need not warn of missing ones."""
    if columns is None or not isinstance(X, np.ndarray) or not find_spec("pandas"):
        return X
    return import_module("pandas").DataFrame(X, columns=list(columns))
