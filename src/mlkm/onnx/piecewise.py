"""Piecewise-linear functions, one for every column: ranks of inputs (`RankTransform`) and tables of a `BackTransform`.

The interval of x is found by halving: with at most 2^s knots, s steps of one comparison each, for all columns at once.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._types import Array
from ..model.transforms import BackTransform, RankTransform
from .graph import Graph


def on_ranks(graph: Graph, Z: str, ranks: RankTransform | None) -> str:
    """Return the inputs on the scale of their ranks; as they are without any."""
    return Z if ranks is None else piecewise(graph, Z, ranks.knots, ranks.values)


def link_mean(graph: Graph, f: str, link: BackTransform) -> str:
    """E[y] where z is predicted as f."""
    return piecewise(graph, f, tuple(link.knots.T), tuple(link.means.T), beyond=True)


def link_deviation(graph: Graph, f: str, link: BackTransform) -> str:
    return piecewise(graph, f, tuple(link.knots.T), tuple(link.deviations.T))


def piecewise(graph: Graph, X: str, knots: Sequence[Array], values: Sequence[Array], beyond: bool = False) -> str:
    """Column j at its knots and values, linear in between; beyond the outer knots constant, or going on straight. A
    column without knots stays as it is."""
    steps = max(1, int(np.ceil(np.log2(max(max(map(len, knots), default=1), 2)))))
    tables = [_tables(k, v, 2**steps, beyond) for k, v in zip(knots, values, strict=True)]
    search, base, value, slope = (np.concatenate([table[part] for table in tables]) for part in range(4))
    offsets = np.arange(len(tables), dtype=np.int64) * 2**steps
    if not beyond:
        ends = [(k[0], k[-1]) if len(k) else (-np.inf, np.inf) for k in knots]
        X = graph.held(X, *np.array(ends, np.float64).T)
    half = 2 ** (steps - 1)
    at = graph("Where", graph("GreaterOrEqual", X, search[offsets + half]), offsets + half, offsets)
    for step in range(steps - 2, -1, -1):
        further = graph("Add", at, np.array([2**step]))
        at = graph("Where", graph("GreaterOrEqual", X, graph("Gather", search, further)), further, at)
    rise = graph("Mul", graph("Gather", slope, at), graph("Sub", X, graph("Gather", base, at)))
    return graph("Add", rise, graph("Gather", value, at))


def _tables(knots: Array, values: Array, size: int, beyond: bool) -> tuple[Any, ...]:
    """What is searched, and at every knot its place, value and the slope after it, `size` of each."""
    if not len(knots):
        return np.r_[-np.inf, np.full(size - 1, np.inf)], np.zeros(size), np.zeros(size), np.ones(size)
    rise = np.diff(values) / np.diff(knots)
    rise = np.r_[rise, rise[-1:] if beyond and len(rise) else 0.0]
    empty = size - len(knots)
    return np.pad(knots, (0, empty), constant_values=np.inf), *(np.pad(a, (0, empty)) for a in (knots, values, rise))
