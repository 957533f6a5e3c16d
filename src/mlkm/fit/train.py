"""Training in memory: a plan and standardised rows become fitted machines."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from .._types import Array, IntArray
from ..data import Block, Standardiser, Workers, blocks
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
from ..search.policy import Seen
from ..solve import GradientDescent, Problem, Solution
from ..solve.descent import DivergedError, random_parts
from ..solve.stack import StackUncertainty
from ..solve.uncertainty import RidgeUncertainty, Uncertainty
from .deep import deep, deeper_maps, drawn_features, first_layer, scale_of, uniform_starts, with_hidden
from .default import KernelFit, fit_kernel, held_out, mean_square


@dataclass(frozen=True)
class Fitted:
    """The solution on standardised inputs and targets and its uncertainty, with the sizes and scales in use, and the
    rows that the choices of the default's kernels have seen."""

    solution: Solution
    uncertainty: Uncertainty
    widths: tuple[int, ...]
    scales: tuple[Any, ...]
    relevance: Array
    seen: Seen | None = None


def train(rows: Block, plan: Plan, units: Standardiser, workers: Workers | None = None) -> Fitted:
    """Fit MLKM or RKM to standardised rows; `units` are those of the outputs. Where layer 1 is learned and rows are
    few, the error is that on held-out rows that neither the search nor the fit has used, since other estimates are
    optimistic. The workers of a cluster, where the rows came from one, compute products with large kernel matrices."""
    if plan.penalties:
        plan = plan.with_penalty(penalty_by_folds(rows, plan, units))
    fitted = _trained(rows, plan, units, workers)
    learned = plan.automatic and fitted.seen is None and len(rows) <= plan.policy.stack_rows
    if not learned or len(rows) < max(plan.policy.least_rows, 2 * plan.depth):
        return fitted
    at, (predictions,) = held_out(rows, plan, lambda inside: [_trained(inside, plan, units).solution.machines])
    error = mean_square(rows, at, predictions)
    solution = replace(fitted.solution, loo_error=error)
    return replace(fitted, solution=solution, uncertainty=replace(fitted.uncertainty, loo_error=error))


def _trained(rows: Block, plan: Plan, units: Standardiser, workers: Workers | None = None) -> Fitted:
    """Fit with any cross-validated penalty already chosen; where layer 1 is learned, the leave-one-out error holds it
    fixed."""
    parts = parts_of(rows, plan) if plan.rotate else None
    problem = Problem(rows, (), parts, plan.penalty, units=units, seed=plan.seed, n_jobs=plan.n_jobs)
    if plan.descent is not None:
        starts, scales = descent_starts(rows, plan, plan.descent, 1 if parts is None else len(parts))
        return _in_memory(rows, plan.descent.solve(replace(problem, starts=starts)), plan.widths or (), scales)
    if plan.rough and problem.penalty is None and parts is None and len(rows) <= plan.policy.kernel_rows[0]:
        return by_kernels(rows, plan, workers=workers)
    if plan.depth == 1:
        return one_layer(problem, plan, first_layer(rows, plan))
    solution, prior = deep(problem, plan)
    return _in_memory(rows, solution, plan.widths or (), (scale_of(prior), *plan.scales[1:]))


def by_kernels(
    given: Block, plan: Plan, searched: LearnedKernel | None = None, workers: Workers | None = None
) -> Fitted:
    """Fit the default: kernels on as many rows as the policy allows, and with the largest efforts hidden layers as
    well."""
    rows = given.take(slice(0, plan.policy.kernel_rows[1]))
    fit = fit_kernel(rows, plan, searched, workers)
    machines, error = fit.machines, fit.loo_error
    if plan.policy.hidden_rows and len(rows) > plan.policy.stack_rows and not fit_is_late():
        with without_search_end():
            machines, share = with_hidden(fit, rows, plan)
        fit = replace(_less(fit, 1 - share), seen=fit.seen.by("kernels", 0, len(rows)).by("shares", 0, len(rows)))
    solution = Solution(machines, [], float(error.sum()), 1, fit.noise / len(rows), 0.0, error)
    uncertainty = StackUncertainty(
        machines, given, fit.kernel, fit.noise, fit.shares, fit.ridge_penalty, error, fit.transformed, fit.solved
    )
    widths, scales = (machines[0].maps[0].n_features,), (fit.kernel.scales(rows.X.shape[1]),)
    plain = rows.inputs.plain
    relevance = relevance_of_kernels(fit.machines, rows) if plain else relevance_by_exchange(machines, rows)
    return Fitted(solution, uncertainty, widths, scales, relevance, fit.seen)


def _less(fit: KernelFit, factor: float) -> KernelFit:
    """Return the fit with its shares times a factor, the rest being the share of hidden layers."""
    transformed = None if fit.transformed is None else replace(fit.transformed, share=factor * fit.transformed.share)
    return replace(fit, shares=(factor * fit.shares[0], 0.0, 0.0), transformed=transformed)


