"""Figures 3 and 4: the 95 % bands of Examples 1 and 2 with d = 8 along one input, the others at 1/2; the default and
the paper's machines."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mlkm.datasets import example1_truth, example2_truth

from .. import systems
from ..data import WRITTEN, example1, example2
from ..experiment import Block, Experiment, Figure, Options, Text, save_figure
from ..settings import DESCENT12, shape12
from ..store import Cell, Results

SYSTEMS = ("MLKM", "RKM", "mlkm")
N_PANELS, N_POINTS, D = 5, 81, 8


def along(j: int) -> np.ndarray:
    X = np.full((N_POINTS, D), 0.5)
    X[:, j] = np.linspace(0, 1, N_POINTS)
    return X


def cells(options: Options) -> list[Cell]:
    return [Cell(WRITTEN, f"d = {D}", name, 0) for name in SYSTEMS]  # a picture is one fit


def run(example: int, cell: Cell, options: Options) -> dict[str, Any]:
    from sklearn.frozen import FrozenEstimator

    from mlkm import ConformalRegressor

    sizes = (500, 500, 1000) if options.quick else (2000, 2000, 4000)
    sample = (example1 if example == 1 else example2)(WRITTEN, D, cell.seed, sizes)
    if cell.system == "mlkm":
        model = systems.plain("mlkm", cell.seed).fit(sample.X, sample.y)
    else:
        settings = DESCENT12[example, cell.system][D].shorter(options.effort)
        model = systems.faithful(cell.system, shape12(D), settings, cell.seed).fit(sample.X, sample.y)
    band = ConformalRegressor(FrozenEstimator(model), confidence_level=0.95, score="variance").conformalize(
        sample.X_cal, sample.y_cal
    )
    mean, interval = band.predict_interval(np.vstack([along(j) for j in range(N_PANELS)]))
    return {
        name: np.round(values, 4).tolist()
        for name, values in (("mean", mean), ("lower", interval[:, 0, 0]), ("upper", interval[:, 1, 0]))
    }


def report(name: str, example: int, results: Results, folder: Path) -> list[Block]:
    from matplotlib.figure import Figure as Canvas

    names = [system for system in SYSTEMS if results.lists(WRITTEN, f"d = {D}", system, "mean")]
    if not names:
        return []
    truth = example1_truth if example == 1 else example2_truth
    canvas = Canvas(figsize=(2.6 * N_PANELS, 2.5 * len(names)), layout="constrained")
    axes = canvas.subplots(len(names), N_PANELS, sharex=True, sharey=True, squeeze=False)
    x, outside = np.linspace(0, 1, N_POINTS), []
    for system, line in zip(names, axes, strict=True):
        values = {
            key: np.array(results.lists(WRITTEN, f"d = {D}", system, key)[0]).reshape(N_PANELS, -1)
            for key in ("mean", "lower", "upper")
        }
        for j, ax in enumerate(line):
            ax.fill_between(
                x, values["lower"][j], values["upper"][j], color="tab:blue", alpha=0.2, linewidth=0, label="95 % band"
            )
            ax.plot(x, values["mean"][j], color="tab:blue", linestyle="--", label="fit")
            f = truth(along(j))
            ax.plot(x, f, color="tab:red", label="truth")
            missed = x[(f < values["lower"][j]) | (f > values["upper"][j])]
            if len(missed):
                outside.append(f"{system}, x_{j + 1} between {missed.min():.2f} and {missed.max():.2f}")
            ax.spines[["top", "right"]].set_visible(False)
        line[0].set_ylabel(f"{system}\n$f(x)$")
    for j, ax in enumerate(axes[-1]):
        ax.set_xlabel(f"$x_{j + 1}$, others 1/2")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    canvas.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    path = folder / f"{name}.png"
    save_figure(canvas, path)
    text = (
        "The published picture of the RKM scales its band by the training loss of the MLKM; here each machine has its"
        " own. Bands are for y and on average over its rows, not for f at every x. Where the truth leaves the band:"
        f" {'; '.join(outside) or 'nowhere'}."
    )
    return [Figure(f"Bands of Example {example}, d = 8, as written", path), Text(text)]


FIGURE3, FIGURE4 = (
    Experiment(
        f"figure{k + 2}",
        f"Figure {k + 2}: bands of Example {k}",
        ("mean", "lower", "upper"),
        cells,
        partial(run, k),
        partial(report, f"figure{k + 2}", k),
    )
    for k in (1, 2)
)
