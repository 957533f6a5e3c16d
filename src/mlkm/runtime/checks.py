"""Checks of arguments, each with one sentence that says what was got and what would be right."""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from numbers import Integral, Real
from pathlib import Path
from reprlib import Repr
from typing import Any, Concatenate, ParamSpec, SupportsFloat, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils import check_array

from .._types import Array
from .sizes import MOST_STEPS

P = ParamSpec("P")
S = TypeVar("S")
R = TypeVar("R")


class _Brief(Repr):
    """Values on one line, cut in their middle, without addresses in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = self.maxlong = 60
        self.maxdict = self.maxset = self.maxfrozenset = 3

    def repr_instance(self, x: object, level: int) -> str:
        """Return other objects in words: arrays by their shape, functions and classes by their name."""
        if isinstance(x, np.generic) and not isinstance(x, np.void):
            x = x.item()
            if isinstance(x, np.generic):  # a longdouble, which Python has no number for
                return str(x)
        shape = getattr(x, "shape", None)
        if isinstance(shape, tuple) and (len(shape) != 1 or shape > (6,) or issparse(x) or hasattr(x, "columns")):
            return f"{_article(x)} of shape {shape}"
        if isinstance(x, type):
            return f"the class {x.__name__}"
        try:
            text = " ".join(repr(x).split())
        except Exception:
            text = " at 0x"
        if " at 0x" in text or "\\x" in text:
            return f"the function {x.__name__}" if hasattr(x, "__name__") else _article(x)
        return text if len(text) <= self.maxother else f"{text[: self.maxother - 3]}..."


def _article(x: object) -> str:
    name = type(x).__name__.removeprefix("nd")
    return f"{'an' if name[0] in 'aeiouAEIO' else 'a'} {name}"


def brief(value: object) -> str:
    """Return a value as messages show it: on one line, of ordinary length, without addresses in memory.

    >>> len(brief("a" * 1000)), brief(np.zeros((3, 4))), brief(object()), brief([1.0, -1.0])
    (60, 'an array of shape (3, 4)', 'an object', '[1.0, -1.0]')
    """
    try:
        return re.sub(r" at 0x[0-9a-f]+", "", _Brief().repr(value))
    except Exception:  # a representation that fails is no reason to fail otherwise than asked
        return _article(value)


def number(
    name: str,
    value: object,
    *,
    above: float = -np.inf,
    at_least: float = -np.inf,
    below: float = np.inf,
    at_most: float = np.inf,
    words: str = "",
) -> float:
    """Return a finite number within its limits, or raise.

    >>> number("tol", float("nan"), at_least=0)
    Traceback (most recent call last):
    ...
    ValueError: tol must be a finite number of at least 0; got nan.
    """
    x = as_float(value) if isinstance(value, Real) and not isinstance(value, (bool, np.bool_)) else np.nan
    if not (np.isfinite(x) and above < x < below and at_least <= x <= at_most):
        limits = [
            f"above {above:g}" if above > -np.inf else "",
            f"of at least {at_least:g}" if at_least > -np.inf else "",
            f"below {below:g}" if below < np.inf else "",
            f"at most {at_most:g}" if at_most < np.inf else "",
        ]
        wanted = words or " ".join(["a finite number", " and ".join(limit for limit in limits if limit)]).rstrip()
        raise ValueError(f"{name} must be {wanted}; got {brief(value)}.")
    return x


def as_float(value: SupportsFloat | str) -> float:
    """Return a float, NaN for numbers that are too large."""
    try:
        return float(value)
    except (OverflowError, TypeError, ValueError):
        return np.nan


def whole(name: str, value: object, at_least: int = 1, at_most: int = sys.maxsize, why: str = "") -> int:
    """Return a whole number within its limits, or raise; `why` says why there is an upper one.

    >>> whole("patience", 0)
    Traceback (most recent call last):
    ...
    ValueError: patience must be a whole number of at least 1; got 0.
    """
    exact = int(value) if _is_whole(value) else None
    if exact is None or not at_least <= exact <= at_most:
        unlimited = at_most == sys.maxsize and (exact is None or exact <= at_most)
        limits = f"of at least {at_least}" if unlimited else f"from {at_least} to {at_most}{why}"
        raise ValueError(f"{name} must be a whole number {limits}; got {brief(value)}.")
    return exact


def _is_whole(value: object) -> TypeGuard[Integral]:
    return isinstance(value, Integral) and not isinstance(value, (bool, np.bool_, np.timedelta64))


def steps(name: str, value: object, at_least: int = 1) -> int:
    """Return a number of passes or iterations that does not take days, or raise.

    >>> steps("max_iter", 10**12)
    Traceback (most recent call last):
    ...
    ValueError: max_iter must be a whole number from 1 to 1000000000, since more would take days; got 1000000000000.
    """
    return whole(name, whole(name, value, at_least), at_least, MOST_STEPS, ", since more would take days")


def one_of(name: str, value: object, choices: Sequence[str]) -> str:
    """Return one of these words, or raise.

    >>> one_of("side", "left", ("both", "lower", "upper"))
    Traceback (most recent call last):
    ...
    ValueError: side must be 'both', 'lower' or 'upper'; got 'left'.
    """
    if not isinstance(value, str) or value not in choices:
        known = " or ".join([", ".join(map(repr, choices[:-1])), repr(choices[-1])]) if len(choices) > 1 else choices[0]
        raise ValueError(f"{name} must be {known}; got {brief(value)}.")
    return str(value)


def place_of(what: str, value: object, names: Sequence[str] | None, n: int) -> int:
    """Return the place of one of n things that is given by its place or its name.

    >>> place_of("A column", "b", ["a", "b"], 2), place_of("A column", -1, None, 2)
    (1, 1)
    >>> place_of("A column", 2, ["a", "b"], 2)
    Traceback (most recent call last):
    ...
    ValueError: A column must be a place from 0 to 1 or one of the names 'a', 'b'; got 2.
    """
    if isinstance(value, str) and names is not None and value in names:
        return list(names).index(value)
    if _is_whole(value) and -n <= int(value) < n:
        return int(value) % n
    named = [] if names is None else list(map(repr, names[:8])) + ["..."] * (len(names) > 8)
    known = f" or one of the names {', '.join(named)}" if named else ""
    raise ValueError(f"{what} must be a place from 0 to {n - 1}{known}; got {brief(value)}.")


def yes_no(name: str, value: object) -> bool:
    """Return True or False, of Python or of NumPy, as a bool, or raise."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False; got {brief(value)}.")
    return bool(value)


