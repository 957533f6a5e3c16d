"""Tables, and their cells, which are converted to numbers, dates or words one by one, independently of other cells.

A number may be given as text, a truth value, a decimal, a span of time or a time of the day; a date as text in ISO
8601. Times with a zone are instants, and are converted to local times of one zone, that of the fit. A cell of a
category is the level with the same spelling; if there is none, the level of the same value, since 2.0, True and
2020-01-02 00:00:00 are spelled differently in files and in frames, and pandas reads the text 02134 as a number.

A table has named columns of three forms: numbers (float64, NaN where missing), words (str or None) and dates
(datetime64, NaT where missing). pandas and polars frames and PyArrow tables are read through narwhals; arrays have
columns without names. In a fit, the form of a column follows from all of its cells; later, it is that of the fit
(`mlkm.data.tables.columns`).
"""

import datetime
import decimal
import functools
import numbers
import re
import zoneinfo
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from ..._types import Array, BoolArray, IntArray
from ...runtime.checks import brief, check_different_names

RawColumn = NDArray[Any]
Odd = list[tuple[int, Any]]  # cells that cannot be converted, with their rows

REAL = (numbers.Real, np.bool_, decimal.Decimal)
SPANS = (datetime.timedelta, np.timedelta64)
DATES = (datetime.date, np.datetime64)
_MANY = (list, tuple, dict, set, np.ndarray)  # types that are not allowed as cells
# text that stands for a missing value unless it is a level of the fit, as PyArrow reads CSV files
_MISSING = frozenset(
    ["", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "1.#IND", "1.#QNAN", "N/A", "NA", "NULL", "n/a", "null",
     "<NA>", "None", "NaT", "nan", "NaN", "-nan", "-NaN"]
)  # fmt: skip
_TRUTH = {"true": "True", "false": "False"}
_NUMBER = re.compile(r"[+-]?(0|[1-9]\d*)(\.\d*)?([eE][+-]?\d{1,3})?")
_WITH_ZEROS = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d{1,3})?")
_ISO = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d(:?\d\d){0,2}(\.\d+)?( ?Z|[+-]\d\d(:?\d\d)?)?)?")
_DAYS = re.compile(r"([+-]?\d+) days?(?:,? |$)")
_CLOCK = re.compile(r"([+-]?)(\d+):(\d\d)(?::(\d\d(?:\.\d+)?))?")
_OFFSET = re.compile(r"(?:UTC)?([+-])(\d\d):?(\d\d)")


def objects(cells: Any) -> RawColumn:
    """Return the cells of a series or an array as Python objects, None where missing."""
    if isinstance(cells, nw.Series):
        missing = np.asarray(cells.is_null().to_numpy(), bool)
        plain = (cells.dtype.is_numeric() or cells.dtype == nw.Boolean) and not missing.any()
        values: Iterable[Any] = cells.to_numpy() if plain else cells.to_list()
        result = np.fromiter(values, object, len(missing))
        result[missing] = None  # the value of a masked cell can be any
    else:
        result = np.fromiter(cells, object, len(cells))
    result[[is_missing(x) for x in result]] = None
    return result


def is_missing(x: Any) -> bool:
    """Return whether a cell is None, NaN, NaT or pandas.NA: a value that is not equal to itself, or cannot be
    compared."""
    if x is None:
        return True
    if isinstance(x, str):
        return False
    try:
        return not bool(x == x)
    except (TypeError, ValueError):
        return not isinstance(x, _MANY)


