"""Frames and arrays are read to inputs of a model, in a fit and later.

Later columns are found by their names, in any order; others are not looked at, and one that is missing is named.

One warning counts the cells that are not of the type of their column in the fit, over all pieces of a table.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from numbers import Number
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from ..._types import Array
from ...exceptions import warn
from ...runtime.checks import as_numbers, brief, check_table, named_parameters
from ...runtime.sizes import SHOWN_LETTERS
from ..scaling import Inputs, checked_weights
from .cells import Table, cells_of, check_finite, check_names, is_frame, is_words, read_array, read_frame
from .columns import CategoryColumn, Column, encode, fit_columns, inputs_of


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
        return inputs_of(self.columns)

    @property
    def input_names(self) -> list[str]:
        """Return the name of every input: that of its column, and a suffix for the part of it."""
        names = self.names or tuple(f"x{j}" for j in range(len(self.columns)))
        return [name + end for name, column in zip(names, self.columns, strict=True) for end in column.suffixes]

    def read(self, estimator: Any, X: Any) -> Array:
        """Return the inputs of a table like that of the fit."""
        return encode(self.columns, self.table(estimator, X))

    def encoded(self, table: Table) -> Array:
        """Return the inputs of rows of the fit, whose cells have the types of the columns, except that a column without
        a value in a block has no type there."""
        pairs = zip(self.columns, table.columns, strict=True)
        typed = [
            cells if isinstance(column, CategoryColumn) or not is_words(cells) else column.form(cells)[0]
            for column, cells in pairs
        ]
        return encode(self.columns, Table(tuple(typed), table.names))

    def table(self, estimator: Any, X: Any) -> Table:
        """Return the columns of the fit in the types that they had there. Cells of another type are missing or new
        levels, and a warning counts them, except in a table that has been read before."""
        if isinstance(X, Table):
            given = X.named(self.names)
            cells, names = given.columns, given.names
        elif is_frame(X):
            cells, names = cells_of(X, self.names)
        else:
            rows = _as_objects(X) if any(isinstance(one, CategoryColumn) for one in self.columns) else _as_array(X)
            cells, names = tuple(validate_data(estimator, rows, reset=False, **_loosely(rows)).T), None
        self.check(estimator, names, len(cells))
        table, odd = self._formed(cells, names)
        check_shape(table, getattr(X, "shape", (len(table), len(cells))))
        if not isinstance(X, Table):
            tell_odd(odd)
        return check_finite(table)

    def _formed(self, columns: tuple[Any, ...], names: tuple[str, ...] | None) -> tuple[Table, list[OddCells]]:
        """Return cells in the types of the fit, and those of another type."""
        formed = [column.form(cells) for column, cells in zip(self.columns, columns, strict=True)]
        table = Table(tuple(cells for cells, _ in formed), names)
        return table, [
            OddCells(table.called(j), column, len(odd), odd[0][1])
            for j, (column, (_, odd)) in enumerate(zip(self.columns, formed, strict=True))
            if odd
        ]

    def check(self, estimator: Any, names: tuple[str, ...] | None, n_columns: int) -> None:
        """Refuse columns that are not those of the fit: by their names, where both have some, else by their number."""
        if names is not None and self.names is not None:
            check_names(names, self.names)
        elif n_columns != len(self.columns):
            raise ValueError(
                f"X has {n_columns} features, but {type(estimator).__name__} is expecting {len(self.columns)} features"
                " as input."
            )


def checked_table(estimator: Any, X: Any, y: Any, sample_weight: ArrayLike | None) -> tuple[Table, Any, Array | None]:
    """Return the table, targets where there are any, and weights, and set `n_features_in_` and `feature_names_in_`."""
    checks: dict[str, Any] = {} if y is None else {"multi_output": True, "y_numeric": True}
    y = None if y is None else as_numbers("y", y)
    if is_frame(X):
        table, targets = check_finite(read_frame(X)), None if y is None else validate_data(estimator, y=y, **checks)
        check_shape(table, tuple(X.shape))
        set_names(estimator, table.names, len(table.columns))
        if targets is not None:
            check_consistent_length(table.columns[0], targets)
    else:
        given = _as_array(X)
        array, targets = (
            (validate_data(estimator, given, **_loosely(X)), None)
            if y is None
            else validate_data(estimator, given, y, **checks, **_loosely(X))
        )
        table = _array(array)
    return table, targets, checked_weights(sample_weight, len(table))


def fit_reader(
    estimator: Any, X: Any, y: Any, sample_weight: ArrayLike | None, categorical: Any
) -> tuple[Reader, Table, Any, Array | None]:
    """Return the reader, the table, targets where there are any, and weights."""
    table, targets, weights = checked_table(estimator, X, y, sample_weight)
    return reader_of(table, weights, categorical), table, targets, weights


def reader_of(table: Table, weights: Array | None, categorical: Any) -> Reader:
    """Return the reader of a table, with the types of its columns."""
    return Reader(fit_columns(table, category_mask(categorical, table.names, len(table.columns)), weights), table.names)


def check_shape(table: Table, shape: tuple[int, ...]) -> None:
    """Refuse a table without columns or rows, as scikit-learn does."""
    if not len(table.columns):
        raise ValueError(f"Found array with 0 feature(s) (shape={shape}) while a minimum of 1 is required.")
    if len(table) == 0:
        raise ValueError(f"Found array with 0 sample(s) (shape={shape}) while a minimum of 1 is required.")


def set_names(estimator: Any, names: tuple[str, ...] | None, n_columns: int) -> None:
    """Set the number and names of the columns on an estimator, as scikit-learn does."""
    estimator.n_features_in_ = n_columns
    if names is not None:
        estimator.feature_names_in_ = np.array(names, object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


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


def _as_objects(X: Any) -> Any:
    """Return rows for tables with words, in which truth values and whole numbers are not converted to floats."""
    X = _as_array(X)
    discrete = isinstance(X, np.ndarray) and X.dtype.kind in "biu"
    return np.array(X, object) if discrete or isinstance(X, (list, tuple)) else X


def _loosely(X: Any) -> dict[str, Any]:
    """Return the options to check an array with: it holds numbers, which may be NaN, or objects."""
    given = _as_array(X)
    objects = isinstance(given, np.ndarray) and given.dtype.kind in "OUST"
    return {"dtype": object if objects else np.float64, "ensure_all_finite": "allow-nan"}


def _array(X: NDArray[Any]) -> Table:
    return check_finite(read_array(X)) if X.dtype == object else read_array(X)


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
        self.reader_ = fit_reader(self, X, None, None, self.categorical_features)[0]
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Array:
        """Find what every column is, and return the inputs of the same table."""
        self.reader_, table, _, _ = fit_reader(self, X, None, None, self.categorical_features)
        return encode(self.reader_.columns, table)

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
