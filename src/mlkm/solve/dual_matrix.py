"""The product of a kernel matrix that does not fit into memory: a map over pairs of blocks of rows.

    (K V)(a) = sum_b K(a, b) V(b)

for every block a. Since K(b, a) = K(a, b)', a pair is visited once and gives K(a, b) V(b) to a and K(a, b)' V(a) to b.
Terms whose kernel is a product of codes, F F', need no pairs: F (F' V).

Kernels are in float32, sums over blocks in float64. `pair` is all the work there is, and knows nothing but two blocks
of codes and two pieces of V: pairs may be computed anywhere and in any order, and blocks may come from anywhere. As
many pairs as there is room for are kept, the others are computed anew for every product. Where the rows are on a
cluster, its workers compute the pairs: codes are sent to each of them once, V with every product.

A kernel matrix that is stored: strips of rows, each from its own diagonal on, 2 n^2 bytes in float32.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from .._types import Array
from ..data import Workers, blocks
from ..model.sum_kernel import SumKernel
from ..runtime.resources import side_by_side, stop_if_asked
from ..runtime.sizes import PAIR_ROWS, PIECE_ROWS, PRODUCT_TASKS

_SINGLE: Any = np.float32


class Blocks(Protocol):
    """Codes of rows (`SumKernel.codes`), block by block. Blocks need not be of one size."""

    @property
    def n_blocks(self) -> int:
        """Return the number of blocks."""

    def block(self, i: int) -> list[Array]:
        """Return the codes of block i."""


@dataclass(frozen=True)
class ArrayBlocks:
    """Blocks of codes that are in memory."""

    codes: list[Array]
    size: int = PAIR_ROWS

    @property
    def n_blocks(self) -> int:
        """Return the number of blocks."""
        return -(-len(self.codes[0]) // self.size)

    def block(self, i: int) -> list[Array]:
        """Return the codes of block i."""
        return [codes[i * self.size : (i + 1) * self.size] for codes in self.codes]


def product_of_pairs(
    kernel: SumKernel, codes: list[list[Array]], begins: tuple[int, ...], V: Array, numbers: list[tuple[int, int]]
) -> Array:
    """Return what the pairs of blocks with these numbers add to K V: a task that needs nothing else."""
    total = np.zeros(V.shape)
    for i, j in numbers:
        at, to = slice(begins[i], begins[i + 1]), slice(begins[j], begins[j + 1])
        left, right = pair(kernel, codes[i], codes[j], V[at], V[to])
        total[at] += left
        if i != j:
            total[to] += right
    return total


def pair(kernel: SumKernel, a: list[Array], b: list[Array], V_a: Array, V_b: Array) -> tuple[Array, Array]:
    """Return K(a, b) V(b) and K(a, b)' V(a), without the terms that are products of codes."""
    return sums(pieces(kernel, a, b), V_a, V_b)


def pieces(kernel: SumKernel, a: list[Array], b: list[Array]) -> Iterator[tuple[slice, Array]]:
    """Yield K(a, b), a few rows of a at a time."""
    for at in blocks(len(a[0]), PIECE_ROWS):
        stop_if_asked()
        yield at, kernel.apart([codes[at] for codes in a], b, _SINGLE)


def sums(K: Iterable[tuple[slice, Array]], V_a: Array, V_b: Array) -> tuple[Array, Array]:
    """Return what the pieces of K(a, b) add to the product at a and at b."""
    of_a, of_b = np.zeros(V_a.shape), np.zeros(V_b.shape)
    for at, piece in K:
        of_a[at] = piece @ V_b
        of_b += piece.T @ V_a[at]
    return of_a, of_b


