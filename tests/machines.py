"""Small random machines for the tests."""

import numpy as np

from mlkm.data import plain_rows
from mlkm.kernels import Gaussian
from mlkm.model.draws import draw_features
from mlkm.model.machine import Machine, layer_shapes
from mlkm.solve.training_rows import training_rows


def random_maps(rng, d, widths):
    """phi_1: R^d -> R^D_1, and phi_l: R^D_l -> R^D_l above it."""
    sizes = [(d, widths[0]), *((D, D) for D in widths[1:])]
    return tuple(draw_features(rng, into, D, Gaussian()) for into, D in sizes)


def random_machine(rng, d=3, widths=(5, 4), n_outputs=1, residual=False, skip=False, linear=False):
    """A machine whose weights are standard normal, biases included."""
    maps = random_maps(rng, d, widths)
    shapes = layer_shapes(maps, n_outputs, residual, skip, linear)
    layers = tuple(tuple(rng.standard_normal(shape) for shape in layer) for layer in shapes)
    return Machine(maps, layers, residual, skip, linear)


def jacobian(factors):
    """The dense n x p Jacobian from its factors."""
    ones = [np.hstack([H, np.ones((len(H), 1))]) for H, _ in factors]
    return np.hstack(
        [(H[:, :, None] * G[:, None, :]).reshape(len(H), -1) for H, (_, G) in zip(ones, factors, strict=True)]
    )


def training_data(machine, X, Y, weights=None):
    """The rows as solvers take them."""
    return training_rows(plain_rows(X, Y, weights), machine.maps[0])


def central_differences(f, matrices, step=1e-6):
    """df/dW for every entry of every matrix, stacked along the last axis: f maps a list of matrices to an array."""
    columns = []
    for k, W in enumerate(matrices):
        for index in np.ndindex(W.shape):
            moved = []
            for sign in (1, -1):
                changed = [M.copy() for M in matrices]
                changed[k][index] += sign * step
                moved.append(f(changed))
            columns.append((moved[0] - moved[1]) / (2 * step))
    return np.stack(columns, axis=-1)
