"""The default's fit: a sum of kernels on all rows, for the raw targets and, where these are skewed, also for
transformed targets. With few rows it is stacked with ridge regression and the mean. The weights of the stack minimise
the error at rows that its members have not seen.

Every member but that for transformed targets is linear in y given its features, and so is their sum: a machine of one
layer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

import numpy as np

from .._types import Array, IntArray
from ..data import Block, Workers
from ..model.machine import Machine, averaged, predict_average
from ..model.sum_kernel import SumKernel, TransformedKernel
from ..model.transforms import TargetTransform, fit_back_transform, fit_target_transform, share_of_spread, straightness
from ..runtime.progress import advance, search_is_late, stage
from ..runtime.resources import Purpose, generator, side_by_side
from ..runtime.sizes import MATRIX_ALONE
from ..search.evidence import convex_weights, shared_weights
from ..search.kernel_search import LearnedKernel, search_kernels, weighed
from ..search.plan import Plan
from ..search.policy import Policy, Seen
from ..solve.dual import solvable_rows, solve_dual, usual_steps
from ..solve.ridge import ridge

T = TypeVar("T")


@dataclass(frozen=True)
class KernelFit:
    """Machines whose plain average is the fit, the kernel and the noise variance of its solve, the leave-one-out error
    of every output, the number of rows solved on, the leave-one-out residuals at the last of these (m, k), the shares
    of kernel, ridge and mean, the penalty of the ridge, the kernel for transformed targets, if there is one, and the
    rows that all these choices have seen."""

    machines: tuple[Machine, ...]
    kernel: SumKernel
    noise: float
    loo_error: Array
    solved: int
    loo_residuals: Array
    shares: tuple[float, float, float] = (1.0, 0.0, 0.0)
    ridge_penalty: float = 0.0
    transformed: TransformedKernel | None = None
    seen: Seen = field(default_factory=Seen)


def fit_kernel(
    rows: Block, plan: Plan, searched: LearnedKernel | None = None, workers: Workers | None = None
) -> KernelFit:
    """Learn the kernels, unless they are given, solve on all rows, and choose the share of each member."""
    if len(rows) < plan.policy.least_rows or not rows.X.any():
        return _only_mean(rows)
    if len(rows) > plan.policy.stack_rows:
        return _kernels(rows, plan, searched, workers)
    both = side_by_side(lambda: _kernels(rows, plan, searched, workers), lambda: _held_out(rows, plan, searched))
    return _stacked(rows, plan, *both)


def _kernels(rows: Block, plan: Plan, searched: LearnedKernel | None, workers: Workers | None = None) -> KernelFit:
    """Fit kernels for the raw targets and, where these are far from normal, for transformed targets, with shares chosen
    by the last rows."""
    searched = search_kernels(rows, plan) if searched is None else searched
    target_transform = _target_transform(rows, plan.policy)
    several = [rows] if target_transform is None else [rows, replace(rows, Y=target_transform.forward(rows.Y))]
    with stage("kernel variances", len(several) * plan.policy.variance_steps):
        learned = _each([partial(weighed, searched, targets, plan) for targets in several])
    learned[-1] = _with_transform(learned[-1], rows, plan)
    n = min(len(solvable_rows(each.kernel, rows, each.noise)) for each in learned)
    several = [targets.take(slice(0, n)) for targets in several]
    with stage("solve", len(several) * usual_steps(n)):
        solves = [partial(_solved, *both, workers) for both in zip(learned, several, strict=True)]
        fits = _each(solves) if n <= MATRIX_ALONE else [solve() for solve in solves]
    return fits[0] if target_transform is None else _on_both_scales(fits, several, target_transform, plan)


def _each(work: Sequence[Callable[[], T]]) -> list[T]:
    """Return the result of one function, or of two that run side by side."""
    return [work[0]()] if len(work) == 1 else list(side_by_side(*work, wide=True))


def _with_transform(learned: LearnedKernel, rows: Block, plan: Plan) -> LearnedKernel:
    """Record that the transform of the targets, where one is fitted, depends on all rows."""
    if len(rows) < plan.policy.least_transformed:
        return learned
    return replace(learned, seen=learned.seen.by("transform", 0, len(rows)))


def _on_both_scales(
    fits: Sequence[KernelFit], targets: Sequence[Block], target_transform: TargetTransform, plan: Plan
) -> KernelFit:
    """Stack the fits to raw and to transformed targets by leave-one-out predictions of the last rows; `targets` are the
    rows with the targets of each fit."""
    (raw, other), (rows, there) = fits, targets
    m = min(len(raw.loo_residuals), len(other.loo_residuals))
    last, on_other = rows.take(slice(len(rows) - m, None)), there.Y[-m:] - other.loo_residuals[-m:]
    back_transform = fit_back_transform(target_transform, other.loo_residuals[-m:], last.weights)
    predictions = np.stack([last.Y - raw.loo_residuals[-m:], back_transform.mean(on_other)])
    rng = generator(plan.seed, Purpose.STACK)
    shares = shared_weights(predictions, last.Y, last.weights, rng, plan.policy.bootstraps)
    raw = replace(raw, seen=raw.seen.joined(other.seen).by("shares", 0, len(rows)))  # residuals depend on all rows
    if shares[1] < plan.policy.least_share:
        return raw
    loo_residuals = last.Y - np.tensordot(shares, predictions, axes=1)
    on_its_scale = replace(other.machines[0], back_transform=back_transform)
    machines = averaged((*raw.machines, on_its_scale), shares.tolist())
    noise_share = share_of_spread(loo_residuals, back_transform.deviation(on_other), last.weights)
    transformed = TransformedKernel(
        other.kernel, other.noise, target_transform, back_transform, float(shares[1]), noise_share
    )
    return replace(
        raw, machines=machines, loo_residuals=loo_residuals, loo_error=_last_error(rows, loo_residuals),
        shares=(float(shares[0]), 0.0, 0.0), transformed=transformed,
    )  # fmt: skip


def _last_error(rows: Block, loo_residuals: Array) -> Array:
    """Return the weighted mean squares of leave-one-out residuals at the last rows, for every output."""
    return np.asarray(np.average(loo_residuals**2, axis=0, weights=rows.weights[len(rows) - len(loo_residuals) :]))


def _target_transform(rows: Block, policy: Policy) -> TargetTransform | None:
    """Return a transform that makes the targets nearly normal, or None if it is nearly linear or rows are too few."""
    if len(rows) < policy.least_transformed:
        return None
    target_transform = fit_target_transform(rows.Y, rows.weights)
    same = straightness(rows.Y, target_transform.forward(rows.Y), rows.weights) > policy.straight
    return None if same else target_transform


def _solved(learned: LearnedKernel, rows: Block, workers: Workers | None) -> KernelFit:
    """Solve a learned kernel on the rows."""
    fit, kernel = solve_dual(learned.kernel, rows, learned.noise, workers), learned.kernel
    advance()
    machine, error = kernel.machine(rows.X, fit.alpha, fit.intercept, fit.single), _last_error(rows, fit.loo_residuals)
    return KernelFit((machine,), kernel, learned.noise, error, len(rows), fit.loo_residuals, seen=learned.seen)


def _mean(rows: Block) -> tuple[SumKernel, Machine]:
    """Return the mean as a sum of no kernels and as a machine, for rows with nothing to learn from."""
    kernel = SumKernel((), np.zeros(rows.X.shape[1]))
    return kernel, kernel.machine(rows.X, np.zeros_like(rows.Y), rows.weights @ rows.Y / len(rows))


def _only_mean(rows: Block) -> KernelFit:
    """Return the fit that predicts the mean, with the sample variance as its error."""
    kernel, machine = _mean(rows)
    error = rows.weights @ (rows.Y - rows.weights @ rows.Y / len(rows)) ** 2 / max(len(rows) - 1, 1)
    return KernelFit((machine,), kernel, 1.0, error, len(rows), np.zeros((0, rows.Y.shape[1])))


def _linear(rows: Block, plan: Plan) -> tuple[Machine, float]:
    """Fit ridge to the inputs that are numbers, and return it with its penalty, chosen by leave-one-out; without a
    linear term return the mean. Slopes of the coordinates of texts would separate the training levels without carrying
    over to new ones."""
    mean, seen = _mean(rows)[1], rows.inputs.numbers
    if not plan.linear or not seen.any():
        return mean, 0.0
    fit = ridge(rows.X[:, seen], rows.Y, rows.weights)
    slopes = np.zeros((rows.X.shape[1], rows.Y.shape[1]))
    slopes[seen] = fit.coefficients
    return replace(mean, layers=((np.vstack([slopes, fit.intercept]),),)), fit.penalty


def _held_out(rows: Block, plan: Plan, searched: LearnedKernel | None) -> tuple[IntArray, Array]:
    """Return held-out rows and the predictions of kernels, ridge and the mean there, fitted to the other rows. Kernels
    that are not given are learned by one search, on as many rows as its first stage has."""
    cheaper = replace(plan, policy=replace(plan.policy, draws=1, joint_rows=plan.policy.first_joint_rows))
    return held_out(
        rows,
        plan,
        lambda inside: (_kernels(inside, cheaper, searched).machines, _linear(inside, plan)[:1], _mean(inside)[1:]),
    )


def held_out(rows: Block, plan: Plan, fit: Callable[[Block], Sequence[Sequence[Machine]]]) -> tuple[IntArray, Array]:
    """Return held-out rows, and predictions (members, rows, outputs) there by members fitted to the other rows."""
    folds, outside = _fifths(len(rows), plan), []
    with stage("held out", len(folds)) as step:
        for fold in folds:
            members = fit(rows.take(np.setdiff1d(np.arange(len(rows)), fold)))
            outside.append([predict_average(member, rows.X[fold]) for member in members])
            step()
            if search_is_late():
                break
    return np.concatenate(folds[: len(outside)]), np.stack([np.vstack(member) for member in zip(*outside, strict=True)])


def mean_square(rows: Block, at: IntArray, predictions: Array) -> Array:
    """Return the weighted mean squared error of predictions for the rows `at`, for every output."""
    return np.asarray(np.average((rows.Y[at] - predictions) ** 2, axis=0, weights=rows.weights[at]))


def _stacked(rows: Block, plan: Plan, fit: KernelFit, held: tuple[IntArray, Array]) -> KernelFit:
    """Return the convex combination of kernels, ridge and mean that predicts held-out rows best."""
    at, predictions = held
    Y, weights, rng = rows.Y[at], rows.weights[at], generator(plan.seed, Purpose.STACK)
    shares = convex_weights(predictions, Y, weights, rng, plan.policy.bootstraps)
    error = mean_square(rows, at, np.tensordot(shares, predictions, axes=1))
    linear, penalty = _linear(rows, plan)
    if not plan.linear:
        shares = np.array([shares[0], 0.0, shares[1] + shares[2]])
    kernels, line, mean = (float(share) for share in shares)
    k, transformed, raw = len(fit.machines), fit.transformed, kernels * fit.shares[0]
    combined, *other = averaged(fit.machines, [kernels / k] * k)  # those of the kernels, with their share
    if transformed is not None and kernels * transformed.share < plan.policy.least_share:  # its share goes to the mean
        mean, k, other, combined = mean + kernels * transformed.share, 1, [], averaged((combined,), [1 / k])[0]
    combined = _combined(combined, linear, _mean(rows)[1], (k * line, k * mean))
    transformed = None if not other or transformed is None else replace(transformed, share=kernels * transformed.share)
    return replace(
        fit, machines=(combined, *other), loo_error=error, shares=(raw, line, mean), ridge_penalty=penalty,
        transformed=transformed, seen=fit.seen.by("shares", 0, len(rows)),
    )  # fmt: skip


def _fifths(n: int, plan: Plan) -> list[IntArray]:
    """Return the held-out folds: five fifths of few rows, two fifths of more, one of many; single rows of fewer than
    five."""
    parts, (all_five, two) = [np.arange(k, n, min(5, n)) for k in range(min(5, n))], plan.policy.fifths
    return parts if n <= all_five else parts[:2] if n <= two else parts[:1]


def _combined(kernel: Machine, linear: Machine, mean: Machine, shares: tuple[float, float]) -> Machine:
    """Return one machine, with the ridge added to the linear term of the kernels and the mean to their intercept."""
    (W,), (V,), (U,) = kernel.layers[0], linear.layers[0], mean.layers[0]
    d, total = len(V) - 1, W.copy()
    if not kernel.linear:
        total = np.vstack([total[:-1], np.zeros((d, W.shape[1])), total[-1:]])
    total[-1 - d : -1] += shares[0] * V[:-1]
    total[-1] += shares[0] * V[-1] + shares[1] * U[-1]
    return replace(kernel, layers=((total,),), linear=True)  # slopes are zero without a linear term