def as_numbers(cells: Any) -> tuple[Array, Odd]:
    """Return cells as numbers, NaN where missing, and the cells that are not numbers."""
    if isinstance(cells, nw.Series):
        dtype = cells.dtype
        if dtype.is_numeric() or dtype == nw.Boolean:
            missing, values = cells.is_null().to_numpy(), cells.to_numpy()
            values = np.where(missing, np.nan, values) if values.dtype == object else values
            return np.where(missing, np.nan, values.astype(np.float64)), []
        if dtype == nw.Duration:
            spans = np.asarray(cells.to_numpy()).astype("timedelta64[us]")
            return np.where(np.isnat(spans), np.nan, spans.astype(np.float64) / 1e6), []
        if dtype == nw.String and cells.implementation.is_pyarrow():
            try:  # all at once, if every cell is a plain number
                return as_numbers(cells.cast(nw.Float64))
            except ValueError:
                pass
    elif cells.dtype.kind in "fiub":
        return cells.astype(np.float64, copy=False), []
    return _each(cells, number_of, np.nan)


def as_dates(cells: Any, zone: str | None) -> tuple[RawColumn, Odd]:
    """Return cells as local times of a zone, NaT where missing, and the cells that are not dates. Dates without a zone
    are local times already; if `zone` is None, times with a zone are converted to UTC."""
    if isinstance(cells, nw.Series) and cells.dtype == nw.Datetime:
        given = getattr(cells.dtype, "time_zone", None)
        if given is None or given == zone:
            plain = cells if given is None else cells.dt.replace_time_zone(None)
            return np.asarray(plain.to_numpy()).astype("datetime64[us]"), []
        instants = cells.dt.convert_time_zone("UTC").dt.replace_time_zone(None).to_numpy()
        return _local_times(np.asarray(instants).astype("datetime64[us]"), zone), []
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "M":
        return cells, []
    return _each(cells, functools.partial(date_of, zone=zone), np.datetime64("NaT", "us"))


def _each(cells: Any, convert: Callable[[Any], Any], none: Any) -> tuple[RawColumn, Odd]:
    """Convert cells one by one; return the results, and the cells that cannot be converted."""
    values, odd = objects(cells), []
    result = np.full(len(values), none)
    for k, x in enumerate(values):
        if x is None:
            continue
        try:
            result[k] = convert(x)
        except (TypeError, ValueError, OverflowError):
            odd.append((k, x))
    return result, odd


def number_of(x: Any) -> float:
    """Return a cell as a number: spans of time and times of the day in seconds."""
    if isinstance(x, str):
        return _number_in(x.strip())
    if isinstance(x, SPANS):
        return float(np.timedelta64(x).astype("timedelta64[us]").astype(np.int64)) / 1e6
    if isinstance(x, datetime.time):
        return (x.hour * 60 + x.minute) * 60 + x.second + x.microsecond / 1e6
    if isinstance(x, REAL):
        try:
            return float(x)
        except OverflowError:  # a whole number beyond the largest float
            return np.inf if x > 0 else -np.inf  # type: ignore[operator]
    raise ValueError(f"{x!r} is no number.")


def _number_in(text: str) -> float:
    """Return the number that a text stands for.

    >>> [_number_in(text) for text in ("1e3", "true", "NA", "07:05:30", "1 days 00:01:30", "-1 day, 23:59:00")]
    [1000.0, 1.0, nan, 25530.0, 86490.0, -60.0]
    """
    if text in _MISSING:
        return np.nan
    if text.lower() in _TRUTH:
        return float(text.lower() == "true")
    if match := _DAYS.match(text):
        return 86_400.0 * int(match[1]) + _number_in(text[match.end() :] or "00:00")
    if match := _CLOCK.fullmatch(text):
        sign, hours, minutes, seconds = match.groups()
        span = 3600.0 * int(hours) + 60 * int(minutes) + float(seconds or 0)
        return -span if sign == "-" else span
    if "_" in text:
        raise ValueError(text)
    return float(text)


