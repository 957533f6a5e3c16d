"""Bias reduction by cross-fitting (Section "Bias reduction"): squared bias and variance of MLKM and RKM without and with rotations.

Repeated training samples of Example 1, d = 4, one draw of the random features per machine; predictions at fixed points. The squared bias is estimated
without the share that the variance of the mean adds to it. Rotations give each layer half of the rows, so that a machine without rotations on half of
the rows is the other side of the comparison.
"""

from pathlib import Path
from typing import Any

import numpy as np

from mlkm.datasets import example1_truth, make_example1

from .. import systems
from ..data import WRITTEN
from ..experiment import Block, Entry, Experiment, Options, Table, Text
from ..settings import Descent, shape12
from ..store import Cell, Results
from ..tables import number

HALF = ", half of the rows"
SYSTEMS = ("MLKM", f"MLKM{HALF}", "MLKM+", "RKM", f"RKM{HALF}", "RKM+")
POINTS = 100


def cells(options: Options) -> list[Cell]:
    return [Cell(WRITTEN, "d = 4", name, seed) for name in SYSTEMS for seed in range(4 if options.quick else 4 * options.seeds)]


def points() -> np.ndarray:
    return make_example1(POINTS, 4, random_state=10**6)[0]


def run(cell: Cell, options: Options) -> dict[str, Any]:
    X, y, _ = make_example1(500 if options.quick else 2000, 4, random_state=cell.seed)
    descent = Descent(1e-3, 2e-3, epochs=2000).shorter(options.effort)
    n = len(X) // 2 if cell.system.endswith(HALF) else len(X)
    fit = systems.faithful(cell.system.removesuffix(HALF), shape12(4), descent, seed=0).fit(X[:n], y[:n])
    return {"fit": np.round(fit.predict(points()), 4).tolist()}


def report(results: Results, folder: Path) -> list[Block]:
    truth, lines = example1_truth(points()), []
    for name in SYSTEMS:
        fits = np.array(results.lists(WRITTEN, "d = 4", name, "fit"))
        if len(fits) < 2:
            continue
        variance = fits.var(axis=0, ddof=1)
        bias = (fits.mean(axis=0) - truth) ** 2 - variance / len(fits)
        lines.append((name, [Entry(f"{number(value.mean())} ± {value.std() / np.sqrt(POINTS):.1g}") for value in (bias, variance, bias + variance)]))
    return [
        Table(
            "Mean over test points of squared bias, variance and their sum, with standard errors over points",
            ["machine", "squared bias", "variance", "sum"],
            lines,
        ),
        Text(
            "Initial weights and features are the same in all samples. Rotations give each layer half of the rows and average two machines; the row "
            "between, one machine on half of the rows, tells the effect of fewer rows from that of less dependence between layers."
        ),
    ]


EXPERIMENT = Experiment("bias", "Cross-fitting: bias and variance", ("fit",), cells, run, report)
