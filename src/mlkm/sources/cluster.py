"""Rows of dask arrays and data frames: pieces are cut where the rows are, and added up there.

Plain tasks that can be run again, and a tree of sums: a lost worker costs the pieces that it had. One task has eight
pieces, the first level of the tree, so that a sum has the same bits for any chunks and any number of workers.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeVar

import numpy as np

from .._config import current_client
from .._threads import limited
from ..rows.pieces import FAN, piece_rows
from ..tables.frames import Table, is_frame, read_array, read_frame
from .base import Block, checked_block_weights, checked_targets
from .scan import joined_columns

T = TypeVar("T")
_RETRIES = 3  # of a task whose worker fails


def is_dask(X: Any) -> bool:
    """Whether X is a collection of dask, without importing it."""
    return type(X).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(X, "__dask_graph__")


@dataclass(frozen=True)
class DaskSource:
    """Delayed chunks of inputs, targets and weights, each with their lengths."""

    X: tuple[Any, ...]
    lengths: tuple[int, ...]
    y: tuple[Any, ...]
    y_lengths: tuple[int, ...]
    weights: tuple[Any, ...]
    weight_lengths: tuple[int, ...]
    names: tuple[str, ...] | None
    n_columns: int
    single_output: bool

    @property
    def n_rows(self) -> int:
        return sum(self.lengths)

    def reduce(self, f: Callable[[Block], T], add: Callable[[T, T], T]) -> T:
        """Sums of eight pieces each, and of these, level by level."""
        from dask import delayed

        own, plus = delayed(f, pure=False), delayed(add, pure=False)
        tasks = [delayed(_sum_of_pieces, pure=False)(own, plus, *given) for given in self._groups()]
        if not tasks:
            raise ValueError("Found array with 0 sample(s): the collection has no rows.")
        while len(tasks) > 1:
            parts = [tasks[k : k + FAN] for k in range(0, len(tasks), FAN)]
            tasks = [part[0] if len(part) == 1 else delayed(_sum, pure=False)(plus, part) for part in parts]
        result: T = compute(tasks[0])
        return result

    def blocks(self) -> Iterator[Block]:
        """The pieces here, eight at a time."""
        from dask import delayed

        for given in self._groups():
            yield from compute(delayed(_blocks, pure=False)(*given))

    def _groups(self) -> Iterator[tuple[Any, ...]]:
        """The arguments of every task: slices of chunks that make up the rows of eight pieces, and what they are."""
        size = piece_rows(self.n_columns)
        for begin in range(0, self.n_rows, FAN * size):
            end = min(begin + FAN * size, self.n_rows)
            X, y, w = (
                slices(chunks, lengths, begin, end)
                for chunks, lengths in (
                    (self.X, self.lengths), (self.y, self.y_lengths), (self.weights, self.weight_lengths),
                )
            )  # fmt: skip
            yield X, y, w, self.names, size


def slices(chunks: Sequence[Any], lengths: Sequence[int], begin: int, end: int) -> list[Any]:
    """Rows begin..end-1 of chunks one after the other, as delayed slices of them."""
    from dask import delayed

    result, at = [], 0
    for chunk, length in zip(chunks, lengths, strict=True):
        low, high = max(begin - at, 0), min(end - at, length)
        if low < high:
            whole = low == 0 and high == length
            result.append(chunk if whole else delayed(_slice, pure=False)(chunk, low, high))
        at += length
    return result


def _slice(chunk: Any, low: int, high: int) -> Any:
    return chunk.iloc[low:high] if hasattr(chunk, "iloc") else chunk[low:high]


def _sum_of_pieces(
    f: Callable[[Block], T], add: Callable[[T, T], T], X: Any, y: Any, w: Any, names: Any, size: int
) -> T:
    """With one thread for products, so that sums do not depend on the worker."""
    with limited(1):
        return reduce(add, (f(block) for block in _blocks(X, y, w, names, size)))


def _sum(add: Callable[[T, T], T], results: list[T]) -> T:
    """Into a copy: a result may be asked for again."""
    return reduce(add, results[1:], deepcopy(results[0]))


def _blocks(X: list[Any], y: list[Any], w: list[Any], names: Any, size: int) -> list[Block]:
    table = _table(X, names)
    n = len(table)
    Y = checked_targets(np.concatenate([np.asarray(part, np.float64) for part in y])) if y else np.zeros((n, 0))
    weights = checked_block_weights(np.concatenate([np.asarray(part) for part in w]) if w else None, n)
    at = [slice(begin, begin + size) for begin in range(0, n, size)]
    return [Block(Table(tuple(x[own] for x in table.columns), names), Y[own], weights[own]) for own in at]


def _table(parts: list[Any], names: Any) -> Table:
    """The chunks as one table."""
    if not is_frame(parts[0]):
        array = np.concatenate([np.asarray(part) for part in parts])
        return Table(read_array(array).columns, names)
    tables = [read_frame(part, names) for part in parts]
    columns = tuple(joined_columns([table.columns[j] for table in tables]) for j in range(len(tables[0].columns)))
    return Table(columns, names)


def compute(task: Any) -> Any:
    """The result of a task on the cluster in use; what the cluster loses is said in one sentence."""
    try:
        from distributed import Client, get_client
        from distributed.comm import CommClosedError
    except ImportError:  # dask alone, on threads of this process
        return task.compute()
    client: Client | None = current_client()
    if client is None:
        try:
            client = get_client()
        except ValueError:
            return task.compute()
    try:
        return client.compute(task, retries=_RETRIES).result()
    except (CommClosedError, TimeoutError) as problem:
        raise lost(problem) from problem
    except Exception as problem:
        if type(problem).__name__ in ("CancelledError", "FutureCancelledError", "KilledWorker"):
            raise lost(problem) from problem
        raise


def lost(problem: Exception) -> RuntimeError:
    return RuntimeError(
        f"The Dask cluster was lost during the work ({type(problem).__name__}); nothing was changed: start"
        " a cluster and call again."
    )


def dask_source(X: Any, y: Any = None, sample_weight: Any = None) -> DaskSource:
    """Collections of dask as a source; lengths that are unknown are computed, empty chunks are left out."""
    from dask import delayed

    chunks, names, n_columns = chunks_of(X)
    targets = () if y is None else chunks_of(y)[0]
    weights = () if sample_weight is None else chunks_of(sample_weight)[0]
    every = compute(delayed(list)([delayed(len, pure=False)(chunk) for chunk in (*chunks, *targets, *weights)]))
    a, b = len(chunks), len(chunks) + len(targets)
    lengths = tuple(every[:a]), tuple(every[a:b]), tuple(every[b:])
    for name, own in (("y", lengths[1]), ("sample_weight", lengths[2])):
        if own and sum(own) != sum(lengths[0]):
            raise ValueError(f"X has {sum(lengths[0])} rows and {name} has {sum(own)}; they must be the same.")
    single = y is None or getattr(y, "ndim", 1) == 1
    return DaskSource(chunks, lengths[0], targets, lengths[1], weights, lengths[2], names, n_columns, single)


def chunks_of(X: Any) -> tuple[tuple[Any, ...], tuple[str, ...] | None, int]:
    """Delayed chunks of rows, the names of the columns, and their number; arrays here are one chunk."""
    from dask import delayed

    if not is_dask(X):
        array = X if hasattr(X, "shape") else np.asarray(X)
        return (delayed(array),), None, int(array.shape[1]) if array.ndim > 1 else 1
    if hasattr(X, "npartitions") and hasattr(X, "to_delayed") and not hasattr(X, "chunks"):
        columns = getattr(X, "columns", None)
        if columns is None:  # a series
            return tuple(X.to_delayed()), None, 1
        names = tuple(columns) if all(isinstance(name, str) for name in columns) else None
        return tuple(X.to_delayed()), names, len(columns)
    if X.ndim > 1 and len(X.chunks[1]) > 1:
        X = X.rechunk({1: -1})
    return tuple(X.to_delayed().ravel()), None, int(X.shape[1]) if X.ndim > 1 else 1
