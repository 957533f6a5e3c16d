"""The parameters of a sum of kernels, the rows they are learned from, and the kernel that they make:

    K = F F' + a^2 exp(-|B (x - x')|^2 / 2) + v^2 exp(-sum_j gamma_j |r_j - r'_j|) + s^2 diag(1/w)

with F the features of order 1 and the linear term, B = (I + A) diag(b) scales and turns the inputs x, and r are the
inputs' ranks. Every input has a slope, an amplitude and a scale of its own in order 1, a scale b_j and a relevance
gamma_j; what does not help gets no variance. The smooth kernels see the inputs, the rough one their ranks, so that
neither scale has to be chosen.

Inputs that are levels of a category have a random effect in place of F, v_c^2 1[x_c = x'_c], and enter both products by
1[x_c != x'_c], times b_c^2 in the smooth one and gamma_c in the rough one. The text t of levels is linear, with one
variance per column, and enters both products by |t - t'|^2 / 2, times the square of a scale of that column.

A is the one set of parameters that grows like d^2. Its prior makes a turned input one of many: an entry has variance
1/(4 d), so that what the others add to an input has a fourth of the input's own variance.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import scipy.linalg
from scipy.stats import norm

from .._types import Array, BoolArray, IntArray
from ..data import LEVEL, NUMBER, TEXT, Inputs
from ..model.features import FeatureMap, LinearMap
from ..model.gaussian import GaussianMap
from ..model.laplace import LandmarkMap
from ..model.levels import LevelMap
from ..model.rank_transform import Warp
from ..model.sum_kernel import SumKernel, Term
from .plan import PARTS

Parameters: TypeAlias = dict[str, Array]
NOTHING = -8.0  # logarithm of the least amplitude
_UNSEEN = 1e-3  # of the noise variance: an input that moves a product kernel by less is not looked at
_LEAST_EFFECT = 1e-6  # variance of a level, y having 1, below which it is none
LEAST_NOISE = 1e-8  # of the variance of y: what can be factorised in float64


@dataclass(frozen=True)
class Sample:
    """Rows of a search: numbers and levels (m, d), the same with ranks in place of numbers, targets (m, k), weights,
    which of the inputs are levels (d,), and the coordinates of texts, one array (m, r) for every column that has
    them."""

    X: Array
    ranks: Array
    Y: Array
    weights: Array
    levels: BoolArray
    texts: tuple[Array, ...] = ()

    def of(self, kept: IntArray) -> "Sample":
        """Some of the inputs only."""
        return replace(self, X=self.X[:, kept], ranks=self.ranks[:, kept], levels=self.levels[kept])

    def take(self, at: slice) -> "Sample":
        """Some of the rows."""
        texts = tuple(text[at] for text in self.texts)
        return replace(self, X=self.X[at], ranks=self.ranks[at], Y=self.Y[at], weights=self.weights[at], texts=texts)


def start(d: int, linear: bool, parts: Collection[str] = PARTS, n_texts: int = 0) -> Parameters:
    """Where a search begins: every part of about the same variance, scales that shrink with the number of inputs. Parts
    that are not wanted have next to no variance, and keep it."""
    h = np.log(d)
    parameters = {
        "amplitude1": np.full(d, -h / 2 - 0.7),
        "scale1": np.zeros(d),
        "full": np.array([-0.7]),
        "scale": np.full(d, -h / 2),
        "rough": np.array([-0.7]),
        "relevance": np.full(d, -h / 2),
        "noise": np.array([-0.6]),
    }
    parameters |= {name: np.full(parameters[name].size, NOTHING) for name in PARTS if name not in parts}
    if n_texts:
        parameters |= {"text": np.full(n_texts, -h / 2 - 0.7), "text_smooth": np.full(n_texts, -h / 2)}
        parameters["text_rough"] = np.full(n_texts, -h / 4)
    return parameters | {"linear": np.full(d, -h / 2 - 1)} if linear else parameters


def is_missing(parameters: Parameters, part: str) -> bool:
    return bool((parameters[part] <= NOTHING).all())


def turned(parameters: Parameters) -> Parameters:
    """The same kernel, with directions that can turn."""
    d = len(parameters["scale"])
    return parameters | {"turn": np.zeros(d * d)}


def matrix_of(p: Parameters, levels: BoolArray) -> Array:
    """B = (I + A) diag(b), and zero for levels."""
    d = len(p["scale"])
    turn = np.eye(d) + p["turn"].reshape(d, d) if "turn" in p else np.eye(d)
    return np.asarray(turn * np.where(levels, 0, np.exp(p["scale"])))


def relevance(p: Parameters, levels: BoolArray) -> Array:
    """The prior variance that moving one standardised input brings, or another level, over all parts."""
    single = np.exp(2 * p["amplitude1"]) * (1 - 1 / np.sqrt(1 + 2 * np.exp(2 * p["scale1"])))
    squares = (matrix_of(p, levels) ** 2).sum(axis=0)
    smooth = np.exp(2 * p["full"]) * (1 - 1 / np.sqrt(1 + 2 * squares))
    rough = np.exp(2 * p["rough"]) * (1 - np.exp(-np.exp(p["relevance"])))
    linear = np.exp(2 * p["linear"]) if "linear" in p else 0.0
    of_levels = np.exp(2 * p["amplitude1"]) + np.exp(2 * p["full"]) * (1 - np.exp(-np.exp(2 * p["scale"]))) + rough
    return np.asarray(np.where(levels, of_levels, single + smooth + rough + linear))


def frequencies(n_features: int) -> Array:
    """Evenly spaced quantiles of |N(0, 1)|, each for a cosine and a sine: in one dimension few of them replace many
    random ones."""
    return np.asarray(norm.ppf(0.5 + (np.arange(n_features) + 0.5) / (2 * n_features)))


def sum_kernel(p: Parameters, ranks: Warp, kept: IntArray, inputs: Inputs, n_frequencies: int) -> SumKernel:
    """The kernel on all inputs at the parameters of some, with points yet to be given."""
    d, levels = len(inputs.kinds), inputs.levels[kept]
    matrix, unlike, gamma, effects = np.zeros((len(kept), d)), *np.zeros((3, d))
    matrix[:, kept] = matrix_of(p, levels)
    gamma[kept] = _seen(np.exp(p["relevance"]), p, "rough")
    unlike[kept[levels]] = _seen(np.exp(2 * p["scale"][levels]), p, "full")
    effects[kept[levels]] = np.exp(2 * p["amplitude1"][levels])
    effects[effects < _LEAST_EFFECT] = 0
    nowhere, has_levels = np.zeros((0, d)), bool(levels.any())
    smooth_texts, rough_texts = (_directions(p, name, inputs) for name in ("text_smooth", "text_rough"))
    rough = LandmarkMap(nowhere, gamma * ~inputs.levels, gamma * inputs.levels if has_levels else None, rough_texts)
    smooth = GaussianMap(nowhere, matrix, unlike if has_levels else None, smooth_texts)
    every = {
        "amplitude1": Term(None, _single_waves(p, kept[~levels], ~levels, d, n_frequencies), 1.0),
        "full": Term(None, smooth, _variance(p, "full")),
        "rough": Term(ranks, rough, _variance(p, "rough")),
    }
    terms = [term for name, term in every.items() if not is_missing(p, name)]
    if effects.any():
        terms.append(Term(None, LevelMap(nowhere, effects), 1.0))
    if "text" in p:
        terms.append(Term(None, LinearMap(_of_texts(p, "text", inputs)), 1.0))
    linear = np.zeros(d) if "linear" in p else None
    if linear is not None:
        linear[kept[~levels]] = np.exp(p["linear"][~levels])
    return SumKernel(tuple(terms), linear)


def _seen(weights: Array, p: Parameters, part: str) -> Array:
    """The weights of inputs in the exponent of a product kernel, zero where its variance times the weight is lost in
    the noise: a large variance makes a small weight tell."""
    return np.where(weights * _variance(p, part) < _UNSEEN * _variance(p, "noise"), 0, weights)


def _directions(p: Parameters, name: str, inputs: Inputs) -> Array | None:
    """Those of texts (q, d) that a product kernel looks at, None where there are none."""
    if name not in p:
        return None
    squares = _seen(_of_texts(p, name, inputs) ** 2, p, "full" if name == "text_smooth" else "rough")
    return np.diag(np.sqrt(squares))[squares > 0] if squares.any() else None


def _of_texts(p: Parameters, name: str, inputs: Inputs) -> Array:
    """The scale or the slope of every coordinate of a text (d,), that of its column; zero for other inputs."""
    values = np.zeros(len(inputs.kinds))
    values[inputs.texts] = np.exp(p[name])[np.unique(inputs.owners[inputs.texts], return_inverse=True)[1]]
    return values


def _variance(p: Parameters, part: str) -> float:
    return float(np.exp(2 * p[part][0]))


def _single_waves(p: Parameters, kept: IntArray, numbers: BoolArray, d: int, n_frequencies: int) -> FeatureMap:
    """Cosines and sines of the numbers among the inputs."""
    q, m = frequencies(n_frequencies), len(kept)
    omega = np.zeros((d, 2 * m * len(q)))
    columns = np.arange(m * len(q)).reshape(m, len(q))
    for sine in (0, m * len(q)):
        omega[np.repeat(kept, len(q)), (columns + sine).ravel()] = np.outer(np.exp(p["scale1"][numbers]), q).ravel()
    phases = np.repeat([0.0, -np.pi / 2], m * len(q))
    amplitudes = np.tile(np.repeat(np.exp(p["amplitude1"][numbers]) / np.sqrt(len(q)), len(q)), 2)
    return FeatureMap(omega, phases, amplitudes)


def predicted(p: Parameters, sample: Sample, others: Sample, n_frequencies: int) -> Array:
    """What the fit to a sample predicts at other rows."""
    mean = sample.weights @ sample.Y / sample.weights.sum()
    K = _between(p, sample, sample, n_frequencies)
    K[np.diag_indices(len(K))] += (float(np.exp(2 * p["noise"][0])) + LEAST_NOISE) / sample.weights
    return np.asarray(
        mean + _between(p, others, sample, n_frequencies) @ scipy.linalg.solve(K, sample.Y - mean, assume_a="pos")
    )


def _between(p: Parameters, a: Sample, b: Sample, n_frequencies: int) -> Array:
    """The kernel between the rows of two samples."""
    d, texts = len(a.levels), np.repeat(np.arange(len(a.texts)), [text.shape[1] for text in a.texts])
    kinds = np.concatenate([np.where(a.levels, LEVEL, NUMBER), np.full(len(texts), TEXT)])
    inputs = Inputs(kinds, np.concatenate([np.arange(d), d + texts]))
    kernel = sum_kernel(p, Warp((), ()), np.arange(d), inputs, n_frequencies)
    rough = tuple(replace(term, warp=None) for term in kernel.terms if term.warp is not None)
    smooth = replace(kernel, terms=tuple(term for term in kernel.terms if term.warp is None))
    K = smooth.matrix(np.hstack([a.X, *a.texts]), np.hstack([b.X, *b.texts]))
    if rough:
        of_ranks = replace(kernel, terms=rough, linear=None)
        K += of_ranks.matrix(np.hstack([a.ranks, *a.texts]), np.hstack([b.ranks, *b.texts]))
    return K