def is_auto(value: object) -> bool:
    """Return whether a value is 'auto'."""
    return isinstance(value, str) and value == "auto"


def yes_no_auto(name: str, value: object) -> Any:
    """Return True, False or 'auto', or raise."""
    if not (isinstance(value, (bool, np.bool_)) or is_auto(value)):
        raise ValueError(f"{name} must be True, False or 'auto'; got {brief(value)}.")
    return value


def per_layer(name: str, value: object, depth: int) -> list[Any]:
    """Return one value per layer, from a sequence of as many values or one value for all."""
    single = isinstance(value, (str, bytes)) or (isinstance(value, np.ndarray) and (value.ndim != 1 or depth == 1))
    if single or not isinstance(value, (Sequence, np.ndarray)):
        return [value] * depth
    if len(value) != depth:
        raise ValueError(
            f"{name} must have one entry per layer ({depth} here) or be a single value; got {len(value)} entries: "
            f"{brief(value)}."
        )
    return list(value)


def file_path(name: str, value: object) -> Path:
    """Return the name of a file as a path, or raise.

    >>> file_path("path", 3)
    Traceback (most recent call last):
    ...
    TypeError: path must be the name of a file, as text or a pathlib.Path; got 3.
    """
    if not isinstance(value, (str, os.PathLike)) or not isinstance(os.fspath(value), str):
        raise TypeError(f"{name} must be the name of a file, as text or a pathlib.Path; got {brief(value)}.")
    try:
        longest = max((len(os.fsencode(part)) for part in Path(value).parts), default=0)
    except UnicodeEncodeError:  # half of a pair of characters, which no name has
        longest = 256
    if not os.fspath(value) or "\0" in os.fspath(value) or longest > 255:
        raise ValueError(f"{name} must be the name of a file, of 1 to 255 bytes; got {brief(os.fspath(value))}.")
    return Path(value)


