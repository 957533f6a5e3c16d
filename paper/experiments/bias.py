"""Bias reduction by cross-fitting (Section "Bias reduction"): squared bias and variance of MLKM and RKM without and
with rotations.

Repeated training samples of Example 1, d = 4, one draw of the random features per machine; predictions at fixed points.
The squared bias is estimated without the share that the variance of the mean adds to it. Rotations give each layer half
of the rows, so that a machine without rotations on half of the rows is the other side of the comparison.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mlkm.datasets import example1_truth, make_example1

from .. import systems
from ..data import WRITTEN, Array
from ..experiment import Block, Entry, Experiment, Options, Table, Text
from ..settings import Descent, shape12
from ..store import Cell, Results
from ..tables import number

HALF = ", half of the rows"
SYSTEMS = ("MLKM", f"MLKM{HALF}", "MLKM+", "RKM", f"RKM{HALF}", "RKM+")
POINTS = 100


def cells(options: Options) -> list[Cell]:
    return [
        Cell(WRITTEN, "d = 4", name, seed)
        for name in SYSTEMS
        for seed in range(4 if options.quick else 4 * options.seeds)
    ]


def points() -> np.ndarray:
    return make_example1(POINTS, 4, random_state=10**6)[0]


def run(cell: Cell, options: Options) -> dict[str, Any]:
    X, y, _ = make_example1(500 if options.quick else 2000, 4, random_state=cell.seed)
    descent = Descent(1e-3, 2e-3, epochs=2000).shorter(options.effort)
    n = len(X) // 2 if cell.system.endswith(HALF) else len(X)
    fit = systems.faithful(cell.system.removesuffix(HALF), shape12(4), descent, seed=0).fit(X[:n], y[:n])
    return {"fit": np.round(fit.predict(points()), 4).tolist()}


def decompose(fits: Array, truth: Array) -> Array:
    """Squared bias, variance and their sum, means over points; `fits` is samples by points."""
    variance = fits.var(axis=0, ddof=1)
    bias = (fits.mean(axis=0) - truth) ** 2 - variance / len(fits)
    return np.array([bias.mean(), variance.mean(), (bias + variance).mean()])


def jackknife(statistic: Callable[[Array], Array], samples: Array) -> list[Entry]:
    """The statistic with its standard error over samples, the first axis."""
    S = len(samples)
    without = np.array([statistic(np.delete(samples, s, axis=0)) for s in range(S)])
    errors = np.sqrt((S - 1) / S * ((without - without.mean(axis=0)) ** 2).sum(axis=0))
    return [Entry(f"{number(value)} ± {error:.1g}") for value, error in zip(statistic(samples), errors, strict=True)]


def report(results: Results, folder: Path) -> list[Block]:
    truth = example1_truth(points())
    fits = {name: np.array(results.lists(WRITTEN, "d = 4", name, "fit")) for name in SYSTEMS}
    fits = {name: values for name, values in fits.items() if len(values) > 2}
    lines = [(name, jackknife(lambda values: decompose(values, truth), values)) for name, values in fits.items()]
    for kind in ("MLKM", "RKM"):
        for other in (kind, f"{kind}{HALF}"):
            pair = [fits.get(f"{kind}+"), fits.get(other)]
            if all(values is not None for values in pair) and len(pair[0]) == len(pair[1]):
                both = np.stack(pair, axis=1)
                lines.append(
                    (
                        f"{kind}+ less {other}",
                        jackknife(lambda v: decompose(v[:, 0], truth) - decompose(v[:, 1], truth), both),
                    )
                )
    return [
        Table(
            "Squared bias, variance and their sum, means over test points, with jackknife standard errors over samples",
            ["machine", "squared bias", "variance", "sum"],
            lines,
        ),
        Text(
            "Initial weights and features are the same in all samples. Rotations give each layer half of the rows and"
            " average two machines. Differences are paired, sample by sample: to the machine with all rows, and to that"
            " with half of them, which tells the effect of fewer rows from that of less dependence between layers."
        ),
    ]


EXPERIMENT = Experiment("bias", "Cross-fitting: bias and variance", ("fit",), cells, run, report)
