"""Checks of arguments, each with one sentence that says what was got and what would be right."""

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np


def number(
    name: str, value: Any, *, above: float = -np.inf, at_least: float = -np.inf, below: float = np.inf, words: str = ""
) -> float:
    """A finite number within its limits.

    >>> number("tol", float("nan"), at_least=0)
    Traceback (most recent call last):
    ...
    ValueError: tol must be a finite number of at least 0; got nan.
    """
    valid = isinstance(value, Real) and not isinstance(value, (bool, np.bool_)) and bool(np.isfinite(float(value)))
    if not (valid and above < float(value) < below and float(value) >= at_least):
        limits = [
            f"above {above:g}" if above > -np.inf else "",
            f"of at least {at_least:g}" if at_least > -np.inf else "",
            f"below {below:g}" if below < np.inf else "",
        ]
        wanted = words or " ".join(["a finite number", " and ".join(limit for limit in limits if limit)]).rstrip()
        raise ValueError(f"{name} must be {wanted}; got {value!r}.")
    return float(value)


def whole(name: str, value: Any, at_least: int = 1) -> int:
    """A whole number of at least so much.

    >>> whole("patience", 0)
    Traceback (most recent call last):
    ...
    ValueError: patience must be a whole number of at least 1; got 0.
    """
    if not isinstance(value, Integral) or isinstance(value, (bool, np.bool_)) or int(value) < at_least:
        raise ValueError(f"{name} must be a whole number of at least {at_least}; got {value!r}.")
    return int(value)


def is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def yes_no_auto(name: str, value: Any) -> Any:
    if not (isinstance(value, (bool, np.bool_)) or is_auto(value)):
        raise ValueError(f"{name} must be True, False or 'auto'; got {value!r}.")
    return value


def per_layer(name: str, value: Any, depth: int) -> list[Any]:
    """One value per layer: a sequence of as many values, or one value for all."""
    if (isinstance(value, Sequence) and not isinstance(value, str)) or (np.ndim(value) == 1 and depth > 1):
        if len(value) != depth:
            raise ValueError(
                f"{name} must have one entry per layer ({depth} here) or be a single value; got {len(value)} entries: "
                f"{value!r}."
            )
        return list(value)
    return [value] * depth


def check_given(estimator: Any, y: Any) -> None:
    """Refuse a fit without targets, in scikit-learn's words."""
    if y is None:
        raise ValueError(f"{type(estimator).__name__} requires y to be passed, but the target y is None.")
