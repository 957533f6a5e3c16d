"""Some of the rows of a source, by what they say: a row belongs to the same part in every pass, whatever its place."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .scan import row_hashes
from .source import Block, Source


@dataclass(frozen=True)
class PartSource:
    """The rows whose hashes, as shares of the largest, lie in [begin, end)."""

    source: Source
    salt: int
    begin: float
    end: float

    @property
    def names(self) -> tuple[str, ...] | None:
        return self.source.names

    @property
    def n_columns(self) -> int:
        return self.source.n_columns

    @property
    def single_output(self) -> bool:
        return self.source.single_output

    def reduce(self, f: Callable[[Block], Any], add: Callable[[Any, Any], Any]) -> Any:
        found = self.source.reduce(_OfPart(f, self.salt, self.begin, self.end), _Added(add))
        if found is None:
            raise ValueError("A part of the rows is empty; give more rows.")
        return found[0]

    def blocks(self) -> Iterator[Block]:
        for block in self.source.blocks():
            own = _part(block, self.salt, self.begin, self.end)
            if len(own):
                yield own


def _part(block: Block, salt: int, begin: float, end: float) -> Block:
    share = row_hashes(block.table, block.Y, salt) / 2.0**64
    at = np.flatnonzero((begin <= share) & (share < end))
    return Block(block.table.take(at), block.Y[at], block.weights[at])


@dataclass(frozen=True)
class _OfPart:
    """f of the rows of the part; None of none of them."""

    f: Callable[[Block], Any]
    salt: int
    begin: float
    end: float

    def __call__(self, block: Block) -> tuple[Any] | None:
        own = _part(block, self.salt, self.begin, self.end)
        return (self.f(own),) if len(own) else None


@dataclass(frozen=True)
class _Added:
    add: Callable[[Any, Any], Any]

    def __call__(self, a: tuple[Any] | None, b: tuple[Any] | None) -> tuple[Any] | None:
        return (self.add(a[0], b[0]),) if a is not None and b is not None else a or b
