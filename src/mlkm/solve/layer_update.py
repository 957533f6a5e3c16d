"""Variable projection: given the hidden weights the last layer is an exact ridge, so the hidden weights alone are
optimised.

The reduced objective is J(hidden) = min over W_L of (1/n) sum_i w_i |y_i - f(x_i)|^2 + lambda |W_L|^2, plus
mu |hidden|^2. By the envelope theorem its gradient is the partial gradient at the solved W_L: one forward and one
backward pass. L-BFGS goes down; the iterate with the smallest error on rows held out is kept, the start among them, so
that training never ends worse than it began. Rows are passed in blocks.
"""

from collections.abc import Callable, Sequence

import numpy as np
import scipy.linalg
import scipy.optimize

from .._types import Array, IntArray
from ..model.machine import Machine, backward, flatten, forward, gradients, positions, with_last, with_layers
from ..runtime.deadline import fit_is_late
from ..runtime.progress import advance
from .data import Data
from .step import loss
from .sums import gram


def solve_last_layer(machine: Machine, data: Data, penalty: float) -> Machine:
    """The machine with its last layer at the ridge solution."""

    def inputs(block: slice) -> Array:
        return np.array(forward(machine, data.rows.X[block], data.first(block)).hidden[-1])

    sums = gram(inputs, data.rows.Y, data.rows.weights, block=data.block)
    D = len(sums.FF)
    A = sums.FF
    A[np.diag_indices(D)] += len(data) * penalty + 1e-12 * np.trace(A) / D
    try:
        C = scipy.linalg.solve(A, sums.FY, assume_a="pos", check_finite=False)
    except np.linalg.LinAlgError:  # features that do not vary
        C = scipy.linalg.lstsq(A, sums.FY, check_finite=False)[0]
    return with_last(machine, np.vstack([C, sums.y_mean - sums.f_mean @ C]))


def reduced_objective(
    machine: Machine, data: Data, penalty: float, hidden_penalty: float
) -> Callable[[Array], tuple[float, Array]]:
    """J and its gradient as a function of the hidden weights, block of rows by block: memory does not grow with the
    rows."""
    X, Y, weights = data.rows.X, data.rows.Y, data.rows.weights
    n = len(data)

    def objective(vector: Array) -> tuple[float, Array]:
        trial = solve_last_layer(_with_hidden(machine, vector), data, penalty)
        value, slope = hidden_penalty * float(vector @ vector), 2 * hidden_penalty * vector
        for block in data.blocks():
            tape = forward(trial, X[block], data.first(block))
            residuals = tape.output - Y[block]
            cotangent = 2 * weights[block][:, None] * residuals / n
            slope += _ravel(gradients(backward(trial, tape, cotangent)[:-1]))
            value += float(weights[block] @ (residuals**2).sum(axis=1)) / n
        return value + penalty * float(np.sum(trial.layers[-1][0][:-1] ** 2)), slope

    return objective


def project(
    machine: Machine, data: Data, held_out: IntArray, penalty: float, hidden_penalty: float, max_iter: int
) -> tuple[Machine, list[float]]:
    """Train hidden layers on the rows not held out: the best machine, and the held-out error before the first iteration
    and after each."""
    kept = np.ones(len(data), dtype=bool)
    kept[held_out] = False
    train, test = data.take(np.flatnonzero(kept)), data.take(held_out)
    machine = solve_last_layer(machine, train, penalty)
    errors, best = [loss(machine, test)], machine

    def watch(vector: Array) -> None:
        nonlocal best
        trial = solve_last_layer(_with_hidden(machine, vector), train, penalty)
        errors.append(loss(trial, test))
        advance()
        if errors[-1] <= min(errors):
            best = trial
        if fit_is_late():
            raise StopIteration

    scipy.optimize.minimize(  # type: ignore[call-overload]
        reduced_objective(machine, train, penalty, hidden_penalty),
        _ravel(flatten(machine.layers[:-1])),
        jac=True,
        method="L-BFGS-B",
        callback=watch,
        options={"maxiter": max_iter, "maxcor": 20},
    )
    return best, errors


def update_layer(
    machine: Machine, layer: int, data: Data, rows: IntArray, penalty: float, max_iter: int = 10
) -> Machine:
    """One step of ADDS solved well: one layer on its own rows, the others fixed; the last layer exactly, a hidden one
    by some L-BFGS iterations."""
    own = data.take(rows)
    if layer == machine.depth - 1:
        return solve_last_layer(machine, own, penalty)
    at = positions(machine, layer)
    matrices = flatten(machine.layers)
    X, Y, weights = own.rows.X, own.rows.Y, own.rows.weights

    def replaced(vector: Array) -> Machine:
        new = list(matrices)
        for k, W in zip(at, _split(vector, [matrices[k] for k in at]), strict=True):
            new[k] = W
        return with_layers(machine, new)

    def objective(vector: Array) -> tuple[float, Array]:
        trial = replaced(vector)
        value, slope = penalty * float(vector @ vector), 2 * penalty * vector
        for block in own.blocks():
            tape = forward(trial, X[block], own.first(block))
            residuals = tape.output - Y[block]
            factors = backward(trial, tape, 2 * weights[block][:, None] * residuals / len(own))
            value += float(weights[block] @ (residuals**2).sum(axis=1)) / len(own)
            slope = slope + _ravel(gradients([factors[k] for k in at]))
        return value, slope

    begin = _ravel([matrices[k] for k in at])
    result = scipy.optimize.minimize(objective, begin, jac=True, method="L-BFGS-B", options={"maxiter": max_iter})
    return replaced(result.x)


def _ravel(matrices: Sequence[Array]) -> Array:
    return np.concatenate([W.ravel() for W in matrices])


def _split(vector: Array, like: Sequence[Array]) -> list[Array]:
    pieces = np.split(vector, np.cumsum([W.size for W in like])[:-1])
    return [piece.reshape(W.shape) for piece, W in zip(pieces, like, strict=True)]


def _with_hidden(machine: Machine, vector: Array) -> Machine:
    hidden = flatten(machine.layers[:-1])
    return with_layers(machine, [*_split(vector, hidden), machine.layers[-1][0]])
