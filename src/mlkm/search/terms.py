"""The terms of a search: the kernels of the default before their parameters are known, and the rows that these are
learned from.

A term knows its parameters, its features or values on the rows of a search and their gradient in the parameters, what
every input has to do with it, and the term of the fitted kernel that it becomes, whose map is in `model.kernel_maps`.
Nothing else of the package names a single kernel: the sum, the evidence, the relevance, the features of many rows and
ONNX go over terms. A new kernel is a map, a term, and a line in `search.policy.default_terms`.

Main effects are functions of single inputs. Linear functions of the inputs that are numbers, and of the coordinates of
texts, have the kernel K(x, z) = sum_j l_j^2 x_j z_j, with a prior standard deviation l_j for every number and one for
every column of texts. Smooth functions of numbers are cosines and sines at a few frequencies, whose products nearly are
the Gaussian kernel of one input,

    K(x, z) = sum_j a_j^2 / Q sum_q cos(s_j omega_q (x_j - z_j)),

with an amplitude a_j and a scale s_j for every number. Where the input is a category, random effects of its levels,
K(x, z) = sum_c v_c 1[x_c = z_c], take their place, with the squared amplitudes of the smooth term as variances v_c.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
from scipy.stats import norm

from .._types import Array, BoolArray, IntArray
from ..data import Inputs
from ..model.features import FeatureMap, RankTransform
from ..model.kernel_maps import LevelMap, LinearMap, minus_half_squares
from ..model.sum_kernel import Term
from ..runtime.rules import RULES

Parameters: TypeAlias = dict[str, dict[str, Array]]  # by the name of the term, then of the parameter; logarithms


@dataclass(frozen=True)
class SearchRows:
    """Rows of a search: numbers and levels (m, d), the same with ranks in place of numbers, targets (m, k), weights,
    which of the inputs are levels (d,), and the coordinates of texts, one array (m, r) for every column that has
    them. Distances of all pairs of rows are computed once, in float32."""

    X: Array
    ranks: Array
    Y: Array
    weights: Array
    levels: BoolArray
    texts: tuple[Array, ...] = ()

    def with_inputs(self, at: IntArray) -> "SearchRows":
        """Return the rows with these inputs only."""
        return replace(self, X=self.X[:, at], ranks=self.ranks[:, at], levels=self.levels[at])

    def take(self, at: slice) -> "SearchRows":
        """Return these of the rows."""
        texts = tuple(text[at] for text in self.texts)
        return replace(self, X=self.X[at], ranks=self.ranks[at], Y=self.Y[at], weights=self.weights[at], texts=texts)

    @property
    def numbers(self) -> BoolArray:
        """Return which of the inputs are numbers (d,)."""
        return ~self.levels

    @cached_property
    def text_columns(self) -> Array:
        """Return the coordinates of all texts side by side."""
        return np.hstack([np.zeros((len(self.X), 0)), *self.texts])

    @property
    def text_of(self) -> IntArray:
        """Return the number of the text that each of these coordinates belongs to."""
        return np.repeat(np.arange(len(self.texts)), [text.shape[1] for text in self.texts])

    @cached_property
    def gaps(self) -> Array:
        """Return the distance of the ranks of two rows, or whether their levels differ: m^2 numbers for every input."""
        return self._apart(np.arange(len(self.levels)))

    @cached_property
    def unlike(self) -> Array:
        """Return 1 where the levels of two rows differ, else 0: m^2 numbers for every input that is a level."""
        return self._apart(np.flatnonzero(self.levels))

    def _apart(self, inputs: IntArray) -> Array:
        """Return the distances of all pairs of rows along these inputs, a row of m^2 numbers for each."""
        columns = zip(self.ranks.T[inputs].astype(np.float32), self.levels[inputs], strict=True)
        gaps = (r[:, None] != r if is_level else np.abs(r[:, None] - r) for r, is_level in columns)
        return np.stack([gap.astype(np.float32, copy=False).ravel() for gap in gaps])

    @cached_property
    def text_distances(self) -> Array:
        """Return half of the squared distance of the texts of two rows, a row of m^2 numbers for every text."""
        return np.stack([-minus_half_squares(text, text).astype(np.float32).ravel() for text in self.texts])


@dataclass(frozen=True)
class Parameter:
    """A parameter of a search, an array of logarithms: where it starts, which is the centre of its prior; the weight of
    the prior, in nats per squared distance, or which of the policy's weights that is; its bounds; and its place in the
    flat vector of all, those of a lower one first, then by term. The path of a search depends on that order by its
    rounding."""

    name: str
    start: Array
    prior: float | Literal["amplitude", "scale"] = "amplitude"
    low: float | Array = RULES.least_log_amplitude
    high: float | Array = RULES.largest_log
    place: int = 0


@dataclass(frozen=True)
class Placement:
    """The place of searched parameters in a fitted kernel: all inputs, those that were searched, and the ranks."""

    inputs: Inputs
    searched: IntArray
    ranks: RankTransform

    @property
    def levels(self) -> BoolArray:
        """Return which of the searched inputs are levels."""
        return self.inputs.levels[self.searched]

    def spread(self, values: Array, among: BoolArray | None = None) -> Array:
        """Return values of the searched inputs, or of these `among` them, as those of all inputs (d,), zero
        elsewhere."""
        result = np.zeros(len(self.inputs.kinds))
        result[self.searched if among is None else self.searched[among]] = values
        return result

    def of_texts(self, logs: Array) -> Array:
        """Return the scale or the slope of every coordinate of a text (d,), that of its column; zero for other
        inputs."""
        values, texts = np.zeros(len(self.inputs.kinds)), self.inputs.texts
        values[texts] = np.exp(logs)[np.unique(self.inputs.owners[texts], return_inverse=True)[1]]
        return values


class SearchTerm(ABC):
    """A kernel of the default before its parameters are known. Its values on the rows of a search are features (m, q),
    whose products are the kernel, where it `has_features`, else the kernel (m, m)."""

    name: str
    has_features = False

    @abstractmethod
    def parameters(self, rows: SearchRows) -> list[Parameter]:
        """Return all parameters that a search on these rows may have. The one called "amplitude" gives the kernel its
        variance."""

    def start(self, rows: SearchRows, wanted: bool) -> dict[str, Array]:
        """Return where a search begins. A term that is not wanted has next to no variance, and keeps it."""
        start = {q.name: q.start for q in self.parameters(rows)}
        if not wanted and "amplitude" in start:
            start["amplitude"] = np.full(start["amplitude"].size, RULES.least_log_amplitude)
        return start

    def refined(self, logs: dict[str, Array]) -> dict[str, Array]:
        """Return the term's parameters for the second climb of a search, with the same kernel."""
        return logs

    def enters(self, rows: SearchRows, begin: Parameters) -> bool:
        """Return whether a climb on these rows from `begin` has to look at the term."""
        return True

    def is_missing(self, p: Parameters) -> bool:
        """Return whether the term has no variance, and so stays without."""
        return bool((p[self.name]["amplitude"] <= RULES.least_log_amplitude).all())

    def variance(self, p: Parameters) -> float:
        """Return the variance of a kernel with one amplitude."""
        return float(np.exp(2 * p[self.name]["amplitude"][0]))

    @abstractmethod
    def evaluate(self, p: Parameters, rows: SearchRows) -> Array:
        """Return the features of the term, or its kernel, at these parameters."""

    @abstractmethod
    def gradient(self, p: Parameters, rows: SearchRows, values: Array, slope: Array) -> Parameters:
        """Return the gradient of the evidence in the parameters, from the values of `evaluate` and its gradient in
        these."""

    @abstractmethod
    def relevance(self, p: Parameters, levels: BoolArray) -> Array:
        """Return the prior variance that moving one standardised input brings, or another level, for every input."""

    @abstractmethod
    def fitted(self, p: Parameters, place: Placement) -> list[Term]:
        """Return what the term becomes in the fitted kernel, with points yet to be given."""


