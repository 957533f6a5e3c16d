"""Main effects, which are functions of single inputs: linear ones, smooth ones, and random effects of levels.

Linear functions of the inputs that are numbers, and of the coordinates of texts, have the kernel
K(x, z) = sum_j l_j^2 x_j z_j, with a prior standard deviation l_j for every number and one for every column of texts.

Smooth functions of numbers are cosines and sines at a few frequencies, whose products nearly are the Gaussian kernel of
one input,

    K(x, z) = sum_j a_j^2 / Q sum_q cos(s_j omega_q (x_j - z_j)),

with an amplitude a_j and a scale s_j for every number. Where the input is a category, random effects of its levels,
K(x, z) = sum_c v_c 1[x_c = z_c], take their place, with the squared amplitudes of the smooth term as variances v_c.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike
from scipy.stats import norm

from ..._types import Array, BoolArray
from ...runtime.rules import RULES
from ..features import FeatureMap, Operations, PointMap, ProductMap, Role
from .term import (
    Parameter,
    Parameters,
    Placement,
    Prepared,
    SearchRows,
    SearchTerm,
    Term,
    Values,
    less_unlike,
    seen_levels,
    squares_of,
)


@dataclass(frozen=True)
class LinearMap(ProductMap):
    """Inputs themselves, times their prior standard deviations (d,); inputs of none are not looked at."""

    slopes: Array

    @property
    def n_features(self) -> int:
        """Return the number of inputs with a slope."""
        return int(np.count_nonzero(self.slopes))

    @property
    def role(self) -> Role:
        """Return the role of linear features: they stay as they are."""
        return "linear"

    def features(self, X: Array) -> Array:
        """Return l_j x_j for every row and input with a slope."""
        seen = np.flatnonzero(self.slopes)
        return np.asarray(X[:, seen] * self.slopes[seen].astype(X.dtype))

    def pullback(self, X: Array, G: Array) -> Array:
        """Return G_j l_j for every input with a slope."""
        result, seen = np.zeros(X.shape), np.flatnonzero(self.slopes)
        result[:, seen] = G * self.slopes[seen]
        return result

    def graph(self, graph: Operations, Z: str, double: bool) -> str:
        """Add the features to a graph of operations."""
        seen = np.flatnonzero(self.slopes)
        return graph("Mul", graph.columns(Z, seen), np.asarray(self.slopes[seen], np.float64))


class Linear(SearchTerm):
    """The term; slopes are there only where they are wanted, those of texts wherever there are texts."""

    name = "linear"

    def parameters(self, rows: SearchRows) -> list[Parameter]:
        """Return log slopes of inputs and of texts."""
        d, h = rows.X.shape[1], np.log(rows.X.shape[1])
        result = [Parameter("slope", np.full(d, -h / 2 - 1), place=4)]
        if rows.texts:
            result.append(Parameter("text", np.full(len(rows.texts), -h / 2 - 0.7), place=2))
        return result

    def start(self, rows: SearchRows, wanted: bool) -> dict[str, Array]:
        """Return the start, without slopes of inputs where they are not wanted."""
        return {name: value for name, value in super().start(rows, wanted).items() if wanted or name != "slope"}

    def evaluate(self, p: Parameters, on: Prepared) -> Values:
        """Return the numbers and the coordinates of texts, times their prior standard deviations."""
        logs, rows, none = p[self.name], on.rows, np.zeros((len(on.rows.X), 0))
        numbers = rows.X[:, rows.numbers] * np.exp(logs["slope"][rows.numbers]) if "slope" in logs else none
        return Values((numbers, rows.text_columns * np.exp(logs["text"])[rows.text_of] if "text" in logs else none))

    def gradient(self, p: Parameters, on: Prepared, at: Values, dF: Sequence[Array], dK: Array) -> Parameters:
        """Return the gradient: a slope multiplies its feature."""
        logs, rows, gradient = p[self.name], on.rows, {}
        if "slope" in logs:
            gradient["slope"] = np.zeros(len(rows.numbers))
            gradient["slope"][rows.numbers] = (dF[0] * at.features[0]).sum(axis=0)
        if "text" in logs:
            each = (dF[1] * at.features[1]).sum(axis=0)
            gradient["text"] = np.asarray(np.bincount(rows.text_of, each, len(logs["text"])), np.float64)
        return {self.name: gradient}

    def relevance(self, p: Parameters, levels: BoolArray) -> Array:
        """Return the squared slope, and 0 for levels."""
        logs = p[self.name]
        return np.where(levels, 0.0, np.exp(2 * logs["slope"]) if "slope" in logs else 0.0)

    def fitted(self, p: Parameters, place: Placement) -> list[Term]:
        """Return the term of texts; slopes of numbers belong to the sum (`slopes`)."""
        logs = p[self.name]
        return [Term(None, LinearMap(place.of_texts(logs["text"])), 1.0)] if "text" in logs else []

    def slopes(self, p: Parameters, place: Placement) -> Array | None:
        """Return the prior standard deviations of the slopes of all inputs (d,), None where there are no slopes."""
        if "slope" not in p[self.name]:
            return None
        return place.spread(np.exp(p[self.name]["slope"][~place.levels]), place.searched[~place.levels])


@dataclass(frozen=True)
class Additive(SearchTerm):
    """The term, with so many frequencies per input."""

    n_frequencies: int
    name = "additive"

    @property
    def frequencies(self) -> Array:
        """Return evenly spaced quantiles of |N(0, 1)|, each for a cosine and a sine: in one dimension few of them
        replace many random ones."""
        q = self.n_frequencies
        return np.asarray(norm.ppf(0.5 + (np.arange(q) + 0.5) / (2 * q)))

    def parameters(self, rows: SearchRows) -> list[Parameter]:
        """Return amplitudes and scales, one for every input; those of levels are amplitudes of random effects."""
        d = rows.X.shape[1]
        return [Parameter("amplitude", np.full(d, -np.log(d) / 2 - 0.7)), Parameter("scale", np.zeros(d), "scale")]

    def prepare(self, rows: SearchRows, begin: Parameters) -> Prepared:
        """Return the rows with the frequencies."""
        return Prepared(rows, self.frequencies)

    def _angles(self, p: Parameters, on: Prepared) -> Array:
        numbers = on.rows.numbers
        scales = np.exp(p[self.name]["scale"])[numbers, None] * on.fixed
        return np.asarray(on.rows.X[:, numbers, None] * scales)

    def evaluate(self, p: Parameters, on: Prepared) -> Values:
        """Return the cosines and the sines, (m, numbers * Q) each."""
        theta, amplitudes = self._angles(p, on), p[self.name]["amplitude"][on.rows.numbers]
        size = (np.exp(amplitudes) / np.sqrt(len(on.fixed)))[:, None]
        m = len(on.rows.X)
        return Values(((size * np.cos(theta)).reshape(m, -1), (size * np.sin(theta)).reshape(m, -1)))

    def gradient(self, p: Parameters, on: Prepared, at: Values, dF: Sequence[Array], dK: Array) -> Parameters:
        """Return the gradient: an amplitude multiplies its features, a scale their angles."""
        theta, numbers = self._angles(p, on), on.rows.numbers
        (cosines, sines), (d_cos, d_sin) = ([F.reshape(theta.shape) for F in both] for both in (at.features, dF))
        amplitude, scale = np.zeros((2, len(numbers)))
        amplitude[numbers] = np.einsum("mdq,mdq->d", d_cos, cosines) + np.einsum("mdq,mdq->d", d_sin, sines)
        scale[numbers] = np.einsum("mdq,mdq->d", d_sin * cosines - d_cos * sines, theta)
        return {self.name: {"amplitude": amplitude, "scale": scale}}

    def relevance(self, p: Parameters, levels: BoolArray) -> Array:
        """Return a_j^2 times one minus the mean of the kernel over moves of N(0, 2), and 0 for levels."""
        single = p[self.name]
        moved = np.exp(2 * single["amplitude"]) * (1 - 1 / np.sqrt(1 + 2 * np.exp(2 * single["scale"])))
        return np.where(levels, 0.0, moved)

    def fitted(self, p: Parameters, place: Placement) -> list[Term]:
        """Return cosines and sines of the numbers among the inputs."""
        if self.is_missing(p):
            return []
        q, numbers = self.frequencies, ~place.levels
        inputs, amplitudes = place.searched[numbers], p[self.name]["amplitude"][numbers]
        m, scales = len(inputs), np.exp(p[self.name]["scale"][numbers])
        omega = np.zeros((len(place.inputs.kinds), 2 * m * len(q)))
        columns = np.arange(m * len(q)).reshape(m, len(q))
        for sine in (0, m * len(q)):
            omega[np.repeat(inputs, len(q)), (columns + sine).ravel()] = np.outer(scales, q).ravel()
        phases = np.repeat([0.0, -np.pi / 2], m * len(q))
        sizes = np.tile(np.repeat(np.exp(amplitudes) / np.sqrt(len(q)), len(q)), 2)
        return [Term(None, FeatureMap(omega, phases, sizes), 1.0)]


@dataclass(frozen=True)
class LevelMap(PointMap):
    """Points (M, d) and variances (d,), zero where an input is not a level or is not looked at."""

    points: Array
    variances: Array

    def codes(self, Z: Array, dtype: DTypeLike) -> Array:
        """Return the levels that are looked at."""
        return np.asarray(Z[:, seen_levels(self.variances)])

    def between(self, a: Array, b: Array, dtype: DTypeLike, variance: float = 1.0) -> Array:
        """Return v sum_c v_c 1[a_c = b_c]."""
        variances = variance * self.variances[seen_levels(self.variances)]
        return less_unlike(np.full((len(a), len(b)), variances.sum(), dtype), a, b, variances)

    def diagonal(self, Z: Array) -> float:
        """Return the sum of the variances."""
        return float(self.variances.sum())

    def pullback(self, X: Array, G: Array) -> Array:
        """Return zeros: a level has no neighbours."""
        return np.zeros(X.shape)

    def graph(self, graph: Operations, Z: str, double: bool) -> str:
        """Add the effects at the points to a graph of operations."""
        return graph.same_levels(self.variances, Z, self.points, self.dtype(double))


class Levels(SearchTerm):
    """The term, which has no parameters beside those of `Additive`."""

    name = "levels"

    def parameters(self, rows: SearchRows) -> list[Parameter]:
        """Return none."""
        return []

    def prepare(self, rows: SearchRows, begin: Parameters) -> Prepared | None:
        """Return the rows where there are levels among the inputs."""
        return super().prepare(rows, begin) if rows.levels.any() else None

    def evaluate(self, p: Parameters, on: Prepared) -> Values:
        """Return the sum of squared amplitudes over the levels that two rows share."""
        m, effects = len(on.rows.X), squares_of(p[Additive.name]["amplitude"][on.rows.levels])
        return Values(dense=(effects.sum() - (effects @ on.rows.unlike).reshape(m, m),))

    def gradient(self, p: Parameters, on: Prepared, at: Values, dF: Sequence[Array], dK: Array) -> Parameters:
        """Return the gradient in the amplitudes of `Additive`."""
        levels, amplitude = on.rows.levels, np.zeros(len(on.rows.levels))
        same = dK.sum() - on.rows.unlike @ dK.astype(np.float32).ravel()
        amplitude[levels] = 2 * np.exp(2 * p[Additive.name]["amplitude"][levels]) * same
        return {Additive.name: {"amplitude": amplitude}}

    def relevance(self, p: Parameters, levels: BoolArray) -> Array:
        """Return the variance of an effect, and 0 for numbers."""
        return np.where(levels, np.exp(2 * p[Additive.name]["amplitude"]), 0.0)

    def fitted(self, p: Parameters, place: Placement) -> list[Term]:
        """Return random effects of all levels that have any variance."""
        effects = place.spread(np.exp(2 * p[Additive.name]["amplitude"][place.levels]), place.searched[place.levels])
        effects[effects < RULES.least_level_variance] = 0
        return [Term(None, LevelMap(np.zeros((0, len(effects))), effects), 1.0)] if effects.any() else []
