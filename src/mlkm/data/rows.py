"""Rows in blocks: what a fit, a score or a band looks at, wherever the rows are.

Rows are in memory, in files or on a cluster. They are seen a block at a time, as often as asked, and what is computed
of every block is added up (`map_reduce`), so that memory does not grow with the number of rows. A block is the next so
many rows, counted from the first, whatever chunks they are stored in, and results are added in a fixed tree: eight of
one level are one of the next. So a sum has the same bits from an array, from a file and from any number of workers.
"""

import operator
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol

import numpy as np

from .._types import Array, BoolArray, IntArray
from ..runtime.progress import stage
from ..runtime.resources import blas_threads, limited, stopping, submitted
from ..runtime.sizes import BLOCK, FAN, PART_ENTRIES, PART_ROWS, PART_THREADS, TREE_LEVELS
from .tables.columns import Inputs, one_warning

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Cells = TypeVar("Cells", default=Array)
else:
    from typing import TypeVar

    Cells = TypeVar("Cells", bound=Array)  # what a model file holds

T = TypeVar("T")
S = TypeVar("S")
Others = TypeVar("Others")

NO_WEIGHT = "All sample weights are zero, so there is no row to fit; give at least one row a positive weight."
NONE_LEFT = "A part of the rows is empty; give more rows."


@dataclass(frozen=True)
class Block(Generic[Cells]):
    """Rows that are in memory together.

    Attributes
    ----------
    X : inputs (n, d), standardised; before they are prepared, the cells of a table
    Y : targets (n, k), k being 0 where there are none
    weights : the weight of every row
    repeats : how many copies every row stands for, None for one each
    fold : the part of the rows that each belongs to, None where they are not split
    kinds : what the inputs are, None for numbers
    """

    X: Cells
    Y: Array
    weights: Array
    repeats: Array | None = None
    fold: IntArray | None = None
    kinds: Inputs | None = None

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def inputs(self) -> Inputs:
        """Return the kinds of the inputs."""
        return self.kinds or Inputs.numbers_only(self.X.shape[1])  # type: ignore[attr-defined]

    @property
    def copies(self) -> Array:
        """Return how many copies every row stands for."""
        return np.ones(len(self)) if self.repeats is None else self.repeats

    @property
    def counts(self) -> Array:
        """Return the weights, scaled so that they add up to the number of rows with all their copies."""
        return np.asarray(self.weights * (self.copies.sum() / len(self)))

    def rows(self, at: slice | IntArray | BoolArray) -> "Block[Cells]":
        """Return the rows at these places, with the weights that they have."""
        repeats = None if self.repeats is None else self.repeats[at]
        fold = None if self.fold is None else self.fold[at]
        X = self.X[at]  # type: ignore[index]
        return Block(X, self.Y[at], self.weights[at], repeats, fold, self.kinds)

    def take(self, at: slice | IntArray) -> "Block[Cells]":
        """Return the rows at these places, with weights that average to one again."""
        taken = self.rows(at)
        return replace(taken, weights=taken.weights / taken.weights.mean())

    def counted(self) -> "Block[Cells]":
        """Return the rows with a weight."""
        counted = self.weights > 0
        return self if counted.all() else self.rows(counted)

    def blocks(self, size: int) -> Iterator[slice]:
        """Return slices of at most `size` rows each, in order."""
        return blocks(len(self), size)


def blocks(n: int, size: int) -> Iterator[slice]:
    """Return slices of at most `size` of n rows, in order."""
    return (slice(begin, min(begin + size, n)) for begin in range(0, n, size))


def joined(several: list[Block[Array]]) -> Block[Array]:
    """Return the rows of all blocks, in order, as one block."""
    if len(several) == 1:
        return several[0]
    X, Y = (np.vstack([getattr(block, name) for block in several]) for name in ("X", "Y"))
    return Block(X, Y, np.concatenate([block.weights for block in several]), kinds=several[0].kinds)


