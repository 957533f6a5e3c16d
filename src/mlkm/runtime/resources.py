"""Limits and settings decide what a fit uses of the machine: threads, memory, a cluster, and random numbers.

Two searches run side by side, each on one BLAS thread.

The matrices of a search are small: threads inside one product gain little, and the thread pools of NumPy and SciPy get
in each other's way, so that a fit to few rows is many times slower with two BLAS threads than with one. Independent
searches in two Python threads use two cores well, since products release the lock.

The number of BLAS threads belongs to the process, not to a thread. So that fits in several threads do not undo each
other's limits, requests are counted: the least of those now open holds, and the last one to end restores what the first
one found.

How much memory may be used, and which cluster, are settings of a block of code rather than of a model.

Randomness is explicit: one seed per fit, one child per purpose, so that nothing depends on `n_jobs` or on the number
of rows.
"""

import os
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, replace
from enum import IntEnum, unique
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from sklearn.utils import check_random_state
from threadpoolctl import ThreadpoolController

from .checks import brief, whole
from .sizes import MEMORY_SHARE, UNKNOWN_MEMORY

if TYPE_CHECKING:  # which threadpoolctl has under this name from 3.2 on
    from threadpoolctl import LibController

A = TypeVar("A")
B = TypeVar("B")


class Stopped(Exception):
    """Ends the work of a thread whose companion has failed or was interrupted."""


class _Library:
    """One BLAS library, with its original number of threads and the number that was set here."""

    def __init__(self, controller: "LibController") -> None:
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


def _blas_controllers() -> "list[LibController]":
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
    context = copy_context()
    context.run(_STOPS.set, stops)
    return pool.submit(context.run, work)


def stop_if_asked() -> None:
    """Raise if the work beside this one has failed. Long work calls this wherever it can end, since an interrupt
    reaches the main thread only, which waits for the others."""
    if any(stop.is_set() for stop in _STOPS.get()):
        raise Stopped("The work beside this one has failed or was interrupted.")


_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


@dataclass(frozen=True)
class Config:
    """Bytes, and a client of `distributed`; None leaves them open."""

    max_memory: int | None = None
    client: object = None


_CURRENT: ContextVar[Config] = ContextVar("config", default=Config())  # noqa: B039, a frozen dataclass


@contextmanager
def config_context(*, max_memory: str | float | None = None, client: object = None) -> Iterator[None]:
    """Limit the memory of gathered rows, sums of features and stored kernel matrices, and choose the Dask cluster, for
    the work inside.

    Parameters
    ----------
    max_memory : number of bytes, or text such as "2GB" or "500 MiB"
        By default the environment variable MLKM_MAX_MEMORY, or half of the free memory. The limit holds for the
        current thread and fits started in it; the variable holds for all processes.
    client : client of `distributed`, default: the current one

    >>> from mlkm import config_context
    >>> with config_context(max_memory="2GB"):
    ...     memory_budget()
    2000000000
    """
    if client is not None and not hasattr(client, "asynchronous"):
        raise TypeError(f"client must be a client of `distributed`, as Client(address) is; got {brief(client)}.")
    before = _CURRENT.get()
    own = before.max_memory if max_memory is None else as_bytes(max_memory)
    token = _CURRENT.set(replace(before, max_memory=own, client=before.client if client is None else client))
    try:
        yield
    finally:
        _CURRENT.reset(token)


def current_client() -> Any:  # distributed has no types
    """Return the client that was asked for, or None."""
    return _CURRENT.get().client


def memory_budget() -> int:
    """Return the number of bytes that may be used."""
    given = _CURRENT.get().max_memory
    if given is not None:
        return given
    if text := os.environ.get("MLKM_MAX_MEMORY"):
        return as_bytes(text)
    return int(MEMORY_SHARE * _free()) or UNKNOWN_MEMORY


def check_memory(needed: float, what: str, instead: str) -> None:
    """Raise before any work is done if more memory is needed than may be used."""
    if needed > memory_budget():
        raise MemoryError(
            f"{what} need about {_said(needed)}, and {_said(memory_budget())} may be taken; set"
            f" config_context(max_memory=...) or MLKM_MAX_MEMORY where there is more, or {instead}."
        )


def _said(size: float) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e8 else f"{size / 1e6:.1f} MB"


def as_bytes(size: str | float) -> int:
    """Return a number of bytes from a text with a unit.

    >>> as_bytes("1.5 GiB"), as_bytes("200MB"), as_bytes(1e6)
    (1610612736, 200000000, 1000000)
    """
    text = str(size) if isinstance(size, (str, Real)) else ""
    match = re.fullmatch(r"\s*([0-9.]+(?:e[0-9]+)?)\s*([A-Za-z]*)\s*", text)
    try:
        result = int(float(match[1]) * _UNITS[match[2].upper()]) if match else 0
    except (KeyError, ValueError, OverflowError):
        result = 0
    if result <= 0:
        raise ValueError(f"max_memory must be a number of bytes or a text such as '2GB'; got {brief(size)}.")
    return result


def _free() -> int:
    """Return what this process can take without swapping, in bytes; 0 where the system does not say."""
    return min((free for free in (_free_of_system(), _free_of_process()) if free is not None), default=0)


def _free_of_process() -> int | None:
    """Return what is left of the address space that the process may have (ulimit -v), None where it has no limit."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit == resource.RLIM_INFINITY:
            return None
        with open("/proc/self/statm") as pages:
            return max(limit - int(pages.read().split()[0]) * os.sysconf("SC_PAGE_SIZE"), 1)
    except (ImportError, AttributeError, ValueError, OSError):  # other systems than Linux
        return None


def _free_of_system() -> int | None:
    """Return the free memory of the system in bytes, all of it where free memory is not known, or None."""
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return 1024 * int(line.split()[1])
    except OSError:
        pass
    try:
        return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return None


@unique
class Purpose(IntEnum):
    """The purpose of a stream of random numbers: the first number of its key, so that no two purposes share a
    stream."""

    FEATURES = 0  # of layer 1 at given or chosen scales, and of `RandomFeatures`: the seed's own stream
    DATA = 4  # simulated examples
    LAYERS = 5  # features of layer 2 and above, by layer
    BATCHES = 6  # mini-batches, by rotation and epoch
    WEIGHTS = 7  # initial weights, by rotation
    PARTS = 8  # subsamples of cross-fitting
    FOLDS = 9  # of penalty="cv"
    FINAL = 30  # features of the layer that was learned
    STACK = 31  # bootstraps of the weights of a stack
    QUANTILES = 40  # features of quantile fits
    BOOTSTRAP = 50  # samples, by replicate
    PROJECTION = 60  # combinations of gradients, by pair
    SLICES = 70  # directions of the worst slice
    EFFECTS = 80  # factors of simultaneous bands, and, by background row, orders of columns


def root_seed(random_state: object, name: str = "random_state") -> int:
    """Return the integer from which all randomness of one `fit` is derived.

    An integer `random_state` is used as it is; a `RandomState` is advanced by one draw, as scikit-learn's estimators
    do.
    """
    if random_state is None or isinstance(random_state, np.random.RandomState) or random_state is np.random:
        return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
    return whole(name, random_state, 0, 2**32 - 1, ", a RandomState of NumPy or None")


def generator(seed: int, purpose: Purpose, *numbers: int) -> np.random.Generator:
    """Return an independent stream for one purpose and its numbers, such as `(Purpose.BATCHES, rotation, epoch)`."""
    key = () if purpose == Purpose.FEATURES else (int(purpose), *numbers)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
