"""The one place where a splitter becomes a part number per row."""

from typing import Any

import numpy as np
from sklearn.model_selection import check_cv
from sklearn.model_selection._split import GroupsConsumerMixin, _UnsupportedGroupCVMixin

from .._types import Array, IntArray


def folds_of(cv: Any, X: Array, y: Array) -> IntArray | None:
    """The part of every row under a splitter: the number of the test fold it is in; None where there is no splitter."""
    if cv is None or (isinstance(cv, str) and cv == "rotate"):
        return None
    if isinstance(cv, str):
        raise ValueError(
            f"cv must be None, 'rotate', a number of folds, a splitter or an iterable of splits; got {cv!r}."
        )
    return splits_of(cv, X, y)[0]


def parts_elsewhere(cv: Any, depth: int) -> int | None:
    """The number of parts of rows that are seen a piece at a time, 0 where they are not split; None for a splitter,
    which has to see all rows."""
    if cv is None:
        return 0
    if isinstance(cv, str) and cv == "rotate":
        return depth
    return int(cv) if isinstance(cv, (int, np.integer)) and cv >= 2 else None


def splits_of(cv: Any, X: Any, y: Array, groups: Any = None) -> tuple[IntArray, list[IntArray]]:
    """The number of the test fold of every row, and the training rows that the splitter has for each fold; `groups` are
    for splitters that look at them."""
    n, splitter = len(y), check_cv(cv)
    fold, training = np.full(n, -1, dtype=np.intp), []
    for k, (train, test) in enumerate(splitter.split(X, y, groups_for(splitter, groups))):
        train, test = (np.arange(n)[rows] for rows in (train, test))  # masks and lists of rows too
        if (fold[test] >= 0).any():
            raise ValueError(f"The test folds of cv must not overlap; fold {k} shares rows with an earlier one.")
        fold[test] = k
        training.append(train)
    if (fold < 0).any():
        raise ValueError(f"The test folds of cv must cover every row; {int((fold < 0).sum())} of {n} rows are in none.")
    return fold, training


def keeps_groups_together(cv: Any) -> bool:
    """Whether a splitter needs groups to make its folds, as scikit-learn's GroupKFold does."""
    return isinstance(cv, GroupsConsumerMixin)


def groups_for(cv: Any, groups: Any) -> Any:
    """The groups, for a splitter that looks at them; scikit-learn's others warn that they do not."""
    return None if isinstance(check_cv(cv), _UnsupportedGroupCVMixin) else groups
