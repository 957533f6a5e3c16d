"""The Gaussian kernel on directions that are learned,

    K(x, z) = exp(-|B (x - z)|^2 / 2),    B = (I + A) diag(b),

what cosines with frequencies B'omega reproduce as their number grows. B scales and turns the inputs. Levels and their
texts enter as further factors, exp(-sum_c b_c^2 1[x_c != z_c]) and exp(-|T (x - z)|^2 / 2).

A is the one set of parameters that grows like d^2. Its prior makes a turned input one of many: an entry has variance
1/(4 d), so that what the others add to an input has a fourth of the input's variance.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from ..._types import Array, BoolArray
from ...kernels import Kernel
from ..features import FeatureMap, Operations, Role, draw_features
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
    minus_half_squares,
    seen_levels,
    squares_of,
)


@dataclass(frozen=True)
class GaussianMap(ProductKernelMap):
    """Points (M, d), the matrix B (r, d) of directions, weights (d,) of levels and directions T (q, d) of texts, None
    where there are none; zeros are inputs that are not looked at."""

    points: Array
    matrix: Array
    unlike: Array | None = None
    texts: Array | None = None

    @property
    def role(self) -> Role:
        """Cosines may stand for the kernel of numbers alone."""
        return "smooth" if self.texts is None and not len(seen_levels(self.unlike)) else "landmarks"

    def number_codes(self, Z: Array) -> Array:
        """Return B z, in float64: squares of distances cancel."""
        return np.asarray(Z @ self.matrix.T)

    def minus_number_exponent(self, a: Array, b: Array, dtype: DTypeLike) -> Array:
        """Return -|B (x - z)|^2 / 2."""
        return minus_half_squares(a, b).astype(dtype, copy=False)

    def pullback(self, X: Array, G: Array) -> Array:
        """Return sum_m G_m dK/dx with dK/dx = -K B'B (x - z)."""
        weighted = G * self.features(X)
        total = weighted.sum(axis=1)[:, None] * X - weighted @ self.points
        through_texts = 0.0 if self.texts is None else total @ self.texts.T @ self.texts
        return np.asarray(-total @ self.matrix.T @ self.matrix - through_texts)

    def squared_scales(self) -> Array:
        """Return the squared length of every column of B."""
        return np.asarray((self.matrix**2).sum(axis=0))

    def cosines(self, rng: np.random.Generator, D: int, kernel: Kernel, variance: float) -> FeatureMap:
        """Return D cosines whose frequencies follow the law of a kernel along the directions."""
        drawn = draw_features(rng, len(self.matrix), D, kernel, sampling="orthogonal")
        return FeatureMap(self.matrix.T @ drawn.frequencies, drawn.phases, drawn.amplitudes * np.sqrt(variance))

    def graph(self, graph: Operations, Z: str, double: bool) -> str:
        """Add the kernel at the points: texts are further directions."""
        directions = self.matrix if self.texts is None else np.vstack([self.matrix, self.texts])
        return self.exponential(graph, Z, graph.minus_half_squares(directions, Z, self.points), double)


