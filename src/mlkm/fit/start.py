"""Where training starts: feature maps of the deeper layers, and initial weights."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._seeds import Purpose, generator
from .._types import Array
from ..auto.plan import Plan
from ..model.features import FeatureMap, draw_features, features
from ..model.machine import Layers, Machine, layer_shapes


def deeper_maps(plan: Plan) -> list[FeatureMap]:
    """phi_2..phi_L, each on the D_l outputs of the layer below."""
    layers = zip((plan.widths or ())[1:], plan.kernels[1:], plan.scales[1:], strict=True)
    return [
        draw_features(generator(plan.seed, Purpose.LAYERS, layer), D, D, kernel, 1.0 if scale is None else scale)
        for layer, (D, kernel, scale) in enumerate(layers, 1)
    ]


def uniform_starts(
    maps: Sequence[Any], n_outputs: int, n_runs: int, plan: Plan, initial: tuple[float, float]
) -> tuple[Machine, ...]:
    """One machine per rotation with uniform initial weights, as the paper initialises; biases zero."""
    shapes = layer_shapes(maps, n_outputs, plan.residual, linear=plan.linear)
    return tuple(
        Machine(
            tuple(maps),
            _uniform(generator(plan.seed, Purpose.WEIGHTS, run), shapes, initial),
            plan.residual,
            linear=plan.linear,
        )
        for run in range(n_runs)
    )


def _uniform(rng: np.random.Generator, shapes: list[list[tuple[int, int]]], initial: tuple[float, float]) -> Layers:
    layers = []
    for layer in shapes:
        matrices = [rng.uniform(*initial, shape) for shape in layer]
        for W in matrices:
            W[-1] = 0
        layers.append(tuple(matrices))
    return tuple(layers)


def starts_near(one_layer: Machine, maps: Sequence[Any], X: Array, n_runs: int, plan: Plan) -> tuple[Machine, ...]:
    """One machine per rotation whose hidden outputs have unit variance, the first being the one-layer fit; second
    matrices of residual blocks are zero. The last layer also sees phi_1."""
    W = one_layer.layers[0][0]
    shapes = layer_shapes(maps, W.shape[1], plan.residual, skip=True, linear=plan.linear, n_inputs=X.shape[1])
    F = features(maps[0], X[:2000])
    return tuple(
        Machine(
            tuple(maps),
            _near(W, shapes, generator(plan.seed, Purpose.WEIGHTS, run), F),
            plan.residual,
            True,
            plan.linear,
        )
        for run in range(n_runs)
    )


def _near(fitted: Array, shapes: list[list[tuple[int, int]]], rng: np.random.Generator, F: Array) -> Layers:
    layers = []
    for number, layer in enumerate(shapes):
        matrices = [rng.standard_normal(layer[0]) / np.sqrt(layer[0][0])] + [np.zeros(shape) for shape in layer[1:]]
        if number == 0 and len(shapes) > 1:
            W = matrices[0]
            W[:-1, 0] = fitted[: len(W) - 1, 0]
            W /= np.maximum((F @ W[:-1]).std(axis=0), 1e-8)
            W[-1] = -(F @ W[:-1]).mean(axis=0)
        layers.append(tuple(matrices))
    return tuple(layers)
