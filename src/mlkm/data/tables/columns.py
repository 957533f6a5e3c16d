"""What each column of a table is, found once and kept as plain data, and its values as inputs of a model.

A number is one input, and another that says whether it is missing where some were; a category is a level, the numbers
in its words where they hold some, and coordinates of its text where levels are many; a date is a trend and places on
circles. A level that was not seen is -1; missing is a level of its own where it was seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._types import Array, IntArray
from .. import LEVEL, NUMBER, TEXT, Inputs
from .cells import Odd, RawColumn, as_dates, as_levels, as_numbers, word_of
from .dates import cycles_of, days, on_circle
from .frames import Table, as_words, is_dates, is_words
from .numerals import Numeral, numbers_of, numerals_of
from .text import TextBasis, fit_text


@dataclass(frozen=True)
class NumberColumn:
    """What stands in for a missing number, and whether some were missing."""

    kind = "number"
    middle: float
    missing: bool

    def form(self, cells: Any) -> tuple[RawColumn, Odd]:
        """Return later cells in the type of the fit, and those that cannot be converted."""
        return as_numbers(cells)

    @property
    def kinds(self) -> list[int]:
        return [NUMBER, LEVEL] if self.missing else [NUMBER]

    @property
    def suffixes(self) -> list[str]:
        return ["", " missing"] if self.missing else [""]

    def inputs(self, column: RawColumn) -> list[Array]:
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
    def kinds(self) -> list[int]:
        return [LEVEL] + [NUMBER] * len(self.numerals) + [TEXT] * (self.text.size if self.text is not None else 0)

    @property
    def suffixes(self) -> list[str]:
        texts = self.text.size if self.text is not None else 0
        return [""] + [f" number {k + 1}" for k in range(len(self.numerals))] + [f" text {k}" for k in range(texts)]

    def inputs(self, column: RawColumn) -> list[Array]:
        own, place = distinct(as_words(column))
        place_of = {level: float(k) for k, level in enumerate(self.levels)}
        gone = float(len(self.levels)) if self.missing else -1.0
        codes = np.array([gone if word is None else place_of.get(word, -1.0) for word in own])
        numbers = numbers_of(own, self.numerals)[place].T
        if self.text is None:
            return [codes[place], *numbers]
        texts = np.zeros((len(own), self.text.size))
        present = [k for k, word in enumerate(own) if word is not None]
        if present:
            texts[present] = self.text.coordinates([str(own[k]) for k in present])
        return [codes[place], *numbers, *texts[place].T]


@dataclass(frozen=True)
class DateColumn:
    """What stands in for a missing date, in days, whether any were missing, the cycles, and the zone of the dates,
    if they had one."""

    kind = "date"
    middle: float
    missing: bool
    cycles: tuple[str, ...]
    zone: str | None = None

    def form(self, cells: Any) -> tuple[RawColumn, Odd]:
        """Return later cells in the type of the fit, and those that cannot be converted."""
        return as_dates(cells, self.zone)

    @property
    def kinds(self) -> list[int]:
        return [NUMBER] * (1 + 2 * len(self.cycles)) + [LEVEL] * self.missing

    @property
    def suffixes(self) -> list[str]:
        return [""] + [f" {f} {c}" for c in self.cycles for f in ("cos", "sin")] + [" missing"] * self.missing

    def inputs(self, column: RawColumn) -> list[Array]:
        day = days(column)
        gone = np.isnan(day)
        day = np.where(gone, self.middle, day)
        circles = [part for cycle in self.cycles for part in on_circle(day, cycle)]
        return [day, *circles] + ([gone.astype(np.float64)] if self.missing else [])


Column = NumberColumn | CategoryColumn | DateColumn


def fit_columns(table: Table, categorical: Sequence[bool], weights: Array | None = None) -> tuple[Column, ...]:
    """What every column is; words are categories, and others are where `categorical` says so. Rows of weight zero are
    not looked at."""
    if weights is None:
        weights = np.ones(len(table))
    counted = weights > 0
    table, weights = table.take(counted), weights[counted]
    named = enumerate(zip(table.columns, categorical, strict=True))
    return tuple(_fit(column, as_level, weights, table.zone(j)) for j, (column, as_level) in named)


def _fit(column: RawColumn, as_level: bool, weights: Array, zone: str | None) -> Column:
    if as_level or is_words(column):
        words = distinct(as_words(column))[0]
        return column_of(column, as_level, weights, [word for word in words if word is not None], None in words, zone)
    gone = np.isnat(column) if is_dates(column) else np.isnan(column)
    return column_of(column, as_level, weights, [], bool(gone.any()), zone)


def column_of(
    sample: RawColumn, as_level: bool, weights: Array, levels: list[str], missing: bool, zone: str | None
) -> Column:
    """Return the type of a column from a sample of its values, all of its levels, sorted, whether values are missing,
    and the zone of its dates."""
    if as_level or is_words(sample):
        if not is_words(sample):  # numbers that were said to be names
            return CategoryColumn(tuple(levels), missing, None, (), "dates" if is_dates(sample) else "numbers", zone)
        return CategoryColumn(tuple(levels), missing, fit_text(levels), numerals_of(levels))
    if is_dates(sample):
        day = days(sample)
        return DateColumn(_middle(day, weights), missing, cycles_of(day), zone)
    return NumberColumn(_middle(sample, weights), missing)


def _middle(x: Array, weights: Array) -> float:
    """The weighted median."""
    order = np.argsort(x, kind="stable")
    order = order[~np.isnan(x[order])]
    if not len(order):
        return 0.0
    mass = np.cumsum(weights[order])
    return float(x[order[np.searchsorted(mass, mass[-1] / 2)]])


def distinct(words: RawColumn) -> tuple[list[str | None], IntArray]:
    """The distinct words, sorted, with None last where there is one, and where each row has its own."""
    seen: list[str | None] = [*sorted({word for word in words if word is not None})]
    if any(word is None for word in words):
        seen.append(None)
    place_of = {word: k for k, word in enumerate(seen)}
    return seen, np.array([place_of[word] for word in words], np.intp)


def encode(columns: Sequence[Column], table: Table) -> Array:
    """The inputs (n, p) of a table with these columns."""
    parts = [part for column, raw in zip(columns, table.columns, strict=True) for part in column.inputs(raw)]
    return np.stack(parts, axis=1) if parts else np.zeros((len(table), 0))


def inputs_of(columns: Sequence[Column]) -> Inputs:
    """What those inputs are."""
    kinds = [column.kinds for column in columns]
    owners = np.repeat(np.arange(len(columns)), [len(own) for own in kinds])
    return Inputs(np.array([kind for own in kinds for kind in own], np.intp), owners)
