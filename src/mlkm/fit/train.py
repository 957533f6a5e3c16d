"""Training in memory: a plan and standardised rows become fitted machines."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from .._types import Array, IntArray
from ..data import Block, Standardiser, Workers
from ..model.features import JointMap
from ..model.machine import Machine, input_gradient, predict_average
from ..model.prior import Prior
from ..runtime.progress import fit_is_late, stage, without_search_end
from ..runtime.resources import Purpose, generator
from ..runtime.rules import RULES
from ..runtime.sizes import EXCHANGED_COLUMNS
from ..search.kernel_features import features_of
from ..search.kernel_search import LearnedKernel, weighed
from ..search.plan import Plan
from ..solve import GradientDescent, Problem, Solution
from ..solve.descent import DivergedError, random_parts
from .deep import deep, deeper_maps, uniform_starts, with_hidden
from .default import KernelFit, fit_kernel, held_out, mean_square
from .first_layer import drawn_features, first_layer, scale_of


@dataclass(frozen=True)
class Fitted:
    """The solution on standardised inputs and targets, with the sizes and scales in use. `prior` belongs to one layer
    in closed form, whose ridge is on features of unit prior variance, `stack` to the default's kernels."""

    solution: Solution
    widths: tuple[int, ...]
    scales: tuple[Any, ...]
    relevance: Array
    prior: Prior | None = None
    stack: KernelFit | None = None


def train(rows: Block, plan: Plan, units: Standardiser, workers: Workers | None = None) -> Fitted:
    """Fit MLKM or RKM to standardised rows; `units` are those of the outputs. Where layer 1 is learned and rows are
    few, the error is that on held-out rows that neither the search nor the fit has used, as others are optimistic. The
    workers of a cluster, where the rows came from one, compute products with large kernel matrices."""
    if plan.penalties:
        plan = plan.with_penalty(penalty_by_folds(rows, plan, units))
    fitted = _trained(rows, plan, units, workers)
    learned = plan.automatic and fitted.stack is None and len(rows) <= plan.policy.stack_rows
    if not learned or len(rows) < max(plan.policy.least_rows, 2 * plan.depth):
        return fitted
    at, (predictions,) = held_out(rows, plan, lambda inside: [_trained(inside, plan, units).solution.machines])
    return replace(fitted, solution=replace(fitted.solution, loo_error=mean_square(rows, at, predictions)))


def _trained(rows: Block, plan: Plan, units: Standardiser, workers: Workers | None = None) -> Fitted:
    """Fit with every choice made but layer 1; where that is learned, the leave-one-out error holds it fixed."""
    parts = parts_of(rows, plan) if plan.rotate else None
    problem = Problem(rows, (), parts, plan.penalty, units=units, seed=plan.seed, n_jobs=plan.n_jobs)
    if plan.descent is not None:
        return _by_descent(problem, plan, plan.descent)
    if plan.rough and problem.penalty is None and parts is None and len(rows) <= plan.policy.kernel_rows[0]:
        return by_kernels(problem.rows.take(slice(0, plan.policy.kernel_rows[1])), plan, workers=workers)
    return one_layer(problem, plan) if plan.depth == 1 else _deep(problem, plan)


def by_kernels(rows: Block, plan: Plan, found: LearnedKernel | None = None, workers: Workers | None = None) -> Fitted:
    """Fit the default: kernels on all rows, and with most effort hidden layers beside them."""
    fit = fit_kernel(rows, plan, found, workers)
    machines = fit.machines
    if plan.policy.hidden_rows and len(rows) > plan.policy.stack_rows and not fit_is_late():
        with without_search_end():
            machines, share = with_hidden(fit, rows, plan)
        fit = replace(_less(fit, 1 - share), seen=fit.seen.by("kernels", 0, len(rows)).by("shares", 0, len(rows)))
    error = fit.loo_error
    solution = Solution(machines, [], float(error.sum()), 1, fit.noise / len(rows), 0.0, error)
    widths, scales = (machines[0].maps[0].n_features,), (fit.kernel.scales(rows.X.shape[1]),)
    relevance = (
        relevance_of_kernels(fit.machines, rows.X, rows.Y.shape[1])
        if rows.inputs.plain
        else relevance_by_exchange(machines, rows)
    )
    return Fitted(solution, widths, scales, relevance, stack=fit)