def check_given(estimator: object, y: object) -> None:
    """Refuse a fit without targets, in scikit-learn's words."""
    if y is None:
        raise ValueError(f"{type(estimator).__name__} requires y to be passed, but the target y is None.")


def as_numbers(name: str, values: object) -> NDArray[Any]:
    """Return values as float64, or as scikit-learn's checks convert them; masked values become NaN. Words, dates, and
    numbers that float64 does not hold are refused.

    >>> as_numbers("y", ["a", "b"])
    Traceback (most recent call last):
    ...
    ValueError: y must be numbers; got ['a', 'b'].
    >>> as_numbers("y", np.full(9, np.longdouble("1e400")))
    Traceback (most recent call last):
    ...
    ValueError: y must be numbers that float64 holds, which end at 1.8e308; got an array of shape (9,).
    """
    if isinstance(values, np.ma.MaskedArray) and values.dtype.kind in "fiub":
        return np.ma.filled(values.astype(np.float64), np.nan)
    if issparse(values):
        raise ValueError(f"{name} must be numbers in a dense array, and no sparse one; got {brief(values)}.")
    try:
        array = np.asarray(values)
    except Exception:  # rows of different lengths, and whatever an object raises that is asked for its numbers
        raise ValueError(f"{name} must be an array of numbers, its rows of one length; got {brief(values)}.") from None
    if array.dtype.kind in "biuc":
        return array
    words = array.dtype.kind == "O" and any(isinstance(x, (str, bytes)) for x in array.flat)
    result = np.array(np.nan)
    if array.dtype.kind in "fO" and not words:
        try:
            with np.errstate(over="ignore"):
                result = array.astype(np.float64)
        except (TypeError, ValueError, OverflowError):
            words = True
    if words or array.dtype.kind not in "fO":
        raise ValueError(f"{name} must be numbers; got {brief(values)}.")
    if array.dtype.itemsize > 8 and (np.isinf(result) & ~np.isinf(array)).any():
        raise ValueError(f"{name} must be numbers that float64 holds, which end at 1.8e308; got {brief(values)}.")
    return result if array.dtype.kind == "O" or array.dtype.itemsize > 8 else array


def check_table(X: object) -> Any:
    """Return X if it may be a table, an array or rows of one length. The rest is left to scikit-learn's checks.

    >>> check_table("a.csv")
    Traceback (most recent call last):
    ...
    TypeError: X must be a table, an array or a frame of rows and columns; got 'a.csv'.
    """
    wrong = TypeError(f"X must be a table, an array or a frame of rows and columns; got {brief(X)}.")
    if isinstance(X, np.matrix):
        return np.asarray(X)
    if isinstance(X, (list, tuple)):
        lengths = {len(row) if isinstance(row, (list, tuple, np.ndarray)) and np.ndim(row) else -1 for row in X}
        if len(lengths) > 1 or (lengths == {-1} and not all(isinstance(x, Real) for x in X)):
            raise wrong
    elif isinstance(shape := getattr(X, "shape", None), tuple):
        if len(shape) < 2 and getattr(getattr(X, "dtype", None), "kind", "O") not in "fiubc":
            raise wrong
    elif isinstance(X, (memoryview, bytearray)) or not hasattr(X, "__array__"):
        raise wrong
    return X


def check_different_names(X: object) -> None:
    """Refuse a frame of pandas with two columns of one name, which no other library has."""
    columns = getattr(X, "columns", None)
    if not getattr(columns, "is_unique", True):
        twice = columns[columns.duplicated()][0]  # type: ignore[index,union-attr]
        raise ValueError(f"Columns must have different names; got {brief(twice)} more than once.")


def check_some_rows(X: object) -> None:
    """Refuse what has no rows before anything is asked about them; words are rows for estimators that take them."""
    check_different_names(X)
    if X is None or isinstance(X, (str, bytes)) or type(X) in (dict, set) or (isinstance(X, (list, tuple)) and not X):
        raise ValueError(f"X must have at least one row; got {brief(X)}.")


