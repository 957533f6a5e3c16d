"""Inputs of a model from the inputs of the graph: one matrix "X" where all columns are numbers, else one per column.

Numbers are floats with NaN where missing; words are strings, `missing_word` where missing; dates are microseconds since
1970 in int64, the least number being missing, as NumPy has it. What a level becomes, its number and its coordinates, is
a table with a row for every level, one for missing, and one for a level that was not seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._types import Array
from ..data.levels import LevelNumbers
from ..data.tables.columns import CYCLES, DIGITS, CategoryColumn, DateColumn, NumberColumn
from ..data.tables.reading import Reader
from .graph import ML, Graph

NO_DATE = np.iinfo(np.int64).min


@dataclass(frozen=True)
class Source:
    """Where rows come from: the inputs of the graph, or a tensor (n, d) in float64 that an earlier step has made."""

    graph: Graph
    dtype: str
    given: str | None = None

    def inputs(self, reader: Reader) -> str:
        """The inputs of a table as a fit has them, (n, p) in float64."""
        if is_plain(reader):
            X = self.given or self.numbers("X", len(reader.columns))
            return _numbers(self.graph, X, [c for c in reader.columns if isinstance(c, NumberColumn)])
        if self.given is not None:
            raise ValueError(
                "A step before the regressor is exported for numbers only, and this one gives it words or dates; fit"
                " the regressor to the table itself."
            )
        named = zip(column_names(reader), reader.columns, strict=True)
        return self.graph.side_by_side([self._column(name, column) for name, column in named])

    def _column(self, name: str, column: Any) -> str:
        graph = self.graph
        if isinstance(column, NumberColumn):
            return _numbers(graph, self.numbers(name, 1), [column])
        if isinstance(column, DateColumn):
            return _dates(graph, graph.input(name, "int64", (1,)), column)
        return _levels(graph, graph.input(name, "string", (1,)), column)

    def numbers(self, name: str, d: int) -> str:
        """An input of numbers, in float64."""
        X = self.graph.input(name, self.dtype, (d,))
        return X if self.dtype == "float64" else self.graph.cast(X, np.float64)


def is_plain(reader: Reader) -> bool:
    return all(isinstance(column, NumberColumn) for column in reader.columns)


def column_names(reader: Reader) -> tuple[str, ...]:
    return reader.names or tuple(f"x{j}" for j in range(len(reader.columns)))


def missing_word(column: CategoryColumn) -> str:
    """What stands for missing: an empty word, or where that is a level of its own, a zero character."""
    return "\0" if "" in column.levels else ""


def level_numbers(graph: Graph, X: str, numbers: LevelNumbers | None) -> str:
    """Levels as numbers, for fits that take numbers only."""
    if numbers is None:
        return X
    plain = np.flatnonzero(~numbers.inputs.levels)
    parts = [graph.columns(X, plain)] if len(plain) else []
    for j, own in zip(np.flatnonzero(numbers.inputs.levels), numbers.encoders, strict=True):
        codes, size = graph.cast(graph("Gather", X, np.array(j), axis=1), np.int64), len(own.values)
        known = graph("And", graph("GreaterOrEqual", codes, np.array(0)), graph("Less", codes, np.array(size)))
        at = graph("Where", known, codes, np.array(size))
        parts.append(graph("Gather", np.vstack([own.values, own.unseen]), at, axis=0))
    return graph.side_by_side(parts)


def standardised(graph: Graph, X: str, scaler: Any) -> str:
    return graph("Div", graph("Sub", X, scaler.mean), scaler.sd)


def _numbers(graph: Graph, X: str, columns: Sequence[NumberColumn]) -> str:
    """Numbers, the middle where missing, and for columns that had missing ones whether they are."""
    gone = graph("IsNaN", X)
    values = graph("Where", gone, np.array([column.middle for column in columns]), X)
    flagged = [j for j, column in enumerate(columns) if column.missing]
    if not flagged:
        return values
    both = graph.side_by_side([values, graph.cast(graph.columns(gone, flagged), np.float64)])
    places = {j: len(columns) + k for k, j in enumerate(flagged)}
    return graph.columns(both, [at for j in range(len(columns)) for at in (j, places.get(j)) if at is not None])


def _dates(graph: Graph, when: str, column: DateColumn) -> str:
    gone = graph("Equal", when, np.array(NO_DATE))
    day = graph("Div", graph.cast(when, np.float64), np.array(86_400e6))
    day = graph("Where", gone, np.array(column.middle), day)
    parts = [day]
    for cycle in column.cycles:
        length = np.array(CYCLES[cycle])
        angle = graph("Div", graph("Mul", graph("Mod", day, length, fmod=1), np.array(2 * np.pi)), length)
        turned = graph("Add", angle, np.array(np.pi / 2))  # the sine there is the cosine
        parts += [_rounded(graph, graph("Sin", x)) for x in (turned, angle)]
    return graph.side_by_side([*parts, graph.cast(gone, np.float64)] if column.missing else parts)


def _rounded(graph: Graph, x: str) -> str:
    shift = np.array(10.0**DIGITS)
    return graph("Div", graph("Round", graph("Mul", x, shift)), shift)


def _levels(graph: Graph, words: str, column: CategoryColumn) -> str:
    """What every level becomes, looked up."""
    levels = [*column.levels, missing_word(column)]
    places = list(range(len(levels)))
    flat = graph("Reshape", words, np.array([-1]))
    at = graph("LabelEncoder", flat, domain=ML, keys_strings=levels, values_int64s=places, default_int64=len(levels))
    return graph("Gather", lookup(column), at, axis=0)


def lookup(column: CategoryColumn) -> Array:
    """The inputs of every level, of a missing one, and of one that was not seen: that is -1, and of its text nothing is
    known."""
    known = np.stack(column.inputs(np.array([*column.levels, None], object)), axis=1)
    unseen = known[-1:].copy()
    unseen[:, 0] = -1
    return np.vstack([known, unseen])
