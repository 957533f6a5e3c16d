"""Tables in files, read into memory: the columns that a command needs, as `open_table` reads them."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .._types import Array, BoolArray, IntArray
from ..data.rows import block_rows
from ..data.table_files import FileRows, open_table
from ..data.tables.cells import read_frame
from ..fit.apply import Predictor, names_of
from ..report.words import plural
from ..runtime.resources import check_memory
from .console import Console, UsageError

if TYPE_CHECKING:
    import pyarrow as pa


def open_input(path: Path) -> FileRows:
    """Return a table in files, none of whose rows is read yet."""
    if not path.exists():
        raise UsageError(f"There is no file {str(path)!r}.")
    return open_table(path)


def read_columns(source: FileRows, columns: Sequence[str] | None = None) -> "pa.Table":
    """Return columns of a table in files, by default all that the source names."""
    import pyarrow as pa

    wanted = list(source.names if columns is None else columns)
    copies = 4  # of the table that are in memory at the same time, roughly
    check_memory(copies * source.memory(wanted), "The rows of this table", "take fewer rows or columns")
    schema = pa.schema([source.types.field(name) for name in wanted])
    return pa.Table.from_batches(source.batches(wanted, block_rows(len(wanted))), schema)


@dataclass(frozen=True)
class TargetRows:
    """Rows with a target: inputs, targets, weights where there are any, and the number of rows without a target."""

    inputs: "pa.Table"
    y: Array
    weights: Array | None
    left_out: int

    def __len__(self) -> int:
        return len(self.y)

    def take(self, at: IntArray) -> "TargetRows":
        """Return the rows at the given places."""
        return TargetRows(self.inputs.take(at), self.y[at], None if self.weights is None else self.weights[at], 0)

    def note_left_out(self, console: Console, target: str) -> None:
        """Say how many rows were left out, if any."""
        n = self.left_out
        if n:
            verbs = ("has", "was") if n == 1 else ("have", "were")
            console.note(f"{plural(n, 'row')} {verbs[0]} no {target} and {verbs[1]} left out.")


def read_target_rows(
    path: Path, source: FileRows, target: str, features: Sequence[str] | None, weights: str | None = None
) -> TargetRows:
    """Return the rows of a table that have a target."""
    known = source.types.names
    for option, name in (("--target", target), ("--weights", weights), *(("--features", x) for x in features or ())):
        if name is not None and name not in known:
            raise UsageError(f"{path} has no column {name!r}, which {option} names; {_nearest(name, known)}.")
    others = [target] if weights is None else [target, weights]
    inputs = [name for name in source.names if name not in others] if features is None else list(features)
    if set(others) & set(inputs):
        raise UsageError("The target and the weights cannot be features too.")
    if not inputs:
        raise ValueError(f"{path} has no column beside the target; inputs are needed.")
    table = read_columns(source, list(dict.fromkeys([*inputs, *others])))
    y = _numbers(path, table, target)
    present: BoolArray = ~np.isnan(y)
    if not present.any():
        raise ValueError(f"{path} has no row with a number in the column {target!r}.")
    row_weights = None if weights is None else _weights(path, table, weights, present)
    return TargetRows(table.select(inputs).filter(present), y[present], row_weights, int((~present).sum()))


def _weights(path: Path, table: "pa.Table", name: str, present: BoolArray) -> Array:
    """Return the weights of the rows with a target."""
    weights = _numbers(path, table, name)
    wrong = np.flatnonzero(present & ~((weights >= 0) & np.isfinite(weights)))
    if len(wrong):
        shown = "none" if np.isnan(weights[wrong[0]]) else f"{weights[wrong[0]]:g}"
        raise ValueError(
            f"Column {name!r} of {path} must hold weights, numbers of which none is negative; row {wrong[0] + 1} has"
            f" {shown}."
        )
    return weights[present]


def _numbers(path: Path, table: "pa.Table", name: str) -> Array:
    """Return a column as numbers, NaN where missing."""
    column = read_frame(table.select([name])).columns[0]
    if column.dtype.kind == "f":
        return np.asarray(column, np.float64)
    values = []
    for place, value in enumerate(column):
        try:
            values.append(np.nan if value is None else float(value))
        except (TypeError, ValueError):
            raise ValueError(
                f"Column {name!r} of {path} must hold numbers; row {place + 1} has {str(value)!r}."
            ) from None
    return np.array(values)


def feature_names(features: Sequence[str] | None, known: Sequence[str]) -> list[str] | None:
    """Return names that were given one by one, or several in one word with commas between them."""
    if not features:
        return None
    parts = [[word] if word in known else [part.strip() for part in word.split(",")] for word in features]
    return list(dict.fromkeys(name for part in parts for name in part if name))


def check_columns(path: Path, source: FileRows, model: Predictor, target: str | None, console: Console) -> None:
    """Refuse a table without a column of the fit, and note the columns that the model does not use."""
    wanted = names_of(model)
    if wanted is None:
        return
    missing = [name for name in wanted if name not in source.types.names]
    extra = [name for name in source.names if name not in wanted]
    if missing:
        raise ValueError(
            f"{path} lacks {len(missing)} of the {len(wanted)} columns that the model was fitted to. Missing:"
            f" {_listed(missing)}. In the file, but unknown to the model: {_listed(extra) if extra else 'none'}."
        )
    unused = [repr(name) for name in extra if name != target]
    if unused:
        console.note(f"Columns that the model does not use: {', '.join(unused)}.")


def _listed(names: Sequence[str], most: int = 12) -> str:
    shown = ", ".join(map(repr, names[:most]))
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def _nearest(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, 1)
    return (f"did you mean {close[0]!r}? It has " if close else "it has ") + _listed(known)
