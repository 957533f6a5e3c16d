"""The l1-Laplacian kernel on the inputs' ranks, each input with a relevance gamma_j:

    K(x, z) = exp(-sum_j gamma_j |x_j - z_j|),

with 1[x_j != z_j] in place of |x_j - z_j| where input j is a level, and less |T (x - z)|^2 / 2 for the texts of levels.

Fourier features of a kernel this rough need many thousands of frequencies; landmarks (Nystroem's method) need a couple
of thousand points.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike
from scipy.spatial.distance import cdist

from ..._types import Array, BoolArray
from ..features import Operations
from .term import (
    Parameter,
    Parameters,
    Placement,
    Prepared,
    ProductKernelMap,
    SearchRows,
    SearchTerm,
    Term,
    Values,
    squares_of,
)


@dataclass(frozen=True)
class LaplaceMap(ProductKernelMap):
    """Points (M, d), relevances gamma (d,) of numbers and of levels (d,), and directions T (q, d) of texts, None
    where there are none; inputs of relevance 0 are not looked at."""

    points: Array
    relevance: Array
    unlike: Array | None = None
    texts: Array | None = None

    is_local = True

    def number_codes(self, Z: Array) -> Array:
        """Return the inputs that are looked at, times their relevance: numbers whose l1 distance is the exponent."""
        seen = np.flatnonzero(self.relevance)
        return np.asarray(Z[:, seen] * self.relevance[seen], np.float64)

    def minus_number_exponent(self, a: Array, b: Array, dtype: DTypeLike) -> Array:
        """Return -|a - b|_1, from rows that lie one after the other: `cdist` is fastest with these."""
        if not a.shape[1]:
            return np.zeros((len(a), len(b)), dtype)
        a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
        K: Array = cdist(a, b, "cityblock").astype(dtype, copy=False)
        return np.negative(K, out=K)

    def pullback(self, X: Array, G: Array) -> Array:
        """Return sum_m G_m dK/dx with dK/dx_j = -K gamma_j sign(x_j - z_j), and that through texts."""
        weighted = G * self.features(X)
        result = np.zeros((len(X), X.shape[1]))
        for j in np.flatnonzero(self.relevance):
            sides = np.sign(X[:, [j]] - self.points[:, j])
            result[:, j] = -self.relevance[j] * np.einsum("nm,nm->n", weighted, sides)
        if self.texts is not None:
            result -= (weighted.sum(axis=1)[:, None] * X - weighted @ self.points) @ self.texts.T @ self.texts
        return result

    def graph(self, graph: Operations, Z: str, double: bool) -> str:
        """Add the kernel at the points to a graph of operations."""
        exponents = [graph.minus_distances(self.relevance, Z, self.points)] if self.relevance.any() else []
        if self.texts is not None and (self.texts.any() or not exponents):
            exponents.append(graph.minus_half_squares(self.texts, Z, self.points))
        if not exponents:
            exponents = [graph("MatMul", graph.columns(Z, [0]), np.zeros((1, len(self.points))))]
        return self.exponential(graph, Z, graph.total(exponents), double)


class Laplace(SearchTerm):
    """The term; its scales are the logarithms of the relevances."""

    name = "laplace"

    def parameters(self, rows: SearchRows) -> list[Parameter]:
        """Return the amplitude, log gamma, and log scales of texts."""
        d, h = rows.X.shape[1], np.log(rows.X.shape[1])
        result = [Parameter("amplitude", np.array([-0.7])), Parameter("scale", np.full(d, -h / 2), "scale")]
        if rows.texts:
            result.append(Parameter("text", np.full(len(rows.texts), -h / 4), "scale", place=3))
        return result

    def prepare(self, rows: SearchRows, begin: Parameters) -> Prepared | None:
        """Return distances of all pairs of ranks, or whether their levels differ, one row for every input."""
        if self.is_missing(begin):
            return None
        columns = [_gaps(r, bool(is_level)) for r, is_level in zip(rows.ranks.T, rows.levels, strict=True)]
        return Prepared(rows, np.stack(columns))

    def evaluate(self, p: Parameters, on: Prepared) -> Values:
        """Return the kernel matrix of the rows, in float32."""
        logs, m = p[self.name], len(on.rows.X)
        exponent = np.exp(logs["scale"]).astype(np.float32) @ on.fixed
        if "text" in logs:
            exponent += squares_of(logs["text"]) @ on.rows.text_distances
        return Values(dense=(np.float32(self.variance(p)) * np.exp(-exponent).reshape(m, m),))

    def gradient(self, p: Parameters, on: Prepared, at: Values, dF: Sequence[Array], dK: Array) -> Parameters:
        """Return the gradient; that in gamma_j is minus the sum of distances times dK * K."""
        logs, (K,) = p[self.name], at.dense
        P = dK.astype(np.float32) * K
        relevance = np.exp(logs["scale"]).astype(np.float32)
        gradient = {
            "amplitude": np.array([2 * P.sum(dtype=np.float64)]),
            "scale": -(on.fixed @ P.ravel()) * relevance,
        }
        if "text" in logs:
            gradient["text"] = on.rows.text_gradient(logs["text"], P)
        return {self.name: gradient}

    def relevance(self, p: Parameters, levels: BoolArray) -> Array:
        """Return the variance times one minus the kernel at a distance of 1."""
        return np.asarray(self.variance(p) * (1 - np.exp(-np.exp(p[self.name]["scale"]))))

    def fitted(self, p: Parameters, place: Placement) -> list[Term]:
        """Return the kernel on the ranks of all inputs; those that are lost in the noise are left out."""
        if self.is_missing(p):
            return []
        gamma, levels = place.spread(self.weighty(np.exp(p[self.name]["scale"]), p)), place.inputs.levels
        unlike = gamma * levels if place.levels.any() else None
        phi = LaplaceMap(np.zeros((0, len(gamma))), gamma * ~levels, unlike, self.text_directions(p, place))
        return [Term(place.ranks, phi, self.variance(p))]


def _gaps(column: Array, is_level: bool) -> Array:
    """Return distances of all pairs of rows, or whether their levels differ."""
    r: Array = column.astype(np.float32)
    gaps: Array = (r[:, None] != r).astype(np.float32) if is_level else np.abs(r[:, None] - r)
    return gaps.ravel()
