"""Frames and arrays are read in a fit: what their columns are is determined from all of their cells.

Dates as inputs: days since 1970 for a trend, and a place on the circle of the year, the week and the day.

Numbers inside words: of levels such as "1197 CC", "2h 50m" or "190Nm@ 2000rpm" the first, second and third number.

A number is read where most levels say the same before it: names that hold numbers are left alone, and so are numbers
with leading zeros, which are names ("C-0448"), but for those of two digits ("07:05"), and numbers of many digits.
Levels then have an order beside their names, and a new level has a place among the others.

Coordinates for the text of levels: levels that share runs of letters are near each other.

Runs of two to four letters, weighted by how rare they are, and the leading directions of their table: the product of
two levels' coordinates is nearly the share of runs that they have in common.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import TruncatedSVD
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from ..._types import Array
from ...runtime.checks import as_numbers, brief, named_parameters
from ...runtime.rules import RULES
from .cells import RawColumn, Table, as_words, check_finite, is_dates, is_frame, is_words, read_array, read_frame
from .columns import (
    CategoryColumn,
    Column,
    DateColumn,
    NumberColumn,
    Numeral,
    Reader,
    TextBasis,
    check_shape,
    days,
    distinct,
    is_name,
    numerals,
    text_counter,
    validated,
)


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


def numerals_of(levels: list[str]) -> tuple[Numeral, ...]:
    """Return, for every number in the levels that is to be read, the text before it and the median of these numbers."""
    found = [numerals(level) for level in levels]
    result: list[Numeral] = []
    for place in range(RULES.numeral_places):
        here = [own[place] for own in found if len(own) > place]
        before, alike = Counter(said for said, _ in here).most_common(1)[0] if here else ("", 0)
        values = [value for said, value in here if said == before]
        named = any(is_name(value) for value in values)
        if alike < RULES.numeral_share * len(levels) or named or len(set(values)) < RULES.numeral_values:
            break
        result.append((before, float(np.median([float(value) for value in values]))))
    return tuple(result)


def fit_text(levels: list[str]) -> TextBasis | None:
    """Return the basis of the text of the distinct levels of a column, or None where they are few or have no runs in
    common."""
    if len(levels) <= RULES.text_levels:
        return None
    runs = text_counter(min_df=2, max_features=RULES.text_runs)
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
class ColumnSummary:
    """The form of a column (words, levels, dates or numbers, or nothing so far), its words, and whether any value is
    missing."""

    form: str
    words: frozenset[str]
    missing: bool

    @classmethod
    def of(cls, column: RawColumn, as_level: bool) -> "ColumnSummary":
        """Return what a column of a block holds; `as_level` says that its values are levels whatever they look like."""
        if as_level or is_words(column):
            words = distinct(as_words(column))[0]
            form = "" if nothing_there(column) else "words" if is_words(column) else "levels"
            return cls(form, frozenset(word for word in words if word is not None), None in words)
        gone = np.isnat(column) if is_dates(column) else np.isnan(column)
        return cls("dates" if is_dates(column) else "numbers", frozenset(), bool(gone.any()))

    def column(self, sample: RawColumn, weights: Array, zone: str | None) -> Column:
        """Return the type of the column, of whose values this is a sample, and whose dates are in this zone."""
        levels = sorted(self.words)
        if is_words(sample):
            return CategoryColumn(tuple(levels), self.missing, fit_text(levels), numerals_of(levels))
        if self.form == "levels":  # numbers that were said to be names
            cells = "dates" if is_dates(sample) else "numbers"
            return CategoryColumn(tuple(levels), self.missing, None, (), cells, zone)
        if is_dates(sample):
            day = days(sample)
            return DateColumn(_middle(day, weights), self.missing, cycles_of(day), zone)
        return NumberColumn(_middle(sample, weights), self.missing)


def nothing_there(column: RawColumn) -> bool:
    """Return whether a column of words holds missing values only, so that other pieces decide its form."""
    return is_words(column) and all(x is None for x in column)


def as_form_of(column: RawColumn, other: RawColumn) -> RawColumn:
    """Return a column of missing values in the form of another; any other column is returned as it is."""
    if not nothing_there(column) or is_words(other):
        return column
    return np.full(len(column), np.datetime64("NaT", "us") if other.dtype.kind == "M" else np.nan)


def joined_columns(parts: list[RawColumn]) -> RawColumn:
    """Return the parts of a column in several blocks as one column, in the form of those that hold a value."""
    form = next((part for part in parts if not nothing_there(part)), parts[0])
    return np.concatenate([as_form_of(part, form) for part in parts])


def _middle(x: Array, weights: Array) -> float:
    """Return the weighted median of the numbers that are not missing, 0 where there are none."""
    order = np.argsort(x, kind="stable")
    order = order[~np.isnan(x[order])]
    if not len(order):
        return 0.0
    mass = np.cumsum(weights[order])
    return float(x[order[np.searchsorted(mass, mass[-1] / 2)]])


def fit_columns(table: Table, categorical: Sequence[bool]) -> tuple[Column, ...]:
    """Return the type of every column; words are categories, and other columns are where `categorical` says so."""
    return tuple(
        ColumnSummary.of(column, as_level).column(column, np.ones(len(table)), table.zone(j))
        for j, (column, as_level) in enumerate(zip(table.columns, categorical, strict=True))
    )


def checked_table(estimator: Any, X: Any, y: Any) -> tuple[Table, Any]:
    """Return the table, and targets where there are any, and set `n_features_in_` and `feature_names_in_`."""
    checks: dict[str, Any] = {} if y is None else {"multi_output": True, "y_numeric": True}
    y = None if y is None else as_numbers("y", y)
    if is_frame(X):
        table, targets = check_finite(read_frame(X)), None if y is None else validate_data(estimator, y=y, **checks)
        check_shape(table, tuple(X.shape))
        set_names(estimator, table.names, len(table.columns))
        if targets is not None:
            check_consistent_length(table.columns[0], targets)
    else:
        array, targets = (validated(estimator, X), None) if y is None else validated(estimator, X, y=y, **checks)
        table = check_finite(read_array(array)) if array.dtype == object else read_array(array)
    return table, targets


def set_names(estimator: Any, names: tuple[str, ...] | None, n_columns: int) -> None:
    """Set the number and names of the columns on an estimator, as scikit-learn does."""
    estimator.n_features_in_ = n_columns
    if names is not None:
        estimator.feature_names_in_ = np.array(names, object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def category_mask(categorical: Any, names: tuple[str, ...] | None, d: int) -> list[bool]:
    """Return which of d columns are categories though they do not look like it, given by names, places, or a mask."""
    if categorical is None or (isinstance(categorical, str) and categorical == "from_dtype"):
        return [False] * d
    given: Sequence[Any] = list(np.atleast_1d(np.asarray(categorical, object)))
    if len(given) == d and all(isinstance(x, (bool, np.bool_)) for x in given):
        return [bool(x) for x in given]
    places = {name: j for j, name in enumerate(names or ())}
    mask = [False] * d
    for x in given:
        whole = isinstance(x, (int, np.integer)) and not isinstance(x, (bool, np.bool_))
        j = places.get(x) if isinstance(x, str) else int(x) if whole and -d <= x < d else None
        if j is None:
            raise ValueError(
                "categorical_features must be 'from_dtype', None, names or places of columns, or a mask of them; "
                f"got {brief(x)}, which is no column."
            )
        mask[j] = True
    return mask


class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A table as the inputs that the regressors see, before standardising.

    A number stays as it is, missing ones are the median; where some were missing, another input says which. A category
    is the number of its level, which means only whether two rows have the same one (-1: a level not seen before), and
    coordinates of its text where levels are many. A date is a number of days and places on the circles of the year, the
    week and the day. y plays no part.

    Parameters
    ----------
    categorical_features : "from_dtype", None, names, places or a mask, default="from_dtype"
        Columns that are categories though they hold numbers.

    Examples
    --------
    >>> from mlkm.tables import TableEncoder
    >>> encoder = TableEncoder().fit([[1.5, "red"], [None, "blue"], [2.5, "red"]])
    >>> encoder.get_feature_names_out().tolist()
    ['x0', 'x0 missing', 'x1']
    >>> encoder.transform([[1.0, "green"]]).tolist()
    [[1.0, 0.0, -1.0]]
    """

    @named_parameters
    def __init__(self, categorical_features: Any = "from_dtype") -> None:
        self.categorical_features = categorical_features

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find what every column is."""
        self._fit_table(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Array:
        """Find what every column is, and return the inputs of the same table."""
        table = self._fit_table(X)
        return self.reader_.encoded(table)

    def _fit_table(self, X: Any) -> Table:
        """Find what every column is, and return the table."""
        table, _ = checked_table(self, X, None)
        categorical = category_mask(self.categorical_features, table.names, len(table.columns))
        self.reader_ = Reader(fit_columns(table, categorical), table.names)
        return table

    def transform(self, X: Any) -> Array:
        """Return the inputs (n, p); columns are found by their names."""
        check_is_fitted(self)
        return self.reader_.read(self, X)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the inputs."""
        check_is_fitted(self)
        return np.array(self.reader_.input_names, object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.categorical = tags.input_tags.string = True
        return tags
