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
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from math import inf
from time import perf_counter

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


class Listener:
    """An object that is told of events. This one takes no notice; others say what they do."""

    def tell(self, event: Event) -> None:
        """Take notice of an event."""

    def say(self, line: str, event: Event) -> None:
        """Report a line once; the event says the same."""

    def close(self) -> None:
        """End the report."""


class _Stage:
    """A counter of steps, which reports them unless the stage is inside another."""

    def __init__(self, listeners: tuple[Listener, ...], lock: threading.RLock, name: str, total: int | None) -> None:
        self.listeners, self.lock, self.name, self.total = listeners, lock, name, total
        self.done, self.begin = 0, perf_counter()

    def tell(self, done: int, seconds: float, left: float | None) -> None:
        """Report how far the stage is."""
        with self.lock:
            for listener in self.listeners:
                listener.tell(Event(self.name, done, self.total, seconds, left))

    def add(self, steps: int = 1) -> None:
        """Count steps and report them; the last step is reported when the stage ends."""
        if not self.listeners or steps <= 0:
            return
        with self.lock:
            self.done += steps
            if self.total is None or self.done < self.total:  # with the last step it is over, which `end` tells
                seconds = perf_counter() - self.begin
                left = None if self.total is None else seconds * (self.total - self.done) / self.done
                self.tell(self.done, seconds, left)

    def end(self) -> None:
        """Report that the stage is over."""
        self.tell(self.done if self.total is None else self.total, perf_counter() - self.begin, 0.0)


_LISTENERS: ContextVar[tuple[tuple[Listener, ...], threading.RLock] | None] = ContextVar("listeners", default=None)
_STAGE: ContextVar[_Stage | None] = ContextVar("stage", default=None)


@contextmanager
def stage(name: str, total: int | None = None) -> Iterator[Callable[..., None]]:
    """Report the block inside as a stage of so many steps, which the yielded function counts."""
    found = _LISTENERS.get()
    if found is None:
        yield _uncounted
        return
    listeners, lock = found
    own = _Stage(listeners if _STAGE.get() is None else (), lock, name, total)
    token = _STAGE.set(own)
    try:
        own.tell(0, 0.0, None)
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
    return _LISTENERS.get() is not None


def announce(line: Callable[[], tuple[str, float]], least: float = 5.0) -> None:
    """Report a line about the expected time of a fit, if there is a listener and the time is long."""
    found = _LISTENERS.get()
    if found is not None:
        words, seconds = line()
        if seconds >= least:
            with found[1]:
                for listener in found[0]:
                    listener.say(words, Event("estimate", 0, None, 0.0, seconds))


@contextmanager
def telling(*given: Listener | None) -> Iterator[None]:
    """Report the stages inside to these listeners, where there are any."""
    listeners = tuple(listener for listener in given if listener is not None)
    if not listeners:
        yield
        return
    token, none = _LISTENERS.set((listeners, threading.RLock())), _STAGE.set(None)
    try:
        yield
    finally:
        _STAGE.reset(none)
        _LISTENERS.reset(token)
        for listener in listeners:
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


def without_search_end() -> AbstractContextManager[None]:
    """Give a search inside all the time that is left of the fit."""
    end = _CURRENT.get().fit
    return ending(Deadline(end, end))


def search_is_late() -> bool:
    """Return whether a search should end with what it has."""
    return perf_counter() > _CURRENT.get().search


def fit_is_late() -> bool:
    """Return whether no optional work should be started."""
    return perf_counter() > _CURRENT.get().fit
