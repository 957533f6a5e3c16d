"""One warning counts the cells that are not of the type of their column in the fit, over all pieces of a table."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from ...exceptions import warn
from .columns import CategoryColumn, Column, DateColumn

_SHOWN = 40  # letters of a cell in a message


@dataclass(frozen=True)
class OddCells:
    """The name of a column, its type in the fit, how many cells are of another type, and one of them."""

    name: str
    column: Column
    count: int
    example: Any


_NOTED: ContextVar[list[OddCells] | None] = ContextVar("odd_cells", default=None)


def tell_odd(cells: list[OddCells]) -> None:
    """Warn about these cells, or collect them inside `one_warning`."""
    noted = _NOTED.get()
    if noted is not None:
        noted.extend(cells)
        return
    parts = []
    for name in dict.fromkeys(odd.name for odd in cells):
        every = [odd for odd in cells if odd.name == name]
        column, count, shown = every[0].column, sum(odd.count for odd in every), repr(every[0].example)
        shown = shown if len(shown) <= _SHOWN else shown[: _SHOWN - 3] + "..."
        level = isinstance(column, CategoryColumn)
        dates = isinstance(column, DateColumn) or (isinstance(column, CategoryColumn) and column.cells == "dates")
        kind = "date" if dates else "number"
        parts.append(
            f"column {name} held {kind}s in the fit, and {count}"
            f" {f'cell that is not a {kind} is' if count == 1 else f'cells that are not {kind}s are'} taken as"
            f" {'a new level' if level else 'missing'}, such as {shown}"
        )
    if parts:
        text = "; ".join(parts)
        warn(f"{text[0].upper()}{text[1:]}.")


@contextmanager
def one_warning() -> Iterator[None]:
    """Collect the cells of all rows that are read inside, also by other threads, and warn once at the end."""
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