def as_targets(y: object, at_least: int = 1) -> Array:
    """Return targets as finite numbers, (n,) or (n, k)."""
    Y: Array = check_array(
        as_numbers("y", y), ensure_2d=False, dtype=np.float64, ensure_min_samples=at_least, input_name="y"
    )
    return Y


def array_of(name: str, values: object, wanted: str, *shapes: tuple[int | None, ...]) -> Array:
    """Return real numbers, possibly infinite or missing, of one of these shapes; None is any length.

    >>> array_of("interval", [1, 2], "two ends per row", (None, 2))
    Traceback (most recent call last):
    ...
    ValueError: interval must be two ends per row, shape (n, 2); got shape (2,).
    """
    array = as_numbers(name, values)
    if array.dtype.kind == "c":
        raise ValueError(f"{name} must be real numbers in an array; got {brief(values)}.")

    def fits(shape: tuple[int | None, ...]) -> bool:
        pairs = zip(shape, array.shape, strict=False)
        return len(shape) == array.ndim and all(own in (None, there) for own, there in pairs)

    if not any(map(fits, shapes)):
        said = " or ".join(str(tuple(shape)).replace("None", "n") for shape in shapes)
        raise ValueError(f"{name} must be {wanted}, shape {said}; got shape {array.shape}.")
    return np.asarray(array, np.float64)


def finite_array(name: str, values: object, wanted: str, *shapes: tuple[int | None, ...]) -> Array:
    """Return finite real numbers of one of these shapes."""
    array = array_of(name, values, wanted, *shapes)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite numbers; got NaN or infinity.")
    return array


def named_parameters(call: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Return a constructor, or a class method, whose wrong parameters are told with the name of the class and the
    nearest name there is."""
    own = signature(call)
    names = list(own.parameters)[1:]

    @wraps(call)
    def checked(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the constructor, or raise a TypeError that names the class and the nearest parameter."""
        try:
            own.bind(self, *args, **kwargs)
        except TypeError as wrong:
            unknown = [name for name in kwargs if name not in names]
            near = get_close_matches(unknown[0], names, 1, 0.5) if unknown else []
            hint = f"the nearest is {near[0]!r}." if near else f"its parameters are {', '.join(names)}."
            what = f"has no parameter {unknown[0]!r}" if unknown else f"got wrong arguments, {wrong}"
            name = f"{self.__name__}.{call.__name__}" if isinstance(self, type) else type(self).__name__
            raise TypeError(f"{name} {what}; {hint}") from None
        return call(self, *args, **kwargs)

    return checked


@contextmanager
def all_or_nothing(model: object) -> Iterator[None]:
    """Restore the attributes of the model if the block inside fails or is interrupted.

    >>> from types import SimpleNamespace
    >>> model = SimpleNamespace(fitted=1)
    >>> with all_or_nothing(model):
    ...     model.fitted, model.half = 2, True
    ...     raise RuntimeError("the cluster was lost")
    Traceback (most recent call last):
    ...
    RuntimeError: the cluster was lost
    >>> model
    namespace(fitted=1)
    """
    before = dict(vars(model))
    try:
        yield
    except BaseException:
        vars(model).clear()
        vars(model).update(before)
        raise


def as_splitter(cv: object, others: str) -> Any:
    """Return `cv` as a number of folds, a splitter or a list of splits; messages name `others` as allowed, too."""
    if isinstance(cv, Integral) and not isinstance(cv, (bool, np.bool_)):
        return whole("cv as a number of folds", cv, 2)
    if hasattr(cv, "split") and hasattr(cv, "get_n_splits"):
        return cv
    try:
        pairs = list(cv) if isinstance(cv, Iterable) and not isinstance(cv, (str, bytes)) else []
    except TypeError:  # no iterable, or an array without a dimension
        pairs = []
    if not pairs or not all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in pairs):
        raise ValueError(
            f"cv must be {others}, a number of folds, a splitter or an iterable of splits; got {brief(cv)}."
        )
    return pairs
