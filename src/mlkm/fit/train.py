"""From what the user asked for to fitted machines: resolve the choices, make the first layer, call the solver."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal

import numpy as np

from .._seeds import generator
from .._types import Array, IntArray
from ..auto.caution import doubtful, plain_layer, search_pays
from ..auto.first_layer import learn_first_layer
from ..auto.scale import scale_by_leave_one_out
from ..auto.search import Wanted
from ..auto.width import fit_last_layer, wide
from ..kernels import Gaussian, Kernel, KernelLike, as_kernel
from ..model.features import FeatureMap, Interactions, as_orders, draw_features, features
from ..model.machine import Layers, Machine, forward, input_gradient, layer_shapes
from ..model.prior import FirstLayer, Part
from ..random_features import check_scale
from ..rows import Rows
from ..solvers import adds
from ..solvers.blocked import blocked_ridge
from ..solvers.gradient import Data, GradientDescent
from ..solvers.projection import project
from ..solvers.ridge import ridge

# Gradient descent sees targets of this standard deviation. It sets how fast hidden layers move relative to the last
# one; the paper's runs had raw targets, with standard deviations of 1.4 to 5. Chosen on Example 1: with 4, 8, 12 and 16
# the runs of benchmarks/faithful.py (MLKM, seeds 0 to 2) end at a test MSE of 1.28, 1.18, 1.20 and 1.16 jointly and of
# 1.48, 1.32, 1.26 and 1.25 with rotations.
TARGET_SD = 12.0

_PROJECTION_ROWS = 5000  # rows that train hidden layers by variable projection
_MORE_ROWS, _MORE_ITERATIONS = (
    50_000,
    15,
)  # rows, in blocks, and iterations with which it goes on where there are more; the last layer sees all
_HIDDEN_PENALTY = 1e-6
# share of the one-layer error, on many rows held out, below which hidden layers are used: they were chosen by these
# rows
_WORTH_DEPTH = 0.9
_PROJECTION_ITERATIONS = 150
_SWEEPS = 20  # of exact updates; one does the work of many epochs


@dataclass(frozen=True)
class Choices:
    """The constructor's model choices; every one may be "auto"."""

    widths: Sequence[int] | Literal["auto"]
    kernels: KernelLike | Sequence[KernelLike]
    scales: Any
    interactions: Interactions | Literal["auto"]
    relevance: bool | Literal["auto"]
    linear: bool | Literal["auto"]
    penalty: float | Literal["auto"]
    solver: str
    residual: bool
    landmarks: bool


@dataclass(frozen=True)
class Descent:
    """How gradient descent and ADDS run."""

    learning_rate: float = 1e-3
    momentum: float = 0.9
    batch_size: int | None = None
    max_iter: int = 2000
    tol: float = 1e-4
    patience: int = 100
    n_jobs: int | None = None
    target_sd: float = TARGET_SD


@dataclass(frozen=True)
class Fitted:
    """Machines on standardised inputs and targets, and how they came about."""

    machines: tuple[Machine, ...]
    widths: tuple[int, ...]
    scales: tuple[Any, ...]
    penalty: float
    losses: list[float]
    n_iter: int
    loo_error: Array
    relevance: Array
    first: FirstLayer | None = None  # of one layer in closed form: its ridge is on features of unit prior variance
    hidden_penalty: float = 0.0


@dataclass(frozen=True)
class _Plan:
    """The choices with nothing left open but the scale of layer 1, which is None if it is to be learned."""

    widths: tuple[int, ...] | None
    kernels: tuple[Kernel, ...]
    scales: tuple[Array | None, ...]
    interactions: tuple[int, ...]
    slopes: tuple[
        float, ...
    ]  # what the prior standard deviation of a linear term may be where it is not learned; empty without that term
    penalty: float | None
    learned: bool
    landmarks: bool

    @property
    def linear(self) -> bool:
        return bool(self.slopes)


def is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def first_scale(scales: Any) -> Any:
    """What `scales` says of layer 1."""
    return scales[0] if isinstance(scales, (list, tuple)) and len(scales) else scales


