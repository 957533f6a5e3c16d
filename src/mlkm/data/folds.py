"""Folds: a splitter becomes the number of a part for every row here, and nowhere else."""

from typing import Any

import numpy as np
from sklearn.model_selection import check_cv
from sklearn.model_selection._split import GroupsConsumerMixin, _UnsupportedGroupCVMixin

from .._types import Array, IntArray
from ..runtime.checks import brief


def splits_of(cv: Any, X: Any, y: Array, groups: Any = None) -> tuple[IntArray, list[IntArray]]:
    """Return the number of the test fold of every row, and the training rows that the splitter has for each fold;
    `groups` are for splitters that look at them."""
    n, splitter = len(y), check_cv(cv)
    fold, training = np.full(n, -1, dtype=np.intp), []
    for k, (train, test) in enumerate(splitter.split(X, y, groups_for(splitter, groups))):
        try:
            train, test = (np.arange(n)[rows] for rows in (train, test))  # masks and lists of rows are allowed, too
        except (IndexError, TypeError, ValueError):
            raise ValueError(f"cv must give rows from 0 to {n - 1} for every fold; got {brief(test)}.") from None
        if (fold[test] >= 0).any():
            raise ValueError(f"The test folds of cv must not overlap; fold {k} shares rows with an earlier one.")
        fold[test] = k
        training.append(train)
    if (fold < 0).any():
        raise ValueError(f"The test folds of cv must cover every row; {int((fold < 0).sum())} of {n} rows are in none.")
    return fold, training


def keeps_groups_together(cv: Any) -> bool:
    """Return whether a splitter needs groups to make its folds, as scikit-learn's GroupKFold does."""
    return isinstance(cv, GroupsConsumerMixin)


def groups_for(cv: Any, groups: Any) -> Any:
    """Return the groups, or None for those splitters of scikit-learn that would warn that they do not look at
    groups."""
    return None if isinstance(check_cv(cv), _UnsupportedGroupCVMixin) else groups
