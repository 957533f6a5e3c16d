"""A task on the cluster in use: the client that was given, the current one, or the threads of this process.

Rows of dask arrays and data frames: pieces are cut where the rows are, and added up there.

Plain tasks that can be run again, and a tree of sums: a lost worker costs the pieces that it had. One task has eight
pieces, the first level of the tree, so that a sum has the same bits for any chunks and any number of workers.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, ClassVar, TypeVar

import numpy as np

from .._types import Array
from ..runtime.resources import current_client, limited
from ..runtime.sizes import FAN, TASK_RETRIES
from .rows import Block, RowFunction, Rows, Workers, block_rows, blocks, is_dask
from .scaling import checked_block_weights, checked_targets
from .scan import joined_columns
from .tables.cells import Table, is_frame, read_array, read_frame

_OWN = (None, "dask.distributed", "distributed")  # names of a scheduler that is a cluster


def compute(task: Any) -> Any:
    """Return the result of a task, or raise an error of one sentence where the cluster is lost. Whatever ends the wait,
    an interrupt too, also cancels the task, so that no work goes on that nobody waits for."""
    with client_in_use() as client:
        if client is None:
            return task.compute()
        if client.asynchronous:
            raise ValueError("The Dask client is asynchronous, and this waits for its results; give one that is not.")
        future = None
        try:
            future = client.compute(task, retries=TASK_RETRIES)
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
    """Yield the client, or None where there is no cluster. Inside a task of a worker, its thread is given up while it
    waits, so that the work it waits for can be done there."""
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
    """Return the current client, or None where there is none or where another scheduler was asked for."""
    import dask

    if dask.config.get("scheduler", None) not in _OWN:  # threads, say, were asked for
        return None
    try:
        return get_client()
    except ValueError:  # there is none
        return None


def _is_cancelled(problem: BaseException) -> bool:
    """Return whether an error is that of a future which the client or the scheduler has cancelled."""
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


T = TypeVar("T")


class DaskWorkers:
    """The workers of the cluster in use, or the threads of this process where there is none."""

    def send(self, values: Any) -> Any:
        """Return values that all tasks need: sent to every worker, or one node of the graph without a cluster."""
        from dask import delayed

        with client_in_use() as client:
            if client is None:
                return delayed(values, pure=False, traverse=False)
            return client.scatter([values], broadcast=True, hash=False)[0]

    def total(self, f: Callable[..., Array], tasks: Iterable[tuple[object, ...]]) -> Array:
        """Return the sum of f of the arguments of every task, each with one thread for its products."""
        from dask import delayed

        work = delayed(_with_one_thread, pure=False)
        result: Array = compute(tree_of([work(f, *arguments) for arguments in tasks], np.add))
        return result


def _with_one_thread(f: Callable[..., Array], *arguments: Any) -> Array:
    with limited(1):
        return f(*arguments)


@dataclass(frozen=True)
class DaskRows(Rows[Any]):
    """Delayed chunks of inputs, targets and weights, each with their lengths; with `cells`,
    pieces are unconverted frames or arrays."""

    workers: ClassVar[Workers] = DaskWorkers()
    X: tuple[Any, ...]
    lengths: tuple[int, ...]
    y: tuple[Any, ...]
    y_lengths: tuple[int, ...]
    weights: tuple[Any, ...]
    weight_lengths: tuple[int, ...]
    names: tuple[str, ...] | None
    n_columns: int
    single_output: bool
    cells: bool = False

    @property
    def n(self) -> int:
        """Return the number of rows."""
        return sum(self.lengths)

    def as_cells(self) -> "DaskRows":
        """Return the source with frames or arrays as pieces, whose cells a model reads by the types of its fit."""
        return replace(self, cells=True)

    def map_reduce(self, f: Callable[[Block[Any]], T], add: Callable[[T, T], T]) -> T:
        """Return f of every piece, added up: first sums of eight pieces each, then sums of these, level by level."""
        from dask import delayed

        own, plus = (delayed(g, pure=False, traverse=False) for g in (f, add))
        tasks = [delayed(_sum_of_pieces, pure=False)(own, plus, *given) for given in self._groups()]
        if not tasks:
            raise ValueError("Found array with 0 sample(s): the collection has no rows.")
        result: T = _accepted(compute(tree_of(tasks, plus)))
        return result

    def blocks(self) -> Iterator[Block[Any]]:
        """Yield the pieces in this process, computed eight at a time."""
        from dask import delayed

        for given in self._groups():
            yield from _accepted(compute(delayed(_some_blocks, pure=False)(*given)))

    def _groups(self) -> Iterator[tuple[Any, ...]]:
        """Yield the arguments of every task: slices of the chunks of X, y and weights that hold the rows of eight
        pieces, how to read them, and the number of rows of a piece."""
        size = block_rows(self.n_columns)
        for begin in range(0, self.n, FAN * size):
            end = min(begin + FAN * size, self.n)
            X, y, w = (
                slices(chunks, lengths, begin, end)
                for chunks, lengths in (
                    (self.X, self.lengths), (self.y, self.y_lengths), (self.weights, self.weight_lengths),
                )
            )  # fmt: skip
            yield X, y, w, (self.names, self.cells), size


@dataclass(frozen=True)
class Collection(Rows[Any]):
    """The inputs of rows on a cluster, of which nothing is computed before it is asked for."""

    workers: ClassVar[Workers] = DaskWorkers()
    X: Any

    @property
    def names(self) -> tuple[str, ...] | None:
        """Return the names of the columns, if they have any."""
        return columns_of(self.X)[0]

    @property
    def n_columns(self) -> int:
        """Return the number of columns."""
        return columns_of(self.X)[1]

    @property
    def n(self) -> int:
        """Return the number of rows, for which unknown lengths of chunks are computed."""
        return dask_rows(self.X).n

    def map_reduce(self, f: Callable[[Block[Any]], T], add: Callable[[T, T], T]) -> T:
        """Return f of every block, added up as by `DaskRows`."""
        return dask_rows(self.X).map_reduce(f, add)

    def blocks(self) -> Iterator[Block[Any]]:
        """Return the blocks, in order."""
        return dask_rows(self.X).blocks()

    def apply(self, f: RowFunction, shapes: Sequence[tuple[int, ...]]) -> tuple[Any, ...]:
        """Return dask arrays of the results of f, which are computed when they are asked for."""
        import dask.array as da
        from dask import delayed

        chunks, _, _ = chunks_of(self.X)
        lengths = known_lengths(self.X) or (np.nan,) * len(chunks)
        sent = delayed(f.to_send(), pure=False, traverse=False)  # one node, else every task would hold a copy
        results = [delayed(_of_chunk, pure=False)(sent, chunk, tuple(shapes)) for chunk in chunks]
        return tuple(
            da.concatenate(
                [da.from_delayed(part[k], (n, *shape), np.float64) for part, n in zip(results, lengths, strict=True)],
                allow_unknown_chunksizes=True,
            )
            for k, shape in enumerate(shapes)
        )


def _of_chunk(f: RowFunction, chunk: Any, shapes: Sequence[tuple[int, ...]]) -> tuple[Array, ...]:
    """Return f of a chunk, which is not asked about no rows."""
    return f(chunk) if len(chunk) else tuple(np.zeros((0, *shape)) for shape in shapes)


def tree_of(tasks: list[Any], add: Any) -> Any:
    """Return the sum of tasks as one task, which adds them in a tree."""
    from dask import delayed

    while len(tasks) > 1:
        parts = [tasks[k : k + FAN] for k in range(0, len(tasks), FAN)]
        tasks = [part[0] if len(part) == 1 else delayed(_sum, pure=False)(add, part) for part in parts]
    return tasks[0]


def slices(chunks: Sequence[Any], lengths: Sequence[int], begin: int, end: int) -> list[Any]:
    """Return rows begin..end-1 of consecutive chunks as slices of these, delayed where the chunks are; empty chunks are
    left out."""
    from dask import delayed

    ends = np.cumsum(lengths)
    result = []
    for k in range(int(np.searchsorted(ends, begin, "right")), len(chunks)):
        at = int(ends[k]) - lengths[k]
        if at >= end:
            break
        low, high = max(begin - at, 0), min(end - at, lengths[k])
        if low < high:
            whole = low == 0 and high == lengths[k]
            cut = delayed(_slice, pure=False) if is_dask(chunks[k]) else _slice
            result.append(chunks[k] if whole else cut(chunks[k], low, high))
    return result


def _slice(chunk: Any, low: int, high: int) -> Any:
    return chunk.iloc[low:high] if hasattr(chunk, "iloc") else chunk[low:high]


@dataclass(frozen=True)
class _Refused:
    """Rows that cannot be used, and why. It is a result, since a task that fails is tried again."""

    problem: Exception


def _accepted(result: Any) -> Any:
    if isinstance(result, _Refused):
        raise result.problem
    return result


def _sum_of_pieces(
    f: Callable[[Block[Any]], T], add: Callable[[T, T], T], X: Any, y: Any, w: Any, read: Any, size: int
) -> T | _Refused:
    """Return the sum of f over the pieces of a task, with one thread for products, so that it does not depend on the
    worker."""
    try:
        with limited(1):
            return reduce(add, (f(block) for block in _blocks(X, y, w, read, size)))
    except (TypeError, ValueError) as problem:
        return _Refused(problem)


def _sum(add: Callable[[T, T], T], results: list[T | _Refused]) -> T | _Refused:
    """Return the sum of results, added to a copy of the first, since a result may be asked for again."""
    for result in results:
        if isinstance(result, _Refused):
            return result
    try:
        return reduce(add, results[1:], deepcopy(results[0]))  # type: ignore[arg-type]
    except (TypeError, ValueError) as problem:
        return _Refused(problem)


def _some_blocks(X: list[Any], y: list[Any], w: list[Any], read: Any, size: int) -> list[Block[Any]] | _Refused:
    try:
        return _blocks(X, y, w, read, size)
    except (TypeError, ValueError) as problem:
        return _Refused(problem)


def _blocks(X: list[Any], y: list[Any], w: list[Any], read: tuple[Any, bool], size: int) -> list[Block[Any]]:
    """Return the blocks of at most `size` rows that slices of chunks make up; `read` holds the names of the columns and
    whether cells are left unconverted."""
    names, cells = read
    cells = cells and getattr(X[0], "dtype", None) != np.float64  # float64 needs no reading
    table = _joined(X) if cells else _table(X, names)
    n = len(table)
    Y = checked_targets(np.concatenate([np.asarray(part, np.float64) for part in y])) if y else np.zeros((n, 0))
    weights = checked_block_weights(np.concatenate([np.asarray(part) for part in w]) if w else None, n)
    return [Block(_slice(table, at.start, at.stop), Y[at], weights[at]) for at in blocks(n, size)]


def _joined(parts: list[Any]) -> Any:
    """Join the chunks to one frame or array."""
    if not is_frame(parts[0]):
        return np.concatenate([np.asarray(part) for part in parts])
    import pandas as pd

    return parts[0] if len(parts) == 1 else pd.concat(parts)


def _table(parts: list[Any], names: Any) -> Table:
    """Return the chunks as one table."""
    if not is_frame(parts[0]):
        table = read_array(_joined(parts))
        return Table(table.columns, names, table.zones)
    tables = [read_frame(part) for part in parts]
    columns = tuple(joined_columns([table.columns[j] for table in tables]) for j in range(len(tables[0].columns)))
    return Table(columns, names, tables[0].zones)


def dask_rows(X: Any, y: Any = None, sample_weight: Any = None) -> DaskRows:
    """Return collections of dask as rows; chunk lengths that are unknown are computed."""
    for given in (X, y, sample_weight):
        _check_kind(given)
    if getattr(X, "ndim", 2) != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D array instead; X must have rows and columns.")
    chunks, names, n_columns = chunks_of(X)
    targets = () if y is None else chunks_of(y)[0]
    weights = () if sample_weight is None else chunks_of(sample_weight)[0]
    lengths = _counted([known_lengths(X), known_lengths(y), known_lengths(sample_weight)], [chunks, targets, weights])
    for name, own in (("y", lengths[1]), ("sample_weight", lengths[2])):
        if own and sum(own) != sum(lengths[0]):
            raise ValueError(f"X has {sum(lengths[0])} rows and {name} has {sum(own)}; they must be the same.")
    single = y is None or getattr(y, "ndim", 1) == 1
    return DaskRows(chunks, lengths[0], targets, lengths[1], weights, lengths[2], names, n_columns, single)


def known_lengths(X: Any) -> tuple[int, ...] | None:
    """Return the lengths of the chunks of rows, or None where they are not known."""
    if X is None:
        return ()
    if not is_dask(X):
        return (len(X),)
    chunks = getattr(X, "chunks", None)
    return None if chunks is None or np.isnan(chunks[0]).any() else tuple(int(n) for n in chunks[0])


def _counted(known: list[tuple[int, ...] | None], chunks: list[tuple[Any, ...]]) -> list[tuple[int, ...]]:
    """Return the lengths of all chunks; those that are not known are counted in one pass over the chunks."""
    from dask import delayed

    unknown = [k for k, lengths in enumerate(known) if lengths is None]
    count = delayed(len, pure=False)
    found = iter(compute(delayed(list)([[count(c) for c in chunks[k]] for k in unknown])) if unknown else ())
    return [tuple(next(found)) if lengths is None else lengths for lengths in known]


def chunks_of(X: Any) -> tuple[tuple[Any, ...], tuple[str, ...] | None, int]:
    """Return the delayed chunks of rows, the names of the columns, and their number; rows in memory are one chunk, of
    which every task is sent its part.

    Arrays are taken as they are written: optimised one by one, X and y that are parts of one array would each have it
    computed. Frames are optimised, which reads the columns in use alone.
    """
    _check_kind(X)
    if not is_dask(X):
        here = X if hasattr(X, "shape") else np.asarray(X)
        return (here,), _names(here), int(here.shape[1]) if here.ndim > 1 else 1
    if not hasattr(X, "chunks"):  # a frame or a series
        return tuple(X.to_delayed()), _names(X), len(X.columns) if X.ndim > 1 else 1
    if X.ndim > 1 and len(X.chunks[1]) > 1:
        X = X.rechunk({1: -1})
    return tuple(X.to_delayed(optimize_graph=False).ravel()), None, int(X.shape[1]) if X.ndim > 1 else 1


def _check_kind(X: Any) -> None:
    """Refuse collections without rows and columns."""
    if is_dask(X) and not isinstance(getattr(X, "ndim", None), int):
        bag = hasattr(type(X), "to_dataframe")
        got = "Bag: take bag.to_dataframe()" if bag else "Delayed: take dask.array.from_delayed(value, shape, dtype)"
        raise TypeError(f"Rows on a cluster are arrays or data frames of dask; got a {got}.")


def columns_of(X: Any) -> tuple[tuple[str, ...] | None, int]:
    """Return the names of the columns of a collection, and their number."""
    _check_kind(X)
    columns = X.shape[1] if hasattr(X, "chunks") and X.ndim > 1 else len(X.columns) if X.ndim > 1 else 1
    return _names(X), int(columns)


def _names(X: Any) -> tuple[str, ...] | None:
    """Return the names of the columns of a frame, or None where there are none or not all of them are strings."""
    columns = tuple(getattr(X, "columns", ())) if X.ndim > 1 else ()
    return columns if columns and all(isinstance(name, str) for name in columns) else None
