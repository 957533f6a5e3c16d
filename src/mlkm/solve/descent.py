"""Gradient descent on the rows of one block or of many: Algorithm 1 of the paper (ADDS), and joint descent.

ADDS, Alternating Direction Descent with Subsamples, splits the rows into parts I_1..I_K. Rotation j has its own weights
and trains layer l on part I_{j+l-1} alone, the other layers fixed; one epoch is a sweep l = 1..L in every rotation. The
overall loss is the mean of the rotations' losses on all rows; when its best value has not improved for T (`patience`)
epochs, training stops and the weights of the best epoch are the estimate. The prediction is the average of the
rotations. Joint descent has one rotation, which trains all layers at once on all rows.

A pass over the blocks visits one layer of every rotation. The loss after an epoch is measured in the first pass of the
next one, on the weights that the epoch reached. Where all rows are one block, as rows in memory are, the block is kept
with its features; of several blocks, each is made anew in every pass, so that memory does not grow with the rows.

Mini-batches are consecutive rows of a permutation of every block, and a mini-batch that a block leaves unfinished goes
on in the next one. Rotation j draws the permutations of an epoch from one stream of the key (seed, j, epoch). With all
rows as one batch, gradients are summed up wherever the blocks are, and the weights are those of one block but for
rounding.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from copy import copy
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TypeAlias

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from .._types import Array, BoolArray, IntArray
from ..data.rows import Block, MemoryRows, Rows, in_order
from ..model.features import Map
from ..model.machine import Machine, flatten, positions, with_layers
from ..runtime.progress import advance, stage
from ..runtime.resources import Purpose, generator, limited, stop_if_asked
from ..runtime.sizes import EPOCHS_AHEAD, WEIGHTS_AHEAD
from .training_rows import TrainingRows, loss_gradient, n_rows, part_of, squared_error, training_rows

Reached: TypeAlias = tuple[list[Machine], float]  # the machines of all rotations, and the mean of their losses


class DivergedError(ValueError):
    """Descent ended worse than it began."""


@dataclass(frozen=True)
class Trained:
    """The machines of all rotations, and the overall loss after every epoch."""

    machines: tuple[Machine, ...]
    losses: list[float]


@dataclass(frozen=True)
class Step:
    """The rule by which weights move: the learning rate of every layer, the momentum, the size of a mini-batch (None
    takes all rows at once), the penalty, and how many passes over its rows a visit to a layer makes."""

    rates: tuple[float, ...]
    momentum: float = 0.9
    batch_size: int | None = None
    penalty: float = 0.0
    passes: int = 1

    def move(self, machine: Machine, velocity: list[Array], moving: list[int], gradient: list[Array]) -> None:
        """Take one step with the gradient of the mean squared error, changing weights and velocity in place."""
        matrices = flatten(machine.layers)
        rates = [rate for rate, layer in zip(self.rates, machine.layers, strict=True) for _ in layer]
        for k, slope in zip(moving, gradient, strict=True):
            W, V = matrices[k], velocity[k]
            V *= self.momentum
            V += slope
            V[:-1] += 2 * self.penalty * W[:-1]
            W -= rates[k] * V


def part_number(rotation: int, layer: int, n_parts: int) -> int:
    """Return the part that trains a layer in a rotation, all counted from zero."""
    return (rotation + layer) % n_parts


def random_parts(rng: np.random.Generator, n: int, n_parts: int) -> list[IntArray]:
    """Split rows 0..n-1 at random into parts of equal size, up to one."""
    return [np.sort(part) for part in np.array_split(rng.permutation(n), n_parts)]


@dataclass(frozen=True)
class Visit:
    """One pass: the layer that moves, None standing for all layers, and the part that each rotation trains it on."""

    layer: int | None
    parts: tuple[int, ...]


def visits(depth: int, n_parts: int, passes: int) -> list[Visit]:
    """Return the passes of an epoch; without parts, all layers move jointly."""
    if n_parts == 0:
        return [Visit(None, (0,))] * passes
    layers = [Visit(l, tuple(part_number(j, l, n_parts) for j in range(n_parts))) for l in range(depth)]
    return [visit for visit in layers for _ in range(passes)]


@dataclass(frozen=True)
class Census:
    """The number of blocks, the rows and the weight of every part, and which outputs vary."""

    n_blocks: int
    counts: IntArray
    weights: Array
    varies: BoolArray

    def __add__(self, other: "Census") -> "Census":
        """Return the census of the rows of both."""
        return Census(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))


def _census_of_block(piece: Block, n_parts: int) -> Census:
    piece = piece.counted()
    of_part = [piece.weights if piece.fold is None else piece.weights[piece.fold == k] for k in range(n_parts)]
    counts, weights = np.array([len(w) for w in of_part]), np.array([w.sum() for w in of_part])
    return Census(1, counts, weights, np.asarray(piece.Y.any(axis=0)))


def census(pieces: Rows, n_parts: int) -> Census:
    """Count all rows in one pass; `n_parts` is 0 where they are not split."""
    return pieces.map_reduce(partial(_census_of_block, n_parts=max(n_parts, 1)), Census.__add__)


class OneBlock(MemoryRows[Array]):
    """Rows in memory as one block, however many they are."""

    @classmethod
    def of(cls, rows: Block, parts: Sequence[IntArray]) -> "OneBlock":
        """Return rows as one block, where `parts` has the rows of each part, if there are any."""
        part = np.zeros(len(rows), np.intp)
        for number, at in enumerate(parts):
            part[at] = number
        return cls(Block(rows.X, rows.Y, rows.weights, fold=part if len(parts) else None))

    def n_blocks(self) -> int:
        """Return 1."""
        return 1

    def blocks(self) -> Iterator[Block]:
        """Return an iterator over the one block."""
        return iter((self.block,))


def _training_rows(piece: Block, phi: Map, unit: Array) -> TrainingRows:
    return training_rows(piece.counted(), phi, unit=unit)


def rows_of_part(data: TrainingRows, part: int) -> IntArray | slice:
    """Return the rows of a part: all of them where rows are not split."""
    return slice(0, len(data)) if data.part is None else np.flatnonzero(data.part == part)


def loss_sums(
    piece: Block,
    as_rows: Callable[[Block], TrainingRows],
    machines: Sequence[Machine],
    weights: Array,
    visit: Visit | None,
    with_error: bool,
) -> list[list[Array]]:
    """Return for every rotation its squared error at the rows of a block, if asked for, and the gradient of its visit,
    where `weights` are the total weights of the parts."""
    data, result = as_rows(piece), []
    with np.errstate(over="ignore", invalid="ignore"):
        for j, machine in enumerate(machines):
            sums = [np.array(squared_error(machine, data))] if with_error else []
            if visit is not None:
                moving, rows = positions(machine, visit.layer), rows_of_part(data, visit.parts[j])
                sums += loss_gradient(machine, moving, data, rows, float(weights[visit.parts[j]]))
            result.append(sums)
    return result


def _added(a: list[list[Array]], b: list[list[Array]]) -> list[list[Array]]:
    return [[x + y for x, y in zip(*pair, strict=True)] for pair in zip(a, b, strict=True)]


@dataclass
class _Rotation:
    """A rotation: its number, weights and velocities, the random stream of the epoch, how many rows of its part the
    pass has yet to see, and the gradient of the mini-batch that is being summed up, with the number of its rows and of
    those still missing."""

    number: int
    machine: Machine
    velocity: list[Array]
    rng: np.random.Generator
    unseen: int = 0
    gradient: list[Array] = field(default_factory=list)
    batch: int = 0
    missing: int = 0

    def go_on(self, data: TrainingRows, rows: IntArray | slice, moving: list[int], step: Step, weight: float) -> None:
        """Go on with these rows, in their order, taking a step wherever a mini-batch is full; `weight` is the mean
        weight of the rows of the part."""
        begin, n = 0, n_rows(rows)
        while begin < n:
            if not self.missing:
                self.batch = self.missing = min(step.batch_size or self.unseen, self.unseen)
            end = min(begin + self.missing, n)
            at = part_of(rows, begin, end)
            slopes = loss_gradient(self.machine, moving, data, at, weight * self.batch)
            self.gradient = _added([self.gradient], [slopes])[0] if self.gradient else slopes
            self.missing, self.unseen, begin = self.missing - (end - begin), self.unseen - (end - begin), end
            if not self.missing:
                step.move(self.machine, self.velocity, moving, self.gradient)
                self.gradient = []


@dataclass
class Descent:
    """The state of a descent: its rotations, the blocks of rows, and how weights move.

    Parameters
    ----------
    starts : the initial weights of every rotation
    pieces : the rows; each says which part it belongs to, where there are parts
    n_parts : the number of parts K; 0 trains all layers jointly on all rows
    census : what `census` returns for these rows
    unit : targets are multiplied by it, output by output
    step : how weights move
    seed : the seed of mini-batches
    """

    starts: Sequence[Machine]
    pieces: Rows
    n_parts: int
    census: Census
    unit: Array
    step: Step
    seed: int

    def __post_init__(self) -> None:
        """Begin all rotations, and read the rows once where there is one block."""
        self.rotations = [
            _Rotation(j, copied(start), [np.zeros_like(W) for W in flatten(start.layers)], self._stream(j, 0))
            for j, start in enumerate(self.starts)
        ]
        self.visits = visits(self.starts[0].depth, self.n_parts, self.step.passes)
        self.as_rows = partial(_training_rows, phi=self.starts[0].maps[0], unit=self.unit)
        self.only = self.as_rows(next(iter(self.pieces.blocks()))) if self.census.n_blocks == 1 else None
        # gradients are summed up where the blocks are
        self.in_place = self.only is None and all(map(self.one_batch, range(len(self.census.counts))))

    def _stream(self, rotation: int, epoch: int) -> np.random.Generator:
        return generator(self.seed, Purpose.BATCHES, rotation, epoch)

    def one_batch(self, part: int) -> bool:
        """Return whether all rows of a part are one batch."""
        return self.step.batch_size is None or self.step.batch_size >= self.census.counts[part]

    def of(self, rotation: _Rotation) -> "Descent":
        """Return the descent of one rotation."""
        alone = copy(self)
        alone.rotations = [rotation]
        return alone

    def epochs(self, begin: int, end: int) -> Iterator[Reached]:
        """Go through epochs `begin` to `end` - 1; yield the machines at the beginning of each, and their mean loss."""
        for epoch in range(begin, end):
            for rotation in self.rotations:
                rotation.rng = self._stream(rotation.number, epoch)
            machines = [copied(rotation.machine) for rotation in self.rotations]
            yield machines, self._pass(self.visits[0], machines)
            for visit in self.visits[1:]:
                self._pass(visit, None)

    def reached(self) -> Reached:
        """Return the machines as they are, and their mean loss."""
        machines = [rotation.machine for rotation in self.rotations]
        return machines, self._pass(None, machines)

    def _pass(self, visit: Visit | None, measured: Sequence[Machine] | None) -> float:
        """Make one pass over the rows; return the mean loss of the machines `measured`, which are those at its
        beginning."""
        stop_if_asked()
        # a diverging run ends in one clear error, raised by `train`
        with np.errstate(over="ignore", invalid="ignore"):
            errors = self._summed(visit, measured is not None) if self.in_place else self._one_by_one(visit, measured)
            return float(np.mean(errors / self.census.weights.sum()))

    def _summed(self, visit: Visit | None, with_error: bool) -> Array:
        """Make a pass whose sums are computed where the blocks are."""
        machines = tuple(rotation.machine for rotation in self.rotations)
        sums = self.pieces.map_reduce(
            partial(
                loss_sums, as_rows=self.as_rows, machines=machines, weights=self.census.weights, visit=visit,
                with_error=with_error,
            ),
            _added,
        )  # fmt: skip
        errors = np.array([of_rotation.pop(0) if with_error else 0.0 for of_rotation in sums])
        if visit is not None:
            for rotation, gradient in zip(self.rotations, sums, strict=True):
                moving = positions(rotation.machine, visit.layer)
                self.step.move(rotation.machine, rotation.velocity, moving, gradient)
        return errors

    def _one_by_one(self, visit: Visit | None, measured: Sequence[Machine] | None) -> Array:
        """Make a pass over the blocks in turn."""
        if visit is not None:
            for rotation in self.rotations:
                rotation.unseen = int(self.census.counts[visit.parts[rotation.number]])
        work, every = partial(self._on_block, visit=visit, measured=measured), range(len(self.rotations))
        if self.only is not None:
            return np.array([work(self.only, j) for j in every])
        errors = np.zeros(len(every))
        for data in map(self.as_rows, self.pieces.blocks()):
            stop_if_asked()
            on_block = partial(work, data)
            errors += list(in_order(on_block, every) if len(every) > 1 else map(on_block, every))
        return errors

    def _on_block(self, data: TrainingRows, j: int, visit: Visit | None, measured: Sequence[Machine] | None) -> float:
        """Move a rotation by the rows of a block; return the squared error of the machine that is measured."""
        with np.errstate(over="ignore", invalid="ignore"):  # which other threads do not inherit
            error = 0.0 if measured is None else squared_error(measured[j], data)
            if visit is not None:
                rotation = self.rotations[j]
                part = visit.parts[rotation.number]
                rows = rows_of_part(data, part)
                if not self.one_batch(part):
                    rows = rotation.rng.permutation(len(data) if isinstance(rows, slice) else rows)
                weight = float(self.census.weights[part] / self.census.counts[part])
                rotation.go_on(data, rows, positions(rotation.machine, visit.layer), self.step, weight)
        return error


def train(descent: Descent, *, max_iter: int, patience: int, tol: float, n_jobs: int | None = None) -> Trained:
    """Descend from the given machines, one per rotation.

    Parameters
    ----------
    descent : Descent
        The machines, the rows, and how weights move.
    max_iter, patience, tol : int, int, float
        Epochs at most, epochs without improvement after which training stops, and the relative fall of the loss that
        counts as an improvement. A loss that is not finite stops it, too.
    n_jobs : int or None
        Rotations that run side by side in processes where all rows are one block; the result does not depend on it. On
        several blocks, as many run side by side as BLAS has threads.

    Returns
    -------
    Trained
        The machines of the best epoch, and the loss after every epoch.

    Raises
    ------
    DivergedError
        If the best loss is not below twice the initial one.
    """
    starts, step, one_block = descent.starts, descent.step, descent.census.n_blocks == 1
    n_jobs = min(effective_n_jobs(n_jobs), len(starts)) if one_block else 1
    epochs = _together(descent, max_iter) if n_jobs == 1 else _side_by_side(descent, max_iter, n_jobs)
    losses: list[float] = []
    best_epoch, best_loss, best = 0, np.inf, list(starts)
    # in memory a rotation has one BLAS thread, so that rounding does not depend on how many run side by side
    with stage("epochs", max_iter), limited(1 if descent.n_parts and one_block else None), closing(epochs):
        _, initial = next(epochs)
        for epoch, (machines, value) in enumerate(epochs, 1):
            losses.append(value)
            advance()
            if value < best_loss * (1 - tol):
                best_epoch, best_loss, best = epoch, value, machines
            if epoch - best_epoch >= patience or not np.isfinite(value):
                break
    if not best_loss < 2 * initial:
        raise DivergedError(
            f"Gradient descent diverged: the loss is {losses[-1]:.3g} after {len(losses)} epochs, on targets of"
            f" standard deviation {np.max(descent.unit):.3g}; lower learning_rate={max(step.rates):g} or target_sd."
        )
    return Trained(tuple(best), losses)


def copied(machine: Machine) -> Machine:
    """Return the machine with copies of its weights."""
    return with_layers(machine, [W.copy() for W in flatten(machine.layers)])


def _together(descent: Descent, max_iter: int) -> Generator[Reached]:
    """Yield what all rotations have reached before the first epoch and after each."""
    yield from descent.epochs(0, max_iter)
    yield descent.reached()


def _side_by_side(descent: Descent, max_iter: int, n_jobs: int) -> Generator[Reached]:
    """Yield the same from rotations in separate processes: only the stopping rule needs all of them, so each runs
    several epochs ahead."""
    rotations = descent.rotations
    stretch = max(1, min(EPOCHS_AHEAD, WEIGHTS_AHEAD // rotations[0].machine.n_parameters))
    with Parallel(n_jobs=n_jobs) as parallel:
        for begin in range(0, max_iter, stretch):
            end = min(begin + stretch, max_iter)
            results = list(parallel(delayed(_ahead)(descent.of(rotation), begin, end) for rotation in rotations))
            rotations = [rotation for rotation, _ in results]
            for of_epoch in zip(*(trace for _, trace in results), strict=True):
                machines = [machine for of_rotation, _ in of_epoch for machine in of_rotation]
                yield machines, float(np.mean([loss for _, loss in of_epoch]))
    descent.rotations = rotations
    yield descent.reached()


def _ahead(descent: Descent, begin: int, end: int) -> tuple[_Rotation, list[Reached]]:
    """Go through epochs of one rotation; return it, and what it had reached before each."""
    with limited(1):
        trace = list(descent.epochs(begin, end))
    return descent.rotations[0], trace
