"""The one place where a splitter becomes a part number per row."""

from typing import Any

import numpy as np
from sklearn.model_selection import check_cv

from .._types import Array, IntArray


def folds_of(cv: Any, X: Array, y: Array) -> IntArray | None:
    """The part of every row under a splitter: the number of the test fold it is in; None where there is no splitter."""
    if cv is None or (isinstance(cv, str) and cv == "rotate"):
        return None
    if isinstance(cv, str):
        raise ValueError(
            f"cv must be None, 'rotate', a number of folds, a splitter or an iterable of splits; got {cv!r}."
        )
    fold = np.full(len(X), -1, dtype=np.intp)
    for k, (_, test) in enumerate(check_cv(cv).split(X, y)):
        if (fold[test] >= 0).any():
            raise ValueError(f"The test folds of cv must not overlap; fold {k} shares rows with an earlier one.")
        fold[test] = k
    if (fold < 0).any():
        raise ValueError(
            f"The test folds of cv must cover every row; {int((fold < 0).sum())} of {len(X)} rows are in none."
        )
    return fold
