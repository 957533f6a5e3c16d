"""Predictions of a table in files, written as they are made."""

from pathlib import Path
from typing import IO, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._atomic import atomic_write
from .._checks import brief, file_path
from ..tables.odd import one_warning
from .apply import later_rows, taken
from .files import FileSource, open_table

_KINDS = (".parquet", ".csv")


def predict_table(model: Any, source: Any, out: Any, *, confidence_level: float | None = None) -> Path:
    """Predict every row of a table in files and write the results, in the order of the rows, to a Parquet or CSV file.

    Columns are `prediction`, and for a band `lower` and `upper`; with several outputs each with its number, as in
    `prediction_0`. The file has its name only when it is complete: what fails leaves nothing behind.

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
    table = source if isinstance(source, FileSource) else open_table(source)
    table = later_rows(table, model)
    if table.reads(path):
        raise ValueError(f"{str(path)!r} is, or would be, one of the files that are read; give it another name.")
    with atomic_write(path) as file, one_warning():
        writer = None
        try:
            for block in table.blocks():
                columns = pa.table(_columns(model, block.table, confidence_level))
                writer = writer or _writer(file, columns.schema, path.suffix.lower())
                writer.write_table(columns)
        finally:
            if writer is not None:
                writer.close()
        if writer is None:
            raise ValueError("The table has no rows to predict.")
    return path


def _columns(model: Any, rows: Any, level: float | None) -> dict[str, Any]:
    if not hasattr(model, "predict_interval"):
        return _named("prediction", np.asarray(model.predict(taken(model, rows))))
    mean, interval = model.predict_interval(taken(model.estimator_, rows), level)
    if interval.shape[2] != 1:
        raise ValueError("predict_table writes the band of one level; give confidence_level=0.9, say.")
    return {
        **_named("prediction", mean),
        **_named("lower", interval[:, 0, 0]),
        **_named("upper", interval[:, 1, 0]),
    }


def _named(name: str, values: Any) -> dict[str, Any]:
    if values.ndim == 1:
        return {name: values}
    return {f"{name}_{k}": column for k, column in enumerate(values.T)}


def _writer(file: IO[bytes], schema: Any, kind: str) -> Any:
    if kind == ".parquet":
        from pyarrow.parquet import ParquetWriter

        return ParquetWriter(file, schema)
    from pyarrow.csv import CSVWriter

    return CSVWriter(file, schema)
