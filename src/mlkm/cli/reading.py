"""Rows of tables in files, in memory: the columns that are needed, as `open_table` reads them."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._types import Array, BoolArray
from ..data.rows import block_rows
from ..data.table_files import FileRows, open_table
from ..data.tables.frames import read_frame
from ..report.words import plural
from ..runtime.memory import check_memory
from .console import UsageError

_COPIES = 4  # copies of a table that are in memory at the same time, roughly


def opened(path: Path) -> FileRows:
    """A table in files, none of whose rows is read yet."""
    if not path.exists():
        raise UsageError(f"There is no file {str(path)!r}.")
    return open_table(path)


def read_table(source: FileRows, columns: Sequence[str] | None = None) -> Any:
    """A PyArrow table of some columns, by default those of the source."""
    import pyarrow as pa

    wanted = list(source.names if columns is None else columns)
    check_memory(_COPIES * source.memory(wanted), "The rows of this table", "take fewer rows or columns")
    schema = pa.schema([source.types.field(name) for name in wanted])
    return pa.Table.from_batches(source.batches(wanted, block_rows(len(wanted))), schema)


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
    path: Path, source: FileRows, target: str, features: Sequence[str] | None, weights: str | None = None
) -> TargetRows:
    """The rows of a table that have a target."""
    named = source.types.names
    for option, name in (("--target", target), ("--weights", weights), *(("--features", x) for x in features or ())):
        if name is not None and name not in named:
            raise UsageError(f"{path} has no column {name!r}, which {option} names; {_known(name, named)}.")
    others = [target] if weights is None else [target, weights]
    inputs = [name for name in source.names if name not in others] if features is None else list(features)
    if set(others) & set(inputs):
        raise UsageError("The target and the weights cannot be features too.")
    if not inputs:
        raise ValueError(f"{path} has no column beside the target; inputs are needed.")
    table = read_table(source, list(dict.fromkeys([*inputs, *others])))
    y = numbers(path, table, target)
    kept: BoolArray = ~np.isnan(y)
    if not kept.any():
        raise ValueError(f"{path} has no row with a number in the column {target!r}.")
    own = None if weights is None else _weights(path, table, weights, kept)
    return TargetRows(table.select(inputs).filter(kept), y[kept], own, int((~kept).sum()))


def _weights(path: Path, table: Any, name: str, kept: BoolArray) -> Array:
    """Weights of the rows with a target, those that fit and those that calibrate."""
    own = numbers(path, table, name)
    wrong = np.flatnonzero(kept & ~((own >= 0) & np.isfinite(own)))
    if len(wrong):
        shown = "none" if np.isnan(own[wrong[0]]) else f"{own[wrong[0]]:g}"
        raise ValueError(
            f"Column {name!r} of {path} must hold weights, numbers of which none is negative; row {wrong[0] + 1} has"
            f" {shown}."
        )
    return own[kept]


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


def matched(path: Path, source: FileRows, wanted: Sequence[str]) -> list[str]:
    """The columns beside the wanted ones; an error that shows the difference where one of these is missing."""
    gone = [name for name in wanted if name not in source.types.names]
    extra = [name for name in source.names if name not in wanted]
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
