"""When a fit that was given some seconds has to end: climbs look at it and stay where they are.

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
    """Of the search, and of the fit, by `perf_counter`."""

    search: float = inf
    fit: float = inf


_CURRENT: ContextVar[Deadline] = ContextVar("deadline", default=Deadline())  # noqa: B039, a frozen dataclass


@contextmanager
def ending(deadline: Deadline) -> Iterator[None]:
    """Work inside ends by then, as far as it can."""
    token = _CURRENT.set(deadline)
    try:
        yield
    finally:
        _CURRENT.reset(token)


@contextmanager
def without_search_end() -> Iterator[None]:
    """A search inside has what is left of the fit's time."""
    with ending(Deadline(_CURRENT.get().fit, _CURRENT.get().fit)):
        yield


def search_is_late() -> bool:
    """Whether a search should end with what it has."""
    end = _CURRENT.get().search
    return end < inf and perf_counter() > end


def fit_is_late() -> bool:
    """Whether nothing that can be left away should be begun."""
    end = _CURRENT.get().fit
    return end < inf and perf_counter() > end
