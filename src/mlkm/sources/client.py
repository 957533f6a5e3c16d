"""A task on the cluster in use: the client that was given, the current one, or the threads of this process."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from .._config import current_client

_RETRIES = 3  # of a task that fails, as by a file that could not be read just then
_OWN = (None, "dask.distributed", "distributed")  # names of a scheduler that is a cluster


def compute(task: Any) -> Any:
    """The result of a task; where the cluster is lost it is said in one sentence. What ends the wait, an interrupt too,
    ends the task: nothing goes on there that nobody waits for."""
    with client_in_use() as client:
        if client is None:
            return task.compute()
        if client.asynchronous:
            raise ValueError("The Dask client is asynchronous, and this waits for its results; give one that is not.")
        future = None
        try:
            future = client.compute(task, retries=_RETRIES)
            return future.result()
        except BaseException as problem:
            raised = future is not None and future.status == "error"
            if future is not None:
                with suppress(Exception):  # there may be nobody left to tell
                    future.cancel()
            if type(problem).__name__ == "KilledWorker":
                raise _killed(problem) from problem
            if raised or not (isinstance(problem, Exception) or _is_cancelled(problem)):
                raise
            raise _lost(problem) from problem


@contextmanager
def client_in_use() -> Iterator[Any]:
    """The client, None where there is no cluster. Inside a task of a worker, its thread is given up while it waits, so
    that the work it waits for can be done there."""
    if (given := current_client()) is not None:
        yield given
        return
    try:
        from distributed import get_client, get_worker, worker_client
    except ImportError:  # dask alone
        yield None
        return
    try:
        get_worker()
    except ValueError:
        yield _outside_of_tasks(get_client)
        return
    with worker_client() as client:
        yield client


def _outside_of_tasks(get_client: Any) -> Any:
    import dask

    if dask.config.get("scheduler", None) not in _OWN:  # threads, say, were asked for
        return None
    try:
        return get_client()
    except ValueError:  # there is none
        return None


def _is_cancelled(problem: BaseException) -> bool:
    """As futures say that were given up by the client or the scheduler."""
    return "Cancelled" in type(problem).__name__


def _lost(problem: BaseException) -> RuntimeError:
    return RuntimeError(
        f"The Dask cluster was lost during the work ({type(problem).__name__}), and nothing was changed: start one and"
        " call again."
    )


def _killed(problem: BaseException) -> RuntimeError:
    return RuntimeError(
        "Workers of the Dask cluster died again and again at the same piece of work, and nothing was changed; where"
        f" they have too little memory, take smaller chunks ({problem})."
    )
