"""Predictions of a table in files, written as they are made."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._checks import brief, file_path
from ..tables.frames import Table
from .apply import names_of, taken
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
    table = table.narrowed(names_of(model))
    if table.reads(path):
        raise ValueError(f"{str(path)!r} is, or would be, one of the files that are read; give it another name.")
    with renamed(path) as unfinished:
        writer = None
        try:
            for block in table.blocks():
                columns = pa.table(_columns(model, block.table, confidence_level))
                writer = writer or _writer(unfinished, columns.schema, path.suffix.lower())
                writer.write_table(columns)
        finally:
            if writer is not None:
                writer.close()
        if writer is None:
            raise ValueError("The table has no rows to predict.")
    return path


@contextmanager
def renamed(path: Path) -> Iterator[Path]:
    """A file beside `path`, behind links, to write to, which gets its name when all went well and is removed when
    not."""
    path = Path(os.path.realpath(path))
    if not path.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {str(path.parent)!r} to write {path.name!r} to; make it first.")
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    try:
        yield Path(name)
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _columns(model: Any, rows: Table, level: float | None) -> dict[str, Any]:
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


def _writer(path: Path, schema: Any, kind: str) -> Any:
    if kind == ".parquet":
        from pyarrow.parquet import ParquetWriter

        return ParquetWriter(path, schema)
    from pyarrow.csv import CSVWriter

    return CSVWriter(path, schema)
