"""Folds, weights and targets of rows: a splitter becomes the number of a part for every row, and weights and targets
are checked, here and nowhere else.

Samples, parts and folds that no splitter gives are chosen by hashes of the content of rows: the same rows are chosen
whatever the blocks, files or workers they come from, and equal rows are chosen together.
"""

from collections.abc import Iterable
from hashlib import blake2b
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import check_cv
from sklearn.model_selection._split import GroupsConsumerMixin, _UnsupportedGroupCVMixin
from sklearn.utils import check_array

from .._types import Array, IntArray
from ..runtime.checks import as_numbers, brief
from ..runtime.sizes import LARGEST_WEIGHT, LEAST_WEIGHT, LOST_WEIGHT
from .tables.cells import RawColumn, Table, is_dates, is_words
from .tables.columns import distinct

NO_TARGET = "The table has no target; name it, as in open_table(path, target='price'), or pass y."
Hashes = NDArray[np.uint64]
_ODD = 0x9E3779B97F4A7C15


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


def checked_weights(sample_weight: ArrayLike | None, n: int) -> Array | None:
    """Return sample weights as an array of n numbers, none negative, of a size whose sums neither overflow nor vanish.

    Only ratios of weights matter, save that whole weights are numbers of copies. Weights of an ordinary size are left
    as they are; where the largest is above 2^53, from where on not every whole number is one, or below 1e-100, all are
    divided by it. Weights below 1e-30 of the largest count as zero.

    >>> checked_weights([3, 1, 0], 3).tolist()
    [3.0, 1.0, 0.0]
    >>> checked_weights([1e306, 5e305, 1e-300], 3).tolist()
    [1.0, 0.5, 0.0]
    """
    weights = given_weights(sample_weight, n)
    return (
        None if weights is None else np.where(weights < LOST_WEIGHT * weights.max(), 0.0, weights / scale_of(weights))
    )


def given_weights(sample_weight: ArrayLike | None, n: int) -> Array | None:
    """Return sample weights as an array of n numbers, none negative, as they are."""
    if sample_weight is None:
        return None
    if isinstance(sample_weight, Real):
        sample_weight = np.full(n, sample_weight)
    given = as_numbers("sample_weight", sample_weight)
    weights: Array = check_array(given, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
    if weights.shape != (n,):
        raise ValueError(f"sample_weight must have one entry per row, shape ({n},); got shape {weights.shape}.")
    if (weights < 0).any():
        raise ValueError(f"Sample weights must not be negative; the smallest is {weights.min():.3g}.")
    return weights


def scale_of(weights: Array) -> float:
    """Return the number by which weights are divided to be of an ordinary size: the largest, or 1 where that is
    ordinary or zero."""
    largest = float(weights.max(initial=0.0))
    return 1.0 if largest == 0 or LEAST_WEIGHT <= largest <= LARGEST_WEIGHT else largest


def checked_targets(Y: ArrayLike) -> Array:
    """Return the targets of a block as finite numbers (n, k)."""
    result = np.asarray(Y, np.float64)
    if np.isnan(result).any():
        raise ValueError("Input y contains NaN; every row needs a target that is a number.")
    if not np.isfinite(result).all():
        raise ValueError("Input y contains infinity; every row needs a target that is a number.")
    return result.reshape(len(result), -1)


def check_predicted(Y: Array, f: Array) -> None:
    """Refuse targets of a block that are none, or not as many as a model predicts."""
    if not Y.shape[1]:
        raise ValueError(NO_TARGET)
    if Y.shape[1] != f.shape[1]:
        raise ValueError(
            f"Targets must be those that the model predicts, which are {f.shape[1]}; got {Y.shape[1]} of every row."
        )


def checked_block_weights(weights: ArrayLike | None, n: int) -> Array:
    """Return the weights of a block, which are finite numbers, none negative."""
    if weights is None:
        return np.ones(n)
    result = np.asarray(weights, np.float64)
    if not np.isfinite(result).all() or (result < 0).any():
        raise ValueError("Sample weights must be finite numbers, none negative.")
    return result


def mixed(columns: Iterable[Hashes], n: int, salt: int) -> Hashes:
    """Return hashes of n rows by the numbers of their columns (the finaliser constants are those of the splitmix64
    generator)."""
    h = np.full(n, (_ODD * (2 * salt + 1)) % 2**64, np.uint64)
    for column in columns:
        h ^= column
        h *= np.uint64(0xBF58476D1CE4E5B9)
        h ^= h >> np.uint64(29)
        h *= np.uint64(0x94D049BB133111EB)
        h ^= h >> np.uint64(32)
    return h


def row_hashes(table: Table, Y: Array, seed: int) -> Hashes:
    """Return a hash of every row with its targets, which depends on its content and not on its place."""
    return mixed(map(bits, (*table.columns, *Y.T)), len(Y), seed)


def parts(hashes: Hashes, n_parts: int) -> NDArray[np.intp]:
    """Return the part that every row belongs to, of `n_parts` parts of about equal size."""
    return (hashes % np.uint64(n_parts)).astype(np.intp)


def bits(column: RawColumn) -> Hashes:
    """Return the bits of numbers, of both zeros the positive one, and of dates, and hashes of words; all missing values
    of a column have the same number."""
    if is_words(column):
        words, place = distinct(column)
        return np.array([_of_word(word) for word in words], np.uint64)[place]
    if is_dates(column):
        return column.astype("datetime64[us]").view(np.uint64)
    return np.where(np.isnan(column), np.nan, column + 0.0).astype(np.float64).view(np.uint64)


def _of_word(word: str | None) -> int:
    return 0 if word is None else int.from_bytes(blake2b(word.encode(), digest_size=8).digest(), "little")