def _less(fit: KernelFit, factor: float) -> KernelFit:
    """Return the fit with its shares times a factor, the rest being the share of hidden layers."""
    transformed = None if fit.transformed is None else replace(fit.transformed, share=factor * fit.transformed.share)
    return replace(fit, shares=(factor * fit.shares[0], 0.0, 0.0), transformed=transformed)


def train_again(rows: Block, plan: Plan, first: LearnedKernel | Prior) -> Fitted:
    """Return the fit to other rows with the first layer of an earlier one: kernels where these rows are few enough to
    solve them on, else features that stand for them. Variances, noise and penalty are chosen anew; there is no
    search."""
    once = replace(plan, policy=replace(plan.policy, draws=1, hidden_rows=0))  # variances begin at what they were
    if isinstance(first, LearnedKernel):
        kernels, most = once.policy.kernel_rows
        if len(rows) <= kernels:
            return by_kernels(rows.take(slice(0, most)), once, first)
        first = features_of(weighed(first, rows, once), rows, once)
    return one_layer(Problem(rows, (), None, plan.penalty, seed=plan.seed), once, first)


def penalty_by_folds(rows: Block, plan: Plan, units: Standardiser, n_folds: int = 5) -> float:
    """Return the candidate with the least squared error on rows left out, as in the paper's five-fold
    cross-validation."""
    if len(rows) < n_folds:
        raise ValueError(f"penalty='cv' needs at least {n_folds} distinct rows; got n_samples={len(rows)}.")
    folds = random_parts(generator(plan.seed, Purpose.FOLDS), len(rows), n_folds)
    cases = [(penalty, test) for penalty in plan.penalties for test in folds]
    errors = []
    with stage("penalty", len(cases)) as step:
        work = (delayed(_fold_error)(rows, plan, units, *case) for case in cases)
        for error in Parallel(n_jobs=plan.n_jobs and min(plan.n_jobs, len(cases)), return_as="generator")(work):
            errors.append(error)
            step()
    totals = np.reshape(errors, (len(plan.penalties), n_folds)).sum(axis=1)
    if not np.isfinite(totals).any():
        raise ValueError("Gradient descent diverged with every penalty of penalty='cv'; lower learning_rate.")
    return plan.penalties[int(np.argmin(totals))]


def _fold_error(rows: Block, plan: Plan, units: Standardiser, penalty: float, test: IntArray) -> float:
    """Return the weighted sum of squared errors at the rows left out, relative to the unit of the largest output;
    infinite where descent diverges."""
    own = rows.take(np.setdiff1d(np.arange(len(rows)), test))
    try:
        machines = _trained(own, replace(plan.with_penalty(penalty), n_jobs=None), units).solution.machines
    except DivergedError:
        return np.inf
    f = predict_average(machines, rows.X[test])
    return float(rows.weights[test] @ ((f - rows.Y[test]) ** 2 @ (units.sd / units.sd.max()) ** 2))


def one_layer(problem: Problem, plan: Plan, prior: Prior | None = None) -> Fitted:
    """Fit one layer in closed form, with a first layer of its own unless it is given."""
    prior = first_layer(problem.rows, plan) if prior is None else prior
    solution = plan.solver.solve(replace(problem, prior=prior))
    return fitted_one(problem.rows, solution, (prior.width,), (scale_of(prior),), prior)


def _deep(problem: Problem, plan: Plan) -> Fitted:
    """Fit hidden layers."""
    solution, prior = deep(problem, plan)
    return fitted_one(problem.rows, solution, plan.widths or (), (scale_of(prior), *plan.scales[1:]))


def _by_descent(problem: Problem, plan: Plan, solver: GradientDescent) -> Fitted:
    """Fit by the paper's method as written: joint gradient descent, or ADDS on the given parts."""
    starts, scales = descent_starts(problem.rows, plan, solver, 1 if problem.parts is None else len(problem.parts))
    solution = solver.solve(replace(problem, starts=starts))
    return fitted_one(problem.rows, solution, plan.widths or (), scales)


def descent_starts(
    rows: Block, plan: Plan, solver: GradientDescent, n_runs: int
) -> tuple[tuple[Machine, ...], tuple[Any, ...]]:
    """Return one machine per rotation with the paper's initial weights, and the scales of all layers."""
    widths = plan.widths or ()
    phi, scale = drawn_features(rows, plan, widths[0], np.ones(rows.X.shape[1]))
    starts = uniform_starts((phi, *deeper_maps(plan)), rows.Y.shape[1], n_runs, plan, solver.initial_range())
    return starts, (scale, *plan.scales[1:])


