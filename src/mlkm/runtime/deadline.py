"""Deadlines of fits that were given a number of seconds: an optimisation that is late stops where it is.

A search ends earlier than the fit, so that there is time for what comes after it. The context knows both, and goes
along into the threads of a fit (`mlkm.runtime.threads`). Without a deadline nothing is ever late.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from math import inf
from time import perf_counter


@dataclass(frozen=True)
class Deadline:
    """The times, by `perf_counter`, at which the search and the whole fit should be over."""

    search: float = inf
    fit: float = inf


_CURRENT: ContextVar[Deadline] = ContextVar("deadline", default=Deadline())  # noqa: B039, a frozen dataclass


@contextmanager
def ending(deadline: Deadline) -> Iterator[None]:
    """Set the deadline of the work inside."""
    token = _CURRENT.set(deadline)
    try:
        yield
    finally:
        _CURRENT.reset(token)


@contextmanager
def without_search_end() -> Iterator[None]:
    """Give a search inside all the time that is left of the fit."""
    with ending(Deadline(_CURRENT.get().fit, _CURRENT.get().fit)):
        yield


def search_is_late() -> bool:
    """Return whether a search should end with what it has."""
    end = _CURRENT.get().search
    return end < inf and perf_counter() > end


def fit_is_late() -> bool:
    """Return whether no optional work should be started."""
    end = _CURRENT.get().fit
    return end < inf and perf_counter() > end
