"""How much predictions of the default depend on rounding errors of the inputs: python -m benchmarks.rounding

Inputs of training and test rows are multiplied by 1 + 1e-15 N(0, 1), or moved by 1e-12 N(0, 1) standard deviations of
their column: ties become distinct values, as in any table that went through floating point arithmetic. The script
prints errors and the root mean square difference of predictions, relative to the error, on four real sets with many
ties (three splits, 900 rows, seed 0). The exit code is 1 if a difference is above 1e-3.
"""

import argparse
import sys
from itertools import product

import numpy as np

from mlkm import MLKMRegressor

from . import real

SETS = ["uci_evans/concrete", "uci_evans/airfoil", "uci_evans/energy", "uci_evans/wine"]
MOST = 1e-3


def jittered(X: np.ndarray, relative: bool, rng: np.random.Generator) -> np.ndarray:
    """Return the same table up to rounding errors."""
    noise = rng.standard_normal(X.shape)
    return X * (1 + 1e-15 * noise) if relative else X + 1e-12 * X.std(axis=0) * noise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=1)
    draws, worst = parser.parse_args().draws, 0.0
    for name, split in product(SETS, range(3)):
        problem = real.load(name, split, most_train=900)
        assert problem is not None
        n, X = len(problem.X), np.vstack([problem.X, problem.X_test])

        def predictions(X: np.ndarray, n: int = n, y: np.ndarray = problem.y) -> np.ndarray:
            return MLKMRegressor(random_state=0).fit(X[:n], y).predict(X[n:])

        as_given = predictions(X)
        error = np.sqrt(np.mean((as_given - problem.target) ** 2))
        for relative in (True, False):
            for draw in range(draws):
                now = predictions(jittered(X, relative, np.random.default_rng(draw)))
                moved = np.sqrt(np.mean((now - as_given) ** 2)) / error
                worst = max(worst, moved)
                what = "1e-15 of each value" if relative else "1e-12 of the column"
                now_error = np.sqrt(np.mean((now - problem.target) ** 2))
                print(f"{name} {split}, {what}, draw {draw}: {error:.4f} -> {now_error:.4f}, moved {moved:.1e} of it")
    print(f"largest difference {worst:.1e} of the error; at most {MOST:g} is wanted")
    sys.exit(int(worst > MOST))


if __name__ == "__main__":
    main()
