"""Tables that compare systems on simulated rows in both versions: which cells there are, and how one is run."""

from collections.abc import Sequence

from .. import systems
from ..data import CODED, WRITTEN
from ..experiment import Options
from ..store import Cell


def cells(
    rows: Sequence[str], names: Sequence[str], options: Options, coded: Sequence[str] | None = None
) -> list[Cell]:
    """Every system in every row for every seed. As coded, the rows are fixed, so that a system without randomness has
    one seed; `coded` lists the systems of that version where they are not the same. A quick run has one row of it."""
    coded_rows = rows[:1] if options.quick else rows
    return [
        Cell(version, row, name, seed)
        for version, chosen, shown in ((WRITTEN, names, rows), (CODED, names if coded is None else coded, coded_rows))
        for row in shown
        for seed in range(options.seeds)
        for name in chosen
        if not (version == CODED and name in systems.DETERMINISTIC and seed > 0)
    ]


def row_number(cell: Cell) -> int:
    """d, from a row "d = 16"."""
    return int(cell.row.removeprefix("d = "))