def train_machine(
    rows: Rows, choices: Choices, seed: int, unit: Array, descent: Descent, rotate: bool = False
) -> Fitted:
    """Fit MLKM or RKM to standardised rows. `unit` holds the inputs' standard deviations: given scales of layer 1 are
    in the units of X."""
    plan = _resolve(rows, choices, unit)
    depth = 1 if plan.widths is None else len(plan.widths)
    if choices.solver == "ridge" and depth > 1:
        raise ValueError(
            f"solver='ridge' is the closed form of one layer; got {depth} layers, which need 'auto', 'projection' or"
            " 'gradient'."
        )
    parts = _parts(rows, depth, seed) if rotate else None
    if choices.solver == "gradient":
        return _fit_by_descent(rows, plan, choices.residual, seed, descent, parts)
    first = _first_layer(rows, plan, seed)
    if depth == 1:
        return _fit_one_layer(rows, plan, first, parts)
    return _fit_by_projection(rows, plan, first, choices.residual, seed, descent, parts)


def _resolve(rows: Rows, choices: Choices, unit: Array) -> _Plan:
    d = rows.X.shape[1]
    widths = _widths(choices.widths)
    if widths is None and choices.solver == "gradient":
        widths = (256, 16)
    L = 1 if widths is None else len(widths)
    kernels = tuple(
        Gaussian() if is_auto(name) else as_kernel(name) for name in _per_layer("kernels", choices.kernels, L)
    )
    interactions: Interactions = (1, 2, "full") if choices.interactions == "auto" else choices.interactions
    scales: list[Array | None] = []
    for layer, scale in enumerate(_per_layer("scales", choices.scales, L)):
        if is_auto(scale):
            scales.append(np.array(1 / np.sqrt(widths[layer])) if layer and widths else None)
        else:
            scales.append(check_scale(scale, widths[layer] if layer and widths else d) * (1.0 if layer else unit))
    penalty = None if is_auto(choices.penalty) else _non_negative("penalty", choices.penalty)
    learned = scales[0] is None and choices.relevance is not False and choices.solver != "gradient"
    rough = (
        choices.landmarks
        and learned
        and widths is None
        and all(is_auto(c) for c in (choices.kernels, choices.interactions))
    )
    orders = as_orders("full" if is_auto(choices.interactions) and not learned else interactions, d)
    slopes = (0.0, 1.0) if is_auto(choices.linear) else (1.0,) if choices.linear else ()
    return _Plan(widths, kernels, tuple(scales), orders, slopes, penalty, learned, rough)


def _widths(widths: Sequence[int] | Literal["auto"]) -> tuple[int, ...] | None:
    if is_auto(widths):
        return None
    try:
        given = tuple(int(D) for D in widths)
        valid = len(given) > 0 and all(D >= 1 and D == E for D, E in zip(given, widths, strict=True))
    except (TypeError, ValueError):
        valid = False
    if not valid:
        raise ValueError(
            f"widths must be 'auto' or positive whole numbers, one per layer, as in (256, 16); got {widths!r}."
        )
    return given


def _per_layer(name: str, value: Any, L: int) -> list[Any]:
    """One value per layer: a sequence of L values, or one value for all."""
    if isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim == 1 and L > 1):
        if len(value) != L:
            raise ValueError(
                f"{name} must have one entry per layer ({L} here) or be a single value; got {len(value)} entries:"
                f" {value!r}."
            )
        return list(value)
    return [value] * L


