"""The progress of a fit, reported in stages to a listener, and its deadline.

    with stage("search", total=30) as step:
        step()

Functions called inside count steps of the open stage with `advance()`. A stage inside another is part of it and reports
nothing itself. The listener and the open stage are context variables, which are copied into the threads of a fit
(`mlkm.runtime.resources`); events are sent one at a time, from whichever thread. Without a listener a step costs one
look-up of a variable.

A fit that was given a number of seconds has a deadline, and an optimisation that is late stops where it is. A search
ends earlier than the fit, so that there is time for what comes after it. Without a deadline nothing is ever late.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from math import inf
from time import perf_counter
from typing import Protocol

__all__ = ["Event", "Listener", "advance", "announce", "is_listened_to", "stage", "telling"]


@dataclass(frozen=True)
class Event:
    """The progress of a stage: its name, the steps done, their total (None if unknown), the seconds it has taken, and
    an estimate of the seconds left: None if unknown, 0 when the stage is over.

    The stage "estimate" comes before a fit that is expected to be long, and has the seconds of all of it left.
    """

    stage: str
    done: int
    total: int | None
    seconds: float
    left: float | None


class Listener(Protocol):
    """An object that is told of events."""

    def tell(self, event: Event) -> None:
        """Take notice of an event."""

    def say(self, line: str, event: Event) -> None:
        """Report a line once; the event says the same."""

    def close(self) -> None:
        """End the report."""


class _Stage:
    """A counter of steps, which reports them unless the stage is inside another."""

    def __init__(self, listener: Listener | None, lock: threading.RLock, name: str, total: int | None) -> None:
        self.listener, self.lock, self.name, self.total = listener, lock, name, total
        self.done, self.begin = 0, perf_counter()

    def add(self, steps: int = 1) -> None:
        """Count steps and report them; the last step is reported when the stage ends."""
        if self.listener is None or steps <= 0:
            return
        with self.lock:
            self.done += steps
            if self.total is None or self.done < self.total:  # with the last step it is over, which `end` tells
                seconds = perf_counter() - self.begin
                left = None if self.total is None else seconds * (self.total - self.done) / self.done
                self.listener.tell(Event(self.name, self.done, self.total, seconds, left))

    def begun(self) -> None:
        if self.listener is not None:
            with self.lock:
                self.listener.tell(Event(self.name, 0, self.total, 0.0, None))

    def end(self) -> None:
        if self.listener is not None:
            with self.lock:
                done = self.done if self.total is None else self.total
                self.listener.tell(Event(self.name, done, self.total, perf_counter() - self.begin, 0.0))


_LISTENER: ContextVar[tuple[Listener, threading.RLock] | None] = ContextVar("listener", default=None)
_STAGE: ContextVar[_Stage | None] = ContextVar("stage", default=None)


@contextmanager
def stage(name: str, total: int | None = None) -> Iterator[Callable[..., None]]:
    """Report the block inside as a stage of so many steps, which the yielded function counts."""
    found = _LISTENER.get()
    if found is None:
        yield _uncounted
        return
    listener, lock = found
    own = _Stage(listener if _STAGE.get() is None else None, lock, name, total)
    token = _STAGE.set(own)
    try:
        own.begun()
        yield own.add
        own.end()
    finally:
        _STAGE.reset(token)


def advance(steps: int = 1) -> None:
    """Count steps of the open stage, if there is one."""
    own = _STAGE.get()
    if own is not None:
        own.add(steps)


def is_listened_to() -> bool:
    """Return whether there is a listener."""
    return _LISTENER.get() is not None


def announce(line: Callable[[], tuple[str, float]], least: float = 5.0) -> None:
    """Report a line about the expected time of a fit, if there is a listener and the time is long."""
    found = _LISTENER.get()
    if found is not None:
        words, seconds = line()
        if seconds >= least:
            with found[1]:
                found[0].say(words, Event("estimate", 0, None, 0.0, seconds))


@contextmanager
def telling(listener: Listener | None) -> Iterator[None]:
    """Report the stages inside to this listener, if it is one."""
    if listener is None:
        yield
        return
    token, none = _LISTENER.set((listener, threading.RLock())), _STAGE.set(None)
    try:
        yield
    finally:
        _STAGE.reset(none)
        _LISTENER.reset(token)
        listener.close()


def _uncounted(steps: int = 1) -> None:
    pass


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
