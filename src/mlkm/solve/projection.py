"""Hidden layers by variable projection, or with cross-fitting by sweeps of Algorithm 1 whose updates are solved well.

Given the hidden weights the last layer is an exact ridge, so the hidden weights alone are optimised. The reduced
objective is J(hidden) = min over W_L of (1/n) sum_i w_i |y_i - f(x_i)|^2 + lambda |W_L|^2, plus mu |hidden|^2. By the
envelope theorem its gradient is the partial gradient at the solved W_L: one forward and one backward pass. L-BFGS
minimises it; the iterate with the smallest error on held-out rows is taken, the start among them, so that training
never ends worse than it began. Rows are passed in blocks.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import scipy.linalg
import scipy.optimize
from joblib import Parallel, delayed

from .._types import Array, IntArray
from ..model.machine import LastInputs, Machine, flatten, forward, positions, with_last, with_layers
from ..runtime import checks as check
from ..runtime.progress import advance, fit_is_late, stage
from ..runtime.resources import limited
from ..runtime.sizes import SHIFT_ROWS
from .closed_form import solution_of
from .descent import part_number
from .ridge import ridge_on
from .solver import Problem, Solution, Solver
from .sums import sums_of_slices
from .training_rows import TrainingRows, error_and_gradient, loss, training_rows


class VariableProjection(Solver):
    """Hidden layers by L-BFGS on what is left of the loss when the last layer is exact.

    With `cv`, the sweeps of Algorithm 1 with every update solved well instead of one gradient step. Of rows of files
    and clusters that do not fit into memory, a sample trains the hidden layers, and the last layer sees all.

    Parameters
    ----------
    max_iter : int, default=150
        Iterations at most; the iterate with the smallest error on every fifth row, which are held out, is taken.
    max_rows : int, default=5000
        Rows that train the hidden layers.
    more_rows, more_iter : int, default=50_000, 15
        Where there are more, rows and iterations with which training goes on in blocks; the last layer sees all rows.
    hidden_penalty : float, default=1e-6
        mu, the weight of the squared hidden weights.
    sweeps, patience, tol : int, int, float, default=20, 2, 1e-3
        With `cv`: sweeps at most, and the number of sweeps without a relative fall by `tol` after which they end.
    """

    trains: ClassVar[str] = "hidden layers"
    others: ClassVar[str] = "take Ridge(), or give widths of two layers or more"
    layers: ClassVar[tuple[int, float]] = (2, np.inf)

    @check.named_parameters
    def __init__(
        self,
        max_iter: int = 150,
        *,
        max_rows: int = 5000,
        more_rows: int = 50_000,
        more_iter: int = 15,
        hidden_penalty: float = 1e-6,
        sweeps: int = 20,
        patience: int = 2,
        tol: float = 1e-3,
    ) -> None:
        self.max_iter = max_iter
        self.max_rows = max_rows
        self.more_rows = more_rows
        self.more_iter = more_iter
        self.hidden_penalty = hidden_penalty
        self.sweeps = sweeps
        self.patience = patience
        self.tol = tol

    def check(self, depth: int) -> None:
        """Refuse settings that are out of their range."""
        super().check(depth)
        for name in ("max_iter", "more_iter", "sweeps"):
            check.steps(name, getattr(self, name))
        for name in ("max_rows", "patience"):
            check.whole(name, getattr(self, name))
        check.whole("more_rows", self.more_rows, at_least=0)
        check.number("hidden_penalty", self.hidden_penalty, at_least=0)
        check.number("tol", self.tol, at_least=0)

    def solve(self, problem: Problem) -> Solution:
        """Train the hidden layers, then solve the last layer on all rows, or on the last part of every rotation."""
        parts, depth = problem.parts, problem.starts[0].depth
        if parts is None:
            with stage("depth", self.max_iter):
                machines, trace = self._hidden(problem)
            last_rows: list[slice | IntArray] = [slice(None)]
        else:
            with stage("rotations", self.sweeps):
                machines, trace = self._sweeps(problem, parts)
            last_rows = [parts[part_number(j, depth - 1, len(parts))] for j in range(len(parts))]
        fits, layers = [], [LastInputs(machine) for machine in machines]
        with stage("last layer", len(machines)) as step:
            for layer, at in zip(layers, last_rows, strict=True):
                fits.append(ridge_on(layer, problem.rows.take(at), problem.penalty, self.max_rows))
                step()
        return replace(
            solution_of(layers, fits),
            trace=trace,
            best=min(trace, default=np.inf),
            n_iter=max(len(trace) - (parts is None), 1),
            hidden_penalty=self.hidden_penalty,
        )

    def _hidden(self, problem: Problem) -> tuple[list[Machine], list[float]]:
        """Train by variable projection on the first rows, then go on with more of them."""
        machine, n, m = problem.starts[0], len(problem.rows), min(len(problem.rows), self.max_rows)
        if m < 2:  # a single row leaves nothing to hold out
            return [machine], []
        penalty, phi = self._penalty(problem), machine.maps[0]
        data = training_rows(problem.rows.take(slice(0, m)), phi, m * phi.n_features)
        machine, trace = project(machine, data, held_out(m), penalty, self.hidden_penalty, self.max_iter)
        more = min(n, self.more_rows)
        if more > m:
            data = training_rows(problem.rows.take(slice(0, more)), phi, self.max_rows * phi.n_features)
            machine, later = project(
                machine, data, np.arange(more)[::10], penalty * m / more, self.hidden_penalty, self.more_iter
            )
            trace = [*trace, *later[1:]]
        return [machine], trace

    def _sweeps(self, problem: Problem, parts: Sequence[IntArray]) -> tuple[list[Machine], list[float]]:
        """Update the layers of all rotations in turn until the overall loss has not fallen for `patience` sweeps."""
        m, phi = min(len(problem.rows), self.max_rows), problem.starts[0].maps[0]
        data = training_rows(problem.rows.take(slice(0, m)), phi, m * phi.n_features)
        parts, penalty, n_jobs = [part[part < m] for part in parts], self._penalty(problem), problem.n_jobs
        machines = best = list(problem.starts)
        losses: list[float] = []
        best_loss, since = np.inf, 0
        with Parallel(n_jobs=n_jobs and min(n_jobs, len(machines))) as parallel:
            while len(losses) < self.sweeps and since < self.patience:
                work = (delayed(sweep)(machine, j, parts, data, penalty) for j, machine in enumerate(machines))
                machines = list(parallel(work))
                losses.append(float(np.mean([loss(machine, data) for machine in machines])))
                since += 1
                advance()
                if losses[-1] < best_loss * (1 - self.tol):
                    best, best_loss, since = machines, losses[-1], 0
        return best, losses

    def _penalty(self, problem: Problem) -> float:
        """Return the penalty of the one-layer fit, for fewer rows."""
        return max(problem.guess * len(problem.rows) / min(len(problem.rows), self.max_rows), 1e-9)


def held_out(m: int) -> IntArray:
    """Return the rows by which the iterate is chosen: every fifth."""
    return np.arange(m)[::5]


def solve_last_layer(machine: Machine, data: TrainingRows, penalty: float) -> Machine:
    """Return the machine with its last layer at the ridge solution."""

    def inputs(block: slice) -> Array:
        return np.array(forward(machine, data.X[block], data.features(block)).hidden[-1])

    shift = inputs(slice(0, min(len(data), data.block, SHIFT_ROWS))).mean(axis=0)
    sums = sums_of_slices(inputs, data.Y, data.weights, shift, data.block)
    A, FY, _ = sums.centred()
    A[np.diag_indices(len(A))] += len(data) * penalty + 1e-12 * np.trace(A) / len(A)
    try:
        C = scipy.linalg.solve(A, FY, assume_a="pos", check_finite=False)
    except np.linalg.LinAlgError:  # features that do not vary
        C = scipy.linalg.lstsq(A, FY, check_finite=False)[0]
    return with_last(machine, np.vstack([C, sums.y_mean - sums.f_mean @ C]))


def reduced_objective(
    machine: Machine, data: TrainingRows, penalty: float, hidden_penalty: float
) -> Callable[[Array], tuple[float, Array]]:
    """Return J and its gradient as a function of the hidden weights."""
    hidden = _hidden_matrices(machine)

    def objective(vector: Array) -> tuple[float, Array]:
        trial = solve_last_layer(_with_weights(machine, hidden, vector), data, penalty)
        value, slope = _penalised_error(trial, hidden, data, hidden_penalty, vector)
        return value + penalty * float(np.sum(trial.layers[-1][0][:-1] ** 2)), slope

    return objective


def project(
    machine: Machine, data: TrainingRows, held_out: IntArray, penalty: float, hidden_penalty: float, max_iter: int
) -> tuple[Machine, list[float]]:
    """Train hidden layers on the rows that are not held out.

    Returns
    -------
    Machine
        The machine with the smallest held-out error.
    list of float
        The held-out error before the first iteration and after each.
    """
    in_training = np.ones(len(data), dtype=bool)
    in_training[held_out] = False
    train, test = data.take(np.flatnonzero(in_training)), data.take(held_out)
    machine, hidden = solve_last_layer(machine, train, penalty), _hidden_matrices(machine)
    errors, best = [loss(machine, test)], machine

    def watch(vector: Array) -> None:
        """Keep the machine with the least held-out error, and end when time is up."""
        nonlocal best
        trial = solve_last_layer(_with_weights(machine, hidden, vector), train, penalty)
        errors.append(loss(trial, test))
        advance()
        if errors[-1] <= min(errors):
            best = trial
        if fit_is_late():
            raise StopIteration

    scipy.optimize.minimize(  # type: ignore[call-overload]
        reduced_objective(machine, train, penalty, hidden_penalty),
        _weights(machine, hidden),
        jac=True,
        method="L-BFGS-B",
        callback=watch,
        options={"maxiter": max_iter, "maxcor": 20},
    )
    return best, errors


def sweep(machine: Machine, rotation: int, parts: Sequence[IntArray], data: TrainingRows, penalty: float) -> Machine:
    """Solve layers 1..L of one rotation in turn, each on its part."""
    with limited(1):
        for layer in range(machine.depth):
            rows = data.take(parts[part_number(rotation, layer, len(parts))])
            machine = update_layer(machine, layer, rows, penalty)
    return machine


def update_layer(machine: Machine, layer: int, data: TrainingRows, penalty: float, max_iter: int = 10) -> Machine:
    """Solve one layer, the others fixed: the last layer exactly, a hidden one by a few L-BFGS iterations."""
    if layer == machine.depth - 1:
        return solve_last_layer(machine, data, penalty)
    moving = positions(machine, layer)

    def objective(vector: Array) -> tuple[float, Array]:
        return _penalised_error(_with_weights(machine, moving, vector), moving, data, penalty, vector)

    start = _weights(machine, moving)
    result = scipy.optimize.minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": max_iter})
    return _with_weights(machine, moving, result.x)


def _penalised_error(
    machine: Machine, moving: list[int], data: TrainingRows, penalty: float, vector: Array
) -> tuple[float, Array]:
    """Return the mean squared error plus the penalty times |vector|^2, and the gradient with respect to the matrices
    that are `moving`, whose entries `vector` holds; memory does not grow with the rows."""
    error, gradient = error_and_gradient(machine, moving, data, slice(0, len(data)), len(data))
    slope = np.concatenate([W.ravel() for W in gradient])
    return error + penalty * float(vector @ vector), slope + 2 * penalty * vector


def _hidden_matrices(machine: Machine) -> list[int]:
    return positions(machine, None)[:-1]


def _weights(machine: Machine, moving: list[int]) -> Array:
    matrices = flatten(machine.layers)
    return np.concatenate([matrices[k].ravel() for k in moving])


def _with_weights(machine: Machine, moving: list[int], vector: Array) -> Machine:
    """Return the machine whose matrices in the places `moving` have the entries of the vector."""
    matrices = flatten(machine.layers)
    ends = np.cumsum([matrices[k].size for k in moving])
    for k, values in zip(moving, np.split(vector, ends[:-1]), strict=True):
        matrices[k] = values.reshape(matrices[k].shape)
    return with_layers(machine, matrices)
