"""The two terms whose kernel is a product over all inputs: the Gaussian one on learned directions, and the l1-Laplacian
one on the ranks of the inputs. Levels of categories and texts of levels are further factors of both.

The Gaussian kernel exp(-|B (x - z)|^2 / 2) has B = (I + A) diag(b), which scales and turns the inputs. A is the one set
of parameters that grows like d^2. Its prior makes a turned input one of many: an entry has variance 1/(4 d), so that
what the others add to an input has a fourth of the input's variance.
"""

import numpy as np

from .._types import Array, BoolArray
from ..model.kernel_maps import GaussianMap, LaplaceMap, minus_half_squares
from ..model.sum_kernel import Term
from ..runtime.rules import RULES
from .terms import Parameter, Parameters, Placement, SearchRows, SearchTerm, noise_variance, squares_of


class ProductTerm(SearchTerm):
    """A term whose kernel is a product: it has an amplitude, a scale for every input and one for every text."""

    text_start: float  # of the log scale of texts, times log d

    def parameters(self, rows: SearchRows) -> list[Parameter]:
        """Return the amplitude, and log scales of inputs and of texts."""
        d, h = rows.X.shape[1], np.log(rows.X.shape[1])
        result = [Parameter("amplitude", np.array([-0.7])), Parameter("scale", np.full(d, -h / 2), "scale")]
        if rows.texts:
            result.append(Parameter("text", np.full(len(rows.texts), self.text_start * h), "scale", place=3))
        return result

    def text_gradient(self, p: Parameters, rows: SearchRows, weights: Array) -> dict[str, Array]:
        """Return the gradient in the scales of texts, if there are any: `weights` (m, m) is the gradient in the kernel
        times the kernel, in float32."""
        logs = p[self.name]
        if "text" not in logs:
            return {}
        return {"text": np.asarray(-2 * squares_of(logs["text"]) * (rows.text_distances @ weights.ravel()))}

    def weighty(self, weights: Array, p: Parameters) -> Array:
        """Return the weights of inputs in the exponent, zero where the variance times the weight is lost in the noise:
        a large variance makes a small weight tell."""
        return np.where(weights * self.variance(p) < RULES.unseen_share * noise_variance(p), 0, weights)

    def text_directions(self, p: Parameters, place: Placement) -> Array | None:
        """Return the directions of texts (q, d) that the kernel looks at, None where there are none."""
        if "text" not in p[self.name]:
            return None
        squares = self.weighty(place.of_texts(p[self.name]["text"]) ** 2, p)
        return np.diag(np.sqrt(squares))[squares > 0] if squares.any() else None


class GaussianTerm(ProductTerm):
    """The term; "turn" is A, row by row, which the second climb of a search learns."""

    name = "gaussian"
    text_start = -1 / 2

    def parameters(self, rows: SearchRows) -> list[Parameter]:
        """Return A as well, whose entries among numbers are free."""
        turns = np.where((rows.levels[:, None] | rows.levels).ravel(), 0.0, 5.0)
        turn = Parameter("turn", np.zeros(turns.size), 2.0 * len(rows.levels), -turns, turns, place=5)
        return [*super().parameters(rows), turn]

    def start(self, rows: SearchRows, wanted: bool) -> dict[str, Array]:
        """Return the start without turns; a kernel of numbers is not wanted where there are none."""
        start = super().start(rows, wanted and not rows.levels.all())
        return {name: value for name, value in start.items() if name != "turn"}

    def refined(self, logs: dict[str, Array]) -> dict[str, Array]:
        """Return the parameters with A = 0."""
        return logs | {"turn": np.zeros(len(logs["scale"]) ** 2)}

    def matrix(self, p: Parameters, levels: BoolArray) -> Array:
        """Return B, which is zero for levels."""
        logs, d = p[self.name], len(levels)
        turn = np.eye(d) + logs["turn"].reshape(d, d) if "turn" in logs else np.eye(d)
        return np.asarray(turn * np.where(levels, 0, np.exp(logs["scale"])))

    def evaluate(self, p: Parameters, rows: SearchRows) -> Array:
        """Return the kernel matrix of the rows."""
        logs, U = p[self.name], rows.X @ self.matrix(p, rows.levels).T
        K: Array = self.variance(p) * np.exp(minus_half_squares(U, U))
        if rows.levels.any():
            K *= np.exp(-squares_of(logs["scale"][rows.levels]) @ rows.unlike).reshape(K.shape)
        if "text" in logs:
            K *= np.exp(-squares_of(logs["text"]) @ rows.text_distances).reshape(K.shape)
        return K

    def gradient(self, p: Parameters, rows: SearchRows, values: Array, slope: Array) -> Parameters:
        """Return the gradient; sum_ij Q_ij (x_i - x_j)(x_i - x_j)' / 2, with Q = dK * K, carries that in B."""
        logs, X, levels = p[self.name], rows.X, rows.levels
        Q, B = slope * values, self.matrix(p, levels)
        moved = X.T @ (Q.sum(axis=1)[:, None] * X) - X.T @ (Q @ X)
        dB = -2 * B @ moved
        gradient = {"amplitude": np.array([2 * Q.sum()]), "scale": (dB * B).sum(axis=0)}
        if "turn" in logs:
            gradient["turn"] = (dB * np.exp(logs["scale"])).ravel()
        Q = Q.astype(np.float32)
        if levels.any():
            gradient["scale"][levels] -= 2 * np.exp(2 * logs["scale"][levels]) * (rows.unlike @ Q.ravel())
        return {self.name: gradient | self.text_gradient(p, rows, Q)}

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
        unlike = place.spread(weights, levels) if levels.any() else None
        phi = GaussianMap(np.zeros((0, d)), matrix, unlike, self.text_directions(p, place))
        return [Term(None, phi, self.variance(p))]


class Laplace(ProductTerm):
    """The term; its scales are the logarithms of the relevances."""

    name = "laplace"
    text_start = -1 / 4

    def enters(self, rows: SearchRows, begin: Parameters) -> bool:
        """Return whether the term has any variance: distances along all inputs take time and memory."""
        return not self.is_missing(begin)

    def evaluate(self, p: Parameters, rows: SearchRows) -> Array:
        """Return the kernel matrix of the rows, in float32."""
        logs, m = p[self.name], len(rows.X)
        exponent = np.exp(logs["scale"]).astype(np.float32) @ rows.gaps
        if "text" in logs:
            exponent += squares_of(logs["text"]) @ rows.text_distances
        return np.asarray(np.float32(self.variance(p)) * np.exp(-exponent).reshape(m, m))

    def gradient(self, p: Parameters, rows: SearchRows, values: Array, slope: Array) -> Parameters:
        """Return the gradient; that in gamma_j is minus the sum of distances times dK * K."""
        P = slope.astype(np.float32) * values
        relevance = np.exp(p[self.name]["scale"]).astype(np.float32)
        gradient = {"amplitude": np.array([2 * P.sum(dtype=np.float64)]), "scale": -(rows.gaps @ P.ravel()) * relevance}
        return {self.name: gradient | self.text_gradient(p, rows, P)}

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
