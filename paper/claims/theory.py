"""Claims about rates, coverage, cost and bias, each with the figures that decide it; None where its experiment has not
been run."""

import numpy as np

from ..data import CODED, WRITTEN
from ..experiments.bias import decompose, points
from ..experiments.coverage import LEVEL, SCORES
from ..experiments.descent import JOINT
from ..experiments.rates import slopes
from ..experiments.table1 import slope
from ..settings import DESCENT12
from .base import MACHINES, NEARLY, NO, YES, All, Claim, count, mean, rounded, short, span, standard_error, verdict

EPOCHS = DESCENT12[1, "MLKM"][4].epochs


def minimax_rate(every: All) -> Claim | None:
    found = slopes(every["rates"])
    if not found:
        return None
    hits = [each.mean() - 2 * standard_error(each) <= bound for bound, each in found.values()]
    figures = ", ".join(f"{rounded(each)} [{short(bound)}]" for bound, each in found.values())
    said = "Theorem 1: the error falls at the minimax rate"
    return Claim(said, verdict(hits), f"one layer, slopes in n [bounds]: {figures}", ("rates",))


def convergence(every: All) -> Claim | None:
    values = every["descent"].values(WRITTEN, "step 0.003", JOINT, "slope")
    if not len(values):
        return None
    holds = YES if values.mean() <= -1 else NEARLY if values.mean() <= -0.8 else NO
    figures = f"slope of the squared gradient in T {rounded(values)} [-1], with a small step"
    return Claim("Theorem 2: descent converges, T = O(1/eps^2) steps", holds, figures, ("descent",))


def coverage_bounds(every: All) -> Claim | None:
    results, hits = every["coverage"], []
    for row in results.names("row"):
        m = int(row.removeprefix("m = "))
        for name in SCORES:
            lists = results.lists(WRITTEN, row, name, "covered")
            if lists:
                draws = np.concatenate(lists)
                slack = 3 * standard_error(draws)
                hits.append(LEVEL - slack <= draws.mean() <= LEVEL + 1 / (m + 1) + slack)
    if not hits:
        return None
    said = "Theorem 3: coverage in [1 - alpha, 1 - alpha + 1/(m + 1)]"
    figures = f"inside for {count(hits)} pairs of m and score, up to three standard errors"
    return Claim(said, verdict(hits), figures, ("coverage",))


def complexity(every: All, measure: str, power: float, said: str, how: str = "") -> Claim | None:
    """The slope in n beside that of n^power log^2 n, the claim with its logarithms, over the same sizes."""
    results, name = every["table1"], "MLKM, one epoch"
    sizes = sorted(int(row[4:]) for row in results.names("row", system=name))[1:]
    found = slope(results, name, measure)
    if len(sizes) < 2 or np.isnan(found):
        return None
    n = np.array(sizes, dtype=float)
    claimed = np.polyfit(np.log(n), power * np.log(n) + 2 * np.log(np.log(n)), 1)[0]
    return Claim(
        said,
        YES if found <= 1.05 * claimed else NO,
        f"slope in n {found:.2f} [{claimed:.2f} with its logarithms]{how}",
        ("table1",),
    )


def time_per_pass(every: All) -> Claim | None:
    return complexity(every, "seconds", 2, "Table 1: a pass takes O(n^2 log^2 n) time")


def storage(every: All) -> Claim | None:
    return complexity(every, "megabytes", 1, "Table 1: storage is O(n log^2 n)", ", rows in blocks of bounded size")


def cheaper(every: All) -> Claim | None:
    """Whole fits with the published settings, without the search of the penalty on either side."""
    cells = [(every[table], row) for table in ("table2", "table3") for row in every[table].names("row", version=CODED)]
    kernel, machine = (np.array([mean(r, CODED, row, name, "seconds") for r, row in cells]) for name in ("KRR", "MLKM"))
    if not cells or np.isnan([*kernel, *machine]).any():
        return None
    figures = (
        f"a fit: KRR {span(kernel)} s, MLKM {span(machine)} s; one of its {EPOCHS} epochs, which the paper counts,"
        f" {span(machine / EPOCHS)} s"
    )
    return Claim("Tables 2, 3: KRR takes the most time", verdict(machine < kernel), figures, ("table2", "table3"))


def bias(every: All) -> Claim | None:
    from mlkm.datasets import example1_truth

    results, truth = every["bias"], example1_truth(points())
    fits = {name: np.array(results.lists(WRITTEN, "d = 4", name, "fit")) for name in ("MLKM", "MLKM+", "RKM", "RKM+")}
    if any(len(values) < 3 for values in fits.values()):
        return None
    squares = {name: decompose(values, truth)[0] for name, values in fits.items()}
    hits = [squares[f"{kind}+"] < squares[kind] for kind in MACHINES]
    figures = ", ".join(f"{kind} {squares[kind]:.3f} without, {squares[f'{kind}+']:.3f} with" for kind in MACHINES)
    return Claim("Cross-fitting reduces the bias", verdict(hits), f"squared bias: {figures}", ("bias",))
