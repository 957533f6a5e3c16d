"""Rows in pieces, and what is added up over them: memory that does not grow with the number of rows.

A piece is the next so many rows, counted from the first, whatever blocks the rows come in, and results are added in a
fixed tree: eight of one level are one of the next. So a sum has the same bits from an array, from a file and from any
number of workers.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from .._types import Array, BoolArray, IntArray
from ..runtime.progress import stage
from ..runtime.threads import blas_threads, limited, stopping, submitted
from .distinct import Rows, blocks

BLOCK = 2048  # rows whose products are taken in one go, in the precision of their features
FAN = 8  # results that are added one after the other before they count as one
_ENTRIES = 2**22  # numbers of a piece: 32 MB
_MOST_ROWS = 8 * BLOCK
_MOST_THREADS = 8

T = TypeVar("T")
S = TypeVar("S")


def piece_rows(n_columns: int) -> int:
    """How many rows are one piece."""
    return max(1, min(_MOST_ROWS, _ENTRIES // max(n_columns, 1)) // BLOCK) * BLOCK


class Tree(Generic[T]):
    """Results added in the order in which they come, as the leaves of a tree with `FAN` branches."""

    def __init__(self, add: Callable[[T, T], T]) -> None:
        self.add = add
        self.levels: list[list[T]] = []  # of every level what was added so far, if anything
        self.counts: list[int] = []

    def put(self, result: T, level: int = 0) -> None:
        if level == len(self.levels):
            self.levels.append([])
            self.counts.append(0)
        so_far = self.levels[level]
        total = self.add(so_far[0], result) if so_far else result
        self.counts[level] += 1
        if self.counts[level] < FAN:
            self.levels[level] = [total]
            return
        self.levels[level], self.counts[level] = [], 0
        self.put(total, level + 1)

    def total(self) -> T:
        result: list[T] = []
        for so_far in self.levels:
            result = [self.add(so_far[0], result[0])] if so_far and result else so_far or result
        if not result:
            raise ValueError("There are no rows.")
        return result[0]


def in_order(f: Callable[[S], T], items: Iterable[S]) -> Iterator[T]:
    """f of every item, in their order, on as many threads as BLAS may use, each with one thread for its products. No
    more items are looked at than are worked on, and one more."""
    n_threads = min(blas_threads(), _MOST_THREADS)
    if n_threads == 1:
        yield from map(f, items)
        return
    waiting: deque[Future[T]] = deque()
    with limited(1), ThreadPoolExecutor(n_threads) as pool, stopping() as stops:
        for item in items:
            waiting.append(submitted(pool, stops, partial(f, item)))
            if len(waiting) > n_threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def tree_sum(results: Iterable[T], add: Callable[[T, T], T], n_results: int | None = None) -> T:
    """All results added as the tree has it; how many there are is for those who ask how far this is."""
    tree = Tree(add)
    with stage("rows", n_results) as step:
        for result in results:
            tree.put(result)
            step()
        return tree.total()


@dataclass(frozen=True)
class Piece:
    """Standardised rows: inputs, targets, and weights that average to one over all pieces."""

    X: Array
    Y: Array
    weights: Array
    part: IntArray | None = None  # the subsample of every row, where rows are split

    def __len__(self) -> int:
        return len(self.weights)

    def take(self, at: BoolArray) -> "Piece":
        """Some of the rows, with the weights that they have."""
        if at.all():
            return self
        return Piece(self.X[at], self.Y[at], self.weights[at], None if self.part is None else self.part[at])

    def counted(self) -> "Piece":
        """The rows with a weight."""
        return self.take(self.weights > 0)


class Pieces(Protocol):
    """Standardised rows that are seen a piece at a time."""

    @property
    def n_rows(self) -> int: ...

    def reduce(self, f: Callable[[Piece], T], add: Callable[[T, T], T]) -> T:
        """f of every piece, added up; f is called wherever the rows are."""

    def each(self) -> Iterator[Piece]:
        """The pieces here, in order."""


@dataclass(frozen=True)
class RowPieces:
    """Those of rows in memory."""

    rows: Rows

    @property
    def n_rows(self) -> int:
        return len(self.rows)

    def reduce(self, f: Callable[[Piece], T], add: Callable[[T, T], T]) -> T:
        at = list(blocks(len(self.rows), piece_rows(self.rows.X.shape[1])))
        if len(at) == 1:  # with all threads in its products
            return f(self._piece(at[0]))
        return tree_sum(in_order(lambda own: f(self._piece(own)), at), add, len(at))

    def each(self) -> Iterator[Piece]:
        return map(self._piece, blocks(len(self.rows), piece_rows(self.rows.X.shape[1])))

    def _piece(self, at: Any) -> Piece:
        rows = self.rows
        return Piece(rows.X[at], rows.Y[at], rows.weights[at], None if rows.fold is None else rows.fold[at])
