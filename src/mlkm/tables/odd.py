"""Cells that are not what their column was in the fit: one warning counts them, however many pieces rows come in."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from ..exceptions import warn
from .columns import CategoryColumn, Column, DateColumn

_SHOWN = 40  # letters of a cell in a message


@dataclass(frozen=True)
class OddCells:
    """The name of a column, what it was in the fit, how many cells do not fit that, and one of them."""

    name: str
    column: Column
    count: int
    example: Any


_NOTED: ContextVar[list[OddCells] | None] = ContextVar("odd_cells", default=None)


def tell_odd(cells: list[OddCells]) -> None:
    """Warn of these cells, or note them where `one_warning` waits for all."""
    noted = _NOTED.get()
    if noted is not None:
        noted.extend(cells)
        return
    parts = []
    for name in dict.fromkeys(own.name for own in cells):
        every = [own for own in cells if own.name == name]
        column, count, shown = every[0].column, sum(own.count for own in every), repr(every[0].example)
        shown = shown if len(shown) <= _SHOWN else shown[: _SHOWN - 3] + "..."
        level = isinstance(column, CategoryColumn)
        dates = isinstance(column, DateColumn) or (isinstance(column, CategoryColumn) and column.cells == "dates")
        parts.append(
            f"column {name} held {'dates' if dates else 'numbers'} in the fit, and {count}"
            f" {'cell that is none is' if count == 1 else 'cells that are none are'} taken as"
            f" {'a new level' if level else 'missing'}, such as {shown}"
        )
    if parts:
        told = "; ".join(parts)
        warn(f"{told[0].upper()}{told[1:]}.")


@contextmanager
def one_warning() -> Iterator[None]:
    """All rows that are read inside, in pieces and by other threads, are told of at its end."""
    if _NOTED.get() is not None:
        yield
        return
    noted: list[OddCells] = []
    token = _NOTED.set(noted)
    try:
        yield
    finally:
        _NOTED.reset(token)
    tell_odd(noted)
