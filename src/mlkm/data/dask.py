"""Rows of dask arrays and data frames, whose pieces are cut and added up where the rows are.

Tasks run on the cluster in use: the client that was given, the current one, or the threads of this process. They are
plain tasks that can be run again, and a tree of sums: a lost worker costs the pieces that it had. One task has eight
pieces, the first level of the tree, so that a sum has the same bits for any chunks and any number of workers.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce, wraps
from typing import TYPE_CHECKING, Any, ClassVar, ParamSpec, TypeAlias, TypeVar

import dask
import dask.array as da
import numpy as np
from dask.delayed import Delayed, delayed

from .._types import Array, TableLike
from ..runtime.resources import current_client, limited
from ..runtime.sizes import FAN, TASK_RETRIES
from .folds import checked_block_weights, checked_targets
from .rows import Block, RowFunction, Rows, Workers, block_rows, blocks
from .tables.cells import Table, is_dask, is_frame, read_array, read_frame
from .tables.reading import joined_columns

if TYPE_CHECKING:
    from distributed import Client

T = TypeVar("T")
P = ParamSpec("P")
Chunk: TypeAlias = Delayed | TableLike  # a frame or an array, which may still have to be computed
Names: TypeAlias = tuple[str, ...] | None
Group: TypeAlias = tuple[list[Chunk], list[Chunk], list[Chunk], Names, bool, int]  # the arguments of `_blocks`

_task = partial(delayed, pure=False)  # a function whose calls are tasks, each computed anew
_whole = partial(delayed, pure=False, traverse=False)  # values as one node of the graph, of which tasks hold no copies
_OWN = (None, "dask.distributed", "distributed")  # names of a scheduler that is a cluster


def compute(task: Delayed) -> Any:
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
                raise RuntimeError(
                    "Workers of the Dask cluster died again and again at the same piece of work, and nothing was"
                    f" changed; where they have too little memory, take smaller chunks ({problem})."
                ) from problem
            cancelled = "Cancelled" in type(problem).__name__  # by the client or the scheduler
            if raised or not (isinstance(problem, Exception) or cancelled):
                raise
            raise RuntimeError(
                f"The Dask cluster was lost during the work ({type(problem).__name__}), and nothing was changed: start"
                " one and call again."
            ) from problem


@contextmanager
def client_in_use() -> Iterator["Client | None"]:
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
        yield _current_client(get_client)
        return
    with worker_client() as client:
        yield client


def _current_client(get_client: Callable[[], "Client"]) -> "Client | None":
    """Return the current client, or None where there is none or where another scheduler was asked for."""
    if dask.config.get("scheduler", None) not in _OWN:  # threads, say, were asked for
        return None
    with suppress(ValueError):  # there is none
        return get_client()
    return None


class DaskWorkers:
    """The workers of the cluster in use, or the threads of this process where there is none."""

    def send(self, values: T) -> T:
        """Return values that all tasks need: sent to every worker, or one node of the graph without a cluster."""
        with client_in_use() as client:
            sent: T = _whole(values) if client is None else client.scatter([values], broadcast=True, hash=False)[0]
        return sent

    def total(self, f: Callable[..., Array], tasks: Iterable[tuple[object, ...]]) -> Array:
        """Return the sum of f of the arguments of every task, each with one thread for its products."""
        work = _task(_with_one_thread)
        result: Array = compute(tree_of([work(f, *arguments) for arguments in tasks], np.add))
        return result


def _with_one_thread(f: Callable[..., Array], *arguments: object) -> Array:
    with limited(1):
        return f(*arguments)


@dataclass(frozen=True)
class Chunks:
    """Consecutive chunks of rows, delayed or in memory, and their lengths."""

    chunks: tuple[Chunk, ...] = ()
    lengths: tuple[int, ...] = ()

    def between(self, begin: int, end: int) -> list[Chunk]:
        """Return rows begin..end-1 as slices of the chunks, delayed where these are; empty chunks are left out."""
        ends = np.cumsum(self.lengths)
        result = []
        for k in range(int(np.searchsorted(ends, begin, "right")), len(self.chunks)):
            chunk, length = self.chunks[k], self.lengths[k]
            at = int(ends[k]) - length
            if at >= end:
                break
            low, high = max(begin - at, 0), min(end - at, length)
            if low < high:
                cut = _task(_slice) if is_dask(chunk) else _slice
                result.append(chunk if high - low == length else cut(chunk, low, high))
        return result


@dataclass(frozen=True)
class DaskRows(Rows[TableLike]):
    """Collections of inputs, and of targets and weights where there are any; nothing is computed before it is asked
    for. With `cells`, pieces are unconverted frames or arrays."""

    workers: ClassVar[Workers] = DaskWorkers()
    X: TableLike
    y: TableLike | None = None
    sample_weight: TableLike | None = None
    cells: bool = False

    def __post_init__(self) -> None:
        """Refuse collections without rows and columns."""
        for one in (self.X, self.y, self.sample_weight):
            if is_dask(one) and not isinstance(getattr(one, "ndim", None), int):
                got = "Delayed: take dask.array.from_delayed(value, shape, dtype)"
                if hasattr(type(one), "to_dataframe"):
                    got = "Bag: take bag.to_dataframe()"
                raise TypeError(f"Rows on a cluster are arrays or data frames of dask; got a {got}.")

    @property
    def names(self) -> Names:
        """Return the names of the columns, None where there are none or not all of them are strings."""
        columns = tuple(getattr(self.X, "columns", ()))
        return columns if columns and all(isinstance(name, str) for name in columns) else None

    @property
    def n_columns(self) -> int:
        """Return the number of columns."""
        shape = np.shape(self.X)
        return len(getattr(self.X, "columns", ())) or int(shape[1] if len(shape) > 1 else 1)

    @property
    def single_output(self) -> bool:
        """Return whether targets are one-dimensional."""
        return getattr(self.y, "ndim", 1) == 1

    @property
    def n(self) -> int:
        """Return the number of rows, for which unknown lengths of chunks are computed."""
        return sum(self.chunks[0].lengths)

    @cached_property
    def chunks(self) -> list[Chunks]:
        """Return the chunks of inputs, targets and weights; lengths that are not known are counted in one pass."""
        if getattr(self.X, "ndim", 2) != 2:
            raise ValueError(f"Expected 2D array, got {self.X.ndim}D array instead; X must have rows and columns.")
        found, count = [chunks_of(one) for one in (self.X, self.y, self.sample_weight)], _task(len)
        unknown = [[count(chunk) for chunk in chunks] for chunks, lengths in found if lengths is None]
        counted = iter(compute(delayed(list)(unknown)) if unknown else ())
        result = [Chunks(chunks, tuple(next(counted)) if n is None else n) for chunks, n in found]
        n = sum(result[0].lengths)
        for name, own in zip(("y", "sample_weight"), result[1:], strict=True):
            if own.chunks and sum(own.lengths) != n:
                raise ValueError(f"X has {n} rows and {name} has {sum(own.lengths)}; they must be the same.")
        return result

    def as_cells(self) -> "DaskRows":
        """Return the source with frames or arrays as pieces, whose cells a model reads by the types of its fit."""
        return replace(self, cells=True)

    def map_reduce(self, f: Callable[[Block[TableLike]], T], add: Callable[[T, T], T]) -> T:
        """Return f of every piece, added up: first sums of eight pieces each, then sums of these, level by level."""
        own, plus = _whole(f), _whole(add)
        tasks = [_task(_sum_of_pieces)(own, plus, *given) for given in self._groups()]
        if not tasks:
            raise ValueError("Found array with 0 sample(s): the collection has no rows.")
        result: T = _accepted(compute(tree_of(tasks, plus)))
        return result

    def blocks(self) -> Iterator[Block[TableLike]]:
        """Yield the pieces in this process, computed eight at a time."""
        for given in self._groups():
            yield from _accepted(compute(_task(_blocks)(*given)))

    def _groups(self) -> Iterator[Group]:
        """Yield the arguments of every task: slices of the chunks of X, y and weights that hold the rows of eight
        pieces, how to read them, and the number of rows of a piece."""
        size = block_rows(self.n_columns)
        for at in blocks(self.n, FAN * size):
            X, y, w = (one.between(at.start, at.stop) for one in self.chunks)
            yield X, y, w, self.names, self.cells, size

    def apply(self, f: RowFunction, shapes: Sequence[tuple[int, ...]]) -> tuple[da.Array, ...]:
        """Return dask arrays of the results of f, which are computed when they are asked for."""
        chunks, known = chunks_of(self.X)
        lengths = known or (np.nan,) * len(chunks)
        sent = _whole(f.to_send())
        results = [_task(_of_chunk)(sent, chunk, tuple(shapes)) for chunk in chunks]
        return tuple(
            da.concatenate(
                [da.from_delayed(part[k], (n, *shape), np.float64) for part, n in zip(results, lengths, strict=True)],
                allow_unknown_chunksizes=True,
            )
            for k, shape in enumerate(shapes)
        )


def _of_chunk(f: RowFunction, chunk: TableLike, shapes: Sequence[tuple[int, ...]]) -> tuple[Array, ...]:
    """Return f of a chunk, which is not asked about no rows."""
    return f(chunk) if len(chunk) else tuple(np.zeros((0, *shape)) for shape in shapes)


def tree_of(tasks: list[Delayed], add: Delayed | np.ufunc) -> Delayed:
    """Return the sum of tasks as one task, which adds them in a tree."""
    while len(tasks) > 1:
        parts = [tasks[k : k + FAN] for k in range(0, len(tasks), FAN)]
        tasks = [part[0] if len(part) == 1 else _task(_sum)(add, part) for part in parts]
    return tasks[0]


def _slice(chunk: TableLike, low: int, high: int) -> TableLike:
    return chunk.iloc[low:high] if hasattr(chunk, "iloc") else chunk[low:high]


@dataclass(frozen=True)
class _Refused:
    """Rows that cannot be used, and why. It is a result, since a task that fails is tried again."""

    problem: Exception


def _accepted(result: T | _Refused) -> T:
    if isinstance(result, _Refused):
        raise result.problem
    return result


def _refusing(f: Callable[P, T]) -> Callable[P, T | _Refused]:
    """Return f, with errors about the rows as results."""

    @wraps(f)
    def refusing(*args: P.args, **kwargs: P.kwargs) -> T | _Refused:
        try:
            return f(*args, **kwargs)
        except (TypeError, ValueError) as problem:
            return _Refused(problem)

    return refusing


@_refusing
def _sum_of_pieces(f: Callable[[Block[TableLike]], T], add: Callable[[T, T], T], *rows: *Group) -> T:
    """Return the sum of f over the pieces of a task, with one thread for products, so that it does not depend on the
    worker."""
    with limited(1):
        return reduce(add, (f(block) for block in _accepted(_blocks(*rows))))


@_refusing
def _sum(add: Callable[[T, T], T], results: list[T | _Refused]) -> T:
    """Return the sum of results, added to a copy of the first, since a result may be asked for again."""
    first, *others = [_accepted(result) for result in results]
    return reduce(add, others, deepcopy(first))


@_refusing
def _blocks(
    X: list[TableLike], y: list[TableLike], w: list[TableLike], names: Names, cells: bool, size: int
) -> list[Block[TableLike]]:
    """Return the blocks of at most `size` rows that slices of chunks make up, with names of the columns; `cells` leaves
    cells unconverted."""
    cells = cells and getattr(X[0], "dtype", None) != np.float64  # float64 needs no reading
    table = _joined(X) if cells else _table(X, names)
    n = len(table)
    Y = checked_targets(np.concatenate([np.asarray(part, np.float64) for part in y])) if y else np.zeros((n, 0))
    weights = checked_block_weights(np.concatenate([np.asarray(part) for part in w]) if w else None, n)
    return [Block(_slice(table, at.start, at.stop), Y[at], weights[at]) for at in blocks(n, size)]


def _joined(parts: list[TableLike]) -> TableLike:
    """Join the chunks to one frame or array."""
    if not is_frame(parts[0]):
        return np.concatenate([np.asarray(part) for part in parts])
    import pandas as pd

    return parts[0] if len(parts) == 1 else pd.concat(parts)


def _table(parts: list[TableLike], names: Names) -> Table:
    """Return the chunks as one table."""
    if not is_frame(parts[0]):
        return replace(read_array(_joined(parts)), names=names)
    tables = [read_frame(part) for part in parts]
    columns = tuple(joined_columns([*same]) for same in zip(*(table.columns for table in tables), strict=True))
    return Table(columns, names, tables[0].zones)


def chunks_of(X: TableLike | None) -> tuple[tuple[Chunk, ...], tuple[int, ...] | None]:
    """Return the delayed chunks of rows, and their lengths, None where they are not known; rows in memory are one
    chunk, of which every task is sent its part, and None has no chunks.

    Arrays are taken as they are written: optimised one by one, X and y that are parts of one array would each have it
    computed. Frames are optimised, which reads the columns in use alone.
    """
    if X is None:
        return (), ()
    if not is_dask(X):
        return (X if hasattr(X, "shape") else np.asarray(X),), (len(X),)
    if not hasattr(X, "chunks"):  # a frame or a series
        return tuple(X.to_delayed()), None
    if X.ndim > 1 and len(X.chunks[1]) > 1:
        X = X.rechunk({1: -1})
    known = None if np.isnan(X.chunks[0]).any() else tuple(map(int, X.chunks[0]))
    return tuple(X.to_delayed(optimize_graph=False).ravel()), known
