"""Any table as named columns of three forms: numbers (float64, NaN where missing), words (str or None) and dates
(datetime64, NaT where missing).

pandas and polars frames and PyArrow tables are read through narwhals; arrays have columns without names.
"""

import datetime
import decimal
import numbers
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from .._checks import brief, check_different_names

RawColumn = NDArray[Any]
_DATES = (datetime.date, np.datetime64)


@dataclass(frozen=True)
class Table:
    """The columns, and their names where they have any."""

    columns: tuple[RawColumn, ...]
    names: tuple[str, ...] | None

    def __len__(self) -> int:
        return len(self.columns[0]) if self.columns else 0

    def take(self, at: NDArray[Any]) -> "Table":
        """Some of the rows."""
        return Table(tuple(column[at] for column in self.columns), self.names)

    def named(self, wanted: tuple[str, ...] | None) -> "Table":
        """The columns of these names, in their order; as they are, where there are no names."""
        if wanted is None or self.names is None or self.names == wanted:
            return self
        check_names(self.names, wanted)
        return Table(tuple(self.columns[self.names.index(name)] for name in wanted), wanted)

    def called(self, j: int) -> str:
        """What to call a column in a message."""
        return repr(self.names[j]) if self.names is not None else str(j)


def is_frame(X: Any) -> bool:
    """Whether X is a data frame of a library that narwhals knows."""
    check_different_names(X)
    return isinstance(nw.from_native(X, eager_only=True, pass_through=True), nw.DataFrame)


def read_frame(X: Any, wanted: tuple[str, ...] | None = None) -> Table:
    """The columns of a data frame, or those of them that are wanted, in their order."""
    frame: Any = nw.from_native(X, eager_only=True)
    names = tuple(frame.columns) if all(isinstance(name, str) for name in frame.columns) else None
    if names is None or wanted is None:
        return Table(tuple(_of_series(frame[:, j]) for j in range(frame.shape[1])), names)
    check_names(names, wanted)
    return Table(tuple(_of_series(frame[name]) for name in wanted), wanted)


def check_names(names: tuple[str, ...], wanted: tuple[str, ...]) -> None:
    """Refuse a table without a column of the fit."""
    gone = [name for name in wanted if name not in names]
    if gone:
        raise ValueError(f"The table has no column {', '.join(map(repr, gone))}, which the fit had.")


def read_array(X: NDArray[Any]) -> Table:
    """The columns of a two-dimensional array of numbers or of objects; numbers that need no change are not copied."""
    if X.dtype.kind not in "fiub":
        return Table(tuple(_of_objects(x) for x in X.T), None)
    return Table(tuple(x.astype(np.float64, copy=False) for x in X.T), None)


def check_finite(table: Table) -> Table:
    """The table, having no infinite number."""
    for j, column in enumerate(table.columns):
        if column.dtype.kind == "f" and np.isinf(column).any():
            raise ValueError(f"Input X contains infinity in column {table.called(j)}; make it missing or a number.")
    return table


def is_words(column: RawColumn) -> bool:
    return column.dtype == object


def is_dates(column: RawColumn) -> bool:
    return column.dtype.kind == "M"


def as_words(column: RawColumn) -> RawColumn:
    """Numbers or dates as levels: their text; whole numbers without a point."""
    if is_words(column):
        return column
    if is_dates(column):
        return np.array([None if np.isnat(x) else str(x) for x in column], object)
    return np.array([None if np.isnan(x) else _word(float(x)) for x in column], object)


def _of_series(series: Any) -> RawColumn:
    dtype = series.dtype
    if dtype.is_numeric() or dtype == nw.Boolean:
        missing = series.is_null().to_numpy()
        values = series.to_numpy()
        if values.dtype == object:
            values = np.where(missing, np.nan, values)
        return np.where(missing, np.nan, values.astype(np.float64))
    if dtype == nw.Datetime:
        return np.asarray(_without_zone(series).to_numpy()).astype("datetime64[us]")
    if dtype == nw.Duration:
        spans = np.asarray(series.to_numpy()).astype("timedelta64[us]")
        return np.where(np.isnat(spans), np.nan, spans.astype(np.float64) / 1e6)
    values = np.array(series.to_numpy(), object)
    missing = np.asarray(series.is_null().to_numpy(), bool)
    values[missing] = None  # what stands there is not always missing
    return _words(values, missing) if dtype in (nw.Categorical, nw.Enum) else _of_objects(values)


def _without_zone(series: Any) -> Any:
    """Times of a zone by the clock there."""
    return series.dt.replace_time_zone(None) if getattr(series.dtype, "time_zone", None) else series


def _of_objects(column: RawColumn) -> RawColumn:
    """Objects by what they are: all numbers, all dates, times of the day as seconds, or words."""
    missing = np.array([_is_missing(x) for x in column], bool)
    present = column[~missing]
    for kind, convert in _KINDS:
        if len(present) and all(isinstance(x, kind) for x in present):
            return np.asarray(convert(column, missing))
    for x in present:
        if isinstance(x, (dict, list, set, tuple, np.ndarray)):
            raise TypeError(f"A cell of a table must be a string or a number, a date or missing; got {brief(x)}.")
    return _words(column, missing)


def _words(column: RawColumn, missing: NDArray[Any]) -> RawColumn:
    return np.array([None if gone else _word(x) for x, gone in zip(column, missing, strict=True)], object)


def _numbers(column: RawColumn, missing: NDArray[Any]) -> RawColumn:
    result = np.full(len(column), np.nan)
    result[~missing] = [float(x) for x in column[~missing]]
    return result


def _dates(column: RawColumn, missing: NDArray[Any]) -> RawColumn:
    result = np.full(len(column), np.datetime64("NaT", "us"))
    result[~missing] = [_date(x) for x in column[~missing]]
    return result


def _date(x: Any) -> Any:
    """Times of a zone by the clock there."""
    at = x.replace(tzinfo=None) if getattr(x, "tzinfo", None) is not None else x
    return np.datetime64(at).astype("datetime64[us]")


def _spans(column: RawColumn, missing: NDArray[Any]) -> RawColumn:
    result = np.full(len(column), np.nan)
    result[~missing] = [np.timedelta64(x).astype("timedelta64[us]").astype(np.int64) / 1e6 for x in column[~missing]]
    return result


def _times(column: RawColumn, missing: NDArray[Any]) -> RawColumn:
    result = np.full(len(column), np.nan)
    result[~missing] = [(x.hour * 60 + x.minute) * 60 + x.second + x.microsecond / 1e6 for x in column[~missing]]
    return result


_KINDS: tuple[tuple[Any, Any], ...] = (
    ((numbers.Real, np.bool_, decimal.Decimal), _numbers),
    ((datetime.timedelta, np.timedelta64), _spans),
    (_DATES, _dates),
    (datetime.time, _times),
)


def _is_missing(x: Any) -> bool:
    """None, NaN, NaT, pandas.NA: what is not equal to itself, or cannot say."""
    if x is None:
        return True
    if isinstance(x, str):
        return False
    try:
        return not bool(x == x)
    except (TypeError, ValueError):
        return not isinstance(x, (list, tuple, dict, set, np.ndarray))


def _word(x: Any) -> str:
    return str(int(x)) if isinstance(x, (float, np.floating)) and float(x).is_integer() else str(x)