def noise_variance(p: Parameters) -> float:
    """Return the variance of the noise."""
    return float(np.exp(2 * p["noise"]["amplitude"][0]))


def squares_of(logs: Array) -> Array:
    """Return the squares of numbers whose logarithms are given, in float32."""
    result: Array = np.exp(2 * logs).astype(np.float32)
    return result


class Linear(SearchTerm):
    """The term; slopes are there only where they are wanted, those of texts wherever there are texts."""

    name = "linear"
    has_features = True

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

    def evaluate(self, p: Parameters, rows: SearchRows) -> Array:
        """Return the numbers and the coordinates of texts, times their prior standard deviations."""
        logs, parts = p[self.name], [np.zeros((len(rows.X), 0))]
        if "slope" in logs:
            parts.append(rows.X[:, rows.numbers] * np.exp(logs["slope"][rows.numbers]))
        if "text" in logs:
            parts.append(rows.text_columns * np.exp(logs["text"])[rows.text_of])
        return np.hstack(parts)

    def gradient(self, p: Parameters, rows: SearchRows, values: Array, slope: Array) -> Parameters:
        """Return the gradient: a slope multiplies its feature."""
        logs, each, gradient = p[self.name], (slope * values).sum(axis=0), {}
        if "slope" in logs:
            gradient["slope"] = np.zeros(len(rows.numbers))
            gradient["slope"][rows.numbers] = each[: rows.numbers.sum()]
        if "text" in logs:
            of_texts = each[len(each) - len(rows.text_of) :]
            gradient["text"] = np.asarray(np.bincount(rows.text_of, of_texts, len(logs["text"])), np.float64)
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
        logs, numbers = p[self.name], ~place.levels
        return place.spread(np.exp(logs["slope"][numbers]), numbers) if "slope" in logs else None