def train_again(rows: Block, plan: Plan, first: LearnedKernel | Prior) -> Fitted:
    """Return the fit to other rows with the first layer of an earlier one: kernels if the rows are few enough to solve
    on, else features that approximate them. Variances, noise and penalty are estimated again; there is no search."""
    once = replace(plan, policy=replace(plan.policy, draws=1, hidden_rows=0))  # variances start at the earlier ones
    if isinstance(first, LearnedKernel):
        if len(rows) <= once.policy.kernel_rows[0]:
            return by_kernels(rows, once, first)
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
    others = rows.take(np.setdiff1d(np.arange(len(rows)), test))
    try:
        machines = _trained(others, replace(plan.with_penalty(penalty), n_jobs=None), units).solution.machines
    except DivergedError:
        return np.inf
    f = predict_average(machines, rows.X[test])
    return float(rows.weights[test] @ ((f - rows.Y[test]) ** 2 @ (units.sd / units.sd.max()) ** 2))


def one_layer(problem: Problem, plan: Plan, prior: Prior) -> Fitted:
    """Fit one layer in closed form, given its features."""
    solution = plan.solver.solve(replace(problem, prior=prior))
    return _in_memory(problem.rows, solution, (prior.width,), (scale_of(prior),), prior)


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


def relevance_of(machines: Sequence[Machine], rows: Block, most: int = RULES.relevance_rows[1]) -> Array:
    """Return the mean squared gradient of the average fit along each standardised input, as shares of 1; inputs that do
    not vary have relevance 0."""
    X, total = rows.X[:most], np.zeros(rows.X.shape[1])  # rows are in an order unrelated to their values
    for output in range(rows.Y.shape[1]):
        gradient = np.mean([input_gradient(machine, X, output) for machine in machines], axis=0)
        total += (gradient**2).mean(axis=0)
    return _shares(np.where(X.any(axis=0), total, 0.0))


def relevance_of_kernels(machines: Sequence[Machine], rows: Block) -> Array:
    """Return the relevances of `relevance_of` for kernels on ranks. The rank transform is steep between close values,
    where its gradient says little about the fit, so a coarser transform is used."""
    coarser = []
    for machine in machines:
        maps = tuple((None if ranks is None else ranks.coarser(), phi) for ranks, phi in machine.maps[0].parts)
        coarser.append(replace(machine, maps=(JointMap(maps),)))
    return relevance_of(coarser, rows, _relevance_rows(machines))


def _relevance_rows(machines: Sequence[Machine]) -> int:
    """Return how many rows relevances are computed at: fewer where there are many features."""
    return int(np.clip(RULES.relevance_entries // max(machines[0].maps[0].n_features, 1), *RULES.relevance_rows))


def relevance_by_exchange(machines: Sequence[Machine], rows: Block) -> Array:
    """Return the mean squared change of the average fit when a row takes all inputs of a column from the row before, as
    shares of 1, given to the column's first input: this is defined for numbers and levels alike."""
    X, owners = rows.X[: _relevance_rows(machines)], rows.inputs.owners
    total, here = np.zeros(len(owners)), predict_average(machines, X)
    columns, first = np.unique(owners, return_index=True)
    for at in blocks(len(columns), EXCHANGED_COLUMNS):
        moved = np.tile(X, (len(columns[at]), 1, 1))
        for exchanged, column in zip(moved, columns[at], strict=True):
            exchanged[:, owners == column] = np.roll(X[:, owners == column], 1, axis=0)
        changed = predict_average(machines, moved.reshape(-1, X.shape[1])).reshape(-1, *here.shape)
        total[first[at]] = ((changed - here) ** 2).mean(axis=(1, 2))
    return _shares(total)


def _shares(total: Array) -> Array:
    """Return relevances as shares of 1, equal where all are zero."""
    share = total.sum()
    return total / share if share > 0 else np.full(len(total), 1 / len(total))


def _in_memory(
    rows: Block, solution: Solution, widths: tuple[int, ...], scales: tuple[Any, ...], prior: Prior | None = None
) -> Fitted:
    """Return the solution on rows in memory; the prior is that of one layer in closed form."""
    uncertainty = RidgeUncertainty(
        solution.machines, solution.penalty, solution.loo_error, rows, prior, solution.hidden_penalty
    )
    return fitted_one(rows, solution, widths, scales, uncertainty)


def fitted_one(
    rows: Block, solution: Solution, widths: tuple[int, ...], scales: tuple[Any, ...], uncertainty: RidgeUncertainty
) -> Fitted:
    """Return the solution with relevances by the gradient of the fit at the first rows; where columns of the table have
    several inputs each, relevances are by exchange."""
    owners = rows.inputs.owners
    relevance = relevance_of if len(np.unique(owners)) == len(owners) else relevance_by_exchange
    plain = tuple(float(s) if np.ndim(s) == 0 else np.asarray(s) for s in scales)
    return Fitted(solution, uncertainty, widths, plain, relevance(solution.machines, rows))
