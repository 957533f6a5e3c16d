"""What the second scale of skewed targets buys: python -m benchmarks.second_scale [--sets ...] [--splits 0 1]

The default's error with its fit on the other scale, over its error without, on the tables by which choices are made and
on some numeric sets. Fits whose targets are straight are the same, and are not run.
"""

import argparse
import os
from dataclasses import replace

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from mlkm import MLKMRegressor
from mlkm.search.policy import Policy, policy_context

from . import real, tables

NUMERIC = [
    "uci_evans/concrete", "uci_evans/housing", "single/abalone", "single/space_ga", "uci_evans/skillcraft",
    "single/miami_housing", "single/bike_sharing_hour",
]  # fmt: skip


def ratio(name: str, split: int) -> float | None:
    """None where there is one scale."""
    problem = (real if "/" in name else tables).load(name, split)

    def error() -> tuple[float, int]:
        model = MLKMRegressor(random_state=0).fit(problem.X, problem.y)
        f = model.predict(problem.X_test)
        return float(np.sqrt(np.mean((f - problem.target) ** 2))), len(model.machines_)

    both, machines = error()
    if machines == 1:
        return None
    with policy_context(replace(Policy(), straight=-1.0)):
        return both / error()[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=[*tables.DECIDED_ON, *NUMERIC])
    parser.add_argument("--splits", nargs="+", type=int, default=[0, 1])
    args = parser.parse_args()
    found: dict[bool, list[float]] = {True: [], False: []}
    for name in args.sets:
        for split in args.splits:
            own = ratio(name, split)
            print(f"{name} {split}: {'one scale' if own is None else f'{own:.3f}'}", flush=True)
            found["/" in name].append(1.0 if own is None else own)
    for numeric, values in found.items():
        if values:
            mean = np.exp(np.mean(np.log(values)))
            print(f"{'numeric sets' if numeric else 'tables'}: {mean:.3f} of {len(values)}, largest {max(values):.3f}")


if __name__ == "__main__":
    main()
