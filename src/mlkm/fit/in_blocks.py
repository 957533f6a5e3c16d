"""Fits to rows that are read a block at a time. Layer 1 and hidden layers by variable projection need rows together,
and are fitted to a sample; descent and everything in closed form use all rows."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .._types import Array
from ..data import Standardiser
from ..data.rows import Block
from ..data.training import Training
from ..model.machine import LastInputs
from ..model.prior import Prior
from ..runtime.progress import stage
from ..runtime.rules import RULES
from ..search.plan import Plan
from ..solve import GradientDescent, Problem, Solution
from ..solve.closed_form import mean_errors, solution_of, with_enough_digits
from ..solve.descent import part_number
from ..solve.ridge import system_of_sums
from ..solve.smoother import primal_without_rounding
from ..solve.sums import Sums, sums_by_part
from ..solve.uncertainty import RidgeUncertainty
from .deep import first_layer, hidden_layers, scale_of, with_one_layer
from .train import Fitted, descent_starts, fitted_one, parts_of, penalty_by_folds


def features_summed(plan: Plan, d: int, n_rows: int) -> int:
    """Return how many features have their products summed up: those of one layer, or what the last layer sees."""
    widths = plan.widths or ()
    if plan.descent is not None:
        return widths[-1]
    if plan.depth > 1:
        return widths[0] + widths[-1] + d
    return plan.n_features or plan.policy.summed_features(n_rows, d)


def train_in_blocks(training: Training, plan: Plan, units: Standardiser) -> Fitted:
    """Fit to all rows; `units` are those of the outputs. Where rows are split, blocks hold the part of every row."""
    if plan.penalties:
        plan = plan.with_penalty(penalty_by_folds(training.sample, plan, units))
    if plan.descent is not None:
        return _by_descent(training, plan, plan.descent, units)
    return _one_layer(training, plan) if plan.depth == 1 else _deep(training, plan)


def _one_layer(training: Training, plan: Plan) -> Fitted:
    """Fit one layer to all rows, or one to every part."""
    prior = with_enough_digits(first_layer(training.sample, plan), training.rows.n)
    several = plan.n_parts is not None and plan.n_parts > 1
    parts: list[int | None] = list(range(plan.n_parts or 0)) if several else [None]
    layers = [prior] * len(parts)
    solution, sums = _last_layers(training, plan, layers, parts)
    widths, scales = (prior.width,), (scale_of(prior),)
    return _fitted(training, solution, widths, scales, layers, sums, None if several else prior)


def _deep(training: Training, plan: Plan) -> Fitted:
    """Train hidden layers on the sample, then last layers on all rows, or with parts on all rows of the last part of
    every rotation. Where one layer does as well, it is fitted to all rows instead."""
    sample, n_parts = training.sample, plan.n_parts or 0
    parts = parts_of(sample, plan) if n_parts else None
    hidden = hidden_layers(Problem(sample, (), parts, plan.penalty, seed=plan.seed, n_jobs=plan.n_jobs), plan)
    machines, alone = hidden.solution.machines, with_enough_digits(hidden.prior, training.rows.n)
    layers = [LastInputs(machine) for machine in machines] if hidden.pays else [alone]
    last = [part_number(j, plan.depth - 1, n_parts) if n_parts else None for j in range(len(layers))]
    fitted, sums = _last_layers(training, plan, layers, last)
    machines = fitted.machines if hidden.pays else (with_one_layer(machines[0], fitted.machines[0]),)
    solution = replace(hidden.solution, machines=machines, penalty=fitted.penalty, loo_error=fitted.loo_error)
    return _fitted(training, solution, plan.widths or (), (scale_of(hidden.prior), *plan.scales[1:]), layers, sums)


def _by_descent(training: Training, plan: Plan, solver: GradientDescent, units: Standardiser) -> Fitted:
    """Fit to all rows by the paper's method; leave-one-out errors are averaged over all of them."""
    rows, n_parts = training.rows, plan.n_parts or 0
    starts, scales = descent_starts(training.sample, plan, solver, max(n_parts, 1))
    problem = Problem(training.sample, starts, None, plan.penalty, units=units, seed=plan.seed)
    solution = solver.descend(problem, rows, n_parts)
    layers = [LastInputs(machine) for machine in solution.machines]
    sums = [every for _, every in sums_by_part(layers, [None] * len(layers), rows, _last_rows(training, plan).X)]
    ridges = [
        primal_without_rounding(layer, of_part, solution.penalty) for layer, of_part in zip(layers, sums, strict=True)
    ]
    error, loo_error = mean_errors(solution.machines, ridges, rows)
    solution = replace(solution, loo_error=loo_error)
    return _fitted(training, solution, plan.widths or (), scales, layers, sums, error=error)


def _last_layers(
    training: Training, plan: Plan, layers: Sequence[Prior | LastInputs], parts: Sequence[int | None]
) -> tuple[Solution, list[Sums]]:
    """Fit last layers by sums over all rows, or over those of a part, with the penalty by leave-one-out at the last
    rows of the sample; return the sums over all rows, too."""
    by_part = sums_by_part(layers, parts, training.rows, _last_rows(training, plan).X)
    with stage("solve"):
        fits = [
            system_of_sums(of_part, layer, _last_rows(training, plan, part)).fit(plan.penalty)
            for layer, (of_part, _), part in zip(layers, by_part, parts, strict=True)
        ]
    return solution_of(layers, fits), [every for _, every in by_part]


def _fitted(
    training: Training, solution: Solution, widths: tuple[int, ...], scales: tuple[Any, ...],
    layers: Sequence[Prior | LastInputs], sums: Sequence[Sums], prior: Prior | None = None, error: Array | None = None,
) -> Fitted:  # fmt: skip
    """Return the fit with what the last layer of every machine sees, its sums over all rows, and the mean squared error
    of their average on all rows, where the sums do not give it."""
    if error is None and len(layers) > 1:
        error = mean_errors(solution.machines, [], training.rows)[0]
    uncertainty = RidgeUncertainty(
        solution.machines, solution.penalty, solution.loo_error, training.kept, prior,
        features=tuple(layers), sums=tuple(sums), error=error,
        sample=training.sample.take(slice(0, RULES.effect_rows)),
    )  # fmt: skip
    return fitted_one(training.sample, solution, widths, scales, uncertainty)


def _last_rows(training: Training, plan: Plan, part: int | None = None) -> Block:
    """Return the last rows of the sample, or of a part of it."""
    chosen = training.of_all
    chosen = chosen if part is None or chosen.fold is None else chosen.rows(chosen.fold == part)
    return chosen.rows(slice(max(0, len(chosen) - plan.policy.left_out_rows), None))
