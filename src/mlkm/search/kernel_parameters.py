"""The parameters of a sum of kernels in a search, and the kernel that they make:

    K = F F' + sum of the terms that have no features + s^2 diag(1/w).

Every term has an amplitude and a scale per input, so what does not help gets no variance. Smooth terms see the inputs,
the Laplacian one their ranks, so that neither scale has to be chosen. The terms are in `model.terms`.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import scipy.linalg

from .._types import Array, BoolArray
from ..data import LEVEL, NUMBER, TEXT, Inputs
from ..model.rank_transform import RankTransform
from ..model.sum_kernel import SumKernel
from ..model.terms import Linear, Parameter, Parameters, Placement, SearchRows, SearchTerm

LEAST_NOISE = 1e-8  # of the variance of y: what can be factorised in float64
NOISE = Parameter("amplitude", np.array([-0.6]), low=-9.0, high=2.5, place=1)  # of the noise


def start(rows: SearchRows, terms: Sequence[SearchTerm], wanted: Collection[str] | None = None) -> Parameters:
    """Return where a search begins: every term of about the same variance, scales that shrink with the number of
    inputs. Only the terms named are `wanted`; all are by default."""
    names = [term.name for term in terms if wanted is None or term.name in wanted]
    parameters = {term.name: term.start(rows, term.name in names and term.sees(rows)) for term in terms}
    return parameters | {"noise": {NOISE.name: NOISE.start}}


def refined(parameters: Parameters, terms: Sequence[SearchTerm]) -> Parameters:
    """Return parameters of the same kernel for the second climb of a search, whose directions can turn."""
    return parameters | {term.name: term.refined(parameters[term.name]) for term in terms}


def relevance(p: Parameters, levels: BoolArray, terms: Sequence[SearchTerm]) -> Array:
    """Return the prior variance that moving one standardised input brings, or another level, over all terms."""
    return np.asarray(sum(term.relevance(p, levels) for term in terms))


def noise_variance(p: Parameters) -> float:
    """Return the variance of the noise."""
    return float(np.exp(2 * p["noise"][NOISE.name][0]))


def sum_kernel(p: Parameters, place: Placement, terms: Sequence[SearchTerm]) -> SumKernel:
    """Return the kernel on all inputs at the parameters of those that were searched, with points yet to be given."""
    fitted = tuple(one for term in terms for one in term.fitted(p, place))
    return SumKernel(fitted, Linear().slopes(p, place))


def predicted(p: Parameters, rows: SearchRows, others: SearchRows, terms: Sequence[SearchTerm]) -> Array:
    """Return what the fit to the rows of a search predicts at other rows."""
    mean = rows.weights @ rows.Y / rows.weights.sum()
    K = _between(p, rows, rows, terms)
    K[np.diag_indices(len(K))] += (noise_variance(p) + LEAST_NOISE) / rows.weights
    return np.asarray(mean + _between(p, others, rows, terms) @ scipy.linalg.solve(K, rows.Y - mean, assume_a="pos"))


def _between(p: Parameters, a: SearchRows, b: SearchRows, terms: Sequence[SearchTerm]) -> Array:
    """Return the kernel between the rows of two searches; the ranks that terms may look at are in these rows."""
    d, texts = len(a.levels), a.text_of
    kinds = np.concatenate([np.where(a.levels, LEVEL, NUMBER), np.full(len(texts), TEXT)])
    inputs = Inputs(kinds, np.concatenate([np.arange(d), d + texts]))
    kernel = sum_kernel(p, Placement(inputs, np.arange(d), RankTransform((), ())), terms)
    on_ranks = tuple(replace(term, ranks=None) for term in kernel.terms if term.ranks is not None)
    on_inputs = replace(kernel, terms=tuple(term for term in kernel.terms if term.ranks is None))
    K = on_inputs.matrix(np.hstack([a.X, *a.texts]), np.hstack([b.X, *b.texts]))
    if on_ranks:
        of_ranks = replace(kernel, terms=on_ranks, linear=None)
        K += of_ranks.matrix(np.hstack([a.ranks, *a.texts]), np.hstack([b.ranks, *b.texts]))
    return K
