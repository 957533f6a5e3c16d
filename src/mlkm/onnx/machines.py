"""Machines as operations: f(x) of one, the average of several, and the mean of a fitted regressor in the units of y."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._types import Array
from ..data.input_range import OVERSHOOT, units_of
from ..data.preparation import Preparation
from ..model.machine import Machine
from .graph import Graph
from .piecewise import link_mean, on_ranks

_FELT = 1e-4  # a bound of the error; signs that differ leave much less of it


def machine_output(graph: Graph, machine: Machine, Z: str, double: bool) -> str:
    """f(x) for every row, on the scale of the link."""
    return _one_layer(graph, machine, Z, double) if machine.depth == 1 else _layered(graph, machine, Z)


def average(graph: Graph, machines: Sequence[Machine], Z: str, double: bool) -> str:
    """The plain average of what the machines predict."""
    outputs = []
    for machine in machines:
        f = machine_output(graph, machine, Z, double)
        outputs.append(f if machine.link is None else link_mean(graph, f, machine.link))
    total = graph.total(outputs)
    return total if len(outputs) == 1 else graph("Div", total, np.array(float(len(outputs))))


def in_units(graph: Graph, model: Any, f: str, Z: str) -> str:
    """Predictions (n, k) at standardised inputs in the units of y, clipped to their limits."""
    preparation = model.fitted_.preparation
    scaler, (least, most), beyond = preparation.y_scaler, preparation.limits, preparation.beyond
    Y = graph("Add", graph("Mul", f, scaler.sd), scaler.mean)
    if np.isinf(most).all():
        return Y
    ranges = graph("Max", graph("Sub", np.array(beyond), prediction_room(graph, preparation, Z)), np.array(0.0))
    less = graph("Mul", ranges, (most - least) / (1 + 2 * beyond))
    return graph("Min", graph("Max", Y, graph("Add", least, less)), graph("Sub", most, less))


def prediction_room(graph: Graph, preparation: Preparation, Z: str) -> str:
    """Return by how many ranges predictions may exceed the targets, (n, 1), as `InputRange.room` does."""
    ends = preparation.x_scaler.forward(np.stack([preparation.input_range.low, preparation.input_range.high]))
    far = graph("Div", graph("Max", graph("Sub", ends[0], Z), graph("Sub", Z, ends[1])), units_of(*ends))
    return graph("Add", graph.row_sums(graph("Max", far, np.array(0.0))), np.array(OVERSHOOT))


def first_features(graph: Graph, machine: Machine, Z: str) -> str | None:
    """phi_1(x) in float64, None where it has none."""
    seen = [(ranks, phi) for ranks, phi in machine.maps[0].parts if phi.n_features]
    parts = [phi.graph(graph, on_ranks(graph, Z, ranks), double=True) for ranks, phi in seen]
    return graph.side_by_side(parts) if parts else None


def last_inputs(graph: Graph, machine: Machine, Z: str, first: str | None, h: str | None) -> str:
    """What the last layer sees, in float64: h, and phi_1(x) and x where asked."""
    parts = [h, first if machine.skip and machine.depth > 1 else None, Z if machine.linear else None]
    return graph.side_by_side([part for part in parts if part is not None])


def _one_layer(graph: Graph, machine: Machine, Z: str, double: bool) -> str:
    """The sum of what every part adds, in its own precision."""
    W, at, added = machine.layers[0][0], 0, []
    for ranks, phi in machine.maps[0].parts:
        if not phi.n_features:
            continue
        own = W[at : at + phi.n_features]
        exact = double or _cancels(own)
        dtype = phi.dtype(exact)
        F = phi.graph(graph, on_ranks(graph, Z, ranks), exact)
        product = graph("MatMul", F, own.astype(dtype))
        added.append(product if dtype == np.float64 else graph.cast(product, np.float64))
        at += phi.n_features
    if machine.linear:
        added.append(graph("MatMul", Z, W[at:-1]))
    return graph("Add", graph.total(added), W[-1])


def _cancels(W: Array) -> bool:
    """Whether rounding to float32 of kernels that are at most 1 may be felt, for targets of variance 1."""
    return bool(np.abs(W).sum(axis=0).max() * np.finfo(np.float32).eps / 2 > _FELT)


def _layered(graph: Graph, machine: Machine, Z: str) -> str:
    """Hidden layers turn small differences into angles: all in float64."""
    first = first_features(graph, machine, Z)
    h = first
    for phi, layer in zip(machine.maps[1:], machine.layers[:-1], strict=True):
        u = graph.affine(str(h), layer[0])
        h = phi.graph(graph, u, double=True)
        if machine.residual:
            h = graph("Add", graph.affine(h, layer[1]), u)
    return graph.affine(last_inputs(graph, machine, Z, first, h), machine.layers[-1][0])
