"""What the inputs of a fit are: numbers, levels of a category, or coordinates of the text of levels.

A level is a whole number that says only whether two rows have the same one; -1 is a level that no training row has. A
column of a table may have several inputs: a number and whether it is missing, a category and the text of its levels.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .._types import BoolArray, IntArray

NUMBER, LEVEL, TEXT = 0, 1, 2


@dataclass(frozen=True)
class Inputs:
    """Of every input its kind, and the column that it belongs to."""

    kinds: IntArray
    owners: IntArray

    @classmethod
    def numbers_only(cls, d: int) -> "Inputs":
        return cls(np.zeros(d, np.intp), np.arange(d))

    @cached_property
    def levels(self) -> BoolArray:
        return np.asarray(self.kinds == LEVEL)

    @cached_property
    def numbers(self) -> BoolArray:
        return np.asarray(self.kinds == NUMBER)

    @cached_property
    def texts(self) -> BoolArray:
        return np.asarray(self.kinds == TEXT)

    @property
    def plain(self) -> bool:
        """Whether all of them are numbers."""
        return bool(self.numbers.all())

    def of(self, kept: IntArray) -> "Inputs":
        """Some of them."""
        return Inputs(self.kinds[kept], self.owners[kept])
