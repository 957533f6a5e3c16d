"""Two searches side by side, each on one BLAS thread.

The matrices of a search are small: threads inside one product gain little, and the thread pools of NumPy and SciPy get
in each other's way, so that a fit to few rows is many times slower with two BLAS threads than with one. Independent
searches in two Python threads use two cores well, since products release the lock.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from threadpoolctl import threadpool_info, threadpool_limits

A = TypeVar("A")
B = TypeVar("B")


def blas_threads() -> int:
    """The number of threads BLAS would use now."""
    return max((int(pool["num_threads"]) for pool in threadpool_info() if pool.get("user_api") == "blas"), default=1)


def side_by_side(first: Callable[[], A], second: Callable[[], B], *, wide: bool = False) -> tuple[A, B]:
    """Both results; at the same time where more than one thread is allowed. Each has one thread for its products, or
    half of them if `wide`."""
    allowed = blas_threads()
    with threadpool_limits(max(1, allowed // 2) if wide else 1):
        if allowed == 1:
            return first(), second()
        with ThreadPoolExecutor(1) as pool:
            other = pool.submit(second)
            return first(), other.result()
