"""The layers of a machine. Features of layer 1 and their prior variances are learned by the evidence, or drawn at a
given or a chosen scale; hidden layers have feature maps and initial weights, and are trained from the one-layer fit.

Hidden layers are the whole model where `widths` asks for them; else they are averaged with the kernels, by held-out
rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._types import Array
from ..data import Block
from ..kernels import Gaussian
from ..model.draws import draw_features
from ..model.features import FeatureMap
from ..model.machine import Layers, Machine, averaged, flatten, layer_shapes, predict, with_last
from ..model.prior import Part, Prior
from ..runtime.resources import Purpose, generator
from ..search.evidence import convex_weights
from ..search.kernel_features import learn_first_layer, relevant_scales, scale_by_leave_one_out
from ..search.plan import Plan
from ..solve import Problem, Solution, VariableProjection
from ..solve.closed_form import with_enough_digits
from ..solve.projection import held_out
from ..solve.ridge import RidgeFit, ridge, ridge_on
from .default import KernelFit


def first_layer(rows: Block, plan: Plan) -> Prior:
    """Return layer 1 as the plan asks for it. Features of interaction orders between 1 and d are drawn, with the
    learned scales of the inputs."""
    d = rows.X.shape[1]
    if not plan.learned or len(rows) < plan.policy.least_rows or not rows.X.any():
        return _drawn(rows, plan, np.ones(d))
    if set(plan.orders) <= {1, d}:
        return learn_first_layer(rows, plan)
    return _drawn(rows, plan, relevant_scales(rows, plan))


def drawn_features(rows: Block, plan: Plan, D: int, relative: Array) -> tuple[FeatureMap, Array]:
    """Draw D features at the given scale, or else at the relative scales of the inputs times the factor with the least
    leave-one-out error; return them with the scale."""
    scale = plan.scales[0]
    if scale is None:
        scale = scale_by_leave_one_out(rows, plan, relative)
    phi = draw_features(generator(plan.seed, Purpose.FEATURES), rows.X.shape[1], D, plan.kernel, scale, plan.orders)
    return _held(phi, plan), scale


def _held(phi: FeatureMap, plan: Plan) -> FeatureMap:
    """Shift the phases by the mean of the inputs, where the scale is given, so that features are functions of the
    uncentred inputs: rows that are added or removed do not change them."""
    if plan.origin is None or plan.scales[0] is None:
        return phi
    return replace(phi, phases=np.mod(phi.phases + plan.origin @ phi.frequencies, 2 * np.pi))


def _drawn(rows: Block, plan: Plan, relative: Array) -> Prior:
    """Return drawn features, beside a linear term where the plan has one, as a prior."""
    n, d = rows.X.shape
    phi, _ = drawn_features(rows, plan, plan.n_features or plan.policy.width(plan.n_rows or n), relative)
    given = plan.scales[0] if plan.origin is not None else None
    slopes = np.ones(d) if given is None else np.broadcast_to(given, (d,)).astype(np.float64)
    return Prior((Part(phi, 1.0),), slopes if plan.linear else None, 1e-2)


def scale_of(first: Prior) -> Array:
    """Return the scale of every input in layer 1: that of its kernels, or the root mean square frequency of the
    features that depend on it."""
    for part in first.parts:
        if (scales := part.scales()) is not None:
            return scales
    frequencies = next(phi.frequencies for part in first.parts for _, phi in part.maps if isinstance(phi, FeatureMap))
    seen = np.maximum((frequencies != 0).sum(axis=1), 1)
    return np.asarray(np.sqrt((frequencies**2).sum(axis=1) / seen))


def deeper_maps(plan: Plan) -> list[FeatureMap]:
    """Return phi_2..phi_L, each on the D_l outputs of the layer below."""
    layers = zip((plan.widths or ())[1:], plan.kernels[1:], plan.scales[1:], strict=True)
    return [
        draw_features(generator(plan.seed, Purpose.LAYERS, layer), D, D, kernel, 1.0 if scale is None else scale)
        for layer, (D, kernel, scale) in enumerate(layers, 1)
    ]


def uniform_starts(
    maps: Sequence[Any], n_outputs: int, n_runs: int, plan: Plan, initial: tuple[float, float]
) -> tuple[Machine, ...]:
    """Return one machine per rotation with uniform initial weights, as the paper initialises, and biases of zero."""
    shapes = layer_shapes(maps, n_outputs, plan.residual, linear=plan.linear)

    def drawn(rng: np.random.Generator) -> Layers:
        """Return uniform weights without biases."""
        layers = tuple(tuple(rng.uniform(*initial, shape) for shape in layer) for layer in shapes)
        for W in flatten(layers):
            W[-1] = 0
        return layers

    return _starts(maps, n_runs, plan, drawn)


def starts_near(one_layer: Machine, maps: Sequence[Any], X: Array, n_runs: int, plan: Plan) -> tuple[Machine, ...]:
    """Return one machine per rotation whose hidden outputs have unit variance, the first output being the one-layer
    fit; second matrices of residual blocks are zero. The last layer also sees phi_1."""
    fitted, F = one_layer.layers[0][0], maps[0].features(X[:2000])
    shapes = layer_shapes(maps, fitted.shape[1], plan.residual, skip=True, linear=plan.linear, n_inputs=X.shape[1])

    def drawn(rng: np.random.Generator) -> Layers:
        """Return random weights with which the first hidden output is the one-layer fit."""
        layers = tuple(
            (rng.standard_normal(first) / np.sqrt(first[0]), *map(np.zeros, others)) for first, *others in shapes
        )
        if len(layers) > 1:
            W = layers[0][0]
            W[:-1, 0] = fitted[: len(W) - 1, 0]
            W /= np.maximum((F @ W[:-1]).std(axis=0), 1e-8)
            W[-1] = -(F @ W[:-1]).mean(axis=0)
        return layers

    return _starts(maps, n_runs, plan, drawn, skip=True)


def _starts(
    maps: Sequence[Any], n_runs: int, plan: Plan, drawn: Callable[[np.random.Generator], Layers], skip: bool = False
) -> tuple[Machine, ...]:
    """Return one machine per rotation, each with weights from its own random stream."""
    streams = (generator(plan.seed, Purpose.WEIGHTS, run) for run in range(n_runs))
    return tuple(Machine(tuple(maps), drawn(rng), plan.residual, skip, plan.linear) for rng in streams)


@dataclass(frozen=True)
class Hidden:
    """Trained hidden layers, phi_1, the fit of one layer, and whether held-out rows favour the hidden layers."""

    solution: Solution
    prior: Prior
    one_layer: RidgeFit
    pays: bool


def deep(problem: Problem, plan: Plan) -> tuple[Solution, Prior]:
    """Train hidden layers from the one-layer solution; without parts, use them only if they predict held-out rows
    better."""
    hidden = hidden_layers(problem, plan)
    solution, prior, fit = hidden.solution, hidden.prior, hidden.one_layer
    if not hidden.pays:
        machine = with_one_layer(solution.machines[0], prior.machine(fit.coefficients, fit.intercept))
        solution = replace(solution, machines=(machine,), penalty=fit.penalty, loo_error=fit.loo_error)
    return solution, prior


def hidden_layers(problem: Problem, plan: Plan) -> Hidden:
    """Train hidden layers from the one-layer solution, and decide by held-out rows whether to use them."""
    rows, prior = problem.rows, first_layer(problem.rows, plan)
    fit = ridge_on(with_enough_digits(prior, len(rows)), rows, problem.penalty)
    alone = prior.machine(fit.coefficients, fit.intercept)
    n_runs = 1 if problem.parts is None else len(problem.parts)
    starts = starts_near(alone, (prior.parts[0].maps[0][1], *deeper_maps(plan)), rows.X, n_runs, plan)
    solution = plan.solver.solve(replace(problem, starts=starts, guess=fit.penalty))
    pays = problem.parts is not None or _pays(solution, prior, fit.penalty, rows, plan)
    return Hidden(solution, prior, fit, pays)


def with_hidden(fit: KernelFit, rows: Block, plan: Plan) -> tuple[tuple[Machine, ...], float]:
    """Return machines whose plain average combines kernels and hidden layers, and the share of the latter.

    The share is chosen by the last of the rows that were solved on: the kernels' residuals
    there are leave-one-out residuals, and hidden layers are trained on the first rows.
    """
    rows = rows.take(slice(0, fit.solved))
    m = min(len(fit.loo_residuals), len(rows) // 3)
    last = rows.take(slice(len(rows) - m, None))
    hidden = _trained(rows.take(slice(0, min(plan.policy.hidden_rows, len(rows) - m))), plan)
    mean = np.tile(last.weights @ last.Y / m, (m, 1))
    predictions = np.stack([last.Y - fit.loo_residuals[len(fit.loo_residuals) - m :], predict(hidden, last.X), mean])
    rng = generator(plan.seed, Purpose.STACK)
    kernels, deep_ones, _ = convex_weights(predictions, last.Y, last.weights, rng, plan.policy.bootstraps)
    share = float(deep_ones / (kernels + deep_ones)) if kernels + deep_ones > 0 else 0.0
    if share == 0:
        return fit.machines, 0.0
    k = len(fit.machines)
    return averaged((*fit.machines, hidden), (*[(1 - share) / k] * k, share)), share


def _trained(rows: Block, plan: Plan) -> Machine:
    """Fit hidden layers to a few rows."""
    widths = plan.policy.hidden_widths
    scales = (None, np.array(1 / np.sqrt(widths[1])))
    solver = VariableProjection(plan.policy.hidden_steps, max_rows=len(rows))
    theirs = replace(
        plan, widths=widths, kernels=(Gaussian(), Gaussian()), scales=scales, rough=False, solver=solver,
        policy=replace(plan.policy, worth_depth=np.inf),
    )  # fmt: skip
    return deep(Problem(rows, (), None, None, seed=plan.seed), theirs)[0].machines[0]


def _pays(solution: Solution, prior: Prior, penalty: float, rows: Block, plan: Plan) -> bool:
    """Return whether hidden layers have a smaller error than one layer on held-out rows, by more than selection on
    these rows explains."""
    first = rows.take(slice(0, min(len(rows), getattr(plan.solver, "max_rows", len(rows)))))
    if len(first) < 2 or not np.isfinite(plan.policy.worth_depth):
        return True
    test = held_out(len(first))
    training = np.setdiff1d(np.arange(len(first)), test)
    F = prior.rows_of_features(first.X)
    fit = ridge(F[training], first.Y[training], first.weights[training], penalty)
    errors: Array = ((F[test] @ fit.coefficients + fit.intercept - first.Y[test]) ** 2).sum(axis=1)
    of_one_layer = float(first.weights[test] @ errors / first.weights[test].sum())
    return bool(solution.best < (plan.policy.worth_depth - 1 / np.sqrt(len(test))) * of_one_layer)


def with_one_layer(machine: Machine, alone: Machine) -> Machine:
    """Return the deep machine whose last layer is the one-layer fit, on phi_1 and x, and gives hidden layers no
    weight."""
    W = alone.layers[0][0]
    above = np.zeros((len(machine.layers[-1][0]) - len(W), W.shape[1]))
    return with_last(machine, np.vstack([above, W]))
