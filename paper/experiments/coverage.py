"""Theorem 3 by simulation: coverage against m, the number of calibration rows, beside 1 - alpha and 1 - alpha + 1 / (m
+ 1).

A cell holds many repeated draws of training, calibration and test rows of Example 1, d = 4; one layer of random
features, 90 % bands, both scores.
"""

from pathlib import Path
from typing import Any

import numpy as np

from mlkm import RandomFeatureRidge
from mlkm.datasets import make_example1

from ..data import WRITTEN
from ..experiment import Block, Entry, Experiment, Figure, Options, Table, Text, save_figure
from ..store import Cell, Results

LEVEL, N, N_TEST = 0.9, 100, 200
SIZES = (
    9,
    18,
    19,
    48,
    49,
    98,
    99,
    198,
    199,
    499,
)  # 0.9 (m + 1) is just above a whole number, or whole: the upper and the lower side
SCORES = {"conformal MLKM": "variance", "split conformal": "absolute"}  # of one layer


def cells(options: Options) -> list[Cell]:
    sizes = SIZES[:3] if options.quick else SIZES
    return [
        Cell(WRITTEN, f"m = {m}", name, seed)
        for name in SCORES
        for m in sizes
        for seed in range(1 if options.quick else 4 * options.seeds)
    ]


def run(cell: Cell, options: Options) -> dict[str, Any]:
    """Coverage of each of the repeated draws of this cell."""
    from sklearn.frozen import FrozenEstimator

    from mlkm import ConformalRegressor

    m = int(cell.row.removeprefix("m = "))
    covered = []
    for draw in range(20 if options.quick else 50):
        seed = 1000 * cell.seed + draw
        X, y, _ = make_example1(N + m + N_TEST, 4, random_state=seed)
        model = RandomFeatureRidge(
            40, "gaussian", 3.0, interactions="full", relevance=False, linear=False, penalty=1e-3, random_state=seed
        )
        model.fit(X[:N], y[:N])
        band = ConformalRegressor(FrozenEstimator(model), confidence_level=LEVEL, score=SCORES[cell.system])
        interval = band.conformalize(X[N:-N_TEST], y[N:-N_TEST]).predict_interval(X[-N_TEST:])[1]
        covered.append(float(np.mean((interval[:, 0, 0] <= y[-N_TEST:]) & (y[-N_TEST:] <= interval[:, 1, 0]))))
    return {"covered": covered}


def report(results: Results, folder: Path) -> list[Block]:
    from matplotlib.figure import Figure as Canvas

    rows = [row for row in results.names("row") if all(results.lists(WRITTEN, row, name, "covered") for name in SCORES)]
    rows.sort(key=lambda row: int(row[4:]))
    if not rows:
        return []
    canvas = Canvas(figsize=(5.5, 3.6), layout="constrained")
    ax, lines = canvas.subplots(), []
    sizes = np.array([int(row[4:]) for row in rows])
    for k, name in enumerate(SCORES):
        draws = [np.concatenate(results.lists(WRITTEN, row, name, "covered")) for row in rows]
        means, errors = np.array([d.mean() for d in draws]), np.array([d.std(ddof=1) / np.sqrt(len(d)) for d in draws])
        ax.errorbar(sizes * 1.04**k, means, 2 * errors, fmt="o", markersize=4, label=name)
        lines.append(
            (name, [Entry(f"{100 * mean:.2f} ± {100 * error:.2f}") for mean, error in zip(means, errors, strict=True)])
        )
    lines.append(("rank / (m + 1)", [Entry(f"{100 * np.ceil(LEVEL * (m + 1) - 1e-9) / (m + 1):.2f}") for m in sizes]))
    lines.append(("Theorem 3", [Entry("", f"{100 * LEVEL:.0f} to {100 * (LEVEL + 1 / (m + 1)):.2f}") for m in sizes]))
    ax.axhline(LEVEL, color="black", linewidth=1, label="lower bound")
    ax.plot(sizes, LEVEL + 1 / (sizes + 1), color="black", linewidth=1, linestyle="--", label="upper bound")
    ax.set(xscale="log", xlabel="m", ylabel="coverage")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    path = folder / "coverage.png"
    save_figure(canvas, path)
    return [
        Table(
            "Coverage of the 90 % band in per cent, mean and standard error over draws [bounds]", ["band", *rows], lines
        ),
        Figure("Coverage against the number of calibration rows, with two standard errors", path),
        Text(
            "Without ties the coverage is exactly the rank ceil(0.9 (m + 1)) over m + 1: the lower bound where 0.9 (m +"
            " 1) is whole, and near the upper one where it is just above a whole number. The machine is one layer of 40"
            " random features on 100 rows; the theorem holds for any."
        ),
    ]


EXPERIMENT = Experiment("coverage", "Theorem 3: coverage against m", ("covered",), cells, run, report)
