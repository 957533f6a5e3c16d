"""The product of a kernel matrix that does not fit into memory: a map over pairs of blocks of rows.

    (K V)(a) = sum_b K(a, b) V(b)

for every block a. Since K(b, a) = K(a, b)', a pair is visited once and gives K(a, b) V(b) to a and K(a, b)' V(a) to b.
Terms whose kernel is a product of codes, F F', need no pairs: F (F' V).

Kernels are in float32, sums over blocks in float64. `product_of_pairs` is all the work there is, and knows nothing but
codes and V: pairs may be computed anywhere and in any order. As many pairs as there is room for are kept, the others
are computed anew for every product. Where the rows are on a cluster, its workers compute the pairs: codes are sent to
each of them once, V with every product.

A kernel matrix that is stored: strips of rows, each from its own diagonal on, 2 n^2 bytes in float32.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np

from .._types import Array
from ..data import Workers, blocks
from ..model.sum_kernel import SumKernel
from ..runtime.resources import side_by_side, stop_if_asked
from ..runtime.sizes import PAIR_ROWS, PIECE_ROWS, PRODUCT_TASKS

_SINGLE: Any = np.float32
Codes: TypeAlias = list[Array]  # of a block of rows, one array per term (`SumKernel.codes`)
Kept: TypeAlias = dict[tuple[int, int], list[tuple[slice, Array]]]  # K of pairs of blocks, in pieces


def code_blocks(codes: Codes, size: int = PAIR_ROWS) -> list[Codes]:
    """Return codes in blocks of rows, as views."""
    return [[of_term[at] for of_term in codes] for at in blocks(len(codes[0]), size)]


def places_of(several: list[Codes]) -> list[slice]:
    """Return the rows of every block."""
    ends = np.cumsum([len(block[0]) for block in several]).tolist()
    return [slice(begin, end) for begin, end in zip([0, *ends], ends, strict=False)]


def product_of_pairs(
    kernel: SumKernel,
    several: list[Codes],
    V: Array,
    pairs: list[tuple[int, int]],
    kept: Kept | None = None,
    n_kept: int = 0,
) -> Array:
    """Return what these pairs of blocks add to K V, without the terms that are products of codes: a task that needs
    nothing else. The first `n_kept` of the pairs are kept for the next product."""
    total, places, kept = np.zeros(V.shape), places_of(several), {} if kept is None else kept
    for number, (i, j) in enumerate(pairs):
        K: Iterable[tuple[slice, Array]] = kept.get((i, j), ()) or _pieces(kernel, several[i], several[j])
        if number < n_kept:
            K = kept.setdefault((i, j), list(K))
        of_i, of_j = np.zeros(V[places[i]].shape), np.zeros(V[places[j]].shape)
        for at, piece in K:
            of_i[at] = piece @ V[places[j]]
            of_j += piece.T @ V[places[i]][at]
        total[places[i]] += of_i
        if i != j:
            total[places[j]] += of_j
    return total


def _pieces(kernel: SumKernel, a: Codes, b: Codes) -> Iterator[tuple[slice, Array]]:
    """Yield K(a, b), a few rows of a at a time."""
    for at in blocks(len(a[0]), PIECE_ROWS):
        stop_if_asked()
        yield at, kernel.apart([codes[at] for codes in a], b, _SINGLE)


@dataclass(frozen=True)
class Pairs:
    """K with the ridge on its diagonal, by blocks of codes, which need not be of one size. Pairs are kept from the
    first product on as far as there is room, in bytes; the workers of a cluster compute products, where there are
    any."""

    kernel: SumKernel
    blocks: list[Codes]
    ridge: Array
    room: float = 0.0
    workers: Workers | None = None
    kept: Kept = field(default_factory=dict)
    sent: list[list[Codes]] = field(default_factory=list)  # the codes, once the workers have them

    def product(self, V: Array) -> Array:
        """Return K V for V (n, k), on two threads where they are allowed; the same sums on one."""
        single = V.astype(_SINGLE)
        apart = self._product_here(single) if self.workers is None else self._product_by(self.workers, single)
        return np.asarray(self._of_products(single) + apart + self.ridge[:, None] * V)

    def first_rows(self, most: int) -> Array:
        """Return the first rows of K, with all columns; its transpose is contiguous in memory."""
        first = [np.concatenate(of_term)[:most] for of_term in zip(*self.blocks, strict=True)]
        m = len(first[0])
        C: Array = np.empty((len(self.ridge), m), _SINGLE)
        for at, codes in self._walk():
            C[at] = self.kernel.between(codes, first, _SINGLE)
        C[np.diag_indices(m)] += self.ridge[:m].astype(_SINGLE)
        return C.T

    @cached_property
    def _every_pair(self) -> list[tuple[int, int]]:
        n = len(self.blocks)
        return [(i, j) for i in range(n) for j in range(i, n)]

    def _product_here(self, V: Array) -> Array:
        """Return K V without ridge and without the terms that are products of codes, computed in this process."""
        n_kept = int(self.room // (2 * 4 * max(len(codes[0]) for codes in self.blocks) ** 2))  # of either half
        half = partial(product_of_pairs, self.kernel, self.blocks, V, kept=self.kept, n_kept=n_kept)
        even, odd = side_by_side(*(partial(half, pairs=self._every_pair[k::2]) for k in (0, 1)))
        return even + odd

    def _product_by(self, workers: Workers, V: Array) -> Array:
        """Return the same, computed by the workers of a cluster."""
        if not self.sent:
            self.sent.append(workers.send(self.blocks))
        every, columns = self._every_pair, workers.send(V)
        parts = (every[k::PRODUCT_TASKS] for k in range(min(PRODUCT_TASKS, len(every))))
        tasks = [(self.kernel, self.sent[0], columns, pairs) for pairs in parts]
        return np.asarray(workers.total(product_of_pairs, tasks), np.float64)

    def _walk(self) -> Iterator[tuple[slice, Codes]]:
        """Yield all blocks in order, each with its rows."""
        for at, codes in zip(places_of(self.blocks), self.blocks, strict=True):
            stop_if_asked()
            yield at, codes

    def _of_products(self, V: Array) -> Array:
        """Return F (F' V)."""
        parts = (self.kernel.products(codes).T @ V[at] for at, codes in self._walk())
        inner = np.asarray(sum(part.astype(np.float64) for part in parts)).astype(_SINGLE)
        return np.vstack([self.kernel.products(codes) @ inner for _, codes in self._walk()]).astype(np.float64)


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
