"""Variable projection: given the hidden weights the last layer is an exact ridge, so the hidden weights alone are optimised.

The reduced objective is J(hidden) = min over W_L of (1/n) sum_i w_i |y_i - f(x_i)|^2 + lambda |W_L|^2, plus mu |hidden|^2. By the envelope theorem
its gradient is the partial gradient at the solved W_L: one forward and one backward pass. L-BFGS goes down; the iterate with the smallest error on
rows held out is kept, the start among them, so that training never ends worse than it began.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import scipy.linalg
import scipy.optimize

from .._types import Array, IntArray
from ..machine import Machine, backward, flatten, forward, gradients, with_layers
from .gradient import Data, loss, positions


def solve_last_layer(machine: Machine, data: Data, penalty: float) -> tuple[Machine, Array]:
    """The machine with its last layer at the ridge solution, and f at the rows."""
    X, first, Y, weights = data
    F = forward(machine, X, first).hidden[-1]
    n = len(F)
    f_mean, y_mean = weights @ F / n, weights @ Y / n
    root = np.sqrt(weights)[:, None]
    A, B = root * (F - f_mean), root * (Y - y_mean)
    gram = A.T @ A
    gram[np.diag_indices(len(gram))] += n * penalty + 1e-12 * np.trace(gram) / len(gram)
    C = scipy.linalg.solve(gram, A.T @ B, assume_a="pos", check_finite=False)
    W = np.vstack([C, y_mean - f_mean @ C])
    return replace(machine, layers=(*machine.layers[:-1], (W,))), F @ C + W[-1]


def project(
    machine: Machine, data: Data, held_out: IntArray, penalty: float, hidden_penalty: float, max_iter: int
) -> tuple[Machine, list[float], int]:
    """Train hidden layers on the rows not held out. Returns the best machine, the held-out error after each iteration, and their number."""
    X, first, Y, weights = data
    kept = np.ones(len(X), dtype=bool)
    kept[held_out] = False
    train: Data = (X[kept], first[kept], Y[kept], weights[kept] / weights[kept].mean())
    test: Data = (X[held_out], first[held_out], Y[held_out], weights[held_out] / weights[held_out].mean())
    machine, _ = solve_last_layer(machine, train, penalty)
    errors, best = [loss(machine, test)], machine

    def objective(vector: Array) -> tuple[float, Array]:
        trial, f = solve_last_layer(_with_hidden(machine, vector), train, penalty)
        residuals = f - train[2]
        n = len(f)
        tape = forward(trial, train[0], train[1])
        slopes = gradients(backward(trial, tape, 2 * train[3][:, None] * residuals / n)[:-1])
        value = float(train[3] @ (residuals**2).sum(axis=1)) / n + penalty * float(np.sum(trial.layers[-1][0][:-1] ** 2))
        return value + hidden_penalty * float(vector @ vector), _ravel(slopes) + 2 * hidden_penalty * vector

    def watch(vector: Array) -> None:
        nonlocal best
        trial, _ = solve_last_layer(_with_hidden(machine, vector), train, penalty)
        errors.append(loss(trial, test))
        if errors[-1] <= min(errors):
            best = trial

    begin = _ravel(flatten(machine.layers[:-1]))
    scipy.optimize.minimize(  # type: ignore[call-overload]
        objective, begin, jac=True, method="L-BFGS-B", callback=watch, options={"maxiter": max_iter, "maxcor": 20}
    )
    return best, errors, len(errors) - 1


def update_layer(machine: Machine, layer: int, data: Data, rows: IntArray, penalty: float, max_iter: int = 10) -> Machine:
    """One step of ADDS solved well: one layer on its own rows, the others fixed; the last layer exactly, a hidden one by some L-BFGS iterations."""
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
        return value + penalty * float(vector @ vector), _ravel(gradients([factors[k] for k in at])) + 2 * penalty * vector

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
