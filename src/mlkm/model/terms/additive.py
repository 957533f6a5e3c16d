"""Functions of single inputs: cosines and sines at a few frequencies, whose products nearly are the Gaussian kernel of
one input,

    K(x, z) = sum_j a_j^2 / Q sum_q cos(s_j omega_q (x_j - z_j)),

with an amplitude a_j and a scale s_j for every number. Levels have random effects in their place (`levels`), with the
amplitude that this term has for the input.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from ..._types import Array, BoolArray
from ..features import FeatureMap
from .term import Parameter, Parameters, Placement, Prepared, SearchRows, SearchTerm, Term, Values


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
