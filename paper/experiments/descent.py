"""Theorem 2 by simulation: the running average of the squared gradient norm along descent, jointly and layer by layer
(ADDS).

Full batches on Example 1, d = 4, shape 4-32-8-1, two step sizes. The theorem says that T = O(eps^-2) steps of
appropriate size bring the average to eps^2 at most: in logarithms a slope of -1.
"""

from pathlib import Path
from typing import Any

import numpy as np

from ..data import WRITTEN, example1
from ..experiment import Block, Entry, Experiment, Figure, Options, Table, Text, save_figure
from ..settings import Descent, shape12
from ..store import Cell, Results
from ..tables import with_error

JOINT, ON_ALL, _ = SYSTEMS = ("joint", "ADDS, gradient on all rows", "ADDS, gradient of each layer on its own rows")
STEPS = {"step 0.003": 0.003, "step 0.01": 0.01}
PENALTY, N_KEPT = 1e-4, 60


def cells(options: Options) -> list[Cell]:
    return [Cell(WRITTEN, row, name, seed) for row in STEPS for name in SYSTEMS for seed in range(options.seeds)]


def run(cell: Cell, options: Options) -> dict[str, Any]:
    import torch

    from ..networks import as_tensor, build, start

    sample = example1(WRITTEN, 4, cell.seed, (500, 1, 1))
    n_steps, step = 1000 if options.quick else 10_000, STEPS[cell.row]
    rotations = 1 if cell.system == JOINT else 2
    parts = np.array_split(np.random.default_rng(cell.seed).permutation(500), rotations)
    y = as_tensor(sample.y - sample.y.mean())
    squares = np.zeros(n_steps)
    for j in range(rotations):
        first, net, layers = build("MLKM", 4, shape12(4), cell.seed)
        start(net, Descent(step, 0.0, (-0.5, 0.5)), cell.seed)
        with torch.no_grad():
            H = first(as_tensor(sample.X))
        everything = [p for layer in layers for p in layer]
        for t in range(n_steps):
            if cell.system == ON_ALL:
                squares[t] += _square(_gradient(net, H, y, everything)) / rotations
            for l, parameters in enumerate([everything] if rotations == 1 else layers):
                rows = parts[(j + l) % rotations]
                gradient = _gradient(net, H[rows], y[rows], parameters)
                if cell.system != ON_ALL:
                    squares[t] += _square(gradient) / rotations
                for p, g in zip(parameters, gradient, strict=True):
                    p.data.sub_(step * g)
    averages = np.cumsum(squares) / np.arange(1, n_steps + 1)
    at = np.unique(np.geomspace(1, n_steps, N_KEPT).astype(int))
    late = at >= n_steps / 10
    slope = float(np.polyfit(np.log(at[late]), np.log(averages[at[late] - 1]), 1)[0])
    return {
        "steps": at.tolist(),
        "average": [float(f"{v:.4g}") for v in averages[at - 1]],
        "slope": slope,
        "last": float(averages[-1]),
    }


def _square(gradient: list[Any]) -> float:
    return sum(float(g.square().sum()) for g in gradient)


def _gradient(net, H, y, parameters) -> list[Any]:
    import torch

    loss = (net(H)[:, 0] - y).square().mean() + PENALTY * sum(p.square().sum() for p in net.parameters())
    return list(torch.autograd.grad(loss, parameters))


def report(results: Results, folder: Path) -> list[Block]:
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(9, 3.8), layout="constrained")
    axes, lines = canvas.subplots(1, len(STEPS), sharey=True), []
    for ax, row in zip(axes, STEPS, strict=True):
        for k, name in enumerate(results.names("system")):
            curves = zip(
                results.lists(WRITTEN, row, name, "steps"), results.lists(WRITTEN, row, name, "average"), strict=True
            )
            for i, (steps, average) in enumerate(curves):
                ax.loglog(steps, average, color=f"C{k}", linewidth=1, label=name if i == 0 and ax is axes[0] else None)
            last, slope = (with_error(results.values(WRITTEN, row, name, measure)) for measure in ("last", "slope"))
            lines.append((f"{name}, {row}", [Entry(last), Entry(slope, "-1" if name == JOINT else "")]))
        ax.set(xlabel="T", title=row)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("average squared gradient norm")
    canvas.legend(frameon=False, loc="outside lower center", ncols=len(SYSTEMS))
    path = folder / "descent.png"
    save_figure(canvas, path)
    text = (
        "Read literally, T = O(eps^-2) steps for an average of at most eps^2 is a slope of -1, here fitted over the"
        " last nine tenths of the steps. The theorem is about joint descent with a step size that is appropriately"
        " chosen: the smaller step here is, the larger one leaves the region where a step lowers the loss, and its"
        " average jumps. The theorem's equation also sets the loss equal to its gradient, which is a slip of notation."
        " In ADDS each layer descends on its own rows: whether its average vanishes depends on the rows on which the"
        " gradient is taken."
    )
    return [
        Table(
            "Average of the squared gradient norm after the last step, and the slope of its logarithm on log T"
            " [Theorem 2]",
            ["descent", "last", "slope"],
            lines,
        ),
        Figure("Average squared gradient norm against T", path),
        Text(text),
    ]


EXPERIMENT = Experiment(
    "descent", "Theorem 2: gradient norms along descent", ("steps", "average", "slope", "last"), cells, run, report
)