@dataclass(frozen=True)
class Additive(SearchTerm):
    """The term, with so many frequencies per input."""

    n_frequencies: int
    name = "additive"
    has_features = True

    @cached_property
    def frequencies(self) -> Array:
        """Return evenly spaced quantiles of |N(0, 1)|, each for a cosine and a sine: in one dimension few of them
        replace many random ones."""
        q = self.n_frequencies
        return np.asarray(norm.ppf(0.5 + (np.arange(q) + 0.5) / (2 * q)))

    def parameters(self, rows: SearchRows) -> list[Parameter]:
        """Return amplitudes and scales, one for every input; those of levels are amplitudes of random effects."""
        d = rows.X.shape[1]
        return [Parameter("amplitude", np.full(d, -np.log(d) / 2 - 0.7)), Parameter("scale", np.zeros(d), "scale")]

    def _angles(self, p: Parameters, rows: SearchRows) -> Array:
        scales = np.exp(p[self.name]["scale"])[rows.numbers, None] * self.frequencies
        return np.asarray(rows.X[:, rows.numbers, None] * scales)

    def evaluate(self, p: Parameters, rows: SearchRows) -> Array:
        """Return the cosines, then the sines, (m, numbers * Q) each."""
        theta, amplitudes = self._angles(p, rows), p[self.name]["amplitude"][rows.numbers]
        size = (np.exp(amplitudes) / np.sqrt(self.n_frequencies))[:, None]
        return np.hstack([(size * wave(theta)).reshape(len(theta), -1) for wave in (np.cos, np.sin)])

    def gradient(self, p: Parameters, rows: SearchRows, values: Array, slope: Array) -> Parameters:
        """Return the gradient: an amplitude multiplies its features, a scale their angles."""
        theta, numbers = self._angles(p, rows), rows.numbers
        halves = (half.reshape(theta.shape) for both in (values, slope) for half in np.split(both, 2, axis=1))
        cosines, sines, d_cos, d_sin = halves
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
        Q, numbers = self.n_frequencies, ~place.levels
        amplitudes, scales = (np.exp(p[self.name][name][numbers]) for name in ("amplitude", "scale"))
        inputs = np.tile(np.repeat(place.searched[numbers], Q), 2)
        omega = np.zeros((len(place.inputs.kinds), len(inputs)))
        omega[inputs, np.arange(len(inputs))] = np.tile(np.outer(scales, self.frequencies).ravel(), 2)
        phases = np.repeat([0.0, -np.pi / 2], Q * len(scales))
        sizes = np.tile(np.repeat(amplitudes / np.sqrt(Q), Q), 2)
        return [Term(None, FeatureMap(omega, phases, sizes), 1.0)]


class Levels(SearchTerm):
    """The term, which has no parameters beside those of `Additive`."""

    name = "levels"

    def parameters(self, rows: SearchRows) -> list[Parameter]:
        """Return none."""
        return []

    def enters(self, rows: SearchRows, begin: Parameters) -> bool:
        """Return whether there are levels among the inputs."""
        return bool(rows.levels.any())

    def evaluate(self, p: Parameters, rows: SearchRows) -> Array:
        """Return the sum of squared amplitudes over the levels that two rows share."""
        m, effects = len(rows.X), squares_of(p[Additive.name]["amplitude"][rows.levels])
        return np.asarray(effects.sum() - (effects @ rows.unlike).reshape(m, m))

    def gradient(self, p: Parameters, rows: SearchRows, values: Array, slope: Array) -> Parameters:
        """Return the gradient in the amplitudes of `Additive`."""
        levels, amplitude = rows.levels, np.zeros(len(rows.levels))
        same = slope.sum() - rows.unlike @ slope.astype(np.float32).ravel()
        amplitude[levels] = 2 * np.exp(2 * p[Additive.name]["amplitude"][levels]) * same
        return {Additive.name: {"amplitude": amplitude}}

    def relevance(self, p: Parameters, levels: BoolArray) -> Array:
        """Return the variance of an effect, and 0 for numbers."""
        return np.where(levels, np.exp(2 * p[Additive.name]["amplitude"]), 0.0)

    def fitted(self, p: Parameters, place: Placement) -> list[Term]:
        """Return random effects of all levels that have any variance."""
        effects = place.spread(np.exp(2 * p[Additive.name]["amplitude"][place.levels]), place.levels)
        effects[effects < RULES.least_level_variance] = 0
        return [Term(None, LevelMap(np.zeros((0, len(effects))), effects), 1.0)] if effects.any() else []
