"""The types of the columns of a table, stored as plain data, and the inputs of a model that later cells become.

A number is one input, and another that says whether it is missing where some were; a category is a level, the numbers
in its words where they hold some, and coordinates of its text where levels are many; a date is a trend and places on
circles. A level that was not seen is -1; missing is a level of its own where it was seen.

An input is a number, a level of a category or a coordinate of the text of levels. A level is a whole number that says
only whether two rows have the same one.

Later columns are found by their names, in any order; others are not looked at, and one that is missing is named. One
warning counts the cells that are not of the type of their column in the fit, over all pieces of a table.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from numbers import Number
from typing import Any, ClassVar

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.utils.validation import validate_data

from ..._types import Array, BoolArray, IntArray
from ...exceptions import warn
from ...runtime.checks import check_table
from ...runtime.rules import RULES
from ...runtime.sizes import CIRCLE_DIGITS, SHOWN_LETTERS
from .cells import (
    Odd,
    RawColumn,
    Table,
    as_dates,
    as_levels,
    as_numbers,
    as_words,
    cells_of,
    check_finite,
    check_names,
    is_frame,
    is_words,
    word_of,
)

NUMBER, LEVEL, TEXT = 0, 1, 2
CYCLES = {"year": 365.2425, "week": 7.0, "day": 1.0}  # in days


@dataclass(frozen=True)
class Inputs:
    """The kind of every input, and the column that it belongs to."""

    kinds: IntArray
    owners: IntArray

    @classmethod
    def numbers_only(cls, d: int) -> "Inputs":
        """Return d inputs that are numbers, each of its own column."""
        return cls(np.zeros(d, np.intp), np.arange(d))

    @cached_property
    def levels(self) -> BoolArray:
        """Return which inputs are levels."""
        return np.asarray(self.kinds == LEVEL)

    @cached_property
    def numbers(self) -> BoolArray:
        """Return which inputs are numbers."""
        return np.asarray(self.kinds == NUMBER)

    @cached_property
    def texts(self) -> BoolArray:
        """Return which inputs are coordinates of text."""
        return np.asarray(self.kinds == TEXT)

    @property
    def plain(self) -> bool:
        """Return whether all inputs are numbers."""
        return bool(self.numbers.all())

    def of(self, kept: IntArray) -> "Inputs":
        """Return the inputs at these places."""
        return Inputs(self.kinds[kept], self.owners[kept])


def days(column: RawColumn) -> Array:
    """Return dates as days since 1970, NaN where missing."""
    missing = np.isnat(column)
    whole = column.astype("datetime64[us]").astype(np.int64) / 86_400e6
    return np.where(missing, np.nan, whole)


def on_circle(day: Array, cycle: str) -> tuple[Array, Array]:
    """Return the cosine and sine of the place in a cycle."""
    angle: Array = 2 * np.pi * np.fmod(day, CYCLES[cycle]) / CYCLES[cycle]
    return np.asarray(np.cos(angle).round(CIRCLE_DIGITS)), np.asarray(np.sin(angle).round(CIRCLE_DIGITS))


Numeral = tuple[str, float]  # what stands before a number that is read, and the median of the numbers

_NUMERAL = re.compile(r"(?<!\S)[-\u2212]?\d+(?:\.\d+)?|\d+(?:\.\d+)?")  # with a sign where a word begins with it
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_NAME = re.compile(r"[-\u2212]?(0\d\d|\d{16})")


def numerals(level: str) -> list[tuple[str, str]]:
    """Return the numbers in a word, at most three, each with the text before it, in which numbers are replaced by #.

    >>> numerals("2h 50m"), numerals("1,234.5 CC"), numerals("-3 C"), numerals("red")
    ([('', '2'), ('#h ', '50')], [('', '1234.5')], [('', '-3')], [])
    """
    level = _THOUSANDS.sub("", level)
    found = list(_NUMERAL.finditer(level))[: RULES.numeral_places]
    return [(_NUMERAL.sub("#", level[: one.start()]), one.group().replace("\u2212", "-")) for one in found]


def is_name(value: str) -> bool:
    """Return whether the digits of a word are a name: with leading zeros, or many."""
    return _NAME.match(value) is not None


def numbers_of(levels: list[str | None], read: tuple[Numeral, ...]) -> Array:
    """Return the numbers at those places (levels, places), the median where a level has none, or says something else
    before it."""
    result = np.tile(np.array([middle for _, middle in read]), (len(levels), 1))
    for k, level in enumerate(levels):
        own = [] if level is None else numerals(level)
        for place, ((before, _), (said, value)) in enumerate(zip(read, own, strict=False)):
            if said == before and not is_name(value):
                result[k, place] = float(value)
    return result


@dataclass(frozen=True)
class TextBasis:
    """The n-grams of letters that are counted, their inverse document frequencies (r,), and the leading singular
    vectors (q, r)."""

    runs: tuple[str, ...]
    rarity: Array
    directions: Array

    def coordinates(self, levels: list[str]) -> Array:
        """Return the coordinates of the text of levels, (n, q)."""
        counter = text_counter(vocabulary=self.runs)
        counter.idf_ = self.rarity
        return np.asarray(counter.transform(levels) @ self.directions.T, np.float64)

    @property
    def size(self) -> int:
        """Return the number of coordinates."""
        return len(self.directions)


def text_counter(**choices: Any) -> TfidfVectorizer:
    """Return the counter of the runs of two to four letters of texts, weighted by how rare they are."""
    return TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True, dtype=np.float64, **choices)


@dataclass(frozen=True)
class NumberColumn:
    """A column of numbers: the number that replaces missing ones, and whether any were missing."""

    cells: ClassVar = "numbers"
    kind = "number"
    middle: float
    missing: bool

    def form(self, cells: Any) -> tuple[RawColumn, Odd]:
        """Return later cells in the type of the fit, and those that cannot be converted."""
        return as_numbers(cells)

    @property
    def parts(self) -> list[tuple[int, str]]:
        """Return the kind of every input and what its name adds to that of the column: a number, and a level for
        whether it is missing."""
        return [(NUMBER, "")] + [(LEVEL, " missing")] * self.missing

    def inputs(self, column: RawColumn) -> list[Array]:
        """Return the number, with missing ones replaced, and whether it was missing where the fit had missing ones."""
        gone = np.isnan(column)
        value = np.where(gone, self.middle, column)
        return [value, gone.astype(np.float64)] if self.missing else [value]


@dataclass(frozen=True)
class CategoryColumn:
    """The levels, sorted; whether some were missing; coordinates of their text; the numbers in their words that are
    read; the type of the cells in the fit, "words", "numbers" or "dates", and the zone of the dates."""

    kind = "category"
    levels: tuple[str, ...]
    missing: bool
    text: TextBasis | None
    numerals: tuple[Numeral, ...] = ()
    cells: str = "words"
    zone: str | None = None

    def form(self, cells: Any) -> tuple[RawColumn, Odd]:
        """Return later cells as words, and those that are not of the type of the fit, which are new levels."""
        if self.cells == "words":
            return as_levels(cells, self.levels), []
        values, odd = as_numbers(cells) if self.cells == "numbers" else as_dates(cells, self.zone)
        words = as_words(values)
        for k, x in odd:
            words[k] = word_of(x)
        return words, odd

    @property
    def parts(self) -> list[tuple[int, str]]:
        """Return the kind of every input and what its name adds to that of the column: the level, the numbers in its
        words, and the coordinates of its text."""
        numbers = [(NUMBER, f" number {k + 1}") for k in range(len(self.numerals))]
        texts = [(TEXT, f" text {k}") for k in range(0 if self.text is None else self.text.size)]
        return [(LEVEL, ""), *numbers, *texts]

    def inputs(self, column: RawColumn) -> list[Array]:
        """Return the places of the levels, -1 for new ones, the numbers in their words, and the coordinates of their
        text."""
        own, place = distinct(as_words(column))
        place_of = {level: float(k) for k, level in enumerate(self.levels)}
        gone = float(len(self.levels)) if self.missing else -1.0
        codes = np.array([gone if word is None else place_of.get(word, -1.0) for word in own])
        numbers = numbers_of(own, self.numerals)[place].T
        if self.text is None:
            return [codes[place], *numbers]
        texts = self.text.coordinates([word or "" for word in own])  # missing words have no text
        return [codes[place], *numbers, *texts[place].T]


@dataclass(frozen=True)
class DateColumn:
    """A column of dates: the day that replaces missing ones, whether any were missing, the cycles, and the zone of the
    dates, if they had one."""

    cells: ClassVar = "dates"
    kind = "date"
    middle: float
    missing: bool
    cycles: tuple[str, ...]
    zone: str | None = None

    def form(self, cells: Any) -> tuple[RawColumn, Odd]:
        """Return later cells in the type of the fit, and those that cannot be converted."""
        return as_dates(cells, self.zone)

    @property
    def parts(self) -> list[tuple[int, str]]:
        """Return the kind of every input and what its name adds to that of the column: numbers for the day and its
        cycles, and a level for whether it is missing."""
        circles = [(NUMBER, f" {f} {cycle}") for cycle in self.cycles for f in ("cos", "sin")]
        return [(NUMBER, ""), *circles] + [(LEVEL, " missing")] * self.missing

    def inputs(self, column: RawColumn) -> list[Array]:
        """Return the days, their places on the circles, and whether they were missing where the fit had missing
        ones."""
        day = days(column)
        gone = np.isnan(day)
        day = np.where(gone, self.middle, day)
        circles = [part for cycle in self.cycles for part in on_circle(day, cycle)]
        return [day, *circles] + ([gone.astype(np.float64)] if self.missing else [])


Column = NumberColumn | CategoryColumn | DateColumn


def distinct(words: RawColumn) -> tuple[list[str | None], IntArray]:
    """Return the distinct words, sorted, with None last where there is one, and the index of every row's word among
    them."""
    seen: list[str | None] = [*sorted({word for word in words if word is not None})]
    if any(word is None for word in words):
        seen.append(None)
    place_of = {word: k for k, word in enumerate(seen)}
    return seen, np.array([place_of[word] for word in words], np.intp)


@dataclass(frozen=True)
class OddCells:
    """The name of a column, its type in the fit, how many cells are of another type, and one of them."""

    name: str
    column: Column
    count: int
    example: Any


_NOTED: ContextVar[list[OddCells] | None] = ContextVar("odd_cells", default=None)


def tell_odd(cells: list[OddCells]) -> None:
    """Warn about these cells, or collect them inside `one_warning`."""
    noted = _NOTED.get()
    if noted is not None:
        noted.extend(cells)
        return
    parts = []
    for name in dict.fromkeys(odd.name for odd in cells):
        every = [odd for odd in cells if odd.name == name]
        column, count, shown = every[0].column, sum(odd.count for odd in every), repr(every[0].example)
        shown = shown if len(shown) <= SHOWN_LETTERS else shown[: SHOWN_LETTERS - 3] + "..."
        level = isinstance(column, CategoryColumn)
        kind = "date" if column.cells == "dates" else "number"
        parts.append(
            f"column {name} held {kind}s in the fit, and {count}"
            f" {f'cell that is not a {kind} is' if count == 1 else f'cells that are not {kind}s are'} taken as"
            f" {'a new level' if level else 'missing'}, such as {shown}"
        )
    if parts:
        text = "; ".join(parts)
        warn(f"{text[0].upper()}{text[1:]}.")


@contextmanager
def one_warning() -> Iterator[None]:
    """Collect the cells of all rows that are read inside, also by other threads, and warn once at the end."""
    if _NOTED.get() is not None:
        yield
        return
    noted: list[OddCells] = []
    token = _NOTED.set(noted)
    try:
        yield
    finally:
        _NOTED.reset(token)
    tell_odd(noted)


@dataclass(frozen=True)
class Reader:
    """The columns of a table, and their names where they have any."""

    columns: tuple[Column, ...]
    names: tuple[str, ...] | None

    @property
    def inputs(self) -> Inputs:
        """Return the kinds of the inputs."""
        kinds = [kind for column in self.columns for kind, _ in column.parts]
        owners = [j for j, column in enumerate(self.columns) for _ in column.parts]
        return Inputs(np.array(kinds, np.intp), np.array(owners, np.intp))

    @property
    def input_names(self) -> list[str]:
        """Return the name of every input: that of its column, and a suffix for the part of it."""
        names = self.names or tuple(f"x{j}" for j in range(len(self.columns)))
        return [name + end for name, column in zip(names, self.columns, strict=True) for _, end in column.parts]

    def read(self, estimator: Any, X: Any) -> Array:
        """Return the inputs of a table like that of the fit."""
        return self.encoded(self.table(estimator, X))

    def encoded(self, table: Table) -> Array:
        """Return the inputs (n, p) of rows whose cells have the types of the columns, except that a column without a
        value in a block of the fit has no type there."""
        parts: list[Array] = []
        for column, cells in zip(self.columns, table.columns, strict=True):
            untyped = is_words(cells) and not isinstance(column, CategoryColumn)
            parts += column.inputs(column.form(cells)[0] if untyped else cells)
        return np.stack(parts, axis=1) if parts else np.zeros((len(table), 0))

    def table(self, estimator: Any, X: Any) -> Table:
        """Return the columns of the fit in the types that they had there. Cells of another type are missing or new
        levels, and a warning counts them, except in a table that has been read before."""
        if isinstance(X, Table):
            given = X.named(self.names)
        elif is_frame(X):
            given = cells_of(X, self.names)
        else:
            with_words = any(isinstance(column, CategoryColumn) for column in self.columns)
            given = Table(tuple(validated(estimator, X, with_words, reset=False).T), None)
        self.check(estimator, given.names, len(given.columns))
        formed = [column.form(cells) for column, cells in zip(self.columns, given.columns, strict=True)]
        table = Table(tuple(cells for cells, _ in formed), given.names)
        check_shape(table, getattr(X, "shape", table.shape))
        if not isinstance(X, Table):
            named = zip(map(table.called, range(len(formed))), self.columns, formed, strict=True)
            tell_odd([OddCells(name, column, len(odd), odd[0][1]) for name, column, (_, odd) in named if odd])
        return check_finite(table)

    def check(self, estimator: Any, names: tuple[str, ...] | None, n_columns: int) -> None:
        """Refuse columns that are not those of the fit: by their names, where both have some, else by their number."""
        if names is not None and self.names is not None:
            check_names(names, self.names)
        elif n_columns != len(self.columns):
            raise ValueError(
                f"X has {n_columns} features, but {type(estimator).__name__} is expecting {len(self.columns)} features"
                " as input."
            )


def check_shape(table: Table, shape: tuple[int, ...]) -> None:
    """Refuse a table without columns or rows, as scikit-learn does."""
    if not len(table.columns):
        raise ValueError(f"Found array with 0 feature(s) (shape={shape}) while a minimum of 1 is required.")
    if len(table) == 0:
        raise ValueError(f"Found array with 0 sample(s) (shape={shape}) while a minimum of 1 is required.")


def _as_array(X: Any) -> Any:
    """Return rows as they are checked: lists with words are arrays of objects, so that their numbers stay numbers."""
    X = check_table(X)
    if isinstance(X, np.ma.MaskedArray):
        return np.ma.filled(X.astype(np.float64), np.nan)
    if isinstance(X, np.ndarray) and X.dtype.kind in "Mm":
        return X.astype(f"{X.dtype.kind}8[us]").astype(object)
    if hasattr(X, "dtype") or not isinstance(X, (list, tuple)):
        return X
    cells = (cell for row in X if isinstance(row, (list, tuple)) for cell in row)
    plain = all(isinstance(cell, (Number, np.number, np.bool_, list, tuple, np.ndarray)) for cell in cells)
    return X if plain else np.array(X, object)


def validated(estimator: Any, X: Any, with_words: bool = False, **checks: Any) -> Any:
    """Return rows in memory, checked by scikit-learn: arrays of numbers, which may be NaN, or of objects; for tables
    `with_words`, truth values and whole numbers are not converted to floats."""
    rows = _as_array(X)
    discrete = isinstance(rows, (list, tuple)) or (isinstance(rows, np.ndarray) and rows.dtype.kind in "biu")
    rows = np.array(rows, object) if with_words and discrete else rows
    kind = object if isinstance(rows, np.ndarray) and rows.dtype.kind in "OUST" else np.float64
    return validate_data(estimator, rows, dtype=kind, ensure_all_finite="allow-nan", **checks)
