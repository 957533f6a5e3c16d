"""Settings of a block of code rather than of a model: how much memory may be used, and which cluster."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

from .checks import brief

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
_SHARE = 0.5  # of the free memory that is taken where nothing is said
_UNKNOWN = 2 * 10**9  # where the system does not say what is free


@dataclass(frozen=True)
class Config:
    """Bytes, and a client of `distributed`; None leaves them open."""

    max_memory: int | None = None
    client: Any = None


_CURRENT: ContextVar[Config] = ContextVar("config", default=Config())  # noqa: B039, a frozen dataclass


@contextmanager
def config_context(*, max_memory: str | float | None = None, client: Any = None) -> Iterator[None]:
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


def current_client() -> Any:
    """Return the client that was asked for, or None."""
    return _CURRENT.get().client


def memory_budget() -> int:
    """Return the number of bytes that may be used."""
    given = _CURRENT.get().max_memory
    if given is not None:
        return given
    if text := os.environ.get("MLKM_MAX_MEMORY"):
        return as_bytes(text)
    return int(_SHARE * _free()) or _UNKNOWN


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
    free, limited = _free_of_system(), _free_of_process()
    return free if limited is None else min(free, limited) if free else limited


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


def _free_of_system() -> int:
    """Return the free memory of the system in bytes, or all of it where free memory is not known."""
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
        return 0
