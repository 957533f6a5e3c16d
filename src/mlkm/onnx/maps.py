"""Feature maps as operations: what `mlkm.model.features.features` computes for every kind of map.

Distances between rows and points are in float64 whatever the type of the export, since squares of distances cancel;
exponentials and their products with weights are in float32 where the caller and the fit have them so.

    -|u - v|^2 / 2 = [u, 1, -|u|^2 / 2] [v, -|v|^2 / 2, 1]'

is one matrix product. Points are stored as columns (d, M), the way products need them: older versions of onnxruntime
have no product with a transposed matrix in float64. l1 distances have no such product and no operation in ONNX: a Scan
goes over the rows, with gamma'|Z' - x| for one x at a time, so that memory stays at one table of the points.
"""

from functools import singledispatch
from typing import Any

import numpy as np

from .._types import Array
from ..model.features import FeatureMap, JointMap, LinearMap
from ..model.gaussian import GaussianMap
from ..model.laplace import LandmarkMap
from ..model.levels import LevelMap, seen_levels
from ..model.rank_transform import Warp
from .graph import Body, Graph, Node
from .piecewise import ranks

_FEW = 32  # levels of a column up to which a product of indicators takes less time than comparisons


def parts_of(phi: Any) -> list[tuple[Warp | None, Any]]:
    """The parts of a first layer that have features."""
    parts = phi.parts if isinstance(phi, JointMap) else ((None, phi),)
    return [(warp, part) for warp, part in parts if part.n_features]


def part_features(graph: Graph, warp: Warp | None, phi: Any, Z: str, double: bool) -> str:
    """The features of one part at the rows Z, of the type `dtype_of`."""
    return features(phi, graph, Z if warp is None else ranks(graph, Z, warp), double)


def dtype_of(phi: Any, double: bool) -> Any:
    """The type of a map's features: that of its points, unless it is to be float64."""
    return np.float64 if double or not hasattr(phi, "points") else phi.points.dtype


@singledispatch
def features(phi: Any, graph: Graph, Z: str, double: bool) -> str:
    """phi(x) for every row."""
    raise TypeError(f"{type(phi).__name__} is a feature map that to_onnx does not know.")


@features.register
def _(phi: FeatureMap, graph: Graph, Z: str, double: bool) -> str:
    return cosines(graph, phi, Z)


@features.register
def _(phi: LinearMap, graph: Graph, Z: str, double: bool) -> str:
    seen = np.flatnonzero(phi.slopes)
    return graph("Mul", graph.columns(Z, seen), np.asarray(phi.slopes[seen], np.float64))


@features.register
def _(phi: GaussianMap, graph: Graph, Z: str, double: bool) -> str:
    directions = phi.matrix if phi.texts is None else np.vstack([phi.matrix, phi.texts])
    return _exponential(graph, phi, Z, _minus_half_squares(graph, directions, Z, phi.points), double)


@features.register
def _(phi: LandmarkMap, graph: Graph, Z: str, double: bool) -> str:
    exponents = [_minus_distances(graph, phi, Z)] if phi.relevance.any() else []
    if phi.texts is not None and (phi.texts.any() or not exponents):
        exponents.append(_minus_half_squares(graph, phi.texts, Z, phi.points))
    if not exponents:
        exponents = [graph("MatMul", graph.columns(Z, [0]), np.zeros((1, len(phi.points))))]
    return _exponential(graph, phi, Z, graph.total(exponents), double)


@features.register
def _(phi: LevelMap, graph: Graph, Z: str, double: bool) -> str:
    return _same_levels(graph, phi.variances, Z, phi.points, dtype_of(phi, double))


def cosines(graph: Graph, phi: FeatureMap, Z: str) -> str:
    """a cos(Omega'x + b), as sines a quarter of a turn on, which older versions of onnxruntime have in float64."""
    product = graph("MatMul", Z, np.asarray(phi.frequencies, np.float64))
    turned = graph("Sin", graph("Add", product, np.asarray(phi.phases, np.float64) + np.pi / 2))
    return graph("Mul", turned, np.asarray(phi.amplitudes, np.float64))