class GaussianTerm(SearchTerm):
    """The term; "turn" is A, row by row, which the second climb of a search learns."""

    name = "gaussian"

    def parameters(self, rows: SearchRows) -> list[Parameter]:
        """Return the amplitude, log b and A, whose entries among numbers are free, and log scales of texts."""
        d, h = rows.X.shape[1], np.log(rows.X.shape[1])
        turns = np.where((rows.levels[:, None] | rows.levels).ravel(), 0.0, 5.0)  # among numbers only
        result = [
            Parameter("amplitude", np.array([-0.7])),
            Parameter("scale", np.full(d, -h / 2), "scale"),
            Parameter("turn", np.zeros(d * d), 2.0 * d, -turns, turns, place=5),
        ]
        if rows.texts:
            result.append(Parameter("text", np.full(len(rows.texts), -h / 2), "scale", place=3))
        return result

    def start(self, rows: SearchRows, wanted: bool) -> dict[str, Array]:
        """Return the start without turns."""
        return {name: value for name, value in super().start(rows, wanted).items() if name != "turn"}

    def refined(self, logs: dict[str, Array]) -> dict[str, Array]:
        """Return the parameters with A = 0."""
        return logs | {"turn": np.zeros(len(logs["scale"]) ** 2)}

    def sees(self, rows: SearchRows) -> bool:
        """Return whether any input is a number."""
        return not rows.levels.all()

    def matrix(self, p: Parameters, levels: BoolArray) -> Array:
        """Return B, which is zero for levels."""
        logs, d = p[self.name], len(levels)
        turn = np.eye(d) + logs["turn"].reshape(d, d) if "turn" in logs else np.eye(d)
        return np.asarray(turn * np.where(levels, 0, np.exp(logs["scale"])))

    def evaluate(self, p: Parameters, on: Prepared) -> Values:
        """Return the kernel matrix of the rows."""
        logs, rows = p[self.name], on.rows
        m, U = len(rows.X), rows.X @ self.matrix(p, rows.levels).T
        halves = 0.5 * np.einsum("mr,mr->m", U, U)
        K = self.variance(p) * np.exp(np.minimum(U @ U.T - halves[:, None] - halves, 0))
        if rows.levels.any():
            K *= np.exp(-squares_of(logs["scale"][rows.levels]) @ rows.unlike).reshape(m, m)
        if "text" in logs:
            K *= np.exp(-squares_of(logs["text"]) @ rows.text_distances).reshape(m, m)
        return Values(dense=(K,))

    def gradient(self, p: Parameters, on: Prepared, at: Values, dF: Sequence[Array], dK: Array) -> Parameters:
        """Return the gradient; sum_ij Q_ij (x_i - x_j)(x_i - x_j)' / 2, with Q = dK * K, carries that in B."""
        logs, X, levels, (K,) = p[self.name], on.rows.X, on.rows.levels, at.dense
        Q, B = dK * K, self.matrix(p, levels)
        moved = X.T @ (Q.sum(axis=1)[:, None] * X) - X.T @ (Q @ X)
        dB = -2 * B @ moved
        gradient = {"amplitude": np.array([2 * Q.sum()]), "scale": (dB * B).sum(axis=0)}
        if "turn" in logs:
            gradient["turn"] = (dB * np.exp(logs["scale"])).ravel()
        single: Array = Q.astype(np.float32) if levels.any() or "text" in logs else Q
        if levels.any():
            gradient["scale"][levels] -= 2 * np.exp(2 * logs["scale"][levels]) * (on.rows.unlike @ single.ravel())
        if "text" in logs:
            gradient["text"] = on.rows.text_gradient(logs["text"], single)
        return {self.name: gradient}

    def relevance(self, p: Parameters, levels: BoolArray) -> Array:
        """Return the variance times one minus the mean of the kernel over moves of the input."""
        squares = (self.matrix(p, levels) ** 2).sum(axis=0)
        of_levels = 1 - np.exp(-np.exp(2 * p[self.name]["scale"]))
        return self.variance(p) * np.where(levels, of_levels, 1 - 1 / np.sqrt(1 + 2 * squares))

    def fitted(self, p: Parameters, place: Placement) -> list[Term]:
        """Return the kernel on all inputs; levels and texts that are lost in the noise are left out."""
        if self.is_missing(p):
            return []
        d, levels = len(place.inputs.kinds), place.levels
        matrix = np.zeros((len(place.searched), d))
        matrix[:, place.searched] = self.matrix(p, levels)
        weights = self.weighty(np.exp(2 * p[self.name]["scale"][levels]), p)
        unlike = place.spread(weights, place.searched[levels]) if levels.any() else None
        phi = GaussianMap(np.zeros((0, d)), matrix, unlike, self.text_directions(p, place))
        return [Term(None, phi, self.variance(p))]
