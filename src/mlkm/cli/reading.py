"""Tables from files, whole: CSV, Parquet and Feather, by PyArrow.

A column of a CSV file is what all of its values allow: whole numbers, numbers, true or false, dates and times as ISO
8601 writes them, else words; empty cells, NA and NaN are missing. Cells are separated by whichever of comma, semicolon,
tab and bar the first line has most of.
"""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._types import Array, BoolArray
from ..report.words import plural
from ..rows.pieces import piece_rows
from ..sources.files import open_table
from ..tables.frames import read_frame
from .talk import UsageError

_SEPARATORS = ",;\t|"


def read_table(path: Path, columns: Sequence[str] | None = None) -> Any:
    """A PyArrow table, or some of its columns."""
    if not path.exists():
        raise UsageError(f"There is no file {str(path)!r}.")
    table = _csv(path) if path.suffix.lower() == ".csv" and path.is_file() else _dataset(path)
    _check_names(path, table.column_names)
    if columns is not None:
        table = table.select(list(columns))
    for name, kind in zip(table.column_names, table.schema.types, strict=True):
        if str(kind) in ("binary", "large_binary"):
            raise ValueError(f"Column {name!r} of {path} is not text in UTF-8; save the file as UTF-8.")
    return table


def _csv(path: Path) -> Any:
    import pyarrow as pa
    from pyarrow import csv

    if not path.stat().st_size:
        raise ValueError(f"{path} is empty; a table begins with a line of names.")
    with path.open("rb") as file:
        first = file.readline()
    separator = max(_SEPARATORS, key=lambda mark: first.count(mark.encode()))
    parse = csv.ParseOptions(delimiter=separator, newlines_in_values=True)
    try:
        return csv.read_csv(path, None, parse, csv.ConvertOptions(strings_can_be_null=True))
    except (pa.ArrowException, UnicodeDecodeError) as problem:
        raise ValueError(f"{path} could not be read: {str(problem).splitlines()[0]}") from problem


def _dataset(path: Path) -> Any:
    import pyarrow as pa

    source = open_table(path)
    schema = source.schema
    return pa.Table.from_batches(source.batches(schema.names, piece_rows(len(schema))), schema)


def _check_names(path: Path, names: Sequence[str]) -> None:
    twice = sorted({name for name in names if list(names).count(name) > 1})
    if twice:
        raise ValueError(f"{path} has more than one column {', '.join(map(repr, twice))}; names must differ.")


@dataclass(frozen=True)
class TargetRows:
    """Rows with a target: inputs, targets, weights where there are any, and how many rows had no target."""

    inputs: Any
    y: Array
    weights: Array | None
    left_out: int

    def __len__(self) -> int:
        return len(self.y)

    def take(self, at: Any) -> "TargetRows":
        return TargetRows(self.inputs.take(at), self.y[at], None if self.weights is None else self.weights[at], 0)


def with_target(
    path: Path, table: Any, target: str, features: Sequence[str] | None, weights: str | None = None
) -> TargetRows:
    """The rows of a table that have a target."""
    named = table.column_names
    for option, name in (("--target", target), ("--weights", weights), *(("--features", x) for x in features or ())):
        if name is not None and name not in named:
            raise UsageError(f"{path} has no column {name!r}, which {option} names; {_known(name, named)}.")
    inputs = [name for name in named if name not in (target, weights)] if features is None else list(features)
    if target in inputs or (weights is not None and weights in inputs):
        raise UsageError("The target and the weights cannot be features too.")
    if not inputs:
        raise ValueError(f"{path} has no column beside the target; inputs are needed.")
    y = numbers(path, table, target)
    kept: BoolArray = ~np.isnan(y)
    if not kept.any():
        raise ValueError(f"{path} has no row with a number in the column {target!r}.")
    own = None if weights is None else numbers(path, table, weights)[kept]
    return TargetRows(table.select(inputs).filter(kept), y[kept], own, int((~kept).sum()))


def left_out(rows: TargetRows, target: str) -> str:
    """How many rows had no target, in words."""
    n = rows.left_out
    return f"{plural(n, 'row')} {'has' if n == 1 else 'have'} no {target} and {'was' if n == 1 else 'were'} left out."


def numbers(path: Path, table: Any, name: str) -> Array:
    """A column as numbers, NaN where missing."""
    column = read_frame(table.select([name])).columns[0]
    if column.dtype.kind == "f":
        return np.asarray(column, np.float64)
    for place, value in enumerate(column):
        if value is not None and not _is_number(value):
            raise ValueError(f"Column {name!r} of {path} must hold numbers; row {place + 1} has {str(value)!r}.")
    return np.array([np.nan if value is None else float(value) for value in column])


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def chosen(features: Sequence[str] | None, named: Sequence[str]) -> list[str] | None:
    """Names given one by one, or several in one word with commas between them."""
    if not features:
        return None
    parts = [[word] if word in named else [part.strip() for part in word.split(",")] for word in features]
    return list(dict.fromkeys(name for part in parts for name in part if name))


def matched(path: Path, named: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """The columns beside the wanted ones; an error that shows the difference where one of these is missing."""
    gone = [name for name in wanted if name not in named]
    extra = [name for name in named if name not in wanted]
    if gone:
        raise ValueError(
            f"{path} lacks {len(gone)} of the {len(wanted)} columns that the model was fitted to. Missing:"
            f" {_some(gone)}. In the file, but unknown to the model: {_some(extra) if extra else 'none'}."
        )
    return extra


def _some(names: Sequence[str], most: int = 12) -> str:
    shown = ", ".join(map(repr, names[:most]))
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def _known(name: str, named: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, named, 1)
    return (f"did you mean {close[0]!r}? It has " if close else "it has ") + _some(named)
