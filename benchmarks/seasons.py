"""What the first file of SML2010 can tell about the second: python -m benchmarks.seasons [--blocks]

Mean squared errors on the second file, later and warmer weeks, of the default, of least squares, and of ways to make
the default's kernels extrapolate as a line does; beside each its error on the single rows that it leaves out of the
first file, and what the same does to 2500 rows of pol, whose test rows are like its training rows (RMSE).

`--blocks` also leaves out ten blocks of consecutive rows in turn. Folder `sml2010` of MLKM_DATA_HOME; a few minutes.
"""

import argparse
import os
from collections.abc import Callable, Iterator
from dataclasses import replace

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold, cross_val_predict

from mlkm import MLKMRegressor
from mlkm.datasets import fetch_sml2010
from mlkm.model.features import FeatureMap
from mlkm.model.machine import predict
from mlkm.model.sum_kernel import SumKernel
from mlkm.solve.dual import solve_dual
from mlkm.solve.ridge import ridge

from . import real
from .problem import Problem, data_home, standardised


def ways(problem: Problem) -> Iterator[tuple[str, float, float]]:
    """Name, mean squared error at the test rows and at rows left out, in squared units of the standardised targets."""
    model = MLKMRegressor(random_state=0).fit(problem.X, problem.y)
    rows, fit = model._training
    unit, limits = float(model.y_scaler_.sd[0]) ** 2, model.fitted_.preparation.input_range
    new = model.x_scaler_.forward(np.clip(problem.X_test, limits.low, limits.high))
    line = ridge(rows.X, rows.Y, rows.weights)

    def error(f: np.ndarray) -> float:
        return float(
            np.mean((np.clip(model.y_scaler_.backward(f), *model.prediction_limits_)[:, 0] - problem.target) ** 2)
        )

    def straight(X: np.ndarray) -> np.ndarray:
        return np.asarray(X @ line.coefficients + line.intercept)

    def solved(kernel: SumKernel, noise: float, first: bool = False) -> tuple[float, float]:
        """With `first`, the kernel sees what ridge leaves."""
        own = replace(rows, Y=rows.Y - straight(rows.X)) if first else rows
        found = solve_dual(kernel, own, noise)
        f = predict(kernel.machine(rows.X, found.alpha, found.intercept), new)
        return error(f + straight(new) if first else f), float(found.loo_error[0]) * unit

    kernel, noise = fit.kernel, fit.noise
    fading = replace(kernel, terms=tuple(t for t in kernel.terms if not isinstance(t.phi, FeatureMap)), linear=None)
    yield "the default", *solved(kernel, noise)
    yield "ridge", error(straight(new)), float(line.loo_error[0]) * unit
    yield "slopes with 10,000 times the variance", *solved(replace(kernel, linear=100 * kernel.linear), noise)
    for factor in (10, 100, 1000):
        yield f"noise times {factor}", *solved(kernel, factor * noise)
    yield "ridge first", *solved(replace(kernel, linear=None), noise, first=True)
    yield "ridge first, kernels that fade", *solved(fading, noise, first=True)
    yield "back to ridge where no training row is near", *_back_to_line(rows.X, new, fading, model, straight, error)


def _back_to_line(
    X: np.ndarray, new: np.ndarray, kernel: SumKernel, model: MLKMRegressor, straight: Callable, error: Callable
) -> tuple[float, float]:
    """As near as nine tenths of the training rows are to their nearest: the default; less near: in part ridge."""
    total = sum(term.variance for term in kernel.terms)
    some = kernel.matrix(X[:500], X)
    some[np.arange(len(some)), np.arange(len(some))] = 0
    usual = np.quantile(some.max(axis=1) / total, 0.1)
    near = np.minimum(1, kernel.matrix(new, X).max(axis=1) / total / usual)[:, None]
    return error(near * predict(model.machines_[0], new) + (1 - near) * straight(new)), np.nan


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", action="store_true")
    data = fetch_sml2010(data_home=data_home(), download_if_missing=False)
    X, y = data.X_train, data.y_train
    unit = float(y.std()) ** 2
    pol = real.load("uci_evans/pol", 0, most_train=2500)
    assert pol is not None
    for (name, later, left_out), (_, control, _) in zip(
        ways(standardised(X, y, data.X_test, data.y_test)), ways(pol), strict=True
    ):
        print(f"{name}: second file {unit * later:.2f}, rows left out {unit * left_out:.3f}; pol {control**0.5:.4f}")
    if parser.parse_args().blocks:
        for name, model in (("the default", MLKMRegressor(random_state=0)), ("least squares", LinearRegression())):
            missed = cross_val_predict(model, X, y, cv=KFold(10)) - y
            print(f"{name}: blocks left out {float(np.mean(missed**2)):.2f}")


if __name__ == "__main__":
    main()
