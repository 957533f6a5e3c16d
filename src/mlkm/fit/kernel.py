"""The default's fit: a sum of kernels on all rows, and with few rows beside it ridge and the mean, weighed by
predictions of rows that neither has seen.

Every member is linear in y given its features, and so is their sum: the stack is one machine of one layer.
"""

from dataclasses import dataclass, replace

import numpy as np

from .._seeds import Purpose, generator
from .._threads import side_by_side
from .._types import Array, IntArray
from ..auto.kernels import LearnedKernel, learn_kernel
from ..auto.plan import Plan
from ..auto.stack import convex_weights
from ..model.machine import Machine, predict
from ..model.sum_kernel import SumKernel
from ..rows import Rows
from ..solvers.dual import solvable_rows, solve_dual
from ..solvers.ridge import ridge


@dataclass(frozen=True)
class KernelFit:
    """The machine, the kernel with the noise variance of its solve, the error of rows left out for every output, what
    the kernels miss of the last rows without them (m, k), how many rows were solved on, the shares of kernel, ridge and
    mean, and the penalty of ridge."""

    machine: Machine
    kernel: SumKernel
    noise: float
    loo_error: Array
    missed: Array
    solved: int
    shares: tuple[float, float, float] = (1.0, 0.0, 0.0)
    ridge_penalty: float = 0.0


def fit_kernel(rows: Rows, plan: Plan) -> KernelFit:
    """Learn the kernel, solve on all rows, and with few rows stack."""
    if len(rows) < 3 or not rows.X.any():
        return _mean(rows)
    if len(rows) > plan.policy.stack_rows:
        return _alone(rows, plan)
    return _stacked(rows, plan, *side_by_side(lambda: _alone(rows, plan), lambda: _held_out(rows, plan)))


def _alone(rows: Rows, plan: Plan) -> KernelFit:
    learned: LearnedKernel = learn_kernel(rows, plan)
    rows = solvable_rows(learned.kernel, rows, learned.noise)
    fit = solve_dual(learned.kernel, rows, learned.noise)
    machine = learned.kernel.machine(rows.X, fit.alpha, fit.intercept, fit.single)
    return KernelFit(machine, learned.kernel, learned.noise, fit.loo_error, fit.missed, len(rows))


def _mean(rows: Rows) -> KernelFit:
    """Where there is nothing to learn from."""
    d = rows.X.shape[1]
    kernel = SumKernel((), np.zeros(d))
    mean = rows.weights @ rows.Y / len(rows)
    error = rows.weights @ (rows.Y - mean) ** 2 / max(len(rows) - 1, 1)
    machine = kernel.machine(rows.X, np.zeros_like(rows.Y), mean)
    return KernelFit(machine, kernel, 1.0, error, np.zeros((0, rows.Y.shape[1])), len(rows))


def _members(rows: Rows, plan: Plan) -> list[Machine]:
    """The sum of kernels, ridge, and the mean."""
    return [_alone(rows, plan).machine, _linear(rows, plan)[0], _mean(rows).machine]


def _linear(rows: Rows, plan: Plan) -> tuple[Machine, float]:
    """Ridge on the inputs that are not levels, and its penalty, by leave-one-out; without a linear term the mean."""
    mean, seen = _mean(rows).machine, ~rows.inputs.levels
    if not plan.linear or not seen.any():
        return mean, 0.0
    fit = ridge(rows.X[:, seen], rows.Y, rows.weights)
    slopes = np.zeros((rows.X.shape[1], rows.Y.shape[1]))
    slopes[seen] = fit.coefficients
    return replace(mean, layers=((np.vstack([slopes, fit.intercept]),),)), fit.penalty


def _held_out(rows: Rows, plan: Plan) -> tuple[IntArray, Array]:
    """Rows held out, and what every member that has not seen them predicts there: (members, rows, outputs). The kernels
    are found there by one search on no more rows than its beginning."""
    folds, policy = _fifths(len(rows), plan), plan.policy
    cheaper = replace(plan, policy=replace(policy, draws=1, joint_rows=policy.first_joint_rows))
    outside = []
    for fold in folds:
        inside = rows.take(np.setdiff1d(np.arange(len(rows)), fold))
        outside.append([predict(member, rows.X[fold]) for member in _members(inside, cheaper)])
    return np.concatenate(folds), np.stack([np.vstack(member) for member in zip(*outside, strict=True)])


def _stacked(rows: Rows, plan: Plan, alone: KernelFit, held: tuple[IntArray, Array]) -> KernelFit:
    """The convex combination of the members that predicts rows held out best."""
    at, predictions = held
    Y, weights, rng = rows.Y[at], rows.weights[at], generator(plan.seed, Purpose.STACK)
    shares = convex_weights(predictions, Y, weights, rng, plan.policy.bootstraps)
    error = weights @ (Y - np.tensordot(shares, predictions, axes=1)) ** 2 / weights.sum()
    linear, penalty = _linear(rows, plan)
    if not plan.linear:
        shares = np.array([shares[0], 0.0, shares[1] + shares[2]])
    machine = _combined(alone.machine, linear, _mean(rows).machine, shares)
    kernel, line, mean = (float(share) for share in shares)
    return replace(alone, machine=machine, loo_error=error, shares=(kernel, line, mean), ridge_penalty=penalty)


def _fifths(n: int, plan: Plan) -> list[IntArray]:
    """Rows held out: all five fifths in turn, two of them where there are more rows, or one; single rows of a few."""
    parts, (all_five, two) = [np.arange(k, n, min(5, n)) for k in range(min(5, n))], plan.policy.fifths
    return parts if n <= all_five else parts[:2] if n <= two else parts[:1]


def _combined(kernel: Machine, linear: Machine, mean: Machine, shares: Array) -> Machine:
    """One machine: the linear member joins the linear term of the first, the mean its intercept."""
    (W,), (V,), (U,) = kernel.layers[0], linear.layers[0], mean.layers[0]
    d = len(V) - 1
    total = shares[0] * W
    if not kernel.linear:
        total = np.vstack([total[:-1], np.zeros((d, W.shape[1])), total[-1:]])
    total[-1 - d : -1] += shares[1] * V[:-1]
    total[-1] += shares[1] * V[-1] + shares[2] * U[-1]
    return replace(kernel, layers=((total,),), linear=True)  # all zero where there is to be no linear term
