"""The evidence of a sum of kernels (`joint`) on some hundred rows, exactly, and its gradient in every parameter."""

from collections.abc import Sequence

import numpy as np

from .._types import Array
from ..runtime.threads import side_by_side
from .evidence import climb, kernel_evidence
from .kernel_parameters import LEAST_NOISE, NOTHING, Parameters, Sample, frequencies, is_missing, matrix_of, start
from .plan import PARTS
from .policy import Policy

_SCALES = ("scale1", "scale", "relevance", "text_smooth", "text_rough")  # parameters with the prior of scales


def learn(sample: Sample, begin: Parameters, policy: Policy, max_iter: int) -> Parameters:
    """Climb the evidence from `begin`."""
    objective = JointEvidence(sample, begin, policy)
    begin_at = objective.ravel(begin)
    return objective.unravel(climb(objective, begin_at, objective.bounds, max_iter, policy.least_gain))


def learn_together(samples: Sequence[Sample], begin: Parameters, policy: Policy, max_iter: int) -> Parameters:
    """Climb the mean of the evidences of several samples of the same number of rows, each by itself. It ends where all
    rows together gain what those of one sample would have to."""
    each = [JointEvidence(sample, begin, policy, len(samples)) for sample in samples]
    least, window = policy.least_gain

    def mean_of(some: Sequence[JointEvidence], vector: Array) -> tuple[float, Array]:
        values, gradients = zip(*(one(vector) for one in some), strict=True)
        return sum(values) / len(each), np.sum(gradients, axis=0) / len(each)

    def objective(vector: Array) -> tuple[float, Array]:
        (a, of_a), (b, of_b) = side_by_side(lambda: mean_of(each[::2], vector), lambda: mean_of(each[1::2], vector))
        return a + b, of_a + of_b

    found = climb(objective, each[0].ravel(begin), each[0].bounds, max_iter, (least / len(each), window))
    return each[0].unravel(found)


class JointEvidence:
    """Negative log evidence and prior, per row, as a function of the flat parameter vector; where it is one of several,
    it has its share of the prior."""

    def __init__(self, sample: Sample, like: Parameters, policy: Policy, n_samples: int = 1) -> None:
        self.n_samples = n_samples
        self.X, self.weights = sample.X, sample.weights
        d = self.X.shape[1]
        self.Y = sample.Y - sample.weights @ sample.Y / sample.weights.sum()
        self.levels, self.numbers = sample.levels, ~sample.levels
        self.texts = np.hstack([np.zeros((len(self.X), 0)), *sample.texts])
        self.text_of = np.repeat(np.arange(len(sample.texts)), [text.shape[1] for text in sample.texts])
        self.is_rough = not is_missing(like, "rough")
        looked_at = np.flatnonzero(self.levels | self.is_rough)
        self.gaps = _stacked([_gaps(sample.ranks[:, j], bool(self.levels[j])) for j in looked_at], len(self.X))
        self.unlike = self.gaps[self.levels[looked_at]]
        self.apart = _stacked([_apart(text) for text in sample.texts], len(self.X))
        self.q = frequencies(policy.joint_frequencies)
        self.names, self.sizes = list(like), [value.size for value in like.values()]
        origin = start(d, "linear" in like, PARTS, len(sample.texts))
        self.origin = np.concatenate([origin.get(name, np.zeros(like[name].size)) for name in self.names])
        widths = {"turn": 2.0 * d} | dict.fromkeys(_SCALES, policy.joint_prior[1])
        self.prior = np.concatenate(
            [np.full(like[name].size, widths.get(name, policy.joint_prior[0])) for name in self.names]
        )
        limits = {"turn": (-5.0, 5.0), "noise": (-9.0, 2.5)}
        limits |= {name: (NOTHING, NOTHING) for name in PARTS if is_missing(like, name)}
        self.bounds = [limits.get(name, (NOTHING, 4.0)) for name in self.names for _ in range(like[name].size)]
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
            smooth *= np.exp(-_squares(p["scale"][self.levels]) @ self.unlike).reshape(m, m)
        if "text" in p:
            smooth *= np.exp(-_squares(p["text_smooth"]) @ self.apart).reshape(m, m)
        noise = float(np.exp(2 * p["noise"][0]))
        K = F @ F.T
        K += smooth
        rough = self._rough(p) if self.is_rough else None
        if rough is not None:
            K += rough
        if self.levels.any():
            effects = _squares(p["amplitude1"][self.levels])
            K += effects.sum() - (effects @ self.unlike).reshape(m, m)
        K[np.diag_indices(m)] += (noise + LEAST_NOISE) / self.weights
        value, G = kernel_evidence(K, self.Y)
        gradient = self._of_features(p, waves, linear, 2 * G @ F)
        Q = G * smooth
        gradient |= self._of_smooth(p, B, Q)
        if self.levels.any():
            self._add_levels(gradient, p, G, Q)
        if "text" in p:
            gradient["text_smooth"] = self._of_texts(p["text_smooth"], Q.astype(np.float32))
        gradient |= self._of_rough(p, None if rough is None else G.astype(np.float32) * rough)
        gradient["noise"] = np.array([2 * noise * float(np.diag(G) @ (1 / self.weights))])
        away, scale = vector - self.origin, 1 / (self.n_samples * m * k)
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

    def _rough(self, p: Parameters) -> Array:
        exponent = np.exp(p["relevance"]).astype(np.float32) @ self.gaps
        if "text" in p:
            exponent += _squares(p["text_rough"]) @ self.apart
        m = len(self.X)
        return np.asarray(np.float32(np.exp(2 * p["rough"][0])) * np.exp(-exponent).reshape(m, m))

    def _of_rough(self, p: Parameters, P: Array | None) -> Parameters:
        """Zeros where that kernel is not wanted."""
        if P is None:
            return {name: np.zeros(p[name].size) for name in ("rough", "relevance", "text_rough") if name in p}
        gamma = np.exp(p["relevance"]).astype(np.float32)
        gradient = {"rough": np.array([2 * P.sum(dtype=np.float64)]), "relevance": -(self.gaps @ P.ravel()) * gamma}
        return gradient | {"text_rough": self._of_texts(p["text_rough"], P)} if "text" in p else gradient

    def _of_texts(self, logs: Array, M: Array) -> Array:
        return np.asarray(-2 * _squares(logs) * (self.apart @ M.ravel()))


def _stacked(pairs: Sequence[Array], m: int) -> Array:
    """One row of m^2 numbers for each."""
    return np.stack(pairs) if pairs else np.zeros((0, m * m), np.float32)


def _gaps(column: Array, is_level: bool) -> Array:
    """Distances of all pairs of rows, or whether their levels differ."""
    r: Array = column.astype(np.float32)
    gaps: Array = (r[:, None] != r).astype(np.float32) if is_level else np.abs(r[:, None] - r)
    return gaps.ravel()


def _apart(text: Array) -> Array:
    """Half of the squared distances of all pairs of texts."""
    squares = 0.5 * np.einsum("mr,mr->m", text, text)
    halves: Array = np.maximum(squares[:, None] + squares - text @ text.T, 0).astype(np.float32)
    return halves.ravel()


def _squares(logs: Array) -> Array:
    """Of the numbers whose logarithms are given."""
    result: Array = np.exp(2 * logs).astype(np.float32)
    return result


def _gaussian(U: Array) -> Array:
    """exp(-|u - u'|^2 / 2) between all rows."""
    squares = 0.5 * np.einsum("mr,mr->m", U, U)
    return np.asarray(np.exp(np.minimum(U @ U.T - squares[:, None] - squares, 0)))
