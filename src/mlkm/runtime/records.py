"""Records: dataclasses that a model file holds under plain names.

A file gives the name of a record and the values of its fields, never a class or a module: classes can be renamed and
moved, and a file cannot ask for anything else. Values are checked against the annotations of the fields, and the shapes
of arrays against each other.

>>> from dataclasses import dataclass
>>> @record("pair", first="n", second="n")
... @dataclass(frozen=True)
... class Pair:
...     first: Array
...     second: Array
>>> name, values = to_record(Pair(np.zeros(2), np.zeros(2)))
>>> name, list(values)
('pair', ['first', 'second'])
>>> from_record("pair", {"first": np.zeros(2), "second": np.zeros(3)})
Traceback (most recent call last):
...
mlkm.runtime.records.RefusedError: the attributes of a pair are inconsistent with each other
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from .._types import Array

__all__ = ["Array", "RefusedError", "check_values", "fits", "from_record", "is_record", "record", "to_record"]

T = TypeVar("T")
_KINDS = {np.floating: "f", np.integer: "iu", np.bool_: "b", np.str_: "U", np.object_: "O"}


class RefusedError(ValueError):
    """A value or a file is refused; the message is the end of a sentence."""


@dataclass(frozen=True)
class _Form:
    """The name of a class in files, the shapes of its arrays, and a condition that its objects fulfil."""

    cls: type
    name: str
    shapes: Mapping[str, str]
    valid: Callable[[Any], bool]


_BY_CLASS: dict[type, _Form] = {}
_BY_NAME: dict[str, _Form] = {}


def record(name: str, valid: Callable[[Any], bool] | None = None, **shapes: str) -> Callable[[type[T]], type[T]]:
    """Let model files hold the objects of a dataclass.

    Parameters
    ----------
    name : str
        The name in the file, which stays when the class is renamed.
    valid : callable, optional
        Whether an object whose fields are of the right types and shapes is consistent.
    **shapes : str
        One letter for each axis of an array, or for the length of a tuple: axes of the same letter have the same
        length. None, for no array, and a number, for an array of equal entries, have any shape.
    """

    def registered(cls: type[T]) -> type[T]:
        _BY_CLASS[cls] = _BY_NAME[name] = _Form(cls, name, shapes, valid or (lambda obj: True))
        return cls

    return registered


def is_record(obj: object) -> bool:
    """Return whether an object, or the name of a record, is known."""
    return obj in _BY_NAME if isinstance(obj, str) else type(obj) in _BY_CLASS


def to_record(obj: object) -> tuple[str, dict[str, object]]:
    """Return the name of an object's record and the values of its fields, both checked."""
    form = _BY_CLASS[type(obj)]
    state: Any = obj.__getstate__() or {}  # a class may leave out what need not be written
    hints = hints_of(form.cls)
    values = {name: state[name] for name in hints}
    check_values(f"a {form.name}", values, hints, set(hints))
    _check_consistent(form, obj)
    return form.name, values


def from_record(name: str, values: Mapping[str, object]) -> Any:
    """Make the object of a record from the values of its fields; refuse values that no such object has."""
    form = _BY_NAME[name]
    hints = hints_of(form.cls)
    check_values(f"a {name}", values, hints, set(hints))
    obj: object = object.__new__(form.cls)
    vars(obj).update(values)
    _check_consistent(form, obj)
    return obj


def check_values(what: str, values: object, hints: Mapping[str, object], needed: set[str]) -> None:
    """Refuse values that are not named as these hints are, or are of another type; messages call their owner `what`."""
    if type(values) is not dict or not all(type(name) is str for name in values):
        raise RefusedError(f"{what} has a state that is not a dictionary of attributes")
    surplus, missing = [name for name in values if name not in hints], sorted(needed - set(values))
    if surplus or missing:
        words = f"has no attribute {surplus[0]!r:.100}" if surplus else f"needs the attribute {missing[0]!r}"
        raise RefusedError(f"{what} {words}")
    for name, value in values.items():
        if not fits(value, hints[name]):
            plain = fits(value, bool | float | str | None)
            given = repr(value)[:100] if plain else f"of type {type(value).__name__}"
            raise RefusedError(f"the attribute {name!r} of {what} is {given}, which is not allowed")


def _check_consistent(form: _Form, obj: object) -> None:
    if not (_shapes_agree(obj, form.shapes) and form.valid(obj)):
        raise RefusedError(f"the attributes of a {form.name} are inconsistent with each other")


@cache
def hints_of(cls: type) -> dict[str, object]:
    """Return the annotations of a dataclass's fields."""
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in fields(cls)}


def fits(value: object, hint: object) -> bool:
    """Return whether a value has the type of an annotation, nested values included.

    >>> fits((1.0, None), tuple[float, int | None]), fits([1, "a"], list[int]), fits(True, int)
    (True, False, False)
    """
    if isinstance(hint, TypeVar):
        return fits(value, hint.__bound__)
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(fits(value, one) for one in inner)
    if origin is Literal:
        return any(type(value) is type(one) and value == one for one in inner)
    if origin is tuple:
        return type(value) is tuple and _all_fit(value, inner[:1] * len(value) if inner[1:] == (...,) else inner)
    if origin in (list, Sequence):
        return isinstance(value, (list, tuple)) and _all_fit(value, inner * len(value))
    if origin is dict:
        return type(value) is dict and all(fits(k, inner[0]) and fits(v, inner[1]) for k, v in value.items())
    if origin is np.ndarray:
        return type(value) is np.ndarray and _is_of_kind(value, get_args(inner[1])[0])
    if hint is Any or getattr(hint, "_is_protocol", False):  # such values are objects, each checked by its class
        return True
    return _is_instance(value, hint)


def _all_fit(values: Sequence[object], hints: Sequence[object]) -> bool:
    return len(values) == len(hints) and all(fits(one, hint) for one, hint in zip(values, hints, strict=True))


def _is_of_kind(array: NDArray[np.generic], scalar: object) -> bool:
    """Return whether an array holds numbers of the annotated kind, or plain values where it holds objects."""
    kinds = next((kind for base, kind in _KINDS.items() if isinstance(scalar, type) and issubclass(scalar, base)), "")
    if array.dtype.kind == "O":
        return kinds in ("", "O") and all(fits(one, str | float | bool | None) for one in array.ravel())
    return array.dtype.kind in (kinds or "biufUM")


def _is_instance(value: object, hint: object) -> bool:
    """Return whether a value is of a plain class; truth values are no numbers here."""
    truth = isinstance(value, (bool, np.bool_))
    if hint in (None, NoneType):
        return value is None
    if hint in (int, float):
        return not truth and isinstance(value, Integral if hint is int else Real)
    return truth if hint is bool else isinstance(hint, type) and isinstance(value, hint)


def _shapes_agree(obj: object, shapes: Mapping[str, str]) -> bool:
    """Return whether every array has as many axes as letters, and axes of the same letter have the same length."""
    lengths: dict[str, int] = {}
    for name, letters in shapes.items():
        value = getattr(obj, name)
        if isinstance(value, (np.ndarray, tuple)):
            sides = value.shape if isinstance(value, np.ndarray) else (len(value),)
            if len(sides) != len(letters):
                return False
            if any(lengths.setdefault(letter, side) != side for letter, side in zip(letters, sides, strict=True)):
                return False
    return True
