"""Checks that a value has the type of an annotation, and that the shapes of arrays agree."""

from collections.abc import Sequence
from functools import cache
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

_KINDS = {np.floating: "f", np.integer: "iu", np.bool_: "b", np.str_: "U", np.object_: "O"}


@cache
def hints_of(cls: type) -> dict[str, Any]:
    """Return the annotations of a class and of its base classes."""
    return get_type_hints(cls)


def fits(value: Any, hint: Any) -> bool:
    """Whether a value has the type of an annotation, nested values included.

    >>> fits((1.0, None), tuple[float, int | None]), fits([1, "a"], list[int]), fits(True, int)
    (True, False, False)
    """
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


def _all_fit(values: Sequence[Any], hints: Sequence[Any]) -> bool:
    return len(values) == len(hints) and all(fits(one, hint) for one, hint in zip(values, hints, strict=True))


def _is_of_kind(array: Any, scalar: Any) -> bool:
    kinds = next((kind for base, kind in _KINDS.items() if isinstance(scalar, type) and issubclass(scalar, base)), "")
    if array.dtype.kind == "O":
        return kinds in ("", "O") and all(fits(one, str | float | bool | None) for one in array.ravel())
    return array.dtype.kind in (kinds or "biufUM")


def _is_instance(value: Any, hint: Any) -> bool:
    truth = isinstance(value, (bool, np.bool_))
    if hint in (None, NoneType):
        return value is None
    if hint in (int, float):
        return not truth and isinstance(value, Integral if hint is int else Real)
    return truth if hint is bool else isinstance(value, hint)


def agree(obj: Any, shapes: dict[str, str]) -> bool:
    """Whether every array has as many axes as letters, and axes of the same letter have the same length. None, for no
    array, and a number, for an array of equal entries, have any shape."""
    lengths: dict[str, int] = {}
    for name, letters in shapes.items():
        value = getattr(obj, name)
        if isinstance(value, (np.ndarray, tuple)):
            sides = value.shape if isinstance(value, np.ndarray) else (len(value),)
            if len(sides) != len(letters):
                return False
            for letter, side in zip(letters, sides, strict=True):
                if lengths.setdefault(letter, side) != side:
                    return False
    return True
