"""The last layer in closed form: the `Ridge` solver of one layer, and the last layer of deeper machines."""

from dataclasses import replace
from typing import ClassVar

import numpy as np

from .._types import Array
from ..data import Rows
from ..model.machine import Machine, forward, with_last
from ..model.prior import Prior
from ..runtime import checks as check
from .blocked import best_penalty, blocked_ridge, products, solved
from .ridge import EXACT_ROWS, RidgeFit, ridge
from .solver import Problem, Solution, Solver
from .sums import gram
from .training_rows import TrainingRows, training_rows

_LITTLE_WORK = 5e10  # products of features and rows (n D^2) up to which they are in float64: a second or two


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

    def solve(self, problem: Problem) -> Solution:
        """One ridge on all rows, or one on every part."""
        if problem.prior is None:
            raise ValueError("Ridge() needs a prior for the features of the layer.")
        parts = problem.parts if problem.parts is not None and len(problem.parts) > 1 else (slice(None),)
        fits = [one_layer(problem.prior, problem.rows.take(at), problem.penalty) for at in parts]
        return one_layer_solution(problem.prior, fits)


class Kernels(Ridge):
    """The default's kernels solved on all rows, up to so many: by a factor, by conjugate gradients with the matrix in
    memory, or where it does not fit with products over pairs of blocks of rows, which are never stored. On a cluster of
    Dask the pairs are its tasks.

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

    def check(self, depth: int) -> None:
        super().check(depth)
        if self.max_rows is not None:
            check.whole("max_rows", self.max_rows)


def with_enough_digits(prior: Prior, n: int) -> Prior:
    """Sums in float64 where they take little time: fits that add and forget rows then agree to rounding."""
    return replace(prior, precise=True) if n * prior.n_features**2 <= _LITTLE_WORK else prior


def one_layer(prior: Prior, rows: Rows, penalty: float | None) -> RidgeFit:
    """Ridge on features of unit prior variance; a penalty of None is chosen by leave-one-out."""
    if len(rows) <= EXACT_ROWS:
        return ridge(prior.rows_of_features(rows.X), rows.Y, rows.weights, penalty)
    prior = with_enough_digits(prior, len(rows))
    inputs = prior.inputs(rows.X)
    sums = products(lambda block: prior.rows_of_features(inputs[block]), rows.Y, rows.weights)
    return best_penalty(sums) if penalty is None else solved(sums, penalty)


def one_layer_solution(prior: Prior, fits: list[RidgeFit]) -> Solution:
    """The machines of ridge fits on the features of one prior."""
    penalty, loo = float(np.mean([fit.penalty for fit in fits])), np.mean([fit.loo_error for fit in fits], axis=0)
    machines = tuple(prior.machine(fit.coefficients, fit.intercept) for fit in fits)
    return Solution(machines, [], float(loo.sum()), 1, penalty, 0.0, loo)


def last_layer(
    machine: Machine, rows: Rows, penalty: float | None, exact_rows: int = EXACT_ROWS
) -> tuple[Machine, RidgeFit]:
    """The machine with its last layer solved on the rows, the layers below held fixed."""

    def inputs(block: slice) -> Array:
        return forward(machine, rows.X[block]).hidden[-1]

    if len(rows) <= exact_rows:
        fit = ridge(inputs(slice(None)), rows.Y, rows.weights, penalty)
    else:
        fit = blocked_ridge(inputs, rows.Y, rows.weights, penalty)
    return with_last(machine, np.vstack([fit.coefficients, fit.intercept])), fit


def leave_one_out_of_last_layer(machine: Machine, rows: Rows, penalty: float) -> Array:
    """Mean squared leave-one-out error of the ridge on the last layer's inputs, for every output, in blocks of rows."""
    return _left_out_error(machine, training_rows(rows, machine.maps[0]), penalty)


def _left_out_error(machine: Machine, data: TrainingRows, penalty: float) -> Array:
    """r_i / (1 - h_i) with h_i = w_i (1/n + z_i'(F'WF + n lambda I)^-1 z_i), z_i the centred features."""
    n = len(data)

    def inputs(block: slice) -> Array:
        return np.array(forward(machine, data.X[block], data.features(block)).hidden[-1])

    sums = gram(inputs, data.Y, data.weights, block=data.block)
    values, V = np.linalg.eigh(sums.FF)
    # Directions whose eigenvalue is rounding error carry no information: drop them.
    kept = values > max(values[-1], 0.0) * max(n, len(values)) * np.finfo(np.float64).eps
    V, scale = V[:, kept], values[kept] + n * penalty
    C = V @ ((V.T @ sums.FY) / scale[:, None])
    total = np.zeros(data.Y.shape[1])
    for block in data.blocks():
        F, w = inputs(block) - sums.f_mean, data.weights[block]
        leverage = w * ((F @ V) ** 2 @ (1 / scale) + 1 / n)
        residuals = (data.Y[block] - sums.y_mean - F @ C) / np.maximum(1 - leverage, 1e-12)[:, None]
        total += w @ residuals**2
    return total / n
