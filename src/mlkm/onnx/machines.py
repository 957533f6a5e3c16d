"""Machines as operations: f(x) of one, the average of several, and the mean of a fitted regressor in units of y.

Ranks of inputs (`RankTransform`) and tables of a `BackTransform` are piecewise linear. The interval of x is found by
bisection: with at most 2^s knots, s steps of one comparison each, for all columns at once.
"""

from collections.abc import Sequence

import numpy as np

from .._types import Array
from ..base import KernelMachine
from ..data.preparation import InputRange, Preparation, units_of
from ..model.features import RankTransform
from ..model.machine import Machine
from ..runtime.rules import RULES
from ..runtime.sizes import EXPORT_ERROR
from .graph import Graph
from .inputs import Source, level_numbers, standardised


def machine_mean(model: KernelMachine, source: Source) -> str:
    """Return the mean of y by a fitted regressor, (n, k)."""
    preparation = model.fitted_.preparation
    Z = standard_inputs(preparation, source)
    return _in_units(source.graph, preparation, _average(source.graph, model.machines_, Z, source.double), Z)


def standard_inputs(preparation: Preparation, source: Source) -> str:
    """Return the inputs of machines: clipped to their limits, and standardised."""
    graph = source.graph
    X = level_numbers(graph, source.inputs(preparation.reader), preparation.levels)
    if preparation.automatic:
        X = _clipped(graph, preparation.input_range, X)
    return standardised(graph, X, preparation.x_scaler)


def _clipped(graph: Graph, limits: InputRange, X: str) -> str:
    """Return inputs far out replaced as `InputRange.clip` does."""
    down, up = limits.steps
    above = graph.clip(graph("Sub", X, limits.clip_high + up), np.zeros_like(up), up)
    below = graph.clip(graph("Sub", limits.clip_low - down, X), np.zeros_like(down), down)
    return graph("Add", graph("Sub", graph.clip(X, limits.clip_low, limits.clip_high), above), below)


def _average(graph: Graph, machines: Sequence[Machine], Z: str, double: bool) -> str:
    """Return the average of what machines predict, (n, k)."""
    outputs = []
    for machine in machines:
        f, back = machine_output(graph, machine, Z, double), machine.back_transform
        outputs.append(f if back is None else back_transformed(graph, f, back.knots, back.means, beyond=True))
    total = graph.total(outputs)
    return total if len(outputs) == 1 else graph("Div", total, float(len(outputs)))


def _in_units(graph: Graph, preparation: Preparation, f: str, Z: str) -> str:
    """Return predictions (n, k) at standardised inputs in units of y, clipped as `Preparation.within` does."""
    scaler, (least, most), beyond = preparation.y_scaler, preparation.limits, preparation.beyond
    Y = graph("Add", graph("Mul", f, scaler.sd), scaler.mean)
    if np.isinf(most).all():
        return Y
    ranges = graph("Max", graph("Sub", beyond, _prediction_room(graph, preparation, Z)), 0.0)
    less = graph("Mul", ranges, (most - least) / (1 + 2 * beyond))
    return graph("Min", graph("Max", Y, graph("Add", least, less)), graph("Sub", most, less))


def _prediction_room(graph: Graph, preparation: Preparation, Z: str) -> str:
    """Return by how many ranges predictions may exceed the targets, (n, 1), as `InputRange.room` does."""
    ends = preparation.x_scaler.forward(np.stack([preparation.input_range.low, preparation.input_range.high]))
    far = graph("Div", graph("Max", graph("Sub", ends[0], Z), graph("Sub", Z, ends[1])), units_of(*ends))
    return graph("Add", graph.row_sums(graph("Max", far, 0.0)), RULES.overshoot)


def machine_output(graph: Graph, machine: Machine, Z: str, double: bool) -> str:
    """Return f(x) for every row, on the scale of transformed targets where there is one."""
    return _one_layer(graph, machine, Z, double) if machine.depth == 1 else _layered(graph, machine, Z)


def first_features(graph: Graph, machine: Machine, Z: str) -> str | None:
    """Return phi_1(x) in float64, None where it has no features."""
    seen = [(ranks, phi) for ranks, phi in machine.maps[0].parts if phi.n_features]
    parts = [phi.graph(graph, on_ranks(graph, Z, ranks), double=True) for ranks, phi in seen]
    return graph.side_by_side(parts) if parts else None


