"""The two criteria by which kernels are learned: the evidence and the leave-one-out error.

A search has parameters of a sum of kernels, the kernel that they make,

    K = F F' + sum of the terms that have no features + s^2 diag(1/w),

and its evidence: the marginal likelihood of targets Y (n, k) whose columns are N(0, K), its gradient in the parameters,
and its climb by L-BFGS. Values and gradients are per row and output, so that they compare across sizes.

Every term has an amplitude and a scale per input, so what does not help gets no variance. Smooth terms see the inputs,
the Laplacian one their ranks, so that neither scale has to be chosen. The terms are in `search.terms`.

The variances of the kernels and of the noise, and the weights of the members of a stack, are chosen by rows that are
left out. The leave-one-out residual of row i is e_i = alpha_i / C_ii, with C = (sum_t v_t K_t + s^2 diag(1/w))^{-1} and
alpha = C y. Its mean square has a gradient in every variance at the cost of the value. The kernels were learned from
other rows where there are enough, so that overfitting there is not rewarded here.

The weights of a stack are non-negative and sum to one. They are averaged over Bayesian bootstraps of the rows (weights
from the exponential law), so that members between which the rows can hardly decide share the weight.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.linalg
import scipy.optimize
from numpy.linalg import LinAlgError
from scipy.linalg import lapack
from scipy.optimize import lsq_linear, nnls

from .._types import Array, BoolArray
from ..data import LEVEL, NUMBER, TEXT, Inputs
from ..model.features import RankTransform
from ..model.sum_kernel import SumKernel
from ..runtime.progress import advance, fit_is_late, search_is_late
from ..runtime.resources import side_by_side, stop_if_asked
from ..runtime.rules import RULES
from ..runtime.sizes import FAILED_VALUE, LEAST_NOISE, UNIT_SUM_PENALTY
from ..solve.ridge import best_on_grid
from .policy import Policy
from .terms import Linear, Parameter, Parameters, Placement, SearchRows, SearchTerm, noise_variance

NOISE = Parameter("amplitude", np.array([-0.6]), low=-9.0, high=2.5, place=1)  # of the noise


def start(rows: SearchRows, terms: Sequence[SearchTerm], wanted: Collection[str] | None = None) -> Parameters:
    """Return where a search begins: every term of about the same variance, scales that shrink with the number of
    inputs. Only the terms named are `wanted`; all are by default."""
    parameters = {term.name: term.start(rows, wanted is None or term.name in wanted) for term in terms}
    return parameters | {"noise": {NOISE.name: NOISE.start}}


def refined(parameters: Parameters, terms: Sequence[SearchTerm]) -> Parameters:
    """Return parameters of the same kernel for the second climb of a search, whose directions can turn."""
    return parameters | {term.name: term.refined(parameters[term.name]) for term in terms}


def relevance(p: Parameters, levels: BoolArray, terms: Sequence[SearchTerm]) -> Array:
    """Return the prior variance that moving one standardised input brings, or another level, over all terms."""
    return np.asarray(sum(term.relevance(p, levels) for term in terms))


def sum_kernel(p: Parameters, place: Placement, terms: Sequence[SearchTerm]) -> SumKernel:
    """Return the kernel on all inputs at the parameters of those that were searched, with points yet to be given."""
    fitted = tuple(one for term in terms for one in term.fitted(p, place))
    return SumKernel(fitted, Linear().slopes(p, place))


def predicted(p: Parameters, rows: SearchRows, others: SearchRows, terms: Sequence[SearchTerm]) -> Array:
    """Return what the fit to the rows of a search predicts at other rows; the ranks that terms may look at are in these
    rows."""
    d, texts, dtype = len(rows.levels), rows.text_of, rows.X.dtype
    kinds = np.concatenate([np.where(rows.levels, LEVEL, NUMBER), np.full(len(texts), TEXT)])
    inputs, as_it_is = Inputs(kinds, np.concatenate([np.arange(d), d + texts])), (np.zeros(0),) * len(kinds)
    kernel = sum_kernel(p, Placement(inputs, np.arange(d), RankTransform(as_it_is, as_it_is)), terms)

    def codes(rows: SearchRows) -> list[Array]:
        """Return the codes of rows for every term, on inputs or ranks."""
        seen = (rows.X if term.ranks is None else rows.ranks for term in kernel.every_term)
        return [term.codes(np.hstack([X, *rows.texts])) for term, X in zip(kernel.every_term, seen, strict=True)]

    known, mean = codes(rows), rows.weights @ rows.Y / rows.weights.sum()
    K = kernel.between(known, known, dtype)
    K[np.diag_indices(len(K))] += (noise_variance(p) + LEAST_NOISE) / rows.weights
    alpha = scipy.linalg.solve(K, rows.Y - mean, assume_a="pos")
    return np.asarray(mean + kernel.between(codes(others), known, dtype) @ alpha)


def learn(rows: SearchRows, begin: Parameters, policy: Policy, max_iter: int) -> Parameters:
    """Return the parameters that a climb of the evidence from `begin` reaches."""
    return learn_together([rows], begin, policy, max_iter)


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
        """Return the mean of all, half of them on a thread of their own where there are several."""
        if len(each) == 1:
            return each[0](vector)
        (a, of_a), (b, of_b) = side_by_side(lambda: mean_of(each[::2], vector), lambda: mean_of(each[1::2], vector))
        return a + b, of_a + of_b

    def is_over(values: list[float]) -> bool:
        """Return whether so many steps together gain too little, since a single one may be short, or time is up."""
        return search_is_late() or (len(values) > window and values[-1 - window] - values[-1] < least / len(each))

    first, options = each[0], {"maxcor": 20, "ftol": 1e-9, "maxls": 10}
    return first.unravel(minimise(objective, first.ravel(begin), first.bounds, max_iter, is_over, options))


class KernelEvidence:
    """Negative log evidence and prior, per row, as a function of the flat vector of all parameters; where it is one of
    several, it has its share of the prior."""

    def __init__(self, rows: SearchRows, begin: Parameters, policy: Policy, n_samples: int = 1) -> None:
        self.n_samples, self.weights = n_samples, rows.weights
        self.Y = rows.Y - rows.weights @ rows.Y / rows.weights.sum()
        self.rows, self.terms = rows, [term for term in policy.terms if term.enters(rows, begin)]
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
            missing = q.name == "amplitude" and bool((begin[name][q.name] <= RULES.least_log_amplitude).all())
            ends = (RULES.least_log_amplitude,) * 2 if missing else (q.low, q.high)
            self.bounds += zip(*(np.broadcast_to(end, q.start.shape).tolist() for end in ends), strict=True)

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
        values = [term.evaluate(p, self.rows) for term in self.terms]
        each = list(zip(self.terms, values, strict=True))
        F = np.hstack([np.zeros((m, 0)), *(value for term, value in each if term.has_features)])
        K = F @ F.T
        for term, value in each:
            if not term.has_features:
                K += value
        noise = noise_variance(p)
        K[np.diag_indices(m)] += (noise + LEAST_NOISE) / self.weights
        result, dK = gaussian_evidence(K, self.Y)
        dF, at = 2 * dK @ F, 0
        flat = np.zeros(len(vector))
        gradient = self.unravel(flat)  # pieces of the flat one
        for term, value in each:
            slope = dF[:, at : at + value.shape[1]] if term.has_features else dK
            at += value.shape[1] if term.has_features else 0
            for name, of_term in term.gradient(p, self.rows, value, slope).items():
                for parameter, part in of_term.items():
                    gradient[name][parameter] += part
        gradient["noise"][NOISE.name] += 2 * noise * float(np.diag(dK) @ (1 / self.weights))
        away, scale = vector - self.origin, 1 / (self.n_samples * m * k)
        return result + scale * float(self.prior @ away**2), flat + 2 * scale * self.prior * away


def minimise(
    objective: Callable[[Array], tuple[float, Array]],
    begin: Array,
    bounds: Sequence[tuple[float, float]],
    max_iter: int,
    is_over: Callable[[list[float]], bool],
    options: Mapping[str, float],
) -> Array:
    """Return where L-BFGS gets in so many steps, each of which is shown as progress, unless the values after the steps
    so far say that it is over."""
    values: list[float] = []

    def step(intermediate_result: scipy.optimize.OptimizeResult) -> None:
        """Note a step, and end the descent where it is over."""
        values.append(float(intermediate_result.fun))
        advance()
        if is_over(values):
            raise StopIteration

    def unless_stopped(x: Array) -> tuple[float, Array]:
        """Return the objective, unless the fit was interrupted."""
        stop_if_asked()
        return objective(x)

    every: Any = {"maxiter": max_iter, **options}
    result = scipy.optimize.minimize(
        unless_stopped, begin, jac=True, method="L-BFGS-B", bounds=bounds, callback=step, options=every
    )
    advance(max_iter - len(values))  # those that were not needed
    return np.asarray(result.x)


def inverse(A: Array) -> tuple[Array, float] | None:
    """Return the inverse of A and the logarithm of its determinant; None where A is not positive definite. A is
    overwritten: symmetric in C order, it is its own transpose in Fortran order, and LAPACK works in place."""
    L, failed = lapack.dpotrf(A.T, lower=1, overwrite_a=1)
    if failed:
        return None
    # In one piece: NumPy 1.26 rounds the logarithms of a view otherwise where their place in memory is right behind it.
    logdet = 2 * float(np.log(np.diag(L).copy()).sum())
    lower = lapack.dpotri(L, lower=1, overwrite_c=1)[0]  # its other triangle is zero
    full: Array = lower + lower.T
    full[np.diag_indices(len(full))] /= 2
    return full, logdet


def gaussian_evidence(K: Array, Y: Array) -> tuple[float, Array]:
    """Return the negative log evidence of targets N(0, K), K with the noise on its diagonal, and its gradient in K. K
    is overwritten."""
    n, k = Y.shape
    inverted = inverse(K)
    if inverted is None:
        return FAILED_VALUE, np.zeros_like(K)
    dK, logdet = inverted
    alpha = dK @ Y
    value = 0.5 * (float(np.vdot(Y, alpha)) + k * logdet)
    if k > 1:
        dK *= k
    dK -= alpha @ alpha.T
    dK *= 0.5 / (n * k)
    return value / (n * k), dK


def kernel_variances(kernels: Sequence[Array], Y: Array, weights: Array, begin: Array, steps: int) -> Array:
    """Return factors of the kernels and the noise variance with the least leave-one-out error, from `begin`: the noise
    first, over its whole range, then all of them."""
    begin = np.asarray(begin, np.float64).copy()
    begin[-1] = best_noise(_sum(kernels, begin), Y, weights)
    low, high = np.log(RULES.noise_variances)
    bounds = [RULES.factor_logs] * len(kernels) + [(low, high)]
    objective = leave_one_out(kernels, Y, weights)
    return np.asarray(np.exp(minimise(objective, np.log(begin), bounds, steps, lambda _: fit_is_late(), {})))


def _sum(kernels: Sequence[Array], factors: Array) -> Array:
    total = factors[0] * kernels[0]
    for f, K in zip(factors[1:], kernels[1:], strict=False):
        total += f * K
    return np.asarray(total, np.float64)


def best_noise(K: Array, Y: Array, weights: Array) -> float:
    """Return the noise variance with the least leave-one-out error, over ten decades, from one decomposition."""
    root = np.sqrt(weights)[:, None]
    values, U = np.linalg.eigh(root * K * root.T)
    values, squares, rotated = np.maximum(values, 0), U**2, U.T @ (root * Y)

    def error(noise: float) -> float:
        """Return the sum of squared leave-one-out errors."""
        inverse = 1 / (values + noise)
        return float((((U @ (inverse[:, None] * rotated)) / (squares @ inverse)[:, None]) ** 2).sum())

    low, high = np.log10(RULES.noise_variances)
    return best_on_grid(np.logspace(low, high, 4 * int(high - low) + 1), error)


def leave_one_out(kernels: Sequence[Array], Y: Array, weights: Array) -> Callable[[Array], tuple[float, Array]]:
    """Return the function from the logarithms of the factors and of the noise to the logarithm of the mean squared
    leave-one-out error and its gradient."""

    def objective(logs: Array) -> tuple[float, Array]:
        """Return the logarithm of the error, and its gradient."""
        factors = np.exp(logs)
        K = _sum(kernels, factors)
        K[np.diag_indices(len(K))] += factors[-1] / weights
        inverted = inverse(K)
        if inverted is None:
            return FAILED_VALUE, np.zeros(len(logs))
        C, _ = inverted
        alpha, diagonal = C @ Y, np.diag(C).copy()[:, None]
        errors = alpha / diagonal
        value = float((weights @ errors**2).sum())
        slope = 2 * weights[:, None] * errors / diagonal
        # d e_i = (d alpha_i - e_i d C_ii) / C_ii, with d alpha = -C dK alpha and d C = -C dK C
        G = (C * (slope * errors).sum(axis=1)) @ C - (C @ slope) @ alpha.T
        gradient = [f * float(np.vdot(G, kernel)) for f, kernel in zip(factors, kernels, strict=False)]
        gradient.append(factors[-1] * float(np.diag(G) @ (1 / weights)))
        return float(np.log(max(value, 1e-300))), np.array(gradient) / max(value, 1e-300)

    return objective


def convex_weights(predictions: Array, Y: Array, weights: Array, rng: np.random.Generator, bootstraps: int) -> Array:
    """Return weights (members,) for predictions (members, rows, outputs) of Y (rows, outputs); the last member is the
    mean.

    Chance lets a member look better than the mean, the more so the fewer the rows. With s the mean square by which the
    combination leaves the mean and e its error, chance is worth about e / m per member, and the combination is shrunk
    towards the mean as much as that asks for: not noticeably where e is small beside s.
    """
    shares = shared_weights(predictions, Y, weights, rng, bootstraps)
    combined, mean, share = np.tensordot(shares, predictions, axes=1), predictions[-1], weights / weights.sum()
    left, moved = (float((share @ part**2).sum()) for part in (Y - combined, combined - mean))
    if moved == 0:
        return shares
    return shared_weights(predictions, Y, weights, rng, bootstraps, 3 * len(predictions) * left / (len(Y) * moved))


def shared_weights(
    predictions: Array, Y: Array, weights: Array, rng: np.random.Generator, bootstraps: int, shrinkage: float = 0.0
) -> Array:
    """Return the average over bootstraps of the weights with the least error, plus `shrinkage` times the mean squared
    distance of the combination from the mean; without it, no member is preferred."""
    total, mean = np.zeros(len(predictions)), predictions[-1]
    for _ in range(bootstraps):
        root = np.sqrt(weights * rng.exponential(size=len(weights)))[:, None]
        A = np.stack([(root * (f - mean)).ravel() for f in predictions], axis=1)
        b = (root * (Y - mean)).ravel()
        held = UNIT_SUM_PENALTY * (np.abs(A).max() or 1.0)
        rows = [A, np.sqrt(shrinkage) * A, np.full((1, A.shape[1]), held)]
        shares = _non_negative(np.vstack(rows), np.concatenate([b, np.zeros(len(A)), [held]]))
        total += shares / (shares.sum() or 1.0)
    return np.asarray(total / bootstraps)


def _non_negative(A: Array, b: Array) -> Array:
    """Return the x >= 0 with the least ||A x - b||. Where two members predict nearly the same, `nnls` of SciPy 1.13,
    which squares A, runs into its limit of iterations or a singular matrix; `lsq_linear` is slower and does not
    square."""
    try:
        return np.asarray(nnls(A, b)[0])
    except (RuntimeError, LinAlgError):
        return np.asarray(lsq_linear(A, b, (0, np.inf), method="bvls").x)
