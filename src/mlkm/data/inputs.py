"""The kinds of the inputs of a fit, which are numbers, levels of a category or coordinates of the text of levels, and
the weights of rows as the user gives them.

A level is a whole number that says only whether two rows have the same one; -1 is a level that no training row has. A
column of a table may have several inputs: a number and whether it is missing, a category and the text of its levels.
"""

from dataclasses import dataclass
from functools import cached_property
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array

from .._types import Array, BoolArray, IntArray
from ..runtime.checks import as_numbers

NUMBER, LEVEL, TEXT = 0, 1, 2
_LARGEST, _LEAST = 2.0**53, 1e-100  # of the largest weight, outside which all are divided by it
_NOTHING = 2.0**-100  # of the largest weight: below it a row changes no sum, in single precision not even as a number


@dataclass(frozen=True)
class Inputs:
    """The kind of every input, and the column that it belongs to."""

    kinds: IntArray
    owners: IntArray

    @classmethod
    def numbers_only(cls, d: int) -> "Inputs":
        """Return d inputs that are numbers, each of its own column."""
        return cls(np.zeros(d, np.intp), np.arange(d))

    @cached_property
    def levels(self) -> BoolArray:
        """Return which inputs are levels."""
        return np.asarray(self.kinds == LEVEL)

    @cached_property
    def numbers(self) -> BoolArray:
        """Return which inputs are numbers."""
        return np.asarray(self.kinds == NUMBER)

    @cached_property
    def texts(self) -> BoolArray:
        """Return which inputs are coordinates of text."""
        return np.asarray(self.kinds == TEXT)

    @property
    def plain(self) -> bool:
        """Return whether all inputs are numbers."""
        return bool(self.numbers.all())

    def of(self, kept: IntArray) -> "Inputs":
        """Return the inputs at these places."""
        return Inputs(self.kinds[kept], self.owners[kept])


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
    return None if weights is None else np.where(weights < _NOTHING * weights.max(), 0.0, weights / scale_of(weights))


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
    return 1.0 if largest == 0 or _LEAST <= largest <= _LARGEST else largest


def checked_targets(Y: ArrayLike) -> Array:
    """Return the targets of a block as finite numbers (n, k)."""
    result = np.asarray(Y, np.float64)
    if np.isnan(result).any():
        raise ValueError("Input y contains NaN; every row needs a target that is a number.")
    if not np.isfinite(result).all():
        raise ValueError("Input y contains infinity; every row needs a target that is a number.")
    return result.reshape(len(result), -1)


NO_TARGET = "The table has no target; name it, as in open_table(path, target='price'), or pass y."


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
