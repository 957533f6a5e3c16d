"""The one place where a splitter becomes a part number per row."""

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.model_selection import check_cv
from sklearn.model_selection._split import GroupsConsumerMixin, _UnsupportedGroupCVMixin

from .._types import Array, IntArray
from ..runtime.checks import brief, whole


def as_splitter(cv: Any, others: str) -> Any:
    """Return `cv` as a number of folds, a splitter or a list of splits; messages name `others` as allowed, too."""
    if isinstance(cv, Integral) and not isinstance(cv, (bool, np.bool_)):
        return whole("cv as a number of folds", cv, 2)
    if hasattr(cv, "split") and hasattr(cv, "get_n_splits"):
        return cv
    try:
        pairs = [] if isinstance(cv, (str, bytes)) else list(cv)
    except TypeError:  # no iterable, or an array without a dimension
        pairs = []
    if not pairs or not all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in pairs):
        raise ValueError(
            f"cv must be {others}, a number of folds, a splitter or an iterable of splits; got {brief(cv)}."
        )
    return pairs


def splits_of(cv: Any, X: Any, y: Array, groups: Any = None) -> tuple[IntArray, list[IntArray]]:
    """The number of the test fold of every row, and the training rows that the splitter has for each fold; `groups` are
    for splitters that look at them."""
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
    """Whether a splitter needs groups to make its folds, as scikit-learn's GroupKFold does."""
    return isinstance(cv, GroupsConsumerMixin)


def groups_for(cv: Any, groups: Any) -> Any:
    """The groups, for a splitter that looks at them; scikit-learn's others warn that they do not."""
    return None if isinstance(check_cv(cv), _UnsupportedGroupCVMixin) else groups