def date_of(x: Any, zone: str | None) -> np.datetime64:
    """Return a cell as a local time of a zone."""
    if isinstance(x, str):
        text = x.strip()
        if text in _MISSING:
            return np.datetime64("NaT", "us")
        if not _ISO.fullmatch(text):
            raise ValueError(f"{x!r} is no date.")
        x = datetime.datetime.fromisoformat(text.replace(" Z", "Z"))
    if not isinstance(x, DATES):
        raise ValueError(f"{x!r} is no date.")
    if isinstance(x, datetime.datetime) and x.tzinfo is not None:
        x = x.astimezone(_zone(zone)).replace(tzinfo=None)
    at: np.datetime64 = np.datetime64(x).astype("datetime64[us]")
    return at


def zone_of(cells: Any) -> str | None:
    """Return the zone in which the dates of a fit are read: their own if they have one, UTC if they have several or one
    that is not known by name, None if they have none."""
    if isinstance(cells, nw.Series) and cells.dtype == nw.Datetime:
        given = {getattr(cells.dtype, "time_zone", None)}
    else:
        zones = (getattr(x, "tzinfo", None) for x in cells)
        given = {getattr(zone, "key", getattr(zone, "zone", None)) or str(zone) for zone in zones if zone is not None}
    names = sorted(name for name in given if name is not None)
    try:
        for name in names:
            _zone(name)
    except (ValueError, OSError):
        return "UTC"
    return names[0] if len(names) == 1 else "UTC" if names else None


@functools.lru_cache
def _zone(name: str | None) -> datetime.tzinfo:
    """Return the time zone of a name or of an offset such as UTC+02:00; None is UTC."""
    if name is None or name == "UTC":
        return datetime.UTC
    if match := _OFFSET.fullmatch(name):
        sign, hours, minutes = match.groups()
        offset = datetime.timedelta(hours=int(hours), minutes=int(minutes))
        return datetime.timezone(-offset if sign == "-" else offset)
    try:
        return zoneinfo.ZoneInfo(name)
    except zoneinfo.ZoneInfoNotFoundError as problem:
        raise ValueError(f"There is no time zone {name!r}.") from problem


def _local_times(instants: RawColumn, zone: str | None) -> RawColumn:
    """Convert instants in UTC to local times of a zone."""
    minutes, place = np.unique(instants.astype("datetime64[m]"), return_inverse=True)
    offsets = np.zeros(len(minutes), "timedelta64[us]")
    for k, at in enumerate(minutes.astype("datetime64[s]").tolist()):
        if isinstance(at, datetime.datetime):
            offsets[k] = at.replace(tzinfo=datetime.UTC).astimezone(_zone(zone)).utcoffset()
    return np.asarray(instants + offsets[place])


def word_of(x: Any) -> str:
    """Return a cell as a word: whole numbers without a point, midnights without a time, times with a zone in UTC.

    >>> [word_of(x) for x in ("02134", 2.0, decimal.Decimal("1.50"), True, np.datetime64("2020-01-02T00:00"))]
    ['02134', '2', '1.5', 'True', '2020-01-02']
    """
    if isinstance(x, (str, bool, np.bool_)):
        return str(x)
    if isinstance(x, DATES):
        word = str(date_of(x, "UTC")).replace("T", " ").removesuffix(".000000")
        return word + "+00:00" if getattr(x, "tzinfo", None) is not None else word.removesuffix(" 00:00:00")
    if isinstance(x, SPANS):
        return str(datetime.timedelta(seconds=number_of(x)))
    if isinstance(x, numbers.Integral) or not isinstance(x, REAL) or not np.isfinite(float(x)):
        return str(x)
    whole = int(x)  # type: ignore[arg-type]
    if whole == x:
        return str(whole)
    return str(x if isinstance(x, np.floating) else float(x))


