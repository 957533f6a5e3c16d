"""The training rows that the choices of a fit have seen, which are the rows whose targets a choice depends on.

Training rows are in an order unrelated to their values, and searches look at rows that lie next to each other in it, so
that a few ranges tell it all. Coefficients depend on every row and are no choice.
"""

from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from .._types import BoolArray

Choice = Literal["inputs", "kernels", "variances", "noise", "transform", "shares"]
CHOICES: tuple[Choice, ...] = get_args(Choice)


@dataclass(frozen=True)
class Seen:
    """Ranges of the distinct training rows, in their order, that each kind of choice has seen.

    Where rows are out of memory, they are ranges of the sample that the search is given; a range that goes beyond it is
    that of all rows. `noise` is the noise variance, or the penalty that stands for it.

    Examples
    --------
    >>> seen = Seen().by("kernels", 0, 3).by("noise", 4, 9)
    >>> seen.mask(6)
    array([ True,  True,  True, False,  True,  True])
    >>> seen.mask(6, "noise")
    array([False, False, False, False,  True,  True])
    """

    ranges: dict[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)

    def by(self, choice: Choice, begin: int, end: int) -> "Seen":
        """Return the ranges with one more, which this kind of choice has seen."""
        return self.joined(Seen({choice: ((begin, end),)}))

    def joined(self, other: "Seen") -> "Seen":
        """Return the ranges of both."""
        names = {**self.ranges, **other.ranges}
        both = {name: self.ranges.get(name, ()) + other.ranges.get(name, ()) for name in names}
        return Seen({name: tuple(dict.fromkeys(ranges)) for name, ranges in both.items()})

    def mask(self, n: int, *choices: Choice) -> BoolArray:
        """Return which of n rows any of these kinds of choice has seen; of all kinds, if none is named."""
        mask = np.zeros(n, bool)
        for choice in choices or CHOICES:
            for begin, end in self.ranges.get(choice, ()):
                mask[begin:end] = True
        return mask
