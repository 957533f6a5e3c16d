"""Numbers inside words: of levels such as "1197 CC", "2h 50m" or "190Nm@ 2000rpm" the first, second and third number.

A number is read where most levels say the same before it, and differ by what comes after: names that hold numbers are
left alone, and so are numbers with leading zeros, which are names ("C-0448"), but for those of two digits ("07:05").
Levels then have an order beside their names, and a new level has a place among the others.
"""

import re
from collections import Counter

import numpy as np

from .._types import Array

_NUMERAL = re.compile(r"\d+(?:\.\d+)?")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_NAME = re.compile(r"0\d\d")
_PLACES = 3  # numbers of a level that are read
_SHARE = 0.5  # of the levels that say the same before a number
_LEAST_VALUES = 3  # different numbers that a place must have: two are told apart as levels


def numerals(level: str) -> list[tuple[str, str]]:
    """The numbers in a word, at most three, each with what comes before it, numbers there as #.

    >>> numerals("2h 50m"), numerals("1,234.5 CC"), numerals("red")
    ([('', '2'), ('#h ', '50')], [('', '1234.5')], [])
    """
    level = _THOUSANDS.sub("", level)
    found = list(_NUMERAL.finditer(level))[:_PLACES]
    return [(_NUMERAL.sub("#", level[: one.start()]), one.group()) for one in found]


def middles_of(levels: list[str]) -> tuple[float, ...]:
    """For every place at which there are numbers to be read, their median."""
    found = [numerals(level) for level in levels]
    middles: list[float] = []
    for place in range(_PLACES):
        here = [own[place] for own in found if len(own) > place]
        values = [value for _, value in here]
        alike = max(Counter(before for before, _ in here).values(), default=0)
        named = any(_NAME.match(value) for value in values)
        if alike < _SHARE * len(levels) or named or len(set(values)) < _LEAST_VALUES:
            break
        middles.append(float(np.median([float(value) for value in values])))
    return tuple(middles)


def numbers_of(levels: list[str | None], middles: tuple[float, ...]) -> Array:
    """The numbers at those places (levels, places), the median where a level has none."""
    result = np.tile(np.array(middles), (len(levels), 1))
    for k, level in enumerate(levels):
        own = [] if level is None else numerals(level)[: len(middles)]
        result[k, : len(own)] = [float(value) for _, value in own]
    return result
