"""Algorithm 1: Alternating Direction Descent with Subsamples.

The rows are split into parts I_1..I_K. Rotation j has weights of its own and trains layer l on part I_{j+l-1} alone,
the other layers fixed; one epoch is a sweep l = 1..L in every rotation. The overall loss is the mean of the rotations'
losses on all rows; when its best value has not improved for T (`patience`) epochs, training stops and the weights of
the best epoch are the estimate. The prediction is the average of the rotations.

Without cross-fitting there is one rotation, which trains all layers jointly on all rows.

Rotations meet only in the stopping rule, so they run side by side for a stretch of epochs, then compare losses. Every
epoch draws its own randomness from (seed, rotation, epoch): the state at the start of a stretch is enough to replay it
up to the best epoch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from .._types import Array, IntArray
from ..model.machine import Machine, flatten, with_layers
from ..runtime.progress import advance
from ..runtime.seeds import Purpose, generator
from ..runtime.threads import limited
from .data import Data
from .layer_update import update_layer
from .step import Step, loss

_STRETCH = 50


class DivergedError(ValueError):
    """Descent that ended worse than it began."""


@dataclass(frozen=True)
class Rotation:
    """One rotation O_j: its number, and the rows of each layer; `rows=None` stands for all layers jointly on all
    rows."""

    number: int
    rows: tuple[IntArray, ...] | None


@dataclass(frozen=True)
class Trained:
    """The machines of all rotations, the overall loss after every epoch, and the number of epochs run."""

    machines: tuple[Machine, ...]
    losses: list[float]
    n_iter: int


def rotations(parts: Sequence[IntArray] | None, depth: int) -> list[Rotation]:
    """O_1..O_K: layer l of rotation j trains on part j + l - 1, counted modulo K. Without parts, one that trains all
    layers jointly."""
    if parts is None:
        return [Rotation(0, None)]
    K = len(parts)
    return [Rotation(j, tuple(parts[(j + l) % K] for l in range(depth))) for j in range(K)]


def random_parts(rng: np.random.Generator, n: int, n_parts: int) -> list[IntArray]:
    """Rows 0..n-1 split at random into parts of equal size, up to one."""
    return [np.sort(part) for part in np.array_split(rng.permutation(n), n_parts)]


def train(
    starts: Sequence[Machine],
    runs: Sequence[Rotation],
    data: Data,
    step: Step,
    *,
    max_iter: int,
    patience: int,
    tol: float,
    seed: int,
    n_jobs: int | None = None,
) -> Trained:
    """Run ADDS from the given machines, one per rotation."""
    states = [(machine, [np.zeros_like(W) for W in flatten(machine.layers)]) for machine in starts]
    losses: list[float] = []
    best_epoch, best_loss, checkpoint, checkpoint_epoch = 0, np.inf, states, 0
    with Parallel(n_jobs=n_jobs and min(n_jobs, len(starts))) as parallel:

        def stretch(
            begin: int, end: int, states: list[tuple[Machine, list[Array]]]
        ) -> list[tuple[Machine, list[Array], list[float]]]:
            work = (
                delayed(_run)(*state, run, data, step, seed, begin, end)
                for state, run in zip(states, runs, strict=True)
            )
            return list(parallel(work))

        while len(losses) < max_iter and len(losses) - best_epoch < patience:
            begin, end = len(losses), min(len(losses) + _STRETCH, max_iter)
            results = stretch(begin, end, states)
            overall = np.mean([result[2] for result in results], axis=0)
            for epoch, value in enumerate(overall.tolist(), begin + 1):
                losses.append(value)
                if value < best_loss * (1 - tol):
                    best_epoch, best_loss, checkpoint, checkpoint_epoch = epoch, value, states, begin
                if epoch - best_epoch >= patience:
                    break
            states = [(machine, velocity) for machine, velocity, _ in results]
            advance(end - begin)
        with np.errstate(over="ignore", invalid="ignore"):
            begun = float(np.mean([loss(machine, data) for machine in starts]))
        check_descended(best_loss, begun, losses, data.unit, step)
        best = states if best_epoch == len(losses) == end else stretch(checkpoint_epoch, best_epoch, checkpoint)
    return Trained(tuple(state[0] for state in best), losses, len(losses))


def check_descended(best: float, begun: float, losses: Sequence[float], unit: Array | float, step: Step) -> None:
    """Refuse weights that are worse than the first ones."""
    if not best < 2 * begun:
        raise DivergedError(
            f"Gradient descent diverged: the loss is {losses[-1]:.3g} after {len(losses)} epochs, on targets of"
            f" standard deviation {np.max(unit):.3g}; lower learning_rate={max(step.rates):g} or target_sd."
        )


def _run(
    machine: Machine, velocity: list[Array], run: Rotation, *settings: Any
) -> tuple[Machine, list[Array], list[float]]:
    """`_epochs` with as many BLAS threads wherever a rotation runs, for the same rounding."""
    with limited(None if run.rows is None else 1):
        return _epochs(machine, velocity, run, *settings)


def _epochs(
    machine: Machine,
    velocity: list[Array],
    run: Rotation,
    data: Data,
    step: Step,
    seed: int,
    begin: int,
    end: int,
) -> tuple[Machine, list[Array], list[float]]:
    """Epochs begin..end-1 of one rotation, on copies of its weights."""
    machine = with_layers(machine, [W.copy() for W in flatten(machine.layers)])
    velocity = [V.copy() for V in velocity]
    losses = []
    with np.errstate(over="ignore", invalid="ignore"):  # a diverging run ends in one clear error, raised by `train`
        for epoch in range(begin, end):
            rng = generator(seed, Purpose.BATCHES, run.number, epoch)
            if run.rows is None:
                step.visit(machine, velocity, None, data, None, rng)
            else:
                for layer, rows in enumerate(run.rows):
                    step.visit(machine, velocity, layer, data, rows, rng)
            losses.append(loss(machine, data))
    return machine, velocity, losses


def sweep_exactly(
    starts: Sequence[Machine],
    runs: Sequence[Rotation],
    data: Data,
    penalty: float,
    *,
    max_sweeps: int = 20,
    patience: int = 2,
    tol: float = 1e-3,
    n_jobs: int | None = None,
) -> Trained:
    """ADDS with every update solved well instead of one gradient step: sweeps until the overall loss has not fallen for
    `patience` of them."""
    machines = list(starts)
    losses: list[float] = []
    best, best_loss, since = machines, np.inf, 0
    with Parallel(n_jobs=n_jobs and min(n_jobs, len(starts))) as parallel:
        while len(losses) < max_sweeps and since < patience:
            machines = list(
                parallel(
                    delayed(_exact_sweep)(machine, run, data, penalty)
                    for machine, run in zip(machines, runs, strict=True)
                )
            )
            losses.append(float(np.mean([loss(machine, data) for machine in machines])))
            since += 1
            advance()
            if losses[-1] < best_loss * (1 - tol):
                best, best_loss, since = machines, losses[-1], 0
    return Trained(tuple(best), losses, len(losses))


def _exact_sweep(machine: Machine, run: Rotation, data: Data, penalty: float) -> Machine:
    """Layers 1..L of one rotation in turn, each on its own rows."""
    rows = run.rows if run.rows is not None else (np.arange(len(data)),) * machine.depth
    with limited(1):
        for layer, own in enumerate(rows):
            machine = update_layer(machine, layer, data, own, penalty)
    return machine
