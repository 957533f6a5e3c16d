"""Labels that put rows into groups."""

from typing import Any

import numpy as np

from ._types import Array, IntArray


def groups_of(labels: Any, n: int, name: str = "groups") -> tuple[Array, IntArray]:
    """Distinct labels, and the place of every row's label among them.

    >>> groups_of(["b", "a", "b"], 3)[1].tolist()
    [1, 0, 1]
    >>> groups_of([1.0, float("nan")], 2)
    Traceback (most recent call last):
    ...
    ValueError: groups must be labels of one kind, all strings or all numbers, none missing; row 1 has none.
    """
    # A list is looked at as objects first: NumPy turns a gap beside strings into the string "nan".
    given = labels if isinstance(labels, np.ndarray) else np.asarray(labels, dtype=object)
    if given.shape != (n,):
        raise ValueError(f"{name} must have one label per row, shape ({n},); got shape {given.shape}.")
    kind = f"{name} must be labels of one kind, all strings or all numbers, none missing"
    for row, label in enumerate(given if given.dtype.kind in "OfcmM" else ()):
        if _is_missing(label):
            raise ValueError(f"{kind}; row {row} has none.")
    try:
        values, place = np.unique(np.asarray(labels), return_inverse=True)
    except TypeError as mixed:
        kinds = ", ".join(sorted({type(label).__name__ for label in given}))
        raise ValueError(f"{kind}; got {kinds}.") from mixed
    return values, place


def _is_missing(label: Any) -> bool:
    """None, NaN, NaT or pandas' NA, which has no truth value."""
    try:
        return label is None or bool(label != label)
    except (TypeError, ValueError):
        return True
