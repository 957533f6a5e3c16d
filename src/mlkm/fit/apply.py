"""Predictions, intervals and scores of a fitted model for rows in memory, in files or on a cluster.

Predictions of a table in files are written block by block.
"""

from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol, cast

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from .._types import Array
from ..data.folds import check_predicted
from ..data.preparation import Stats, given_rows, merged_if_any, stats_of
from ..data.rows import Block, Rows
from ..data.table_files import FileRows, open_table
from ..data.tables.cells import Table, is_words
from ..data.tables.columns import one_warning
from ..runtime.atomic import atomic_write
from ..runtime.checks import brief, file_path


class Predictor(Protocol):
    """A fitted regressor, of this package or of another library, or a band around one."""

    def predict(self, X: Any, /) -> Any:
        """Return a prediction for every row."""


NO_WEIGHT = "All sample weights are zero, so there is no row to score; give a row a positive weight."


def new_rows(X: object, model: Predictor) -> Rows[Any]:
    """Return rows that a fitted model is applied to.

    A model reads and checks rows in memory itself. Only the columns of the model are read from a table in files. Models
    of this package get unconverted cells, which they read by the types of the fit, and columns that are not those of
    the fit are refused at once.
    """
    rows = given_rows(X)
    if rows.in_memory:
        return rows
    inner: Any = getattr(model, "estimator_", model)
    inner = inner.estimator if isinstance(inner, FrozenEstimator) else inner
    rows = rows.narrowed(names_of(model))
    if not hasattr(inner, "fitted_"):
        return rows
    inner.fitted_.preparation.reader.check(inner, rows.names, rows.n_columns)
    return rows.as_cells()


def sendable(model: Predictor, return_std: bool = False) -> Any:
    """Return a copy of a model for other processes, without its training rows unless standard deviations need them."""
    if isinstance(model, FrozenEstimator):
        return sendable(model.estimator, return_std)
    if not hasattr(model, "fitted_"):
        return OfTables(model)
    result = copy(model)
    result.fitted_ = model.fitted_.to_send(return_std)
    return result


@dataclass(frozen=True)
class OfTables:
    """A regressor of another library, which is given rows as frames, or as arrays if columns have no names."""

    model: Predictor

    def predict(self, rows: object, **settings: object) -> Any:
        """Return the predictions of the regressor, which is given the rows in the form that it takes."""
        return self.model.predict(taken(self.model, rows), **settings)


def taken(model: Predictor, table: object) -> object:
    """Return rows in the form that a model takes: unchanged for models of this package and for unconverted cells, and
    for other models as a frame, or as an array if they were fitted to columns without names."""
    if hasattr(model, "fitted_") or not isinstance(table, Table):
        return table
    unnamed = hasattr(model, "n_features_in_") and not hasattr(model, "feature_names_in_")
    if table.names is None or unnamed:
        return np.stack(table.columns, axis=1)
    import pandas as pd

    return pd.DataFrame({name: _as_pandas_reads(x) for name, x in zip(table.names, table.columns, strict=True)})


def _as_pandas_reads(column: Any) -> Any:
    """Return a column with NaN for missing words, as pandas reads them from a file: before version 3 it would leave
    None as it is, which encoders take for another value."""
    return np.where(column == None, np.nan, column) if is_words(column) else column  # noqa: E711, elementwise


def names_of(model: Predictor) -> tuple[str, ...] | None:
    """Return the names of the columns that a model, or the model inside a band, was fitted to, or None if they had no
    names."""
    inner = getattr(model, "estimator_", model)
    found = getattr(model, "feature_names_in_", getattr(inner, "feature_names_in_", None))
    return None if found is None else tuple(map(str, found))


@dataclass(frozen=True)
class Predictions:
    """A function from rows to the predictions of a model, with standard deviations if asked for."""

    model: Predictor
    return_std: bool = False

    def __call__(self, rows: object) -> tuple[Array, ...]:
        predict: Any = self.model.predict
        return tuple(predict(rows, return_std=True)) if self.return_std else (predict(rows),)

    def to_send(self) -> "Predictions":
        """Return the function as it is sent to rows in files or on a cluster."""
        return Predictions(sendable(self.model, self.return_std), self.return_std)