def parts_of(rows: Block, plan: Plan) -> tuple[IntArray, ...]:
    """Return the subsamples I_1..I_K: the folds that the caller gave, or a random split into L parts."""
    if rows.fold is not None:
        return tuple(np.flatnonzero(rows.fold == k) for k in np.unique(rows.fold))
    if len(rows) < plan.depth:
        raise ValueError(
            f"cv='rotate' splits the rows into one part per layer: {plan.depth} layers need at least {plan.depth} "
            f"distinct rows; got n_samples={len(rows)}."
        )
    return tuple(random_parts(generator(plan.seed, Purpose.PARTS), len(rows), plan.depth))


def relevance_of(machines: Sequence[Machine], X: Array, n_outputs: int, most: int = RULES.relevance_rows[1]) -> Array:
    """Return the mean squared gradient of the average fit along each standardised input, as shares of 1."""
    X = X[:most]  # rows are in an order unrelated to their values
    total = np.zeros(X.shape[1])
    for output in range(n_outputs):
        gradient = np.mean([input_gradient(machine, X, output) for machine in machines], axis=0)
        total += (gradient**2).mean(axis=0)
    return _shares(total, X)


def relevance_of_kernels(machines: Sequence[Machine], X: Array, n_outputs: int) -> Array:
    """Return the relevances of `relevance_of` for kernels on ranks. Ranks of close values are steep, and a gradient
    there would say nothing about the fit, so it is taken with coarser steps."""
    most = _relevance_rows(machines)
    return relevance_of([_coarser(machine) for machine in machines], X, n_outputs, most)


def _relevance_rows(machines: Sequence[Machine]) -> int:
    """Return how many rows relevances are computed at: fewer where there are many features."""
    return int(np.clip(RULES.relevance_entries // max(machines[0].maps[0].n_features, 1), *RULES.relevance_rows))


def _coarser(machine: Machine) -> Machine:
    """Return the machine with coarser steps of its ranks."""
    maps = tuple((None if ranks is None else ranks.coarser(), phi) for ranks, phi in machine.maps[0].parts)
    return replace(machine, maps=(JointMap(maps),))


def relevance_by_exchange(machines: Sequence[Machine], rows: Block) -> Array:
    """Return the mean squared change of the average fit when a row takes all inputs of a column from the row before, as
    shares of 1, given to the column's first input: this is defined for numbers and levels alike."""
    most = _relevance_rows(machines)
    X, owners = rows.X[:most], rows.inputs.owners  # rows are in an order unrelated to their values
    total = np.zeros(len(owners))

    def f(Z: Array) -> Array:
        return predict_average(machines, Z)

    here, columns, first = f(X), *np.unique(owners, return_index=True)
    for begin in range(0, len(columns), EXCHANGED_COLUMNS):
        some = columns[begin : begin + EXCHANGED_COLUMNS]
        moved = np.tile(X, (len(some), 1, 1))
        for k, column in enumerate(some):
            moved[k][:, owners == column] = np.roll(X[:, owners == column], 1, axis=0)
        changed = f(moved.reshape(-1, X.shape[1])).reshape(len(some), *here.shape)
        total[first[begin : begin + EXCHANGED_COLUMNS]] = ((changed - here) ** 2).mean(axis=(1, 2))
    share = total.sum()
    return total / share if share > 0 else np.full(len(total), 1 / len(total))


def _shares(total: Array, X: Array) -> Array:
    """Return relevances as shares of 1, equal where all are zero; inputs that do not vary have none."""
    total[~X.any(axis=0)] = 0  # an input that does not vary
    share = total.sum()
    return total / share if share > 0 else np.full(len(total), 1 / len(total))


def fitted_one(
    rows: Block, solution: Solution, widths: tuple[int, ...], scales: tuple[Any, ...], prior: Prior | None = None
) -> Fitted:
    """Return the solution with relevances by the gradient of the fit at the first rows; where columns of the table have
    several inputs each, relevances are by exchange."""
    owners = rows.inputs.owners
    several = len(np.unique(owners)) < len(owners)
    relevance = (
        relevance_by_exchange(solution.machines, rows)
        if several
        else relevance_of(solution.machines, rows.X, rows.Y.shape[1])
    )
    plain = tuple(float(s) if np.ndim(s) == 0 else np.asarray(s) for s in scales)
    return Fitted(solution, widths, plain, relevance, prior)
