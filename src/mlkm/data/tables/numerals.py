"""Numbers inside words: of levels such as "1197 CC", "2h 50m" or "190Nm@ 2000rpm" the first, second and third number.

A number is read where most levels say the same before it: names that hold numbers are left alone, and so are numbers
with leading zeros, which are names ("C-0448"), but for those of two digits ("07:05"), and numbers of many digits.
Levels then have an order beside their names, and a new level has a place among the others.
"""

import re
from collections import Counter

import numpy as np

from ..._types import Array

Numeral = tuple[str, float]  # what stands before a number that is read, and the median of the numbers

_NUMERAL = re.compile(r"(?<!\S)[-\u2212]?\d+(?:\.\d+)?|\d+(?:\.\d+)?")  # with a sign where a word begins with it
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_NAME = re.compile(r"[-\u2212]?(0\d\d|\d{16})")
_PLACES = 3  # numbers of a level that are read
_SHARE = 0.5  # of the levels that say the same before a number
_LEAST_VALUES = 3  # different numbers that a place must have: two are told apart as levels


def numerals(level: str) -> list[tuple[str, str]]:
    """The numbers in a word, at most three, each with what comes before it, numbers there as #.

    >>> numerals("2h 50m"), numerals("1,234.5 CC"), numerals("-3 C"), numerals("red")
    ([('', '2'), ('#h ', '50')], [('', '1234.5')], [('', '-3')], [])
    """
    level = _THOUSANDS.sub("", level)
    found = list(_NUMERAL.finditer(level))[:_PLACES]
    return [(_NUMERAL.sub("#", level[: one.start()]), one.group().replace("\u2212", "-")) for one in found]


def numerals_of(levels: list[str]) -> tuple[Numeral, ...]:
    """What stands before every number that is to be read, and the median of these numbers."""
    found = [numerals(level) for level in levels]
    result: list[Numeral] = []
    for place in range(_PLACES):
        here = [own[place] for own in found if len(own) > place]
        before, alike = Counter(said for said, _ in here).most_common(1)[0] if here else ("", 0)
        values = [value for said, value in here if said == before]
        named = any(_NAME.match(value) for value in values)
        if alike < _SHARE * len(levels) or named or len(set(values)) < _LEAST_VALUES:
            break
        result.append((before, float(np.median([float(value) for value in values]))))
    return tuple(result)


def numbers_of(levels: list[str | None], read: tuple[Numeral, ...]) -> Array:
    """The numbers at those places (levels, places), the median where a level has none, or says something else before
    it."""
    result = np.tile(np.array([middle for _, middle in read]), (len(levels), 1))
    for k, level in enumerate(levels):
        own = [] if level is None else numerals(level)
        for place, ((before, _), (said, value)) in enumerate(zip(read, own, strict=False)):
            if said == before and not _NAME.match(value):
                result[k, place] = float(value)
    return result
