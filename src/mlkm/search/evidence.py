"""The evidence of kernels: the marginal likelihood of targets Y (n, k) whose columns are N(0, K), its gradient in the
parameters of the terms that K is the sum of, and its climb by L-BFGS.

Values and gradients are per row and output, so that they compare across sizes.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.optimize
from scipy.linalg import lapack

from .._types import Array
from ..model.terms import NOTHING, Parameters, SearchRows
from ..runtime.deadline import search_is_late
from ..runtime.progress import advance
from ..runtime.threads import side_by_side, stop_if_asked
from .kernel_parameters import LEAST_NOISE, NOISE, noise_variance
from .policy import Policy

IMPOSSIBLE = 1e3  # the value of a point where a factorisation fails: the line search turns back


def learn(rows: SearchRows, begin: Parameters, policy: Policy, max_iter: int) -> Parameters:
    """Return the parameters that a climb of the evidence from `begin` reaches."""
    objective = KernelEvidence(rows, begin, policy)
    return objective.unravel(climb(objective, objective.ravel(begin), objective.bounds, max_iter, policy.least_gain))


def learn_together(samples: Sequence[SearchRows], begin: Parameters, policy: Policy, max_iter: int) -> Parameters:
    """Return the parameters that a climb of the mean of the evidences of several samples, each of the same number of
    rows, reaches. It ends where all rows together gain what those of one sample would have to."""
    each = [KernelEvidence(sample, begin, policy, len(samples)) for sample in samples]
    least, window = policy.least_gain

    def mean_of(evidences: Sequence[KernelEvidence], vector: Array) -> tuple[float, Array]:
        """Return the share of these evidences in the mean of all, and its gradient."""
        values, gradients = zip(*(evidence(vector) for evidence in evidences), strict=True)
        return sum(values) / len(each), np.sum(gradients, axis=0) / len(each)

    def objective(vector: Array) -> tuple[float, Array]:
        """Return the mean of all, half of them on a thread of their own."""
        (a, of_a), (b, of_b) = side_by_side(lambda: mean_of(each[::2], vector), lambda: mean_of(each[1::2], vector))
        return a + b, of_a + of_b

    return each[0].unravel(
        climb(objective, each[0].ravel(begin), each[0].bounds, max_iter, (least / len(each), window))
    )


class KernelEvidence:
    """Negative log evidence and prior, per row, as a function of the flat vector of all parameters; where it is one of
    several, it has its share of the prior."""

    def __init__(self, rows: SearchRows, begin: Parameters, policy: Policy, n_samples: int = 1) -> None:
        self.n_samples, self.weights = n_samples, rows.weights
        self.Y = rows.Y - rows.weights @ rows.Y / rows.weights.sum()
        prepared = [(term, term.prepare(rows, begin)) for term in policy.terms]
        self.terms = [(term, on) for term, on in prepared if on is not None]
        self.names = [*(term.name for term in policy.terms), "noise"]
        every = [(term.name, q) for term in policy.terms for q in term.parameters(rows)] + [("noise", NOISE)]
        self.layout = sorted(((name, q) for name, q in every if q.name in begin[name]), key=lambda both: both[1].place)
        self.origin = np.concatenate([q.start for _, q in self.layout])
        weights = dict(zip(("amplitude", "scale"), policy.joint_prior, strict=True))
        self.prior = np.concatenate(
            [np.full(q.start.size, weights[q.prior] if isinstance(q.prior, str) else q.prior) for _, q in self.layout]
        )
        self.bounds: list[tuple[float, float]] = []
        for name, q in self.layout:
            missing = q.name == "amplitude" and bool((begin[name][q.name] <= NOTHING).all())
            low, high = (NOTHING, NOTHING) if missing else (q.low, q.high)
            pairs = zip(*(np.broadcast_to(end, q.start.shape).tolist() for end in (low, high)), strict=True)
            self.bounds += pairs

    def ravel(self, parameters: Parameters) -> Array:
        """Return the flat vector of these parameters."""
        return np.concatenate([parameters[name][q.name] for name, q in self.layout])

    def unravel(self, vector: Array) -> Parameters:
        """Return the parameters of a flat vector."""
        result: Parameters = {name: {} for name in self.names}
        pieces = np.split(vector, np.cumsum([q.start.size for _, q in self.layout])[:-1])
        for (name, q), piece in zip(self.layout, pieces, strict=True):
            result[name][q.name] = piece
        return result

    def __call__(self, vector: Array) -> tuple[float, Array]:
        """Return the value at a flat vector of parameters, and its gradient."""
        p, (m, k) = self.unravel(vector), self.Y.shape
        values = [term.evaluate(p, on) for term, on in self.terms]
        F = np.hstack([np.zeros((m, 0)), *(part for value in values for part in value.features)])
        K = F @ F.T
        for value in values:
            for dense in value.dense:
                K += dense
        noise = noise_variance(p)
        K[np.diag_indices(m)] += (noise + LEAST_NOISE) / self.weights
        result, dK = gaussian_evidence(K, self.Y)
        dF, at = 2 * dK @ F, 0
        flat = np.zeros(len(vector))
        gradient = self.unravel(flat)  # pieces of the flat one
        for (term, on), value in zip(self.terms, values, strict=True):
            ends = np.cumsum([at, *(part.shape[1] for part in value.features)])
            parts = [dF[:, a:b] for a, b in pairwise(ends)]
            at = int(ends[-1])
            for name, of_term in term.gradient(p, on, value, parts, dK).items():
                for parameter, own in of_term.items():
                    gradient[name][parameter] += own
        gradient["noise"][NOISE.name] += 2 * noise * float(np.diag(dK) @ (1 / self.weights))
        away, scale = vector - self.origin, 1 / (self.n_samples * m * k)
        return result + scale * float(self.prior @ away**2), flat + 2 * scale * self.prior * away


def climb(
    objective: Callable[[Array], tuple[float, Array]],
    begin: Array,
    bounds: Sequence[tuple[float, float]],
    max_iter: int,
    least_gain: tuple[float, int],
) -> Array:
    """Return where the negative log evidence per row is low. A climb ends when so many steps together gain less than so
    much, since a single one may be short, or when the search is late."""
    values: list[float] = []
    least, window = least_gain

    def enough(intermediate_result: scipy.optimize.OptimizeResult) -> None:
        """End the climb where its last steps gain too little or time is up."""
        values.append(float(intermediate_result.fun))
        advance()
        if search_is_late() or (len(values) > window and values[-1 - window] - values[-1] < least):
            raise StopIteration

    def unless_stopped(x: Array) -> tuple[float, Array]:
        """Return the objective, unless the fit was interrupted."""
        stop_if_asked()
        return objective(x)

    options: Any = {"maxiter": max_iter, "maxcor": 20, "ftol": 1e-9, "maxls": 10}
    result = scipy.optimize.minimize(
        unless_stopped, begin, jac=True, method="L-BFGS-B", bounds=bounds, callback=enough, options=options
    )
    advance(max_iter - len(values))  # those that were not needed
    return np.asarray(result.x)


def factor(A: Array) -> Array | None:
    """Return the lower Cholesky factor of A; None where A is not positive definite. A is overwritten: symmetric in C
    order, it is its own transpose in Fortran order, and LAPACK works in place."""
    L, failed = lapack.dpotrf(A.T, lower=1, overwrite_a=1)
    return None if failed else L


def inverse_of(L: Array) -> Array:
    """Return the inverse of L L'. L is overwritten."""
    lower = lapack.dpotri(L, lower=1, overwrite_c=1)[0]  # its other triangle is zero
    full: Array = lower + lower.T
    full[np.diag_indices(len(full))] /= 2
    return full


def gaussian_evidence(K: Array, Y: Array) -> tuple[float, Array]:
    """Return the negative log evidence of targets N(0, K), K with the noise on its diagonal, and its gradient in K. K
    is overwritten."""
    n, k = Y.shape
    L = factor(K)
    if L is None:
        return IMPOSSIBLE, np.zeros_like(K)
    # In one piece: NumPy 1.26 rounds the logarithms of a view otherwise where their place in memory is right behind it.
    logdet = 2 * float(np.log(np.diag(L).copy()).sum())
    dK: Array = inverse_of(L)
    alpha = dK @ Y
    value = 0.5 * (float(np.vdot(Y, alpha)) + k * logdet)
    if k > 1:
        dK *= k
    dK -= alpha @ alpha.T
    dK *= 0.5 / (n * k)
    return value / (n * k), dK
