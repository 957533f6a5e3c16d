"""The last layer in closed form: the `Ridge` solver of one layer, and the last layer of deeper machines."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np

from .._types import Array
from ..data.rows import Block, Rows
from ..model.machine import LastInputs, Machine, predict_average
from ..model.prior import Prior
from ..runtime import checks as check
from ..runtime.sizes import BLOCK, FLOAT64_WORK
from .ridge import RidgeFit, ridge_on
from .smoother import Primal, primal, primal_without_rounding
from .solver import Problem, Solution, Solver
from .sums import Sums, sums_of_rows


class Ridge(Solver):
    """The closed form of one layer: ridge regression on its features, with the penalty by exact leave-one-out.

    With `cv` there is one fit per part of the rows, and their average is the estimate.

    Examples
    --------
    >>> from mlkm import MLKMRegressor
    >>> from mlkm.datasets import make_example1
    >>> from mlkm.solvers import Ridge
    >>> X, y, f = make_example1(n=100, d=4, random_state=0)
    >>> MLKMRegressor(widths=(32, 8), solver=Ridge()).fit(X, y)
    Traceback (most recent call last):
    ...
    ValueError: solver=Ridge() trains one layer, and this model has 2 layers: take VariableProjection() or ...
    """

    trains: ClassVar[str] = "one layer"
    others: ClassVar[str] = "take VariableProjection() or GradientDescent()"
    layers: ClassVar[tuple[int, float]] = (1, 1)
    in_closed_form: ClassVar[bool] = True

    def solve(self, problem: Problem) -> Solution:
        """Solve one ridge on all rows, or one on every part."""
        if problem.prior is None:
            raise ValueError("Ridge() needs a prior for the features of the layer.")
        parts = problem.parts if problem.parts is not None and len(problem.parts) > 1 else (slice(None),)
        several = [problem.rows.take(at) for at in parts]
        fits = [ridge_on(with_enough_digits(problem.prior, len(rows)), rows, problem.penalty) for rows in several]
        return solution_of([problem.prior] * len(fits), fits)


class Kernels(Ridge):
    """The default's kernels solved on all rows, up to `max_rows`.

    They are solved by a Cholesky factor, by conjugate gradients with the matrix in memory or, where it does not fit, by
    conjugate gradients with products over pairs of blocks of rows that are not stored. On a cluster of Dask the pairs
    are its tasks.

    Parameters
    ----------
    max_rows : int or None, default=None
        Rows up to which kernels are solved instead of features; None leaves that to `effort`. A product takes about
        n^2 / 2 times 13 ns on one thread (`python -m benchmarks.pairs`), and a fit 20 to 200 of them.

    Examples
    --------
    >>> from mlkm import MLKMRegressor
    >>> from mlkm.solvers import Kernels
    >>> MLKMRegressor(solver=Kernels(max_rows=100_000)).solver
    Kernels(max_rows=100000)
    """

    @check.named_parameters
    def __init__(self, max_rows: int | None = None) -> None:
        self.max_rows = max_rows

    @property
    def kernel_rows(self) -> int | None:  # type: ignore[override]  # of solvers without it this is a constant
        """Return `max_rows`."""
        return self.max_rows

    def check(self, depth: int) -> None:
        """Refuse a number of rows that is no whole number."""
        super().check(depth)
        if self.max_rows is not None:
            check.whole("max_rows", self.max_rows)


def with_enough_digits(prior: Prior, n: int) -> Prior:
    """Return features whose products are in float64 where they take little time: fits that add and forget rows then
    agree to rounding."""
    return replace(prior, precise=True) if n * prior.n_features**2 <= FLOAT64_WORK else prior


def solution_of(layers: Sequence[Prior | LastInputs], fits: Sequence[RidgeFit]) -> Solution:
    """Return the machines whose last layers are these ridge fits, each on the features of its layer."""
    penalty, loo = float(np.mean([fit.penalty for fit in fits])), np.mean([fit.loo_error for fit in fits], axis=0)
    both = zip(layers, fits, strict=True)
    machines = tuple(layer.machine(fit.coefficients, fit.intercept) for layer, fit in both)
    return Solution(machines, [], float(loo.sum()), 1, penalty, 0.0, loo)


def solved_sums(prior: Prior, sums: Sums, penalty: float) -> tuple[Machine, Array]:
    """Return the machine of the ridge of these sums, and the leave-one-out error of every output as if all rows had the
    mean leverage."""
    if sums.weight <= 0:  # no rows yet
        k = len(sums.Y)
        return prior.machine(np.zeros((len(sums.F), k)), np.zeros(k)), np.full(k, np.nan)
    smoother = primal(prior, sums, penalty)
    C, varies = smoother.coefficients, sums.centred()[2] > 0
    # The residual sum of squares is not known below the rounding errors of its terms, so these are its lower bound.
    F_peak, Y_peak = np.sqrt(sums.peaks())
    rounding = np.finfo(np.float64).eps * (Y_peak + F_peak * np.abs(C).sum(axis=0)) ** 2 * varies
    squares = np.maximum(smoother.residual_squares, rounding)
    error = squares / sums.weight / max(1 - smoother.degrees / max(sums.n, 1), 1e-3) ** 2
    return prior.machine(C, smoother.intercept), error


def loo_error_of_last_layers(machines: Sequence[Machine], rows: Block, penalty: float) -> Array:
    """Return the mean squared leave-one-out error of every output, by the ridge on the last layer's inputs, averaged
    over machines."""
    layers = [LastInputs(machine) for machine in machines]
    smoothers = [primal_without_rounding(layer, sums_of_rows(layer, rows), penalty) for layer in layers]
    errors = squared_errors(Block(rows.X, rows.Y, rows.counts), (), smoothers)
    return np.asarray(errors[1:].mean(axis=0) / rows.counts.sum())


def squared_errors(piece: Block, machines: Sequence[Machine], smoothers: Sequence[Primal]) -> Array:
    """Return weighted sums of squared errors over a piece of rows, (1 + smoothers, k): those of an average of machines,
    and the leave-one-out errors of smoothers."""
    total = np.zeros((1 + len(smoothers), piece.Y.shape[1]))
    for at in piece.blocks(BLOCK):
        X, Y, w = piece.X[at], piece.Y[at], piece.weights[at]
        if machines:
            total[0] += w @ (predict_average(machines, X) - Y) ** 2
        for row, smoother in zip(total[1:], smoothers, strict=True):
            left = np.maximum(1 - w * smoother.leverage(X), 1e-12)
            row += w @ ((Y - smoother.predict(X)) / left[:, None]) ** 2
    return total


def mean_errors(machines: Sequence[Machine], smoothers: Sequence[Primal], rows: Rows) -> tuple[Array, Array]:
    """Return the mean squared error of an average of machines, and the leave-one-out error averaged over smoothers,
    both (k,); the second is NaN without smoothers."""
    total: Array = rows.map_reduce(partial(squared_errors, machines=machines, smoothers=smoothers), np.add)
    total = total / rows.n  # weights average to one
    return total[0], total[1:].mean(axis=0) if smoothers else np.full(total.shape[1], np.nan)
