"""Theorem 2 by simulation: the running average of the squared gradient norm along descent, jointly and layer by layer (ADDS).

Full batches on Example 1, d = 4, shape 4-32-8-1. The theorem says that T = O(eps^-2) steps bring the average to eps^2 at most: in logarithms a slope
of -1.
"""

from pathlib import Path
from typing import Any

import numpy as np

from ..data import WRITTEN, example1
from ..experiment import Block, Entry, Experiment, Figure, Options, Table, Text
from ..settings import Descent, shape12
from ..store import Cell, Results
from ..tables import with_error

SYSTEMS = ("joint", "ADDS, two rotations")
PENALTY, RATE, N_KEPT = 1e-4, 1e-2, 60


def cells(options: Options) -> list[Cell]:
    return [Cell(WRITTEN, "d = 4", name, seed) for name in SYSTEMS for seed in range(options.seeds)]


def run(cell: Cell, options: Options) -> dict[str, Any]:
    import torch

    from ..networks import as_tensor, build, start

    sample = example1(WRITTEN, 4, cell.seed, (500, 1, 1))
    n_steps = 1000 if options.quick else 10_000
    rotations = 1 if cell.system == "joint" else 2
    parts = [np.arange(500)] if rotations == 1 else np.array_split(np.random.default_rng(cell.seed).permutation(500), 2)
    y = as_tensor(sample.y - sample.y.mean())
    squares = np.zeros(n_steps)
    for j in range(rotations):
        first, net, layers = build("MLKM", 4, shape12(4), cell.seed)
        start(net, Descent(RATE, 0.0, (-0.5, 0.5)), cell.seed)
        with torch.no_grad():
            H = first(as_tensor(sample.X))
        groups = [[p for layer in layers for p in layer]] if rotations == 1 else layers
        everything = [p for layer in layers for p in layer]
        for t in range(n_steps):
            squares[t] += sum(float(g.square().sum()) for g in _gradient(net, H, y, everything)) / rotations
            for l, parameters in enumerate(groups):
                rows = parts[(j + l) % rotations]
                for p, g in zip(parameters, _gradient(net, H[rows], y[rows], parameters), strict=True):
                    p.data.sub_(RATE * g)
    averages = np.cumsum(squares) / np.arange(1, n_steps + 1)
    at = np.unique(np.geomspace(1, n_steps, N_KEPT).astype(int))
    late = at >= n_steps / 10
    slope = float(np.polyfit(np.log(at[late]), np.log(averages[at[late] - 1]), 1)[0])
    return {"steps": at.tolist(), "average": [float(f"{v:.4g}") for v in averages[at - 1]], "slope": slope, "last": float(averages[-1])}


def _gradient(net, H, y, parameters) -> list[Any]:
    import torch

    loss = (net(H)[:, 0] - y).square().mean() + PENALTY * sum(p.square().sum() for p in net.parameters())
    return list(torch.autograd.grad(loss, parameters))


def report(results: Results, folder: Path) -> list[Block]:
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(5.5, 3.6), layout="constrained")
    ax, lines = canvas.subplots(), []
    for k, name in enumerate(results.names("system")):
        curves = zip(results.lists(WRITTEN, "d = 4", name, "steps"), results.lists(WRITTEN, "d = 4", name, "average"), strict=True)
        for i, (steps, average) in enumerate(curves):
            ax.loglog(steps, average, color=f"C{k}", linewidth=1, label=name if i == 0 else None)
        last, slope = (with_error(results.values(WRITTEN, "d = 4", name, measure)) for measure in ("last", "slope"))
        lines.append((name, [Entry(last), Entry(slope, "-1" if name == "joint" else "")]))
    ax.set(xlabel="T", ylabel="average squared gradient norm")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    path = folder / "descent.png"
    canvas.savefig(path, dpi=110)
    text = (
        "Read literally, T = O(eps^-2) steps for an average of at most eps^2 is a slope of -1, here over the last tenth of the steps. The theorem's "
        "equation also sets the loss equal to its gradient, which is a slip of notation. It is about joint descent; in ADDS the gradient shown is "
        "that of the loss on all rows, while each layer descends on its own part, so that its average need not vanish."
    )
    return [
        Table(
            "Average of the squared gradient norm after the last step, and the slope of its logarithm on log T [Theorem 2]",
            ["descent", "last", "slope"],
            lines,
        ),
        Figure("Average squared gradient norm against T", path),
        Text(text),
    ]


EXPERIMENT = Experiment("descent", "Theorem 2: gradient norms along descent", ("steps", "average", "slope", "last"), cells, run, report)
