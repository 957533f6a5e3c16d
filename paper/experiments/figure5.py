"""Figure 5: test MSE after every epoch of Example 3, networks and kernel machines with the published descent and
data."""

from pathlib import Path
from typing import Any

import numpy as np

from .. import systems
from ..data import CODED, example3
from ..experiment import Block, Experiment, Figure, Options, Text, save_figure
from ..settings import SHAPE3, descent3
from ..store import Cell, Results
from ..tables import number
from .table4 import ROWS, case

STEP = 5
NETWORKS = ("NN", "ResNet", "MLKM", "RKM")


def cells(options: Options) -> list[Cell]:
    rows = ROWS[:1] if options.quick else ROWS
    return [Cell(CODED, row, name, 0) for row in rows for name in (*NETWORKS, "mlkm")]


def run(cell: Cell, options: Options) -> dict[str, Any]:
    sample = example3(CODED, *case(cell.row))
    if cell.system == "mlkm":  # no epochs: one level
        return {"curve": [systems.measure(systems.plain("mlkm", cell.seed), sample)["test_mse"]]}
    from ..networks import PublishedNetwork

    descent = descent3(cell.system, *case(cell.row)).shorter(options.effort)
    network = PublishedNetwork(cell.system, SHAPE3, descent, cell.seed).fit(
        sample.X, sample.y, monitor=(sample.X_test, sample.y_test)
    )
    return {"curve": [float(f"{value:.4g}") for value in network.curve_[::STEP]]}


def report(results: Results, folder: Path) -> list[Block]:
    from matplotlib.figure import Figure as Canvas

    rows = [row for row in ROWS if row in results.names("row")]
    if not rows:
        return []
    canvas = Canvas(figsize=(9, 2.6 * ((len(rows) + 1) // 2)), layout="constrained")
    axes = canvas.subplots((len(rows) + 1) // 2, 2, squeeze=False)
    for row, ax in zip(rows, axes.flat, strict=False):
        for name in NETWORKS:
            for curve in results.lists(CODED, row, name, "curve"):
                ax.plot(
                    STEP * np.arange(len(curve)),
                    curve,
                    label=name,
                    linestyle="--" if name in ("NN", "ResNet") else "-",
                    linewidth=1.2,
                )
        lowest = min(
            [min(curve) for name in NETWORKS for curve in results.lists(CODED, row, name, "curve")], default=0.0
        )
        for level in results.lists(CODED, row, "mlkm", "curve"):
            shown, below = max(level[0], lowest / 3), level[0] < lowest / 3
            ax.axhline(shown, color="black", linewidth=1, label="mlkm")
            ax.annotate(
                f"{number(level[0])}{', below this axis' if below else ''}",
                (1000, shown),
                (0, 3),
                "data",
                "offset points",
                ha="right",
            )
        ax.set(title=row, yscale="log", xlabel="epoch", ylabel="test MSE")
        ax.spines[["top", "right"]].set_visible(False)
    for ax in axes.flat[len(rows) :]:
        ax.set_visible(False)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    canvas.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
    path = folder / "figure5.png"
    save_figure(canvas, path)
    return [
        Figure("Test MSE by epoch, Example 3, as-coded", path),
        Text(
            "The default of this package has no epochs; its test MSE is a black line, or a number where it lies off the"
            " axis. On the published rows of the mixtures the truth itself has 0.689 and 0.962."
        ),
    ]


EXPERIMENT = Experiment("figure5", "Figure 5: convergence in Example 3", ("curve",), cells, run, report)
