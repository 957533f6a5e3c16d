"""Variable projection: given the hidden weights the last layer is an exact ridge, so the hidden weights alone are
optimised.

The reduced objective is J(hidden) = min over W_L of (1/n) sum_i w_i |y_i - f(x_i)|^2 + lambda |W_L|^2, plus mu
|hidden|^2. By the envelope theorem its gradient is the partial gradient at the solved W_L: one forward and one backward
pass. L-BFGS goes down; the iterate with the smallest error on rows held out is kept, the start among them, so that
training never ends worse than it began. Rows are passed in blocks; phi_1 at the rows is given where there is room for
it (`first`, empty otherwise).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import scipy.linalg
import scipy.optimize

from .._types import Array, IntArray
from ..model.machine import Machine, backward, flatten, forward, gradients, with_layers
from .gradient import Data, positions

_BLOCK = 5000  # rows at a time


def solve_last_layer(machine: Machine, data: Data, penalty: float) -> tuple[Machine, Array]:
    """The machine with its last layer at the ridge solution, and f at the rows."""
    X, _, Y, weights = data
    n, D = len(X), len(machine.layers[-1][0]) - 1
    y_mean, shift = weights @ Y / n, np.zeros(D)
    gram, FY, total = np.zeros((D, D)), np.zeros((D, Y.shape[1])), np.zeros(D)
    for block in _blocks(n):
        w, F = weights[block], forward(machine, X[block], _first(data, block)).hidden[-1]
        if not block.start:
            shift = F.mean(axis=0)  # products of shifted features lose no digits to the mean
        F = F - shift
        total += w @ F
        FY += F.T @ (w[:, None] * (Y[block] - y_mean))
        A = F * np.sqrt(w)[:, None]
        gram += A.T @ A
    f_mean = total / n
    gram -= n * np.outer(f_mean, f_mean)
    gram[np.diag_indices(D)] += n * penalty + 1e-12 * np.trace(gram) / D
    try:
        C = scipy.linalg.solve(gram, FY, assume_a="pos", check_finite=False)
    except np.linalg.LinAlgError:  # features that do not vary
        C = scipy.linalg.lstsq(gram, FY, check_finite=False)[0]
    W = np.vstack([C, y_mean - (f_mean + shift) @ C])
    solved = replace(machine, layers=(*machine.layers[:-1], (W,)))
    return solved, F @ C + y_mean - f_mean @ C if n <= _BLOCK else _outputs(solved, data)


def reduced_objective(
    machine: Machine, data: Data, penalty: float, hidden_penalty: float
) -> Callable[[Array], tuple[float, Array]]:
    """J and its gradient as a function of the hidden weights, block of rows by block: memory does not grow with the
    rows."""
    X, _, Y, weights = data
    n = len(X)

    def objective(vector: Array) -> tuple[float, Array]:
        trial, f = solve_last_layer(_with_hidden(machine, vector), data, penalty)
        residuals = f - Y
        cotangent = 2 * weights[:, None] * residuals / n
        slope = np.zeros_like(vector)
        for block in _blocks(n):
            tape = forward(trial, X[block], _first(data, block))
            slope += _ravel(gradients(backward(trial, tape, cotangent[block])[:-1]))
        value = float(weights @ (residuals**2).sum(axis=1)) / n + penalty * float(np.sum(trial.layers[-1][0][:-1] ** 2))
        return value + hidden_penalty * float(vector @ vector), slope + 2 * hidden_penalty * vector

    return objective


def project(
    machine: Machine, data: Data, held_out: IntArray, penalty: float, hidden_penalty: float, max_iter: int
) -> tuple[Machine, list[float], int]:
    """Train hidden layers on the rows not held out. Returns the best machine, the held-out error after each iteration,
    and their number."""
    kept = np.ones(len(data[0]), dtype=bool)
    kept[held_out] = False
    train, test = _some(data, np.flatnonzero(kept)), _some(data, held_out)
    machine, _ = solve_last_layer(machine, train, penalty)
    errors, best = [_error(machine, test)], machine

    def watch(vector: Array) -> None:
        nonlocal best
        trial, _ = solve_last_layer(_with_hidden(machine, vector), train, penalty)
        errors.append(_error(trial, test))
        if errors[-1] <= min(errors):
            best = trial

    scipy.optimize.minimize(  # type: ignore[call-overload]
        reduced_objective(machine, train, penalty, hidden_penalty),
        _ravel(flatten(machine.layers[:-1])),
        jac=True,
        method="L-BFGS-B",
        callback=watch,
        options={"maxiter": max_iter, "maxcor": 20},
    )
    return best, errors, len(errors) - 1


def _outputs(machine: Machine, data: Data) -> Array:
    return np.vstack([forward(machine, data[0][block], _first(data, block)).output for block in _blocks(len(data[0]))])


def _error(machine: Machine, data: Data) -> float:
    """Weighted mean squared error, summed over outputs."""
    return float(data[3] @ ((_outputs(machine, data) - data[2]) ** 2).sum(axis=1)) / len(data[2])


def _blocks(n: int) -> list[slice]:
    return [slice(begin, min(begin + _BLOCK, n)) for begin in range(0, n, _BLOCK)]


def _first(data: Data, block: slice) -> Array | None:
    """phi_1 at the rows of a block, where it was kept."""
    return data[1][block] if len(data[1]) else None


def _some(data: Data, rows: IntArray) -> Data:
    X, first, Y, weights = data
    return X[rows], first[rows] if len(first) else first, Y[rows], weights[rows] / weights[rows].mean()


def update_layer(
    machine: Machine, layer: int, data: Data, rows: IntArray, penalty: float, max_iter: int = 10
) -> Machine:
    """One step of ADDS solved well: one layer on its own rows, the others fixed; the last layer exactly, a hidden one
    by some L-BFGS iterations."""
    X, first, Y, weights = (array[rows] for array in data)
    own: Data = (X, first, Y, weights / weights.mean())
    if layer == machine.depth - 1:
        return solve_last_layer(machine, own, penalty)[0]
    at = positions(machine, layer)
    matrices = flatten(machine.layers)

    def replaced(vector: Array) -> Machine:
        new = list(matrices)
        for k, W in zip(at, _split(vector, [matrices[k] for k in at]), strict=True):
            new[k] = W
        return with_layers(machine, new)

    def objective(vector: Array) -> tuple[float, Array]:
        trial = replaced(vector)
        tape = forward(trial, X, first)
        residuals = tape.output - Y
        factors = backward(trial, tape, 2 * own[3][:, None] * residuals / len(Y))
        value = float(own[3] @ (residuals**2).sum(axis=1)) / len(Y)
        return value + penalty * float(vector @ vector), _ravel(
            gradients([factors[k] for k in at])
        ) + 2 * penalty * vector

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
