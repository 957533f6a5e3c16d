"""Dates as inputs: days since 1970 for a trend, and a place on the circle of the year, the week and the day."""

import numpy as np

from ..._types import Array
from .cells import RawColumn

CYCLES = {"year": 365.2425, "week": 7.0, "day": 1.0}  # in days
DIGITS = 9  # of a place on a circle: the same hour of two days differs in later ones, and ranks would tell them apart


def days(column: RawColumn) -> Array:
    """Since 1970; NaN where missing."""
    missing = np.isnat(column)
    whole = column.astype("datetime64[us]").astype(np.int64) / 86_400e6
    return np.where(missing, np.nan, whole)


def cycles_of(day: Array) -> tuple[str, ...]:
    """Those that the dates tell something of: a year if they span most of one, a week or a day if they are at several
    places in it."""
    day = day[np.isfinite(day)]
    if not len(day):
        return ()
    found = ["year"] if np.ptp(day) > 300 else []
    found += ["week"] if len(np.unique(np.floor(day) % 7)) > 1 and np.ptp(day) > 14 and _by_the_day(day) else []
    return (*found, "day") if len(np.unique(np.round(day % 1, 4))) > 1 else tuple(found)


def _by_the_day(day: Array) -> bool:
    """Whether dates are finer than months: of dates that are all firsts of a month the weekday says nothing."""
    dates = np.floor(day).astype(np.int64).astype("datetime64[D]")
    return len(np.unique((dates - dates.astype("datetime64[M]")).astype(np.int64))) > 1


def on_circle(day: Array, cycle: str) -> tuple[Array, Array]:
    """Cosine and sine of the place in a cycle."""
    angle: Array = 2 * np.pi * np.fmod(day, CYCLES[cycle]) / CYCLES[cycle]
    return np.asarray(np.cos(angle).round(DIGITS)), np.asarray(np.sin(angle).round(DIGITS))
