"""Two searches side by side, each on one BLAS thread.

The matrices of a search are small: threads inside one product gain little, and the thread pools of NumPy and SciPy get
in each other's way, so that a fit to few rows is many times slower with two BLAS threads than with one. Independent
searches in two Python threads use two cores well, since products release the lock.

The number of BLAS threads belongs to the process, not to a thread. So that fits in several threads do not undo each
other's limits, requests are counted: the least of those now open holds, and the last one to end restores what the first
one found.
"""

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

A = TypeVar("A")
B = TypeVar("B")


class Stopped(Exception):
    """Ends the work of a thread whose companion has failed or was interrupted."""


class _Library:
    """One BLAS library, with its original number of threads and the number that was set here."""

    def __init__(self, controller: Any) -> None:
        self.controller = controller
        self.original = self.given = int(controller.num_threads)

    def limit(self, n_threads: int) -> None:
        self._give(min(self.original, n_threads))

    def restore(self) -> None:
        """Restore the original number, unless somebody else has set another one since."""
        if self.controller.num_threads == self.given:
            self._give(self.original)

    def _give(self, n_threads: int) -> None:
        """Set the number of threads; threadpoolctl, from 3.8 on, lets one thread set it and ignores the others until
        that one is done."""
        release = getattr(self.controller, "clear_controlling_thread", lambda force: None)
        release(force=True)
        self.given = n_threads
        self.controller.set_num_threads(n_threads)
        release(force=True)


class _Limits:
    """The open requests for few BLAS threads, and the libraries they are about."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.open: dict[object, tuple[int, int]] = {}  # number of threads asked for, and the thread that asks
        self.libraries: list[_Library] = []

    def enter(self, request: object, n_threads: int) -> None:
        """Add a request for at most so many threads."""
        with self.lock:
            if not self.open:
                self.libraries = [_Library(controller) for controller in _blas_controllers()]
            self.open[request] = n_threads, threading.get_ident()
            self._apply()

    def leave(self, request: object) -> None:
        """May be called again after an interrupt: what is set depends on the open requests alone."""
        with self.lock:
            self.open.pop(request, None)
            self._apply()

    def _apply(self) -> None:
        """Set the least number that is asked for, or restore the original ones."""
        least = min((n_threads for n_threads, _ in self.open.values()), default=None)
        for library in self.libraries:
            if least is None:
                library.restore()
            else:
                library.limit(least)

    def after_fork_in_child(self) -> None:
        """Of all threads the child has the one that forked: the requests of the others are void."""
        self.lock = threading.Lock()
        own = {request: asked for request, asked in self.open.items() if asked[1] == threading.get_ident()}
        if len(own) < len(self.open):
            self.open = own
            self._apply()


_LIMITS = _Limits()
_STOPS: ContextVar[tuple[threading.Event, ...]] = ContextVar("stops", default=())

if hasattr(os, "register_at_fork"):  # a child must not be born with a lock held by a thread it does not have
    os.register_at_fork(
        before=lambda: _LIMITS.lock.acquire(),
        after_in_parent=lambda: _LIMITS.lock.release(),
        after_in_child=lambda: _LIMITS.after_fork_in_child(),
    )


def _blas_controllers() -> list[Any]:
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


def blas_threads() -> int:
    """Return the number of threads that BLAS would use now."""
    return max((int(controller.num_threads) for controller in _blas_controllers()), default=1)


@contextmanager
def limited(n_threads: int | None) -> Iterator[None]:
    """Limit the number of BLAS threads of the whole process while this block, or another one that asks for as few, is
    open; None sets no limit."""
    if n_threads is None:
        yield
        return
    request = object()
    try:
        _LIMITS.enter(request, n_threads)
        yield
    finally:
        try:
            _LIMITS.leave(request)
        except KeyboardInterrupt:
            _LIMITS.leave(request)
            raise


def side_by_side(first: Callable[[], A], second: Callable[[], B], *, wide: bool = False) -> tuple[A, B]:
    """Run two functions, at the same time if more than one thread is allowed, and return both results. Each has one
    BLAS thread, or half of them if `wide`.

    If `first` fails or is interrupted, `second` ends at its next `stop_if_asked`.
    """
    allowed = blas_threads()
    with limited(max(1, allowed // 2) if wide else 1):
        if allowed == 1:
            return first(), second()
        with ThreadPoolExecutor(1) as pool, stopping() as stops:
            other = submitted(pool, stops, second)
            return first(), other.result()


@contextmanager
def stopping() -> Iterator[tuple[threading.Event, ...]]:
    """Yield events that are set when this block fails, for work in other threads to look at."""
    stop = threading.Event()
    try:
        yield (*_STOPS.get(), stop)
    except BaseException:
        stop.set()
        raise


def submitted(pool: ThreadPoolExecutor, stops: tuple[threading.Event, ...], work: Callable[[], A]) -> "Future[A]":
    """Submit work to another thread, in a copy of this thread's context, with its settings and its listener; the work
    ends early when one of the events is set."""
    return pool.submit(copy_context().run, _stoppable, stops, work)


def _stoppable(stops: tuple[threading.Event, ...], work: Callable[[], A]) -> A:
    _STOPS.set(stops)  # in a context of its own
    return work()


def stop_if_asked() -> None:
    """Raise if the work beside this one has failed. Long work calls this wherever it can end, since an interrupt
    reaches the main thread only, which waits for the others."""
    if any(stop.is_set() for stop in _STOPS.get()):
        raise Stopped("The work beside this one has failed or was interrupted.")
