"""Any table as named columns of three forms: numbers (float64, NaN where missing), words (str or None) and dates
(datetime64, NaT where missing).

pandas and polars frames and PyArrow tables are read through narwhals; arrays have columns without names. In a fit, the
form of a column follows from all of its cells; later, it is that of the fit (`mlkm.data.tables.columns`).
"""

import datetime
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from ..._types import BoolArray, IntArray
from ...runtime.checks import check_different_names
from .cells import DATES, REAL, SPANS, RawColumn, as_dates, as_levels, as_numbers, objects, word_of, zone_of


@dataclass(frozen=True)
class Table:
    """The columns, their names if they have any, and the zones of their dates if they have any."""

    columns: tuple[RawColumn, ...]
    names: tuple[str, ...] | None
    zones: tuple[str | None, ...] | None = None

    def __len__(self) -> int:
        return len(self.columns[0]) if self.columns else 0

    @property
    def shape(self) -> tuple[int, int]:
        """Return the numbers of rows and columns."""
        return len(self), len(self.columns)

    def __getitem__(self, at: slice | IntArray | BoolArray) -> "Table":
        """Return the rows at these places."""
        return Table(tuple(column[at] for column in self.columns), self.names, self.zones)

    def named(self, wanted: tuple[str, ...] | None) -> "Table":
        """Return the columns of these names, in their order, or all columns as they are where there are no names."""
        if wanted is None or self.names is None or self.names == wanted:
            return self
        check_names(self.names, wanted)
        places = [self.names.index(name) for name in wanted]
        return Table(tuple(self.columns[j] for j in places), wanted, tuple(self.zone(j) for j in places))

    def zone(self, j: int) -> str | None:
        """Return the zone of the dates of a column."""
        return None if self.zones is None else self.zones[j]

    def called(self, j: int) -> str:
        """Return the name of a column for messages: its name in quotes, or its number."""
        return repr(self.names[j]) if self.names is not None else str(j)


def is_frame(X: Any) -> bool:
    """Return whether X is a data frame of a library that narwhals knows."""
    check_different_names(X)
    return isinstance(nw.from_native(X, eager_only=True, pass_through=True), nw.DataFrame)


def cells_of(X: Any, wanted: tuple[str, ...] | None = None) -> tuple[tuple[Any, ...], tuple[str, ...] | None]:
    """Return the columns of a data frame, or the wanted ones in their order, without conversion, and their names."""
    frame: Any = nw.from_native(X, eager_only=True)
    names = tuple(frame.columns) if all(isinstance(name, str) for name in frame.columns) else None
    if names is None or wanted is None:
        return tuple(frame[:, j] for j in range(frame.shape[1])), names
    check_names(names, wanted)
    return tuple(frame[name] for name in wanted), wanted


def read_frame(X: Any) -> Table:
    """Read the columns of a data frame, with types inferred from all cells."""
    return _formed(*cells_of(X))


def read_array(X: NDArray[Any]) -> Table:
    """Read the columns of a two-dimensional array of numbers or of objects; float64 columns are not copied."""
    return _formed(tuple(X.T), None)


def check_names(names: tuple[str, ...], wanted: tuple[str, ...]) -> None:
    """Refuse a table without a column of the fit."""
    gone = [name for name in wanted if name not in names]
    if gone:
        raise ValueError(f"The table has no column {', '.join(map(repr, gone))}, which the fit had.")


def check_finite(table: Table) -> Table:
    """Return the table, or refuse it where a number is infinite."""
    for j, column in enumerate(table.columns):
        if column.dtype.kind == "f" and np.isinf(column).any():
            raise ValueError(f"Input X contains infinity in column {table.called(j)}; make it missing or a number.")
    return table


def is_words(column: RawColumn) -> bool:
    """Return whether a column holds words."""
    return column.dtype == object


def is_dates(column: RawColumn) -> bool:
    """Return whether a column holds dates."""
    return column.dtype.kind == "M"


def as_words(column: RawColumn) -> RawColumn:
    """Return numbers or dates as levels, which are their text, whole numbers without a point."""
    if is_words(column):
        return column
    if is_dates(column):
        return np.array([None if np.isnat(x) else str(x) for x in column], object)
    return np.array([None if np.isnan(x) else word_of(float(x)) for x in column], object)


def _formed(columns: tuple[Any, ...], names: tuple[str, ...] | None) -> Table:
    formed = [_form(cells) for cells in columns]
    return Table(tuple(column for column, _ in formed), names, tuple(zone for _, zone in formed))


def _form(cells: Any) -> tuple[RawColumn, str | None]:
    """Read a column by its dtype, or by the types of all cells if that is not enough; also return its zone."""
    kind = cells.dtype
    if isinstance(cells, nw.Series):
        if kind.is_numeric() or kind in (nw.Boolean, nw.Duration):
            return as_numbers(cells)[0], None
        if kind == nw.Datetime:
            return _dates(cells)
        if kind in (nw.Categorical, nw.Enum):
            return as_levels(cells, ()), None
    elif kind.kind in "fiub":
        return as_numbers(cells)[0], None
    values = objects(cells)
    present = [x for x in values if x is not None]
    if present and any(all(isinstance(x, kind) for x in present) for kind in (REAL, SPANS, datetime.time)):
        return as_numbers(values)[0], None
    return _dates(values) if present and all(isinstance(x, DATES) for x in present) else (as_levels(values, ()), None)


def _dates(cells: Any) -> tuple[RawColumn, str | None]:
    zone = zone_of(cells)
    return as_dates(cells, zone)[0], zone
