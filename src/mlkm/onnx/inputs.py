"""The inputs of an exported model: how its graph turns them into the inputs of a fit, and how a table becomes them.

The graph has one matrix "X" where all columns are numbers, else one input per column. Numbers are floats with NaN where
missing; words are strings, `missing_word` where missing; dates are microseconds since 1970 in int64, missing where they
are NumPy's NaT. The number and the coordinates of a level are looked up in a table with one row for every level, one
for a missing level, and one for a level that was not seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from .._types import Array
from ..data.level_encoding import LevelNumbers
from ..data.preparation import Standardiser
from ..data.tables.cells import RawColumn
from ..data.tables.columns import CYCLES, CategoryColumn, Column, DateColumn, NumberColumn, Reader
from ..fit.apply import Predictor
from ..report.facts import reported_model
from ..runtime.checks import as_numbers, brief, one_of
from ..runtime.sizes import CIRCLE_DIGITS
from .graph import ML, Graph


@dataclass(frozen=True)
class Source:
    """The rows of a graph: its inputs, or a tensor (n, d) in float64 that an earlier step has made.

    `dtype` is that of numbers that go in and out.
    """

    graph: Graph
    dtype: str
    given: str | None = None

    @property
    def double(self) -> bool:
        """Return whether all kernels are computed in float64."""
        return self.dtype == "float64"

    def inputs(self, reader: Reader) -> str:
        """Return the inputs of a table as a fit has them, (n, p) in float64."""
        if is_numeric(reader):
            return _numbers(self.graph, self.matrix(len(reader.columns)), cast(Sequence[NumberColumn], reader.columns))
        if self.given is not None:
            raise ValueError(
                "A step before the regressor is exported for numbers only, and this one gives it words or dates; fit"
                " the regressor to the table itself."
            )
        named = zip(reader.columns, column_names(reader), strict=True)
        return self.graph.side_by_side([_column(column, self, name) for column, name in named])

    def matrix(self, d: int) -> str:
        """Return rows of d numbers in float64."""
        return self.given or self.numbers("X", d)

    def numbers(self, name: str, d: int) -> str:
        """Return an input of d numbers in float64."""
        X = self.graph.input(name, self.dtype, (d,))
        return X if self.double else self.graph.cast(X, np.float64)


def is_numeric(reader: Reader) -> bool:
    """Return whether all columns are numbers."""
    return all(column.kind == "number" for column in reader.columns)


def column_names(reader: Reader) -> tuple[str, ...]:
    """Return the names of the columns: x0, x1, ... where a table had none."""
    return reader.names or tuple(f"x{j}" for j in range(len(reader.columns)))


def missing_word(column: CategoryColumn) -> str:
    """Return the word for a missing cell: the empty one, or a zero character where the empty word is a level."""
    return "\0" if "" in column.levels else ""


def level_numbers(graph: Graph, X: str, numbers: LevelNumbers | None) -> str:
    """Return levels as numbers, for fits that take numbers only."""
    if numbers is None:
        return X
    others = np.flatnonzero(~numbers.inputs.levels)
    parts = [graph.columns(X, others)] if len(others) else []
    for j, encoder in zip(np.flatnonzero(numbers.inputs.levels), numbers.encoders, strict=True):
        codes, size = graph.cast(graph("Gather", X, np.array(j), axis=1), np.int64), len(encoder.values)
        known = graph("And", graph("GreaterOrEqual", codes, np.array(0)), graph("Less", codes, np.array(size)))
        at = graph("Where", known, codes, np.array(size))
        parts.append(graph("Gather", np.vstack([encoder.values, encoder.unseen]), at, axis=0))
    return graph.side_by_side(parts)


def standardised(graph: Graph, X: str, scaler: Standardiser) -> str:
    """Return standardised inputs."""
    return graph("Div", graph("Sub", X, scaler.mean), scaler.sd)


@singledispatch
def _column(column: Column, source: Source, name: str) -> str:
    """Return the inputs of one column, (n, p) in float64."""
    raise TypeError(f"Columns of the type {type(column).__name__} are not exported.")


@_column.register
def _number_inputs(column: NumberColumn, source: Source, name: str) -> str:
    return _numbers(source.graph, source.numbers(name, 1), [column])


@_column.register
def _date_inputs(column: DateColumn, source: Source, name: str) -> str:
    """Return days since 1970, cosine and sine of every cycle, and whether dates are missing where any were."""
    graph = source.graph
    when = graph.input(name, "int64", (1,))
    missing = graph("Equal", when, np.datetime64("NaT", "us").astype(np.int64))
    day = graph("Div", graph.cast(when, np.float64), np.timedelta64(1, "D") / np.timedelta64(1, "us"))
    day = graph("Where", missing, column.middle, day)
    parts, shift = [day], 10.0**CIRCLE_DIGITS
    for cycle in column.cycles:
        length = CYCLES[cycle]
        angle = graph("Div", graph("Mul", graph("Mod", day, length, fmod=1), 2 * np.pi), length)
        turned = graph("Add", angle, np.pi / 2)  # the sine there is the cosine
        parts += [graph("Div", graph("Round", graph("Mul", graph("Sin", x), shift)), shift) for x in (turned, angle)]
    return graph.side_by_side([*parts, graph.cast(missing, np.float64)] if column.missing else parts)


@_column.register
def _category_inputs(column: CategoryColumn, source: Source, name: str) -> str:
    """Return the inputs of every level, looked up."""
    graph, levels = source.graph, [*column.levels, missing_word(column)]
    words = graph("Reshape", graph.input(name, "string", (1,)), [-1])
    places = list(range(len(levels)))
    at = graph("LabelEncoder", words, domain=ML, keys_strings=levels, values_int64s=places, default_int64=len(levels))
    return graph("Gather", _level_inputs(column), at, axis=0)


def _level_inputs(column: CategoryColumn) -> Array:
    """Return the inputs of every level, of a missing one, and of one that was not seen: its number is -1, and nothing
    is known of its text."""
    known = np.stack(column.inputs(np.array([*column.levels, None], object)), axis=1)
    unseen = known[-1:].copy()
    unseen[:, 0] = -1
    return np.vstack([known, unseen])


def _numbers(graph: Graph, X: str, columns: Sequence[NumberColumn]) -> str:
    """Return numbers, the middle where missing, each followed by whether it is missing where any of its column were."""
    missing = graph("IsNaN", X)
    values = graph("Where", missing, np.array([column.middle for column in columns]), X)
    flagged = [j for j, column in enumerate(columns) if column.missing]
    if not flagged:
        return values
    both = graph.side_by_side([values, graph.cast(graph.columns(missing, flagged), np.float64)])
    places = {j: len(columns) + k for k, j in enumerate(flagged)}
    return graph.columns(both, [at for j in range(len(columns)) for at in (j, places.get(j)) if at is not None])


def feed(model: Predictor, X: object, dtype: str) -> dict[str, NDArray[np.generic]]:
    """Return the inputs of an exported model; see `mlkm.onnx.feed`."""
    one_of("dtype", dtype, ("float32", "float64"))
    if isinstance(model, type) or not hasattr(model, "predict"):
        raise TypeError(f"model must be a fitted regressor, band or pipeline; got {brief(model)}.")
    check_is_fitted(model)
    inner = reported_model(model)
    if inner is None:  # such as a pipeline
        return {"X": np.asarray(as_numbers("X", X), dtype)}
    reader, cells = inner.fitted_.preparation.reader, inner.read_table(X).columns
    if is_numeric(reader):
        return {"X": _as_floats(np.stack(cells, axis=1), dtype)}
    named = zip(column_names(reader), reader.columns, cells, strict=True)
    return {name: _cells(column, values, dtype)[:, None] for name, column, values in named}


@singledispatch
def _cells(column: Column, values: RawColumn, dtype: str) -> NDArray[np.generic]:
    """Return the cells of a column as an exported model takes them: numbers, or those of the columns below."""
    return _as_floats(values, dtype)


@_cells.register
def _words(column: CategoryColumn, values: RawColumn, dtype: str) -> NDArray[np.generic]:
    missing = missing_word(column)
    return np.array([missing if word is None else word for word in values], object)


@_cells.register
def _microseconds(column: DateColumn, values: RawColumn, dtype: str) -> NDArray[np.generic]:
    return values.astype("datetime64[us]").astype(np.int64)


def _as_floats(values: RawColumn, dtype: str) -> NDArray[np.generic]:
    """Convert numbers to another type, and refuse those that overflow there."""
    with np.errstate(over="ignore"):
        result = values.astype(dtype)
    if (np.isinf(result) & np.isfinite(values)).any():
        raise ValueError(
            f"X must be numbers that {dtype} holds; got {np.nanmax(np.abs(values)):.3g}: use dtype='float64'."
        )
    return result