def last_inputs(graph: Graph, machine: Machine, Z: str, first: str | None, h: str | None) -> str:
    """Return the inputs of the last layer in float64: h, and phi_1(x) and x where the machine has them there."""
    parts = [h, first if machine.skip and machine.depth > 1 else None, Z if machine.linear else None]
    return graph.side_by_side([part for part in parts if part is not None])


def _one_layer(graph: Graph, machine: Machine, Z: str, double: bool) -> str:
    """Return the sum of what every part of the features adds, each computed in its own precision."""
    W, at, added = machine.layers[0][0], 0, []
    for ranks, phi in machine.maps[0].parts:
        if not phi.n_features:
            continue
        weights = W[at : at + phi.n_features]
        exact = double or _cancels(weights)
        dtype = phi.dtype(exact)
        F = phi.graph(graph, on_ranks(graph, Z, ranks), exact)
        product = graph("MatMul", F, weights.astype(dtype))
        added.append(product if dtype == np.float64 else graph.cast(product, np.float64))
        at += phi.n_features
    if machine.linear:
        added.append(graph("MatMul", Z, W[at:-1]))
    return graph("Add", graph.total(added), W[-1])


def _cancels(W: Array) -> bool:
    """Return whether rounding to float32 of kernels that are at most 1 may matter, for targets of variance 1."""
    return bool(np.abs(W).sum(axis=0).max() * np.finfo(np.float32).eps / 2 > EXPORT_ERROR)


def _layered(graph: Graph, machine: Machine, Z: str) -> str:
    """Return f(x) of a machine with hidden layers, all in float64, since these turn small differences into angles."""
    first = first_features(graph, machine, Z)
    h = first
    for phi, layer in zip(machine.maps[1:], machine.layers[:-1], strict=True):
        u = graph.affine(str(h), layer[0])
        h = phi.graph(graph, u, double=True)
        if machine.residual:
            h = graph("Add", graph.affine(h, layer[1]), u)
    return graph.affine(last_inputs(graph, machine, Z, first, h), machine.layers[-1][0])


def on_ranks(graph: Graph, Z: str, ranks: RankTransform | None) -> str:
    """Return inputs on the scale of their ranks, and unchanged without a transform."""
    return Z if ranks is None else piecewise(graph, Z, ranks.knots, ranks.values)


def back_transformed(graph: Graph, f: str, knots: Array, values: Array, beyond: bool = False) -> str:
    """Return E[y], or the standard deviation of y, where transformed targets are predicted as f."""
    return piecewise(graph, f, tuple(knots.T), tuple(values.T), beyond)


def piecewise(graph: Graph, X: str, knots: Sequence[Array], values: Sequence[Array], beyond: bool = False) -> str:
    """Return a piecewise-linear function of every column, by its knots and the values there.

    Outside the outer knots it is constant, or with `beyond` continues straight. A column without knots is unchanged.
    """
    steps = max(1, int(np.ceil(np.log2(max(max(map(len, knots), default=1), 2)))))
    tables = [_tables(k, v, 2**steps, beyond) for k, v in zip(knots, values, strict=True)]
    search, base, value, slope = (np.concatenate([table[part] for table in tables]) for part in range(4))
    offsets = np.arange(len(tables), dtype=np.int64) * 2**steps
    if not beyond:
        ends = [(k[0], k[-1]) if len(k) else (-np.inf, np.inf) for k in knots]
        X = graph.clip(X, *np.array(ends, np.float64).T)
    half = 2 ** (steps - 1)
    at = graph("Where", graph("GreaterOrEqual", X, search[offsets + half]), offsets + half, offsets)
    for step in range(steps - 2, -1, -1):
        further = graph("Add", at, [2**step])
        at = graph("Where", graph("GreaterOrEqual", X, graph("Gather", search, further)), further, at)
    rise = graph("Mul", graph("Gather", slope, at), graph("Sub", X, graph("Gather", base, at)))
    return graph("Add", rise, graph("Gather", value, at))


def _tables(knots: Array, values: Array, size: int, beyond: bool) -> tuple[Array, ...]:
    """Return the knots to search, and the place, the value and the slope after every knot, `size` of each."""
    if not len(knots):
        return np.r_[-np.inf, np.full(size - 1, np.inf)], np.zeros(size), np.zeros(size), np.ones(size)
    rise = np.diff(values) / np.diff(knots)
    rise = np.r_[rise, rise[-1:] if beyond and len(rise) else 0.0]
    empty = size - len(knots)
    return np.pad(knots, (0, empty), constant_values=np.inf), *(np.pad(a, (0, empty)) for a in (knots, values, rise))
