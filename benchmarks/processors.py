"""How far the default's predictions depend on the processor and on the seed: python -m benchmarks.processors

Fits in processes whose BLAS takes the code of other processors (OPENBLAS_CORETYPE), and one with another seed: the
root mean square difference of predictions, relative to the error, on Example 1 and five real sets (split 0, 1600 rows).
Cores that this processor cannot run are left out.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from mlkm import MLKMRegressor
from mlkm.datasets import make_example1

from . import real

SETS = ["uci_evans/airfoil", "uci_evans/concrete", "uci_evans/yacht", "gal_splits/kin8nm", "single/abalone"]
CORES = ["Haswell", "Nehalem", "Zen", "Sandybridge", "SkylakeX"]


def predictions(seed: int) -> dict[str, np.ndarray]:
    """Of the default, and the targets."""
    X, y, _ = make_example1(500, 8, random_state=0)
    X_test, y_test, _ = make_example1(1000, 8, random_state=1)
    result = {"example1": MLKMRegressor(random_state=seed).fit(X, y).predict(X_test), "example1 y": y_test}
    for name in SETS:
        problem = real.load(name, 0, most_train=1600)
        assert problem is not None
        result[name] = MLKMRegressor(random_state=seed).fit(problem.X, problem.y).predict(problem.X_test)
        result[f"{name} y"] = problem.target
    return result


def _elsewhere(core: str, seed: int, folder: str) -> dict[str, np.ndarray] | None:
    file = Path(folder) / f"{core}-{seed}.npz"
    environment = os.environ | {"OPENBLAS_CORETYPE": core, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks.processors", "--write", str(file), "--seed", str(seed)]
    if subprocess.run(command, env=environment, check=False, stderr=subprocess.DEVNULL).returncode:
        return None
    with np.load(file) as arrays:
        return dict(arrays)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", help="write predictions here and nothing else")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.write:
        np.savez(arguments.write, **predictions(arguments.seed))  # type: ignore[arg-type]
        return
    with tempfile.TemporaryDirectory() as folder:
        runs = {core: _elsewhere(core, 0, folder) for core in CORES} | {"seed 1": _elsewhere("Haswell", 1, folder)}
    first = runs.pop("Haswell")
    assert first is not None, "BLAS must run the code of Haswell"
    for name in ["example1", *SETS]:
        error = np.sqrt(np.mean((first[name] - first[f"{name} y"]) ** 2))
        for run, other in runs.items():
            if other is not None:
                print(f"{name}, {run}: {np.sqrt(np.mean((other[name] - first[name]) ** 2)) / error:.3f} of {error:.4f}")


if __name__ == "__main__":
    main()