@dataclass(frozen=True)
class Pairs:
    """K with the ridge on its diagonal, by blocks of codes that begin at the rows named, and end at the last one; the
    workers of a cluster compute its products, where there are any."""

    kernel: SumKernel
    blocks: Blocks
    begins: tuple[int, ...]
    ridge: Array
    n_kept: int = 0  # pairs whose pieces are kept from the first product on
    workers: Workers | None = None
    kept: dict[tuple[int, int], list[tuple[slice, Array]]] = field(default_factory=dict)
    sent: list[list[list[Array]]] = field(default_factory=list)  # the codes, once the workers have them

    @classmethod
    def of(
        cls, kernel: SumKernel, blocks: Blocks, ridge: Array, room: float = 0.0, workers: Workers | None = None
    ) -> "Pairs":
        """Return the matrix after a look at the size of every block. As many pairs are kept as there is room for, in
        bytes."""
        sizes = [len(blocks.block(i)[0]) for i in range(blocks.n_blocks)]
        n_kept = int(room // (4 * max(sizes) ** 2))
        return cls(kernel, blocks, (0, *np.cumsum(sizes).tolist()), ridge, n_kept, workers)

    def product(self, V: Array) -> Array:
        """Return K V for V (n, k), on two threads where they are allowed; the same sums on one."""
        single = V.astype(_SINGLE)
        apart = self._product_here(single) if self.workers is None else self._product_by(self.workers, single)
        return np.asarray(self._of_products(single) + apart + self.ridge[:, None] * V)

    def _product_here(self, V: Array) -> Array:
        """Return K V without ridge and without the terms that are products of codes, computed in this process."""
        even, odd = side_by_side(lambda: self._half(V, 0), lambda: self._half(V, 1))
        return even + odd

    def _product_by(self, workers: Workers, V: Array) -> Array:
        """Return the same, computed by the workers of a cluster."""
        if not self.sent:
            self.sent.append(workers.send([self.blocks.block(i) for i in range(self.blocks.n_blocks)]))
        codes, columns = self.sent[0], workers.send(V)
        tasks = [(self.kernel, codes, self.begins, columns, numbers) for numbers in self._tasks(PRODUCT_TASKS)]
        return np.asarray(workers.total(product_of_pairs, tasks), np.float64)

    def _tasks(self, n_tasks: int) -> list[list[tuple[int, int]]]:
        """Return the numbers of all pairs of blocks, in lists of nearly the same length."""
        every = [(i, j) for i in range(self.blocks.n_blocks) for j in range(i, self.blocks.n_blocks)]
        return [every[k::n_tasks] for k in range(min(n_tasks, len(every)))]

    def first_rows(self, most: int) -> Array:
        """Return the first rows of K, with all columns; its transpose is contiguous in memory."""
        first = self._first_codes(most)
        m = len(first[0])
        C: Array = np.empty((self.begins[-1], m), _SINGLE)
        for at, codes in self._walk():
            C[at] = self.kernel.between(codes, first, _SINGLE)
        C[np.diag_indices(m)] += self.ridge[:m].astype(_SINGLE)
        return C.T

    def _at(self, i: int) -> slice:
        return slice(self.begins[i], self.begins[i + 1])

    def _walk(self) -> Iterator[tuple[slice, list[Array]]]:
        """Yield all blocks in order, each with its rows."""
        for i in range(self.blocks.n_blocks):
            stop_if_asked()
            yield self._at(i), self.blocks.block(i)

    def _half(self, V: Array, part: int) -> Array:
        """Return the sums of every other pair of blocks."""
        total, n, seen = np.zeros(V.shape), self.blocks.n_blocks, 0
        for i in range(n):
            at, codes = self._at(i), self.blocks.block(i)
            for j in range(i + part, n, 2):
                to, seen = self._at(j), seen + 1
                K = self._pieces(i, j, codes, keep=2 * seen <= self.n_kept)
                left, right = sums(K, V[at], V[to])
                total[at] += left
                if i != j:
                    total[to] += right
        return total

    def _pieces(self, i: int, j: int, codes: list[Array], keep: bool) -> Iterable[tuple[slice, Array]]:
        """Return K of blocks i, whose codes are given, and j."""
        if (i, j) in self.kept:
            return self.kept[i, j]
        K = pieces(self.kernel, codes, self.blocks.block(j))
        return self.kept.setdefault((i, j), list(K)) if keep else K

    def _of_products(self, V: Array) -> Array:
        """Return F (F' V)."""
        parts = (self.kernel.products(codes).T @ V[at] for at, codes in self._walk())
        inner = np.asarray(sum(part.astype(np.float64) for part in parts)).astype(_SINGLE)
        return np.vstack([self.kernel.products(codes) @ inner for _, codes in self._walk()]).astype(np.float64)

    def _first_codes(self, most: int) -> list[Array]:
        """Return the codes of the first rows, from as few blocks as have them."""
        parts = []
        for at, codes in self._walk():
            parts.append([of_term[: most - at.start] for of_term in codes])
            if at.stop >= most:
                break
        return [np.concatenate(of_term) for of_term in zip(*parts, strict=True)]


@dataclass(frozen=True)
class Strips:
    """K with the ridge on its diagonal: its upper triangle by strips of rows, each from its own diagonal on."""

    strips: list[Array]

    @classmethod
    def of(cls, strips: Iterable[tuple[slice, Array]], ridge: Array) -> "Strips":
        """Return a kernel's strips, with the ridge added to them in place."""
        stored = []
        for at, strip in strips:
            strip[np.diag_indices(len(strip))] += ridge[at].astype(strip.dtype)
            stored.append(strip)
        return cls(stored)

    def product(self, V: Array) -> Array:
        """Return K V: every strip is read once, for the part right of the diagonal and for its mirror image below."""
        single, begin = V.astype(np.float32), 0
        total = np.zeros_like(single)
        for strip in self.strips:
            end = begin + len(strip)
            total[begin:end] += strip @ single[begin:]
            total[end:] += strip[:, len(strip) :].T @ single[begin:end]
            begin = end
        return total.astype(np.float64)

    def first_rows(self, most: int) -> Array:
        """Return the first rows of K, with all columns."""
        n = self.strips[0].shape[1]
        rows: Array = np.zeros((min(most, n), n), self.strips[0].dtype)
        begin = 0
        for strip in self.strips:
            end = min(begin + len(strip), len(rows))
            rows[begin:end, begin:] = strip[: end - begin]
            rows[end:, begin:end] = strip[: end - begin, end - begin : len(rows) - begin].T
            begin = end
            if end == len(rows):
                return rows
        return rows