def as_levels(cells: Any, levels: Iterable[str]) -> RawColumn:
    """Return the level of every cell, or its own word if it matches no level; None where it is missing, as a mark such
    as NA is where it is no level."""
    values, known = objects(cells), set(levels)
    by_value: dict[str, str] | None = None
    words: dict[tuple[type, Any], str | None] = {}
    for x in values:
        if isinstance(x, _MANY):
            raise TypeError(f"A cell of a table must be a string or a number, a date or missing; got {brief(x)}.")
        if x is None or (type(x), x) in words:
            continue
        word: str | None = word_of(x)
        if known and word not in known and isinstance(x, str):
            same = _value(x, _NUMBER)
            word = same if same in known else None if x.strip() in _MISSING else word
        elif known and word not in known:
            by_value = _by_value(known) if by_value is None else by_value
            word = by_value.get(str(word), word)
        words[type(x), x] = word
    return np.fromiter((None if x is None else words[type(x), x] for x in values), object, len(values))


def _by_value(levels: Iterable[str]) -> dict[str, str]:
    """Map every value that exactly one level has to that level."""
    result: dict[str, str | None] = {}
    for level in levels:
        value = _value(level, _WITH_ZEROS)
        result[value] = None if value in result else level
    return {value: level for value, level in result.items() if level is not None}


def _value(text: str, number: re.Pattern[str]) -> str:
    """Return the word of the truth value, number or date that a text stands for, else the text.

    >>> [_value(text, _NUMBER) for text in ("TRUE", "1.50", "1e3", "02134", "2020-01-02T00:00:00", "red")]
    ['True', '1.5', '1000', '02134', '2020-01-02', 'red']
    """
    plain = text.strip()
    if plain.lower() in _TRUTH:
        return _TRUTH[plain.lower()]
    if number.fullmatch(plain):
        return word_of(decimal.Decimal(plain))
    if _ISO.fullmatch(plain):
        try:
            return word_of(datetime.datetime.fromisoformat(plain.replace(" Z", "Z")))
        except ValueError:
            return text
    return text


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


def is_dask(X: object) -> bool:
    """Return whether X is a collection of dask, which is not imported for this."""
    return type(X).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(X, "__dask_graph__")


def cells_of(X: Any, wanted: tuple[str, ...] | None = None) -> Table:
    """Return the columns of a data frame, or the wanted ones in their order, without conversion; columns have names
    where all of these are strings."""
    frame: Any = nw.from_native(X, eager_only=True)
    if not all(isinstance(name, str) for name in frame.columns):
        return Table(tuple(frame[:, j] for j in range(frame.shape[1])), None)
    names = tuple(frame.columns) if wanted is None else wanted
    check_names(tuple(frame.columns), names)
    return Table(tuple(map(frame.get_column, names)), names)


def read_frame(X: Any) -> Table:
    """Read the columns of a data frame, with types inferred from all cells."""
    return _formed(cells_of(X))


def read_array(X: NDArray[Any]) -> Table:
    """Read the columns of a two-dimensional array of numbers or of objects; float64 columns are not copied."""
    return _formed(Table(tuple(X.T), None))


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


def _formed(raw: Table) -> Table:
    formed = [_form(cells) for cells in raw.columns]
    return Table(tuple(column for column, _ in formed), raw.names, tuple(zone for _, zone in formed))


def _form(cells: Any) -> tuple[RawColumn, str | None]:
    """Read a column by its dtype, or by the types of all cells if that is not enough; also return its zone."""
    kind, series = cells.dtype, isinstance(cells, nw.Series)
    numbers = kind.is_numeric() or kind in (nw.Boolean, nw.Duration) if series else kind.kind in "fiub"
    dates = series and kind == nw.Datetime
    if not numbers and not dates and not (series and kind in (nw.Categorical, nw.Enum)):
        cells = objects(cells)
        present = [x for x in cells if x is not None]
        alike = [kinds for kinds in (REAL, SPANS, datetime.time, DATES) if all(isinstance(x, kinds) for x in present)]
        dates = alike == [DATES]
        numbers = bool(present and alike and not dates)
    if numbers:
        return as_numbers(cells)[0], None
    zone = zone_of(cells) if dates else None
    return (as_dates(cells, zone)[0] if dates else as_levels(cells, ())), zone