@dataclass(frozen=True)
class ErrorsOf:
    """A function from a block to the statistics of its targets and prediction errors, by which a model is scored."""

    model: Predictor

    def __call__(self, block: Block[object]) -> Stats | None:
        """Return the statistics of the targets and of the errors of their predictions over the rows of a block that
        have a weight, or None where there are none."""
        counted = block.weights > 0
        if not block.Y.shape[1]:
            raise ValueError("A score needs targets; name them, as in open_table(path, target='price'), or pass y.")
        f = np.asarray(self.model.predict(block.X))
        f = f[:, None] if f.ndim == 1 else f
        check_predicted(block.Y, f)
        both = np.hstack([block.Y, block.Y - f])[counted]
        return stats_of(both, block.weights[counted]) if counted.any() else None


def r2(rows: Rows[Any], model: Predictor) -> float:
    """Return the coefficient of determination, averaged over outputs, as scikit-learn defines it."""
    found = new_rows(rows, model).map_reduce(ErrorsOf(sendable(model)), merged_if_any)
    if found is None:
        raise ValueError(NO_WEIGHT)
    k = len(found.sd) // 2
    sd, residual = found.sd[:k], np.hypot(found.mean[k:], found.sd[k:])
    constant = found.low[0, :k] >= found.high[1, :k]
    with np.errstate(over="ignore"):
        shares = np.where(constant, residual == 0, 1 - (residual / np.where(constant, 1.0, sd)) ** 2)
    return finite_score(float(np.mean(shares)))


def finite_score(share: float) -> float:
    """Return a coefficient of determination, or raise an error where it is not finite."""
    if not np.isfinite(share):
        raise ValueError(
            "The score is below -1.8e308, where float64 ends: predictions are over 1e150 standard deviations of the"
            " targets away from these; give targets in the units of the fit."
        )
    return share


_KINDS = (".parquet", ".csv")


def predict_table(model: Predictor, source: object, out: object, *, confidence_level: float | None = None) -> Path:
    """Predict every row of a table in files and write the results, in the order of the rows, to a Parquet or CSV file.

    Columns are `prediction`, and for a band `lower` and `upper`; with several outputs, each name ends with the number
    of the output, as in `prediction_0`. The file gets its name only when it is complete, so that a failure leaves
    nothing behind.

    Parameters
    ----------
    model : a fitted regressor, or a `ConformalRegressor`, whose band is then written too
    source : what `open_table` gives, or what it takes
    out : the file to write, .parquet or .csv
    confidence_level : of the band, by default that of the constructor
    """
    import pyarrow as pa

    path = file_path("out", out)
    if path.suffix.lower() not in _KINDS:
        raise ValueError(f"Predictions are written to a .parquet or .csv file; got {brief(path.name)}.")
    if isinstance(model, type) or not hasattr(model, "predict"):
        raise TypeError(
            f"model must be a fitted regressor or a band, as in predict_table(model, ...); got {brief(model)}."
        )
    check_is_fitted(model)
    if confidence_level is not None and not hasattr(model, "predict_interval"):
        raise ValueError("confidence_level is for models with a band, and this one has none.")
    table = source if isinstance(source, FileRows) else open_table(source)
    table = cast(FileRows, new_rows(table, model))
    if table.reads(path):
        raise ValueError(f"{str(path)!r} is, or would be, one of the files that are read; give it another name.")
    with atomic_write(path) as file, one_warning():
        writer = None
        try:
            for block in table.blocks():
                columns = pa.table(_columns(model, block.X, confidence_level))
                writer = writer or _writer(file, columns.schema, path.suffix.lower())
                writer.write_table(columns)
        finally:
            if writer is not None:
                writer.close()
        if writer is None:
            raise ValueError("The table has no rows to predict.")
    return path


def _columns(model: Predictor, rows: object, level: float | None) -> dict[str, Array]:
    """Return the columns to write for a block of rows: predictions, and for a model with a band its ends."""
    if not hasattr(model, "predict_interval"):
        return _named("prediction", np.asarray(model.predict(taken(model, rows))))
    mean, interval = model.predict_interval(taken(cast(Any, model).estimator_, rows), level)
    if interval.shape[2] != 1:
        raise ValueError("predict_table writes the band of one level; give confidence_level=0.9, say.")
    return {
        **_named("prediction", mean),
        **_named("lower", interval[:, 0, 0]),
        **_named("upper", interval[:, 1, 0]),
    }


def _named(name: str, values: Array) -> dict[str, Array]:
    if values.ndim == 1:
        return {name: values}
    return {f"{name}_{k}": column for k, column in enumerate(values.T)}


def _writer(file: IO[bytes], schema: Any, kind: str) -> Any:
    """Return a writer of Parquet or CSV, which is closed by the caller."""
    if kind == ".parquet":
        from pyarrow.parquet import ParquetWriter

        return ParquetWriter(file, schema)
    from pyarrow.csv import CSVWriter

    return CSVWriter(file, schema)
