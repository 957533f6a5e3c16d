"""Theorem 1 by simulation: excess risk against n for targets of known smoothness, the fitted slope beside -2q / (2q +
d).

The target is f(x) = sum_k k^-(q + 1/2) c_k sqrt(2) cos(pi k x) with signs c_k: smooth of order q and of no higher one
in the sense of Sobolev. One layer of Matern features, D = n^(2q / (2q + d)) log n as in the theorem, though 1000 at
most, penalty by leave-one-out, d = 1.
"""

from pathlib import Path
from typing import Any

import numpy as np

from mlkm import RandomFeatureRidge
from mlkm.kernels import Matern

from ..data import Array
from ..experiment import Block, Entry, Experiment, Figure, Options, Table, Text, save_figure
from ..store import Cell, Results
from ..tables import number, with_error

SMOOTHNESS = (0.5, 1.0, 2.0)
N_TERMS = 500


def target(q: float, x: Array) -> Array:
    signs = np.random.default_rng(5).choice([-1.0, 1.0], N_TERMS)
    k = np.arange(1, N_TERMS + 1)
    return np.cos(np.pi * np.outer(x, k)) @ (signs * np.sqrt(2) * k ** -(q + 0.5))


def cells(options: Options) -> list[Cell]:
    sizes = (100, 400, 1600) if options.quick else (100, 200, 400, 800, 1600, 3200, 6400)
    repeats = 3 if options.quick else 4 * options.seeds
    return [
        Cell(f"q = {q:g}", f"n = {n}", "MLKM, one layer", seed)
        for q in SMOOTHNESS
        for n in sizes
        for seed in range(repeats)
    ]


def run(cell: Cell, options: Options) -> dict[str, Any]:
    q, n = float(cell.version.removeprefix("q = ")), int(cell.row.removeprefix("n = "))
    rng = np.random.default_rng([cell.seed, n])
    x, grid = rng.uniform(size=n), (np.arange(2000) + 0.5) / 2000
    y = target(q, x) + 0.5 * rng.standard_normal(n)
    D = min(int(n ** (2 * q / (2 * q + 1)) * np.log(n)), 1000)
    model = RandomFeatureRidge(
        D, Matern(nu=q), 10.0, interactions="full", relevance=False, linear=False, random_state=cell.seed
    )
    fit = model.fit(x[:, None], y).predict(grid[:, None])
    return {"excess": float(np.mean((fit - target(q, grid)) ** 2))}


def slopes(results: Results) -> dict[str, tuple[float, Array]]:
    """By smoothness: the theorem's exponent and the slopes of log(excess risk) on log(n), one for every seed. The
    sizes of one seed are independent draws. Smoothnesses that lack a size are left out."""
    rows, found = results.names("row"), {}
    n = np.array([int(row[4:]) for row in rows], dtype=float)
    for version in results.names("version"):
        values = [results.values(version, row, "MLKM, one layer", "excess") for row in rows]
        if len(rows) > 1 and all(len(v) for v in values):
            q = float(version.removeprefix("q = "))
            each = [np.polyfit(np.log(n), np.log(draw), 1)[0] for draw in zip(*values, strict=False)]
            found[version] = (-2 * q / (2 * q + 1), np.array(each))
    return found


def report(results: Results, folder: Path) -> list[Block]:
    from matplotlib.figure import Figure as Canvas

    rows, found = results.names("row"), slopes(results)
    if not found:
        return []
    canvas = Canvas(figsize=(5.5, 3.6), layout="constrained")
    ax, lines = canvas.subplots(), []
    n = np.array([int(row[4:]) for row in rows], dtype=float)
    for version, (bound, each) in found.items():
        values = [results.values(version, row, "MLKM, one layer", "excess") for row in rows]
        means = np.array([v.mean() for v in values])
        slope, level = np.polyfit(np.log(n), np.log(means), 1)
        points = ax.loglog(n, means, "o", label=f"{version}: slope {slope:.2f}, theorem {bound:.2f}")
        ax.loglog(n, np.exp(level) * n**slope, color=points[0].get_color(), linewidth=1)
        lines.append((version, [*(Entry(with_error(v)) for v in values), Entry(with_error(each), number(bound))]))
    ax.set(xlabel="n", ylabel="excess risk")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    path = folder / "rates.png"
    save_figure(canvas, path)
    text = (
        "Theorem 1 is an upper bound: a slope at or below it agrees with it. The target lies on the edge of its class,"
        " where the bound should be nearly reached. The theorem wants densities of the frequencies that are"
        " sub-Gaussian; those of the Matern kernel are not. D follows the theorem up to 1000 features, which are"
        " reached at n = 800 for q = 2 and at n = 1600 for q = 1. The table's slopes are means over seeds, the"
        " picture's those of the mean risk. With several layers the exponent depends on the smoothness of every layer,"
        " which is not known."
    )
    return [
        Table(
            "Excess risk, one layer of Matern features, d = 1, and the slope [Theorem 1]",
            ["smoothness", *rows, "slope"],
            lines,
        ),
        Figure("Excess risk against n", path),
        Text(text),
    ]


EXPERIMENT = Experiment("rates", "Theorem 1: excess risk against n", ("excess",), cells, run, report)
