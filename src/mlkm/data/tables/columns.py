"""The types of the columns of a table, determined once and stored as plain data, and their values as inputs of a model.

A number is one input, and another that says whether it is missing where some were; a category is a level, the numbers
in its words where they hold some, and coordinates of its text where levels are many; a date is a trend and places on
circles. A level that was not seen is -1; missing is a level of its own where it was seen.

Dates as inputs: days since 1970 for a trend, and a place on the circle of the year, the week and the day.

Numbers inside words: of levels such as "1197 CC", "2h 50m" or "190Nm@ 2000rpm" the first, second and third number.

A number is read where most levels say the same before it: names that hold numbers are left alone, and so are numbers
with leading zeros, which are names ("C-0448"), but for those of two digits ("07:05"), and numbers of many digits.
Levels then have an order beside their names, and a new level has a place among the others.

Coordinates for the text of levels: levels that share runs of letters are near each other.

Runs of two to four letters, weighted by how rare they are, and the leading directions of their table: the product of
two levels' coordinates is nearly the share of runs that they have in common.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from ..._types import Array, IntArray
from ...runtime.rules import RULES
from ...runtime.sizes import CIRCLE_DIGITS
from ..scaling import LEVEL, NUMBER, TEXT, Inputs
from .cells import Odd, RawColumn, Table, as_dates, as_levels, as_numbers, as_words, is_dates, is_words, word_of

CYCLES = {"year": 365.2425, "week": 7.0, "day": 1.0}  # in days


def days(column: RawColumn) -> Array:
    """Return dates as days since 1970, NaN where missing."""
    missing = np.isnat(column)
    whole = column.astype("datetime64[us]").astype(np.int64) / 86_400e6
    return np.where(missing, np.nan, whole)


def cycles_of(day: Array) -> tuple[str, ...]:
    """Return the cycles that dates have information on: a year if they span most of one, a week or a day if they are at
    several places in it."""
    day = day[np.isfinite(day)]
    if not len(day):
        return ()
    found = ["year"] if np.ptp(day) > 300 else []
    found += ["week"] if len(np.unique(np.floor(day) % 7)) > 1 and np.ptp(day) > 14 and _by_the_day(day) else []
    return (*found, "day") if len(np.unique(np.round(day % 1, 4))) > 1 else tuple(found)


def _by_the_day(day: Array) -> bool:
    """Return whether dates fall on several days of the month; if they are all firsts of a month, say, weekdays have no
    meaning."""
    dates = np.floor(day).astype(np.int64).astype("datetime64[D]")
    return len(np.unique((dates - dates.astype("datetime64[M]")).astype(np.int64))) > 1


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


def numerals_of(levels: list[str]) -> tuple[Numeral, ...]:
    """Return, for every number in the levels that is to be read, the text before it and the median of these numbers."""
    found = [numerals(level) for level in levels]
    result: list[Numeral] = []
    for place in range(RULES.numeral_places):
        here = [own[place] for own in found if len(own) > place]
        before, alike = Counter(said for said, _ in here).most_common(1)[0] if here else ("", 0)
        values = [value for said, value in here if said == before]
        named = any(_NAME.match(value) for value in values)
        if alike < RULES.numeral_share * len(levels) or named or len(set(values)) < RULES.numeral_values:
            break
        result.append((before, float(np.median([float(value) for value in values]))))
    return tuple(result)


def numbers_of(levels: list[str | None], read: tuple[Numeral, ...]) -> Array:
    """Return the numbers at those places (levels, places), the median where a level has none, or says something else
    before it."""
    result = np.tile(np.array([middle for _, middle in read]), (len(levels), 1))
    for k, level in enumerate(levels):
        own = [] if level is None else numerals(level)
        for place, ((before, _), (said, value)) in enumerate(zip(read, own, strict=False)):
            if said == before and not _NAME.match(value):
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
        counter = _counter(vocabulary=self.runs)
        counter.idf_ = self.rarity
        return np.asarray(counter.transform(levels) @ self.directions.T, np.float64)

    @property
    def size(self) -> int:
        """Return the number of coordinates."""
        return len(self.directions)


def _counter(**choices: Any) -> TfidfVectorizer:
    return TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True, dtype=np.float64, **choices)


def fit_text(levels: list[str]) -> TextBasis | None:
    """Return the basis of the text of the distinct levels of a column, or None where they are few or have no runs in
    common."""
    if len(levels) <= RULES.text_levels:
        return None
    runs = _counter(min_df=2, max_features=RULES.text_runs)
    try:
        table = runs.fit_transform(levels)
    except ValueError:  # no runs in common
        return None
    size = min(RULES.text_directions, min(table.shape) - 1)
    if size < 1:
        return None
    directions = TruncatedSVD(size, random_state=0).fit(table).components_
    return TextBasis(tuple(runs.get_feature_names_out().tolist()), runs.idf_, directions)


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
    def kinds(self) -> list[int]:
        """Return the kinds of the inputs: a number, and a level for whether it is missing."""
        return [NUMBER, LEVEL] if self.missing else [NUMBER]

    @property
    def suffixes(self) -> list[str]:
        """Return what the names of the inputs add to that of the column."""
        return ["", " missing"] if self.missing else [""]

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
    def kinds(self) -> list[int]:
        """Return the kinds of the inputs: the level, the numbers in its words, and the coordinates of its text."""
        return [LEVEL] + [NUMBER] * len(self.numerals) + [TEXT] * (self.text.size if self.text is not None else 0)

    @property
    def suffixes(self) -> list[str]:
        """Return what the names of the inputs add to that of the column."""
        texts = self.text.size if self.text is not None else 0
        return [""] + [f" number {k + 1}" for k in range(len(self.numerals))] + [f" text {k}" for k in range(texts)]

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
        texts = np.zeros((len(own), self.text.size))
        present = [k for k, word in enumerate(own) if word is not None]
        if present:
            texts[present] = self.text.coordinates([str(own[k]) for k in present])
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
    def kinds(self) -> list[int]:
        """Return the kinds of the inputs: numbers for the day and its cycles, and a level for whether it is missing."""
        return [NUMBER] * (1 + 2 * len(self.cycles)) + [LEVEL] * self.missing

    @property
    def suffixes(self) -> list[str]:
        """Return what the names of the inputs add to that of the column."""
        return [""] + [f" {f} {c}" for c in self.cycles for f in ("cos", "sin")] + [" missing"] * self.missing

    def inputs(self, column: RawColumn) -> list[Array]:
        """Return the days, their places on the circles, and whether they were missing where the fit had missing
        ones."""
        day = days(column)
        gone = np.isnan(day)
        day = np.where(gone, self.middle, day)
        circles = [part for cycle in self.cycles for part in on_circle(day, cycle)]
        return [day, *circles] + ([gone.astype(np.float64)] if self.missing else [])


Column = NumberColumn | CategoryColumn | DateColumn


def fit_columns(table: Table, categorical: Sequence[bool], weights: Array | None = None) -> tuple[Column, ...]:
    """Return the type of every column; words are categories, and other columns are where `categorical` says so. Rows of
    weight zero are not looked at."""
    if weights is None:
        weights = np.ones(len(table))
    counted = weights > 0
    table, weights = table[counted], weights[counted]
    named = enumerate(zip(table.columns, categorical, strict=True))
    return tuple(_fit(column, as_level, weights, table.zone(j)) for j, (column, as_level) in named)


def _fit(column: RawColumn, as_level: bool, weights: Array, zone: str | None) -> Column:
    """Return the type of a column of rows in memory."""
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
    """Return the weighted median of the numbers that are not missing, 0 where there are none."""
    order = np.argsort(x, kind="stable")
    order = order[~np.isnan(x[order])]
    if not len(order):
        return 0.0
    mass = np.cumsum(weights[order])
    return float(x[order[np.searchsorted(mass, mass[-1] / 2)]])


def distinct(words: RawColumn) -> tuple[list[str | None], IntArray]:
    """Return the distinct words, sorted, with None last where there is one, and the index of every row's word among
    them."""
    seen: list[str | None] = [*sorted({word for word in words if word is not None})]
    if any(word is None for word in words):
        seen.append(None)
    place_of = {word: k for k, word in enumerate(seen)}
    return seen, np.array([place_of[word] for word in words], np.intp)


def encode(columns: Sequence[Column], table: Table) -> Array:
    """Return the inputs (n, p) of a table with these columns."""
    parts = [part for column, raw in zip(columns, table.columns, strict=True) for part in column.inputs(raw)]
    return np.stack(parts, axis=1) if parts else np.zeros((len(table), 0))


def inputs_of(columns: Sequence[Column]) -> Inputs:
    """Return the kinds of the inputs of these columns."""
    kinds = [column.kinds for column in columns]
    owners = np.repeat(np.arange(len(columns)), [len(own) for own in kinds])
    return Inputs(np.array([kind for own in kinds for kind in own], np.intp), owners)