def _non_negative(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < np.inf:
        raise ValueError(f"{name} must be 'auto' or a number of at least 0; got {value!r}.")
    return float(value)


def _first_layer(rows: Rows, plan: _Plan, seed: int) -> FirstLayer:
    """phi_1 and the prior variances of its features: learned by the evidence, or drawn at a given or a chosen scale."""
    n, d = rows.X.shape
    D = None if plan.widths is None else plan.widths[0]
    learnable = tuple(q for q in plan.interactions if q in (1, 2, d))
    if not plan.learned or learnable != plan.interactions or (D is not None and len(learnable) > D):
        return _drawn_layer(rows, plan, seed)

    def learned(some: Rows) -> FirstLayer:
        return learn_first_layer(some, Wanted(plan.interactions, plan.kernels[0], D, plan.linear, plan.landmarks), seed)

    def plain(some: Rows) -> FirstLayer:
        return plain_layer(some, plan.kernels[0], plan.interactions[-1], plan.slopes, D, seed)

    return plain(rows) if doubtful(n, d) and not search_pays(rows, learned, plain) else learned(rows)


def _drawn_layer(rows: Rows, plan: _Plan, seed: int) -> FirstLayer:
    """Features at one scale for all inputs: the given one, or the best by leave-one-out."""
    n, d = rows.X.shape
    scale = plan.scales[0]
    if scale is None:
        scale = scale_by_leave_one_out(rows, plan.kernels[0], plan.interactions, plan.linear, seed)
    D = int(np.clip(2 * np.sqrt(n) * np.log(n + 1), 100, 1500)) if plan.widths is None else plan.widths[0]
    phi = draw_features(generator(seed), d, D, plan.kernels[0], scale, plan.interactions)
    return FirstLayer((Part(None, phi, 1.0),), np.ones(d) if plan.linear else None, 1e-2)


def _fit_one_layer(rows: Rows, plan: _Plan, first: FirstLayer, parts: list[IntArray] | None) -> Fitted:
    """The closed form, on all rows or once on every part."""
    every: Sequence[IntArray | None] = parts if parts and len(parts) > 1 else [None]
    if plan.penalty is not None or len(every) > 1:
        first = wide(first)
    fits = [fit_last_layer(first, rows, plan.penalty, part) for part in every]
    used, machines = fits[0][0], tuple(machine for _, machine, _ in fits)
    penalty, loo = (
        float(np.mean([fit.penalty for *_, fit in fits])),
        np.mean([fit.loo_error for *_, fit in fits], axis=0),
    )
    fitted = _fitted(rows, machines, (machines[0].maps[0].n_features,), (_scale_of(used),), penalty, [], 1, loo)
    return replace(fitted, first=replace(used, wider=None))


def _fit_by_projection(
    rows: Rows,
    plan: _Plan,
    first: FirstLayer,
    residual: bool,
    seed: int,
    descent: Descent,
    parts: list[IntArray] | None,
) -> Fitted:
    """Hidden layers by variable projection from the one-layer solution, or by exact sweeps of ADDS on the given
    parts."""
    first, one_layer, fit = fit_last_layer(first, rows, plan.penalty)
    phi, d = first.parts[0].phi, rows.X.shape[1]
    if not isinstance(phi, FeatureMap) or first.parts[0].warp is not None:
        phi = one_layer.maps[0]
    widths = plan.widths or ()
    maps = (phi, *_deeper_maps(plan, widths, seed))
    shapes = layer_shapes(maps, rows.Y.shape[1], residual, skip=True, linear=plan.linear, n_inputs=d)
    n_runs = 1 if parts is None else len(parts)
    starts = [
        Machine(
            maps,
            _near(one_layer, shapes, generator(seed, 1000, j), features(phi, rows.X[:2000])),
            residual,
            True,
            plan.linear,
        )
        for j in range(n_runs)
    ]
    m = min(len(rows.X), _PROJECTION_ROWS)
    data: Data = (rows.X[:m], features(phi, rows.X[:m]), rows.Y[:m], rows.weights[:m] / rows.weights[:m].mean())
    penalty = max(fit.penalty * len(rows.X) / m, 1e-9)
    if parts is None:
        steps = min(descent.max_iter, _PROJECTION_ITERATIONS)
        trained, losses, n_iter = (
            project(starts[0], data, np.arange(m)[::5], penalty, _HIDDEN_PENALTY, steps)
            if m > 1
            else (starts[0], list[float](), 0)
        )  # a single row leaves nothing to hold out
        if len(rows.X) > m:
            more = min(len(rows.X), _MORE_ROWS)
            weights = rows.weights[:more] / rows.weights[:more].mean()
            every: Data = (rows.X[:more], np.zeros((0, 0)), rows.Y[:more], weights)
            trained, later, n_more = project(
                trained,
                every,
                np.arange(more)[::10],
                penalty * m / more,
                _HIDDEN_PENALTY,
                min(descent.max_iter, _MORE_ITERATIONS),
            )
            losses, n_iter = [*losses, *later], n_iter + n_more
        held_out = np.arange(m)[::5]
        if m > 1 and (_WORTH_DEPTH - 1 / np.sqrt(len(held_out))) * _one_layer_error(
            first, fit.penalty, data, held_out
        ) <= min(losses):
            trained = _with_one_layer(trained, one_layer)
            fitted = _fitted(
                rows,
                (trained,),
                widths,
                (_scale_of(first), *plan.scales[1:]),
                fit.penalty,
                losses,
                max(n_iter, 1),
                fit.loo_error,
            )
            return replace(fitted, hidden_penalty=_HIDDEN_PENALTY)
        machines: tuple[Machine, ...] = (trained,)
    else:
        own = [part[part < m] for part in parts]
        result = adds.sweep_exactly(
            starts,
            adds.rotations(own, len(maps)),
            data,
            penalty,
            max_sweeps=min(descent.max_iter, _SWEEPS),
            patience=min(descent.patience, 2),
            tol=max(descent.tol, 1e-3),
            n_jobs=descent.n_jobs,
        )
        machines, losses, n_iter = result.machines, result.losses, max(result.n_iter, 1)
    finished = [
        _finish(machine, rows, plan.penalty, None if parts is None else parts[(j + len(maps) - 1) % n_runs])
        for j, machine in enumerate(machines)
    ]
    loo = np.mean([error for _, error, _ in finished], axis=0)
    scales = (_scale_of(first), *(s for s in plan.scales[1:]))
    used = float(np.mean([value for _, _, value in finished]))
    fitted = _fitted(
        rows, tuple(machine for machine, _, _ in finished), widths, scales, used, losses, max(n_iter, 1), loo
    )
    return replace(fitted, hidden_penalty=_HIDDEN_PENALTY)


def _one_layer_error(first: FirstLayer, penalty: float, data: Data, held_out: IntArray) -> float:
    """What one layer reaches on the rows held out from the training of deeper ones."""
    X, _, Y, weights = data
    kept = np.setdiff1d(np.arange(len(X)), held_out)
    F = first.rows_of_features(X)
    fit = ridge(F[kept], Y[kept], weights[kept], penalty)
    errors = ((F[held_out] @ fit.coefficients + fit.intercept - Y[held_out]) ** 2).sum(axis=1)
    return float(weights[held_out] @ errors / weights[held_out].sum())


def _with_one_layer(machine: Machine, one_layer: Machine) -> Machine:
    """The deep machine whose last layer is the one-layer fit, on phi_1 and x, and takes nothing from the hidden
    layers."""
    W = one_layer.layers[0][0]
    above = np.zeros((len(machine.layers[-1][0]) - len(W), W.shape[1]))
    return replace(machine, layers=(*machine.layers[:-1], (np.vstack([above, W]),)))


def _deeper_maps(plan: _Plan, widths: tuple[int, ...], seed: int) -> list[FeatureMap]:
    layers = zip(widths[1:], plan.kernels[1:], plan.scales[1:], strict=True)
    return [
        draw_features(generator(seed, layer), D, D, kernel, 1.0 if scale is None else scale)
        for layer, (D, kernel, scale) in enumerate(layers, 1)
    ]


def _near(one_layer: Machine, shapes: list[list[tuple[int, int]]], rng: np.random.Generator, F: Array) -> Layers:
    """Initial weights: hidden outputs of unit variance, the first being the one-layer fit; second matrices of residual
    blocks zero."""
    layers = []
    for number, layer in enumerate(shapes):
        matrices = [rng.standard_normal(layer[0]) / np.sqrt(layer[0][0])] + [np.zeros(shape) for shape in layer[1:]]
        if number == 0 and len(shapes) > 1:
            W = matrices[0]
            W[:-1, 0] = one_layer.layers[0][0][: len(W) - 1, 0]
            out = F @ W[:-1]
            W /= np.maximum(out.std(axis=0), 1e-8)
            W[-1] = -(F @ W[:-1]).mean(axis=0)
        layers.append(tuple(matrices))
    return tuple(layers)


def _finish(machine: Machine, rows: Rows, penalty: float | None, part: IntArray | None) -> tuple[Machine, Array, float]:
    """The last layer on all rows (or its own part), with the penalty by leave-one-out."""
    at = slice(None) if part is None else part
    X, Y, weights = rows.X[at], rows.Y[at], rows.weights[at] / rows.weights[at].mean()
    if len(X) <= _PROJECTION_ROWS:
        fit = ridge(forward(machine, X).hidden[-1], Y, weights, penalty)
    else:
        begin = 1e-6 if penalty is None else penalty
        fit = blocked_ridge(
            lambda block: forward(machine, X[block]).hidden[-1], Y, weights, begin, search=penalty is None
        )
    W = np.vstack([fit.coefficients, fit.intercept])
    return replace(machine, layers=(*machine.layers[:-1], (W,))), fit.loo_error, fit.penalty


def _fit_by_descent(
    rows: Rows, plan: _Plan, residual: bool, seed: int, descent: Descent, parts: list[IntArray] | None
) -> Fitted:
    """The paper's method as written: joint gradient descent, or ADDS on the given parts."""
    d = rows.X.shape[1]
    widths = plan.widths or ()
    scale = (
        plan.scales[0]
        if plan.scales[0] is not None
        else scale_by_leave_one_out(rows, plan.kernels[0], plan.interactions, plan.linear, seed)
    )
    maps = (
        draw_features(generator(seed), d, widths[0], plan.kernels[0], scale, plan.interactions),
        *_deeper_maps(plan, widths, seed),
    )
    sd = descent.target_sd
    penalty = 1e-4 if plan.penalty is None else plan.penalty
    solver = GradientDescent(descent.learning_rate, descent.momentum, descent.batch_size, penalty)
    runs = [adds.Rotation(0, None)] if parts is None else adds.rotations(parts, len(maps))
    shapes = layer_shapes(maps, rows.Y.shape[1], residual, linear=plan.linear)
    starts = [
        Machine(maps, _uniform(generator(seed, 1000, run.number), shapes), residual, linear=plan.linear) for run in runs
    ]
    data: Data = (rows.X, features(maps[0], rows.X), sd * rows.Y, rows.weights)
    trained = adds.train(
        starts,
        runs,
        data,
        solver,
        max_iter=descent.max_iter,
        patience=descent.patience,
        tol=descent.tol,
        seed=seed,
        n_jobs=descent.n_jobs,
    )
    machines = tuple(_rescaled(machine, 1 / sd) for machine in trained.machines)
    loo = np.mean([_last_layer_loo(machine, rows, penalty) for machine in machines], axis=0)
    losses = [loss / sd**2 for loss in trained.losses]
    fitted = _fitted(rows, machines, widths, (scale, *plan.scales[1:]), penalty, losses, trained.n_iter, loo)
    return replace(
        fitted, hidden_penalty=penalty / sd**2
    )  # hidden weights carry the scaled targets, the last layer was scaled back


def _parts(rows: Rows, L: int, seed: int) -> list[IntArray]:
    """The subsamples I_1..I_K: the folds the caller gave, or a random split into L parts."""
    if rows.fold is not None:
        return [np.flatnonzero(rows.fold == k) for k in np.unique(rows.fold)]
    if len(rows.X) < L:
        raise ValueError(
            f"cv='rotate' splits the rows into one part per layer: {L} layers need at least {L} distinct rows; got"
            f" n_samples={len(rows.X)}."
        )
    return adds.random_parts(generator(seed, 2000), len(rows.X), L)


def _uniform(rng: np.random.Generator, shapes: list[list[tuple[int, int]]]) -> Layers:
    """Initial weights, uniform on [-1/2, 1/2] as the paper initialises; biases zero."""
    layers = []
    for layer in shapes:
        matrices = [rng.uniform(-0.5, 0.5, shape) for shape in layer]
        for W in matrices:
            W[-1] = 0
        layers.append(tuple(matrices))
    return tuple(layers)


def _rescaled(machine: Machine, factor: float) -> Machine:
    """The machine whose output is multiplied by `factor`."""
    return replace(machine, layers=(*machine.layers[:-1], (machine.layers[-1][0] * factor,)))


def _last_layer_loo(machine: Machine, rows: Rows, penalty: float) -> Array:
    """Leave-one-out error of the last layer for each output, the layers below held fixed."""
    return ridge(forward(machine, rows.X).hidden[-1], rows.Y, rows.weights, penalty).loo_error


def _scale_of(first: FirstLayer) -> Array:
    """The scales of the first layer's inputs: root mean square frequencies over the features that see them."""
    frequencies = next(part.phi.frequencies for part in first.parts if isinstance(part.phi, FeatureMap))
    seen = np.maximum((frequencies != 0).sum(axis=1), 1)
    return np.asarray(np.sqrt((frequencies**2).sum(axis=1) / seen))


def relevance_of(machines: Sequence[Machine], X: Array, n_outputs: int, most: int = 1000) -> Array:
    """Mean squared gradient of the average fit along each standardised input, as shares of 1."""
    X = X[:most]  # rows are in an order unrelated to their values
    total = np.zeros(X.shape[1])
    for output in range(n_outputs):
        gradient = np.mean([input_gradient(machine, X, output) for machine in machines], axis=0)
        total += (gradient**2).mean(axis=0)
    total[~X.any(axis=0)] = 0  # an input that does not vary
    share = total.sum()
    return total / share if share > 0 else np.full(len(total), 1 / len(total))


def _fitted(
    rows: Rows,
    machines: tuple[Machine, ...],
    widths: tuple[int, ...],
    scales: tuple[Any, ...],
    penalty: float,
    losses: list[float],
    n_iter: int,
    loo_error: Array,
) -> Fitted:
    relevance = relevance_of(machines, rows.X, rows.Y.shape[1])
    plain = tuple(float(s) if np.ndim(s) == 0 else np.asarray(s) for s in scales)
    return Fitted(machines, widths, plain, penalty, losses, n_iter, loo_error, relevance)
