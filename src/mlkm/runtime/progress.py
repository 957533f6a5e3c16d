"""How far a fit is: stages that say so to whoever listens.

    with stage("search", total=30) as step:
        step()

Work further down says `advance()`, which counts for the stage around it. A stage inside another is part of it and says
nothing of its own. Who listens and which stage is open are known to the context, which goes along into the threads of a
fit (`mlkm.runtime.threads`); what is told comes one at a time, whichever thread it comes from. Where nobody listens, a
step costs one look at a variable.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol

__all__ = ["Event", "Listener", "advance", "announce", "is_listened_to", "stage", "telling"]


@dataclass(frozen=True)
class Event:
    """Where a stage is: its name, steps done, of how many (None where that is not known), the seconds it has taken, and
    those that are left, about: None where that is not known, 0 when it is over.

    The stage "estimate" comes before a fit that is expected to be long, and has the seconds of all of it left.
    """

    stage: str
    done: int
    total: int | None
    seconds: float
    left: float | None


class Listener(Protocol):
    """Who is told."""

    def tell(self, event: Event) -> None: ...

    def say(self, line: str, event: Event) -> None:
        """A line that is told once, and the same as an event."""

    def close(self) -> None: ...


class _Stage:
    """Steps that are counted; told unless the stage is inside another."""

    def __init__(self, listener: Listener | None, lock: threading.RLock, name: str, total: int | None) -> None:
        self.listener, self.lock, self.name, self.total = listener, lock, name, total
        self.done, self.begin = 0, perf_counter()

    def add(self, steps: int = 1) -> None:
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
    """Work of so many steps; the function that is given counts them."""
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
    """Steps of the stage around this, if there is one."""
    own = _STAGE.get()
    if own is not None:
        own.add(steps)


def is_listened_to() -> bool:
    """Whether somebody listens: for what is looked up for them alone."""
    return _LISTENER.get() is not None


def announce(line: Callable[[], tuple[str, float]], least: float = 5.0) -> None:
    """A line, and the seconds that it is about, where somebody listens and these are many."""
    found = _LISTENER.get()
    if found is not None:
        words, seconds = line()
        if seconds >= least:
            with found[1]:
                found[0].say(words, Event("estimate", 0, None, 0.0, seconds))


@contextmanager
def telling(listener: Listener | None) -> Iterator[None]:
    """Stages inside are told to this one, if any."""
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
