"""What some choices of the published program do that the text does not have or that are not alike for all systems: the
number of rows, equal initial weights, no stopping, the last epoch. The rest of the findings shows in the tables,
as-written beside as-coded."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from .. import systems
from ..data import CODED, Sample, example1
from ..experiment import Block, Experiment, Options, Text
from ..settings import DESCENT12, KRR_ALPHA, RF_ALPHA, shape12
from ..store import Cell, Results
from ..tables import comparison
from ._simulated import row_number

MACHINES = ("MLKM, as published", "MLKM, uniform initial weights", "MLKM, stopped after T = 100")
SYSTEMS = ("KRR, 4000 rows", "KRR, 2000 rows", "RF, 4000 rows", "RF, 2000 rows", *MACHINES)
DIMENSIONS = (4, 8, 16)  # where the published MLKM starts from weights that are all -0.5


def cells(options: Options) -> list[Cell]:
    dimensions = DIMENSIONS[:1] if options.quick else DIMENSIONS
    return [
        Cell(CODED, f"d = {d}", name, seed)
        for d in dimensions
        for name in SYSTEMS
        for seed in range(1 if name.startswith("KRR") else options.seeds)
    ]


def run(cell: Cell, options: Options) -> dict[str, Any]:
    d = row_number(cell)
    sample = example1(CODED, d, cell.seed)
    if cell.system.startswith("MLKM"):
        return _machine(cell, d, sample, options)
    make, alpha = (
        (systems.kernel_ridge, KRR_ALPHA[1][d])
        if cell.system.startswith("KRR")
        else (systems.random_features, RF_ALPHA[1][d])
    )
    model = make(alpha, cell.seed)
    return {"test_mse": systems.measure(model, sample, all_rows="4000" in cell.system)["test_mse"]}


def _machine(cell: Cell, d: int, sample: Sample, options: Options) -> dict[str, Any]:
    from ..networks import PublishedNetwork

    descent = DESCENT12[1, "MLKM"][d].shorter(options.effort)
    if "uniform" in cell.system:
        descent = replace(descent, init=(-0.5, 0.5))
    if "stopped" in cell.system:
        descent = replace(descent, patience=100)
    network = PublishedNetwork("MLKM", shape12(d), descent, cell.seed).fit(
        sample.X, sample.y, monitor=(sample.X_test, sample.y_test)
    )
    return {"test_mse": network.curve_[-1], "best_mse": min(network.curve_), "epochs": len(network.curve_)}


def report(results: Results, folder: Path) -> list[Block]:
    return [
        comparison(
            results,
            "",
            CODED,
            "test_mse",
            "Test MSE of Example 1, as-coded, after the last epoch",
            lowest_is_best=False,
        ),
        comparison(
            results, "", CODED, "best_mse", "Test MSE of the epoch that is best on the test rows", lowest_is_best=False
        ),
        comparison(results, "", CODED, "epochs", "Epochs", lowest_is_best=False),
        Text(
            "In Tables 2 and 3 KRR and RF have 4000 rows and MLKM and RKM 2000. The published MLKM starts from weights"
            " that are all -0.5 at these dimensions and runs for 2000 epochs, while the text has uniform weights and"
            " stops after T = 50 or 100 epochs without progress."
        ),
    ]


EXPERIMENT = Experiment(
    "deviations",
    "Rows, initial weights and stopping of the published program",
    ("test_mse", "best_mse", "epochs"),
    cells,
    run,
    report,
)
