"""Fits on rows that are seen a block at a time. What looks at rows together, layer 1 and hidden layers by variable
projection, sees a sample; descent and everything in closed form see all rows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .._types import Array
from ..data import Standardiser
from ..data.preparation import Training
from ..data.rows import Block, Rows
from ..model.machine import Features, LastInputs
from ..model.prior import Prior
from ..runtime.progress import stage
from ..search.plan import Plan
from ..solve import GradientDescent, Problem
from ..solve.closed_form import mean_errors, solution_of, with_enough_digits
from ..solve.descent import part_number
from ..solve.ridge import system_of_sums
from ..solve.smoother import primal_without_rounding
from ..solve.sums import Sums, add_in_place, sums_by_part, sums_of
from .deep import hidden_layers, with_one_layer
from .first_layer import first_layer, scale_of
from .train import Fitted, descent_starts, fitted_one, parts_of, penalty_by_folds


@dataclass(frozen=True)
class FittedInBlocks:
    """The fit; what the last layer of every machine sees, and its sums over all rows; and the mean squared error of
    their average on all rows, where the sums do not tell it."""

    fitted: Fitted
    layers: tuple[Features, ...]
    sums: tuple[Sums, ...]
    error: Array | None = None


def features_summed(plan: Plan, d: int, n_rows: int) -> int:
    """Return how many features have their products summed up: those of one layer, or what the last layer sees."""
    widths = plan.widths or ()
    if plan.descent is not None:
        return widths[-1]
    if plan.depth > 1:
        return widths[0] + widths[-1] + d
    return plan.n_features or plan.policy.summed_features(n_rows, d)


def train_in_blocks(training: Training, plan: Plan, units: Standardiser) -> FittedInBlocks:
    """Fit to all rows; `units` are those of the outputs. With parts, blocks say which part a row belongs to."""
    sample, of_all, rows, n_parts = training.sample, training.of_all, training.rows, plan.n_parts or 0
    if plan.penalties:
        plan = plan.with_penalty(penalty_by_folds(sample, plan, units))
    if plan.descent is not None:
        return _by_descent(sample, of_all, rows, plan, plan.descent, units, n_parts)
    if plan.depth > 1:
        return _deep(sample, of_all, rows, plan, n_parts)
    prior = with_enough_digits(first_layer(sample, plan), rows.n)
    if n_parts < 2:
        return _one_layer(prior, sample, of_all, rows, plan)
    return _one_layer_by_parts(prior, sample, of_all, rows, plan, n_parts)


def _one_layer(prior: Prior, sample: Block, of_all: Block, rows: Rows, plan: Plan) -> FittedInBlocks:
    """Fit one layer by sums over all rows, with the penalty by leave-one-out at the last rows of the sample."""
    left_out = _last_rows(of_all, plan)
    sums = rows.map_reduce(sums_of(prior, left_out.X), add_in_place)
    with stage("solve"):
        fit = system_of_sums(sums, prior, left_out).fit(plan.penalty)
    solution = solution_of([prior], [fit])
    return FittedInBlocks(fitted_one(sample, solution, (prior.width,), (scale_of(prior),), prior), (prior,), (sums,))


def _one_layer_by_parts(
    prior: Prior, sample: Block, of_all: Block, rows: Rows, plan: Plan, n_parts: int
) -> FittedInBlocks:
    """Fit one layer to every part."""
    layers, parts = [prior] * n_parts, list(range(n_parts))
    found = sums_by_part(layers, parts, rows, of_all.X[-plan.policy.left_out_rows :])
    fits = [
        system_of_sums(own, prior, _last_rows(of_all, plan, part)).fit(plan.penalty)
        for (own, _), part in zip(found, parts, strict=True)
    ]
    solution = solution_of([prior] * n_parts, fits)
    fitted = fitted_one(sample, solution, (prior.width,), (scale_of(prior),))
    return _averaged(fitted, layers, [every for _, every in found], rows)


def _deep(sample: Block, of_all: Block, rows: Rows, plan: Plan, n_parts: int) -> FittedInBlocks:
    """Train hidden layers on the sample, then last layers on all rows, or with parts on all rows of the last part of
    every rotation. Where one layer does as well, it is fitted to all rows instead."""
    parts = parts_of(sample, plan) if n_parts else None
    found = hidden_layers(Problem(sample, (), parts, plan.penalty, seed=plan.seed, n_jobs=plan.n_jobs), plan)
    solution, widths, scales = found.solution, plan.widths or (), (scale_of(found.prior), *plan.scales[1:])
    if not found.pays:
        prior = with_enough_digits(found.prior, rows.n)
        alone = _one_layer(prior, sample, of_all, rows, plan)
        own = alone.fitted.solution
        machine = with_one_layer(solution.machines[0], own.machines[0])
        solution = replace(solution, machines=(machine,), penalty=own.penalty, loo_error=own.loo_error)
        return replace(alone, fitted=fitted_one(sample, solution, widths, scales))
    layers = [LastInputs(machine) for machine in solution.machines]
    last = [part_number(j, plan.depth - 1, n_parts) if n_parts else None for j in range(len(layers))]
    sums = sums_by_part(layers, last, rows, of_all.X[-plan.policy.left_out_rows :])
    fits = [
        system_of_sums(own, layer, _last_rows(of_all, plan, part)).fit(plan.penalty)
        for layer, (own, _), part in zip(layers, sums, last, strict=True)
    ]
    last_layers = solution_of(layers, fits)
    solution = replace(
        last_layers, trace=solution.trace, n_iter=solution.n_iter, hidden_penalty=solution.hidden_penalty
    )
    fitted = fitted_one(sample, solution, widths, scales)
    return _averaged(fitted, layers, [every for _, every in sums], rows)


def _by_descent(
    sample: Block, of_all: Block, rows: Rows, plan: Plan, solver: GradientDescent, units: Standardiser, n_parts: int
) -> FittedInBlocks:
    """Fit to all rows by the paper's method; leave-one-out errors are averaged over all of them."""
    starts, scales = descent_starts(sample, plan, solver, max(n_parts, 1))
    solution = solver.descend(starts, rows, n_parts, plan.penalty, units, plan.seed)
    layers = [LastInputs(machine) for machine in solution.machines]
    sums = [
        every for _, every in sums_by_part(layers, [None] * len(layers), rows, of_all.X[-plan.policy.left_out_rows :])
    ]
    ridges = [primal_without_rounding(layer, own, solution.penalty) for layer, own in zip(layers, sums, strict=True)]
    error, loo_error = mean_errors(solution.machines, ridges, rows)
    fitted = fitted_one(sample, replace(solution, loo_error=loo_error), plan.widths or (), scales)
    return FittedInBlocks(fitted, tuple(layers), tuple(sums), error)


def _averaged(fitted: Fitted, layers: Sequence[Features], sums: Sequence[Sums], rows: Rows) -> FittedInBlocks:
    """Return the fit with the error of the average on all rows, where there are several machines."""
    error = None if len(layers) == 1 else mean_errors(fitted.solution.machines, [], rows)[0]
    return FittedInBlocks(fitted, tuple(layers), tuple(sums), error)


def _last_rows(of_all: Block, plan: Plan, part: int | None = None) -> Block:
    """Return the last rows of the sample, or of a part of it."""
    own = of_all if part is None or of_all.fold is None else of_all.rows(of_all.fold == part)
    return own.rows(slice(max(0, len(own) - plan.policy.left_out_rows), None))
