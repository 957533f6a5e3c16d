"""Tables 5 and 6: Example 4, few inputs (d = 10 was run but left out of the paper) and many. Neither version has
noise."""

from functools import partial
from pathlib import Path
from typing import Any

from .. import systems
from ..data import CODED, WRITTEN, example4
from ..experiment import Block, Experiment, Options, Text
from ..settings import SHAPE4, descent4
from ..store import Cell, Results
from ..tables import comparison, seconds_of_fits
from ._simulated import cells as simulated_cells
from ._simulated import row_number

SYSTEMS = ("NN", "ResNet", "MLKM", "RKM", *systems.MISSING, *systems.OURS)


def cells(dimensions: tuple[int, ...], options: Options) -> list[Cell]:
    return simulated_cells([f"d = {d}" for d in (dimensions[:1] if options.quick else dimensions)], SYSTEMS, options)


def run(cell: Cell, options: Options) -> dict[str, Any]:
    d = row_number(cell)
    sample = example4(cell.version, d, cell.seed)
    if cell.system not in ("NN", "ResNet", "MLKM", "RKM"):
        return systems.measure(systems.plain(cell.system, cell.seed, options.quick), sample)
    settings = descent4(cell.system, d).shorter(options.effort / 2 if options.quick else 1)
    if cell.version == WRITTEN and cell.system in ("MLKM", "RKM"):
        return systems.measure(systems.faithful(cell.system, SHAPE4, settings, cell.seed), sample)
    from ..networks import PublishedNetwork

    return systems.measure(
        PublishedNetwork(cell.system, SHAPE4, settings, cell.seed, careful=cell.version != CODED), sample
    )


def report(name: str, results: Results, folder: Path) -> list[Block]:
    blocks: list[Block] = [
        comparison(results, name, version, "test_mse", f"Test MSE, {version}")
        for version in (WRITTEN, CODED)
        if results.names("row", version=version)
    ]
    if name == "table5":
        blocks.append(Text("The numbers marked * were computed in the published notebooks and are not in the paper."))
    return [*blocks, *seconds_of_fits(results, name, [(WRITTEN, "as-written")])]


TABLE5, TABLE6 = (
    Experiment(
        name,
        title,
        ("test_mse", "excess", "train_mse", "seconds"),
        partial(cells, dimensions),
        run,
        partial(report, name),
    )
    for name, title, dimensions in (
        ("table5", "Table 5: Example 4, few inputs", (1, 2, 5, 10)),
        ("table6", "Table 6: Example 4, ten active inputs of many", (100, 1000)),
    )
)