def block_rows(n_columns: int) -> int:
    """Return how many rows are one block."""
    return max(1, min(PART_ROWS, PART_ENTRIES // max(n_columns, 1)) // BLOCK) * BLOCK


class Workers(Protocol):
    """The workers of a cluster, which compute tasks on what they are sent."""

    def send(self, values: S) -> S:
        """Return values that all tasks need, as an argument for tasks: every worker is sent them once."""

    def total(self, f: Callable[..., Array], tasks: Iterable[tuple[object, ...]]) -> Array:
        """Return the sum of f of the arguments of every task."""


class RowFunction(Protocol):
    """A function of rows that are in memory together, whose results have an entry for every row."""

    def __call__(self, rows: Any) -> tuple[Array, ...]: ...

    def to_send(self) -> "RowFunction":
        """Return the function as it is sent to rows in files or on a cluster."""


class Rows(ABC, Generic[Cells]):
    """Rows that need not fit into memory. Their blocks are read in this process, in order, and worked on by threads,
    unless they are on a cluster."""

    if TYPE_CHECKING:

        @property
        def names(self) -> tuple[str, ...] | None:
            """Return the names of the columns, if they have any."""

        @property
        def n_columns(self) -> int:
            """Return the number of columns."""

        @property
        def single_output(self) -> bool:
            """Return whether targets are one-dimensional."""

        @property
        def n(self) -> int:
            """Return the number of rows."""

    in_memory: ClassVar[bool] = False  # whether all rows are in the memory of this process anyway
    workers: ClassVar[Workers | None] = None  # those of the cluster that the rows are on

    def n_blocks(self) -> int | None:
        """Return how many blocks there are, where that is known without reading them."""
        return None

    def map_reduce(self, f: Callable[[Block[Cells]], T], add: Callable[[T, T], T]) -> T:
        """Return f of every block, added up in the order of `tree_sum`; f is called where the rows are."""
        with one_warning():
            if self.n_blocks() == 1:  # with all threads in its products
                return f(next(iter(self.blocks())))
            return tree_sum(in_order(f, self.blocks()), add, self.n_blocks())

    @abstractmethod
    def blocks(self) -> Iterator[Block[Cells]]:
        """Return the blocks, in order."""

    def map(
        self, f: Callable[[Block[Cells]], Block[Others]], n: int | None = None, none_left: str = NONE_LEFT
    ) -> "Rows[Others]":
        """Return rows whose blocks are f of these, made anew in every pass; blocks without rows are left out, and
        `none_left` is the error where that leaves none."""
        return MappedRows(self, f, self.names, self.n_columns, self.single_output, n, none_left)

    def counted(self) -> "Rows[Cells]":
        """Return the rows with a weight; rows of which none has one are refused."""
        return self.map(Block.counted, none_left=NO_WEIGHT)

    def gathered(self, f: Callable[[Block[Cells]], Block[Array]]) -> Block[Array]:
        """Return f of all blocks, which are computed where the rows are, as one block in memory."""
        return joined(self.map_reduce(partial(_listed, f), operator.add))

    @property
    def weighted(self) -> bool:
        """Return whether weights were given that count even if all of them are 1."""
        return False

    def apply(self, f: RowFunction, shapes: Sequence[tuple[int, ...]]) -> tuple[Array, ...]:
        """Return the results of f for all rows, in their order; `shapes` are those of one row of each result."""
        sent = f.to_send()
        with one_warning():
            parts = list(in_order(lambda block: sent(block.X), self.blocks()))
        if not parts:
            raise ValueError(
                f"Found array with 0 sample(s) (shape=(0, {self.n_columns})) while a minimum of 1 is required."
            )
        return tuple(np.concatenate(results) for results in zip(*parts, strict=True))

    def together(self, what: str) -> Any:
        """Return all rows as they were given in memory, or refuse rows in files or on a cluster with an error that
        names what needs them together."""
        raise TypeError(f"{what} looks at rows in memory; give an array or a frame, such as some rows of the table.")

    def as_cells(self) -> "Rows[Any]":
        """Return the rows with unconverted cells, which a model reads by the types of its fit."""
        return self

    def narrowed(self, names: tuple[str, ...] | None) -> "Rows[Cells]":
        """Return the rows with these columns alone, where others need not be read."""
        return self


def _listed(f: Callable[[Block[Cells]], Block[Array]], block: Block[Cells]) -> list[Block[Array]]:
    return [f(block)]


@dataclass(frozen=True)
class MemoryRows(Rows[Cells]):
    """A block in memory as rows."""

    in_memory: ClassVar[bool] = True
    block: Block[Cells]
    names: tuple[str, ...] | None = None
    single_output: bool = True

    @property
    def n_columns(self) -> int:
        """Return the number of columns."""
        X: Any = self.block.X
        return int(X.shape[1])

    @property
    def n(self) -> int:
        """Return the number of rows."""
        return len(self.block)

    def n_blocks(self) -> int:
        """Return the number of blocks."""
        return -(-self.n // block_rows(self.n_columns))

    def blocks(self) -> Iterator[Block[Cells]]:
        """Return the blocks, in order."""
        return (self.block.rows(at) for at in blocks(self.n, block_rows(self.n_columns)))


@dataclass(frozen=True)
class MappedRows(Rows[Others], Generic[Others, Cells]):
    """Blocks that are made of those of other rows in every pass, without those that have no rows then."""

    given: Rows[Cells]
    f: Callable[[Block[Cells]], Block[Others]]
    names: tuple[str, ...] | None
    n_columns: int
    single_output: bool
    known_n: int | None
    none_left: str

    @property
    def n(self) -> int:
        """Return the number of rows, counted in a pass over them where it was not given."""
        return self.map_reduce(len, operator.add) if self.known_n is None else self.known_n

    def map_reduce(self, f: Callable[[Block[Others]], T], add: Callable[[T, T], T]) -> T:
        """Return f of every mapped block, added up in the order of the given rows; rows that are all left out are
        refused."""
        found: tuple[T] | None = self.given.map_reduce(partial(_composed, self.f, f), partial(_added_if_any, add))
        if found is None:
            raise ValueError(self.none_left)
        return found[0]

    def blocks(self) -> Iterator[Block[Others]]:
        """Return the mapped blocks that have rows, in order."""
        return (block for block in map(self.f, self.given.blocks()) if len(block))


def _composed(
    f: Callable[[Block[Cells]], Block[Others]], g: Callable[[Block[Others]], T], block: Block[Cells]
) -> tuple[T] | None:
    """Return g(f(block)); None where f leaves no rows."""
    made = f(block)
    return (g(made),) if len(made) else None


def _added_if_any(add: Callable[[T, T], T], a: tuple[T] | None, b: tuple[T] | None) -> tuple[T] | None:
    """Return the sum of two results, where None stands for no rows."""
    return (add(a[0], b[0]),) if a is not None and b is not None else a or b


def in_order(f: Callable[[S], T], items: Iterable[S]) -> Iterator[T]:
    """Yield f of every item, in their order, on as many threads as BLAS may use, each with one thread for its products.
    No more items are looked at than are worked on, and one more."""
    n_threads = min(blas_threads(), PART_THREADS)
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
    """Return the sum of all results, which are the leaves of a tree with `FAN` branches and are added in the order in
    which they come; `n_results` is for those who ask how far this is."""
    with stage("rows", n_results) as step:
        sums = _counted(results, step)
        for _ in range(TREE_LEVELS):
            sums = _sums_of_branches(sums, add)
        for total in sums:
            return total
        raise ValueError("There are no rows.")


def _counted(results: Iterable[T], step: Callable[[], None]) -> Iterator[T]:
    for result in results:
        yield result
        step()


def _sums_of_branches(results: Iterator[T], add: Callable[[T, T], T]) -> Iterator[T]:
    """Yield the sums of every `FAN` results; each is added as soon as it is there, so that none is held."""
    for total in results:
        for result in islice(results, FAN - 1):
            total = add(total, result)
        yield total
