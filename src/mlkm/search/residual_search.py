"""Kernels for what a first search has missed.

A search sees some hundred rows, and its two product kernels each have one set of relevances: a weaker interaction
between inputs that do little else is lost beside a strong one. What fits by its kernels leave of rows that they have
not seen has that interaction as its strongest part. So there is a second search, on those leftovers: many more rows are
needed to tell it from the noise, and the evidence is the mean of the evidences of several samples, each by itself,
since one of all their rows would take n^3.

What is found stands beside the first kernels, with variances by leave-one-out of the targets. Where nothing was missed
it gets next to none.
"""

from dataclasses import replace

import numpy as np

from .._types import Array
from ..data import Rows
from ..model.machine import predict
from ..model.rank_transform import fit_warp
from ..model.sum_kernel import joined
from ..runtime.deadline import search_is_late
from ..runtime.progress import stage
from ..solve.dual import solve_dual
from . import kernel_parameters as joint
from .input_selection import beginning, sample_of, telling_inputs
from .kernel_evidence import learn_together
from .kernel_search import LearnedKernel, weighed
from .plan import Plan


def with_leftovers(learned: LearnedKernel, rows: Rows, share: float, plan: Plan) -> LearnedKernel:
    """The kernels found, and those of what they leave of other rows; by a share of the samples of the policy."""
    policy = plan.policy
    number, m = policy.residual_samples(len(rows), rows.X.shape[1], share)
    if number == 0 or search_is_late():
        return learned
    some = rows.take(slice(0, number * m))
    with stage("search", sum(policy.joint_steps)):
        left = _left(learned, some)
        unit = np.maximum(left.std(axis=0), np.finfo(float).tiny)
        others, ranks = replace(some, Y=left / unit), fit_warp(rows.X, rows.weights, rows.inputs.numbers)
        kept = telling_inputs(others, policy)
        samples = [sample_of(others, ranks, slice(k * m, k * m + m), 1, policy).of(kept) for k in range(number)]
        found = learn_together(samples, beginning(samples[0], plan), policy, sum(policy.joint_steps))
    kernel = joint.sum_kernel(found, ranks, kept, rows.inputs, policy.joint_frequencies)
    scaled = kernel.scaled([float(np.mean(unit**2))] * (len(kernel.terms) + 1))
    both = LearnedKernel(joined([learned.kernel, scaled]), learned.noise)
    with stage("weigh", policy.weigh_steps):
        return weighed(both, rows, plan, number * m)


def _left(learned: LearnedKernel, rows: Rows) -> Array:
    """What the fit to either half leaves of the other one."""
    half = len(rows) // 2
    first, second = rows.take(slice(0, half)), rows.take(slice(half, None))
    return np.vstack([_left_of(learned, first, second), _left_of(learned, second, first)])


def _left_of(learned: LearnedKernel, rows: Rows, known: Rows) -> Array:
    fit = solve_dual(learned.kernel, known, learned.noise)
    return rows.Y - predict(learned.kernel.machine(known.X, fit.alpha, fit.intercept, fit.single), rows.X)
