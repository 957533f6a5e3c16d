"""Kernels for what a first search has missed.

A search sees a few hundred rows, and its two product kernels each have one set of relevances: a weaker interaction
between inputs that do little else is lost beside a strong one. The residuals of rows that the kernels have not seen
have that interaction as their strongest part. So there is a second search, on these residuals: many more rows are
needed to tell it from the noise, and the evidence is the mean of the evidences of several samples, each by itself,
since one of all their rows would take n^3.

Its kernels stand beside the first ones, with variances by leave-one-out of the targets. Where nothing was missed they
get next to none.
"""

from dataclasses import replace

import numpy as np

from .._types import Array
from ..data import Block
from ..model.machine import predict
from ..model.rank_transform import fit_rank_transform
from ..model.sum_kernel import joined
from ..model.terms import Placement
from ..runtime.deadline import search_is_late
from ..runtime.progress import stage
from ..solve.dual import solve_dual
from .evidence import learn_together
from .input_selection import search_rows, telling_inputs
from .kernel_parameters import start, sum_kernel
from .kernel_search import LearnedKernel, weighed
from .plan import Plan


def with_residual_search(learned: LearnedKernel, rows: Block, share: float, plan: Plan) -> LearnedKernel:
    """Return the kernels together with those of their residuals at other rows, by a share of the samples of the
    policy."""
    policy = plan.policy
    number, m = policy.residual_samples(len(rows), rows.X.shape[1], share)
    if number == 0 or search_is_late():
        return learned
    first = rows.take(slice(0, number * m))
    with stage("search", sum(policy.joint_steps)):
        residuals = _cross_residuals(learned, first)
        unit = np.maximum(residuals.std(axis=0), np.finfo(float).tiny)
        others = replace(first, Y=residuals / unit)
        ranks = fit_rank_transform(rows.X, rows.weights, rows.inputs.numbers)
        inputs = telling_inputs(others, policy)
        places = [slice(k * m, k * m + m) for k in range(number)]
        samples = [search_rows(others, ranks, at, 1, policy).with_inputs(inputs) for at in places]
        begin = start(samples[0], policy.terms, plan.parts(len(inputs)))
        p = learn_together(samples, begin, policy, sum(policy.joint_steps))
    kernel = sum_kernel(p, Placement(rows.inputs, inputs, ranks), policy.terms)
    scaled = kernel.scaled([float(np.mean(unit**2))] * (len(kernel.terms) + 1))
    both = LearnedKernel(joined([learned.kernel, scaled]), learned.noise, learned.seen.by("kernels", 0, number * m))
    with stage("weigh", policy.weigh_steps):
        return weighed(both, rows, plan, number * m)


def _cross_residuals(learned: LearnedKernel, rows: Block) -> Array:
    """Return what the fit to either half of the rows leaves of the other one."""
    half = len(rows) // 2
    first, second = rows.take(slice(0, half)), rows.take(slice(half, None))
    return np.vstack([_residuals(learned, first, second), _residuals(learned, second, first)])


def _residuals(learned: LearnedKernel, rows: Block, known: Block) -> Array:
    fit = solve_dual(learned.kernel, known, learned.noise)
    return rows.Y - predict(learned.kernel.machine(known.X, fit.alpha, fit.intercept, fit.single), rows.X)
