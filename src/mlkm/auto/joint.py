"""The evidence of a sum of kernels on some hundred rows, exactly, and its gradient in every parameter:

    K = F F' + a^2 exp(-|B (x - x')|^2 / 2) + v^2 exp(-sum_j gamma_j |r_j - r'_j|) + s^2 diag(1/w)

with F the features of order 1 and the linear term, B = (I + A) diag(b) scales and turns the inputs x, and r are the
inputs' ranks. Every input has a slope, an amplitude and a scale of its own in order 1, a scale b_j and a relevance
gamma_j; what does not help gets no variance. The smooth kernels see the inputs, the rough one their ranks, so that
neither scale has to be chosen.

Inputs that are levels of a category have a random effect in place of F, v_c^2 1[x_c = x'_c], and enter both products by
1[x_c != x'_c], times b_c^2 in the smooth one and gamma_c in the rough one. The text of levels is linear, with one
variance per column.

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
from ..model.features import FeatureMap, LinearMap
from ..model.gaussians import GaussianMap
from ..model.landmarks import LandmarkMap
from ..model.levels import LevelMap
from ..model.sum_kernel import SumKernel, Term
from ..model.warp import Warp
from ..rows import Inputs
from .climb import climb
from .evidence import kernel_evidence
from .plan import PARTS
from .policy import Policy

Parameters: TypeAlias = dict[str, Array]
_NOTHING = -8.0  # logarithm of the least amplitude
_UNSEEN = 3e-3  # gamma of an input that moves the rough kernel by less than a hundredth over all of its range
_LEAST_EFFECT = 1e-6  # variance of a level, y having 1, below which it is none
_LEAST_NOISE = 1e-8  # of the variance of y: what can be factorised in float64


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
    parameters |= {name: np.full(parameters[name].size, _NOTHING) for name in PARTS if name not in parts}
    parameters |= {"text": np.full(n_texts, -h / 2 - 0.7)} if n_texts else {}
    return parameters | {"linear": np.full(d, -h / 2 - 1)} if linear else parameters


def _missing(parameters: Parameters, part: str) -> bool:
    return bool((parameters[part] <= _NOTHING).all())


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
    gamma[kept] = np.exp(p["relevance"])
    gamma[gamma < _UNSEEN] = 0
    unlike[kept[levels]] = np.exp(2 * p["scale"][levels])
    unlike[unlike < _UNSEEN] = 0
    effects[kept[levels]] = np.exp(2 * p["amplitude1"][levels])
    effects[effects < _LEAST_EFFECT] = 0
    nowhere, has_levels = np.zeros((0, d)), bool(levels.any())
    rough = LandmarkMap(nowhere, np.where(inputs.levels, 0, gamma), gamma * inputs.levels if has_levels else None)
    every = {
        "amplitude1": Term(None, _single_waves(p, kept[~levels], ~levels, d, n_frequencies), 1.0),
        "full": Term(None, GaussianMap(nowhere, matrix, unlike if has_levels else None), _variance(p, "full")),
        "rough": Term(ranks, rough, _variance(p, "rough")),
    }
    terms = [term for name, term in every.items() if not _missing(p, name)]
    if effects.any():
        terms.append(Term(None, LevelMap(nowhere, effects), 1.0))
    if "text" in p:
        slopes, columns = np.zeros(d), np.unique(inputs.owners[inputs.texts], return_inverse=True)[1]
        slopes[inputs.texts] = np.exp(p["text"])[columns]
        terms.append(Term(None, LinearMap(slopes), 1.0))
    linear = np.zeros(d) if "linear" in p else None
    if linear is not None:
        linear[kept[~levels]] = np.exp(p["linear"][~levels])
    return SumKernel(tuple(terms), linear)


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
    K[np.diag_indices(len(K))] += (float(np.exp(2 * p["noise"][0])) + _LEAST_NOISE) / sample.weights
    return np.asarray(
        mean + _between(p, others, sample, n_frequencies) @ scipy.linalg.solve(K, sample.Y - mean, assume_a="pos")
    )


def _between(p: Parameters, a: Sample, b: Sample, n_frequencies: int) -> Array:
    """The kernel between the rows of two samples."""
    d = a.X.shape[1]
    inputs = Inputs(a.levels.astype(np.intp), np.arange(d))
    kernel = sum_kernel({k: v for k, v in p.items() if k != "text"}, Warp((), ()), np.arange(d), inputs, n_frequencies)
    rough = tuple(replace(term, warp=None) for term in kernel.terms if term.warp is not None)
    smooth = replace(kernel, terms=tuple(term for term in kernel.terms if term.warp is None))
    K = smooth.matrix(a.X, b.X)
    if rough:
        K += replace(kernel, terms=rough, linear=None).matrix(a.ranks, b.ranks)
    for amplitude, one, other in zip(p.get("text", ()), a.texts, b.texts, strict=True):
        K += np.exp(2 * amplitude) * (one @ other.T)
    return K


def learn(sample: Sample, begin: Parameters, policy: Policy, max_iter: int) -> Parameters:
    """Climb the evidence from `begin`."""
    objective = JointEvidence(sample, begin, policy)
    begin_at = objective.ravel(begin)
    return objective.unravel(climb(objective, begin_at, objective.bounds, max_iter, policy.least_gain))


class JointEvidence:
    """Negative log evidence and prior, per row, as a function of the flat parameter vector."""

    def __init__(self, sample: Sample, like: Parameters, policy: Policy) -> None:
        self.X, self.weights = sample.X, sample.weights
        d = self.X.shape[1]
        self.Y = sample.Y - sample.weights @ sample.Y / sample.weights.sum()
        self.levels, self.numbers = sample.levels, ~sample.levels
        self.texts = np.hstack([np.zeros((len(self.X), 0)), *sample.texts])
        self.text_of = np.repeat(np.arange(len(sample.texts)), [text.shape[1] for text in sample.texts])
        self.gaps = np.stack([_gaps(r, level) for r, level in zip(sample.ranks.T, self.levels, strict=True)])
        self.unlike = self.gaps[self.levels]
        self.q = frequencies(policy.joint_frequencies)
        self.names, self.sizes = list(like), [value.size for value in like.values()]
        origin = start(d, "linear" in like, PARTS, len(sample.texts))
        self.origin = np.concatenate([origin.get(name, np.zeros(like[name].size)) for name in self.names])
        widths = {"turn": 2.0 * d, "scale1": policy.joint_prior[1], "scale": policy.joint_prior[1]}
        widths["relevance"] = policy.joint_prior[1]
        self.prior = np.concatenate(
            [np.full(like[name].size, widths.get(name, policy.joint_prior[0])) for name in self.names]
        )
        limits = {"turn": (-5.0, 5.0), "noise": (-9.0, 2.5)}
        limits |= {name: (_NOTHING, _NOTHING) for name in PARTS if _missing(like, name)}
        self.bounds = [limits.get(name, (_NOTHING, 4.0)) for name in self.names for _ in range(like[name].size)]
        if "turn" in like and self.levels.any():  # among numbers only
            at = sum(self.sizes[: self.names.index("turn")])
            for k in np.flatnonzero(self.levels[:, None] | self.levels):
                self.bounds[at + k] = (0.0, 0.0)

    def ravel(self, parameters: Parameters) -> Array:
        return np.concatenate([parameters[name] for name in self.names])

    def unravel(self, vector: Array) -> Parameters:
        return dict(zip(self.names, np.split(vector, np.cumsum(self.sizes)[:-1]), strict=True))

    def __call__(self, vector: Array) -> tuple[float, Array]:
        p, (m, k) = self.unravel(vector), self.Y.shape
        waves, linear = self._waves(p), self._linear(p)
        F = np.hstack([part.reshape(m, -1) for part in (*waves, *linear)])
        B = matrix_of(p, self.levels)
        smooth = float(np.exp(2 * p["full"][0])) * _gaussian(self.X @ B.T)
        if self.levels.any():
            smooth *= np.exp(-(np.exp(2 * p["scale"][self.levels]).astype(np.float32) @ self.unlike)).reshape(m, m)
        gamma: Array = np.exp(p["relevance"]).astype(np.float32)
        rough: Array = np.float32(np.exp(2 * p["rough"][0])) * np.exp(-(gamma @ self.gaps)).reshape(m, m)
        noise = float(np.exp(2 * p["noise"][0]))
        K = F @ F.T
        K += smooth
        K += rough
        if self.levels.any():
            effects: Array = np.exp(2 * p["amplitude1"][self.levels]).astype(np.float32)
            K += effects.sum() - (effects @ self.unlike).reshape(m, m)
        K[np.diag_indices(m)] += (noise + _LEAST_NOISE) / self.weights
        value, G = kernel_evidence(K, self.Y)
        gradient = self._of_features(p, waves, linear, 2 * G @ F)
        Q = G * smooth
        gradient |= self._of_smooth(p, B, Q) | self._of_rough(p, gamma, G, rough)
        if self.levels.any():
            self._add_levels(gradient, p, G, Q)
        gradient["noise"] = np.array([2 * noise * float(np.diag(G) @ (1 / self.weights))])
        away, scale = vector - self.origin, 1 / (m * k)
        flat = np.concatenate([np.asarray(gradient[name], np.float64) for name in self.names])
        return value + scale * float(self.prior @ away**2), flat + 2 * scale * self.prior * away

    def _angles(self, p: Parameters) -> Array:
        return np.asarray(self.X[:, self.numbers, None] * (np.exp(p["scale1"])[self.numbers, None] * self.q))

    def _waves(self, p: Parameters) -> tuple[Array, Array]:
        """Cosines and sines of order 1, each (m, numbers, frequencies)."""
        theta, size = self._angles(p), (np.exp(p["amplitude1"][self.numbers]) / np.sqrt(len(self.q)))[:, None]
        return size * np.cos(theta), size * np.sin(theta)

    def _linear(self, p: Parameters) -> tuple[Array, Array]:
        """The numbers and the coordinates of texts, times their prior standard deviations."""
        numbers = np.exp(p["linear"][self.numbers]) if "linear" in p else np.zeros(0)
        texts = np.exp(p["text"])[self.text_of] if "text" in p else np.zeros(0)
        return self.X[:, self.numbers][:, : len(numbers)] * numbers, self.texts * texts

    def _of_features(
        self, p: Parameters, waves: tuple[Array, Array], linear: tuple[Array, Array], dF: Array
    ) -> Parameters:
        cosines, sines = waves
        width, slopes = cosines[0].size, linear[0].shape[1]
        d_cos, d_sin = (dF[:, at : at + width].reshape(cosines.shape) for at in (0, width))
        by_number = {
            "amplitude1": np.einsum("mdq,mdq->d", d_cos, cosines) + np.einsum("mdq,mdq->d", d_sin, sines),
            "scale1": np.einsum("mdq,mdq->d", d_sin * cosines - d_cos * sines, self._angles(p)),
        }
        if "linear" in p:
            by_number["linear"] = (dF[:, 2 * width : 2 * width + slopes] * linear[0]).sum(axis=0)
        gradient = {name: self._of_all(values) for name, values in by_number.items()}
        if "text" in p:
            each = (dF[:, 2 * width + slopes :] * linear[1]).sum(axis=0)
            gradient["text"] = np.asarray(np.bincount(self.text_of, each, len(p["text"])), np.float64)
        return gradient

    def _of_all(self, of_numbers: Array) -> Array:
        """With zeros for the levels."""
        every = np.zeros(len(self.numbers))
        every[self.numbers] = of_numbers
        return every

    def _add_levels(self, gradient: Parameters, p: Parameters, G: Array, Q: Array) -> None:
        """What the levels add: random effects, and their factor of the smooth kernel."""
        at = self.levels
        apart, in_smooth = (self.unlike @ M.astype(np.float32).ravel() for M in (G, Q))
        gradient["amplitude1"][at] += 2 * np.exp(2 * p["amplitude1"][at]) * (G.sum() - apart)
        gradient["scale"][at] -= 2 * np.exp(2 * p["scale"][at]) * in_smooth

    def _of_smooth(self, p: Parameters, B: Array, Q: Array) -> Parameters:
        """sum_ij Q_ij (x_i - x_j)(x_i - x_j)' / 2 carries all of it."""
        moved = self.X.T @ (Q.sum(axis=1)[:, None] * self.X) - self.X.T @ (Q @ self.X)
        dB = -2 * B @ moved
        gradient = {"full": np.array([2 * Q.sum()]), "scale": (dB * B).sum(axis=0)}
        return gradient | {"turn": (dB * np.exp(p["scale"])).ravel()} if "turn" in p else gradient

    def _of_rough(self, p: Parameters, gamma: Array, G: Array, rough: Array) -> Parameters:
        P = G.astype(np.float32)
        P *= rough
        return {"rough": np.array([2 * P.sum(dtype=np.float64)]), "relevance": -(self.gaps @ P.ravel()) * gamma}


def _gaps(column: Array, is_level: bool) -> Array:
    """Distances of all pairs of rows, or whether their levels differ."""
    r: Array = column.astype(np.float32)
    gaps: Array = (r[:, None] != r).astype(np.float32) if is_level else np.abs(r[:, None] - r)
    return gaps.ravel()


def _gaussian(U: Array) -> Array:
    """exp(-|u - u'|^2 / 2) between all rows."""
    squares = 0.5 * np.einsum("mr,mr->m", U, U)
    return np.asarray(np.exp(np.minimum(U @ U.T - squares[:, None] - squares, 0)))