def _points(graph: Graph, points: Array) -> str:
    """(d, M), in float64; stored in the precision that they have."""
    name = graph.constant(points.T)
    return name if points.dtype == np.float64 else graph.cast(name, np.float64)


def _exponential(graph: Graph, phi: GaussianMap | LandmarkMap, Z: str, exponent: str, double: bool) -> str:
    """exp of the exponent, less what levels have apart."""
    if phi.unlike is not None and phi.unlike.any():
        same = _same_levels(graph, phi.unlike, Z, phi.points, np.float64)
        exponent = graph("Add", exponent, graph("Sub", same, np.array(phi.unlike.sum())))
    dtype = dtype_of(phi, double)
    return graph("Exp", exponent if dtype == np.float64 else graph.cast(exponent, dtype))


def _minus_half_squares(graph: Graph, directions: Array, Z: str, points: Array) -> str:
    T = directions if len(directions) else np.zeros((1, directions.shape[1]))
    u, v = graph("MatMul", Z, T.T), graph("MatMul", T, _points(graph, points))
    of_u, of_v = (_minus_half_norms(graph, x, axis) for x, axis in ((u, 1), (v, 0)))
    left = graph("Concat", graph("Pad", u, np.array([0, 0, 0, 1]), np.array(1.0)), of_u, axis=1)
    right = graph("Pad", graph("Concat", v, of_v, axis=0), np.array([0, 0, 1, 0]), np.array(1.0))
    return graph("Min", graph("MatMul", left, right), np.array(0.0))


def _minus_half_norms(graph: Graph, x: str, axis: int) -> str:
    return graph("Mul", graph("ReduceSum", graph("Mul", x, x), np.array([axis]), keepdims=1), np.array(-0.5))


def _minus_distances(graph: Graph, phi: LandmarkMap, Z: str) -> str:
    """-sum_j gamma_j |x_j - z_j|, row by row."""
    seen = np.flatnonzero(phi.relevance)
    points = graph("Gather", _points(graph, phi.points), seen.astype(np.int64), axis=0)
    weights = graph.constant(-np.asarray(phi.relevance[seen], np.float64)[None])
    upright, flat = graph.constant(np.array([-1, 1])), graph.constant(np.array([-1]))
    row, column, apart, size, product, result = (f"{graph.prefix}in a row/{k}" for k in range(6))
    body = Body(
        (
            Node("Reshape", (row, upright), (column,)),
            Node("Sub", (points, column), (apart,)),
            Node("Abs", (apart,), (size,)),
            Node("MatMul", (weights, size), (product,)),
            Node("Reshape", (product, flat), (result,)),
        ),
        row,
        len(seen),
        result,
    )
    return graph("Scan", graph.columns(Z, seen), body=body, num_scan_inputs=1)


def _same_levels(graph: Graph, weights: Array, Z: str, points: Array, dtype: Any) -> str:
    """sum_c w_c 1[x_c = z_c]: columns of few levels by one product of indicators, the others by comparisons."""
    seen, P = seen_levels(weights), _points(graph, points)
    own = {c: np.unique(points[:, c]).astype(np.float64) for c in seen}
    few = [c for c in seen if len(own[c]) <= _FEW]
    parts = []
    if few:
        at, levels = np.repeat(few, [len(own[c]) for c in few]), np.concatenate([own[c] for c in few])
        left = graph.cast(graph("Equal", graph.columns(Z, at), levels), dtype)
        right = graph.cast(graph("Equal", graph("Gather", P, at, axis=0), levels[:, None]), dtype)
        parts.append(graph("MatMul", left, graph("Mul", right, weights[at, None].astype(dtype))))
    for c in (c for c in seen if len(own[c]) > _FEW):
        same = graph("Equal", graph.columns(Z, [c]), graph("Gather", P, np.array([c]), axis=0))
        parts.append(graph("Where", same, weights[c].astype(dtype), np.zeros((), dtype)))
    if not parts:
        parts = [graph.cast(graph("MatMul", graph.columns(Z, [0]), np.zeros((1, len(points)))), dtype)]
    return graph.total(parts)
