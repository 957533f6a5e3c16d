"""The paper's descent on rows that are seen a piece at a time: Algorithm 1 and joint descent in O(piece) memory.

A pass over the pieces visits one layer of every rotation, each on the rows of its own part: rotation j trains layer l
on part j + l - 1, so that every row is used once. An epoch is L passes, since layer l + 1 begins where layer l ends;
joint descent takes one. The overall loss after an epoch is measured in the first pass of the next one, on the weights
that the epoch left.

Within a piece, rows are in the order of a permutation drawn for (seed, rotation, epoch, pass, piece), and a mini-batch
goes on in the next piece: an epoch has as many steps as in memory. With all rows as one batch, gradients are summed up
wherever the rows are, and the weights are those of the descent in memory but for rounding.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from .._types import Array, BoolArray, IntArray
from ..data import Rows
from ..data.pieces import Piece, Pieces, in_order
from ..model.machine import Machine, flatten, positions, with_layers
from ..runtime.seeds import Purpose, generator
from ..runtime.threads import blas_threads, stop_if_asked
from .adds import Trained, check_descended
from .data import ENTRIES, Data
from .step import Step, loss, slopes

_KEPT = 2**22  # entries of phi_1 that are kept of a piece, as many as a piece may have itself


@dataclass(frozen=True)
class Census:
    """Rows and weight of every part, and which outputs vary."""

    counts: Array
    weights: Array
    varies: BoolArray

    @property
    def n(self) -> float:
        return float(self.counts.sum())


@dataclass(frozen=True)
class CensusOf:
    n_parts: int

    def __call__(self, piece: Piece) -> Census:
        piece = piece.counted()
        part = np.zeros(len(piece), np.intp) if piece.part is None else piece.part
        counts, weights = np.bincount(part, minlength=self.n_parts), np.bincount(part, piece.weights, self.n_parts)
        return Census(counts.astype(float), weights.astype(float), np.asarray(piece.Y.any(axis=0)))


def census(pieces: Pieces, n_parts: int) -> Census:
    """One pass over all rows; `n_parts` is 1 where they are not split."""
    return pieces.reduce(CensusOf(n_parts), _both)


def _both(a: Census, b: Census) -> Census:
    return Census(a.counts + b.counts, a.weights + b.weights, a.varies | b.varies)


@dataclass(frozen=True)
class View:
    """How descent sees a piece: with phi_1, where it is not too large, and targets times `unit`."""

    machine: Machine
    unit: Array

    def __call__(self, piece: Piece) -> Data:
        phi, none = self.machine.maps[0], np.ones(len(piece))
        kept = phi.features(piece.X) if len(piece) * phi.n_features <= _KEPT else None
        block = max(1, ENTRIES // int(phi.n_features))
        return Data(Rows(piece.X, piece.Y, piece.weights, none, piece.part), phi, block, kept, self.unit)


@dataclass(frozen=True)
class Visit:
    """One pass: which layer moves, None standing for all of them, and the part that every rotation looks at."""

    layer: int | None
    parts: tuple[int, ...]

    def rows(self, data: Data, rotation: int) -> IntArray:
        """Those of a piece that a rotation looks at."""
        if data.rows.fold is None:
            return np.arange(len(data))
        return np.flatnonzero(data.rows.fold == self.parts[rotation])


def visits(depth: int, n_parts: int, passes: int) -> list[Visit]:
    """Those of an epoch: layer l of rotation j on part j + l - 1, counted modulo the number of parts; one part is all
    layers jointly."""
    if n_parts == 1:
        return [Visit(None, (0,))] * passes
    own = [Visit(l, tuple((j + l) % n_parts for j in range(n_parts))) for l in range(depth)]
    return [visit for visit in own for _ in range(passes)]


@dataclass(frozen=True)
class Totals:
    """Sums over rows: of squared errors, and of gradients, for every rotation."""

    losses: Array
    slopes: list[list[Array]]

    def __add__(self, other: "Totals") -> "Totals":
        pairs = zip(self.slopes, other.slopes, strict=True)
        added = [[a + b for a, b in zip(*pair, strict=True)] for pair in pairs]
        return Totals(self.losses + other.losses, added)


@dataclass(frozen=True)
class TotalsOf:
    """The sums of a piece: a function that can be sent to its rows. Without a visit there are no gradients."""

    view: View
    machines: tuple[Machine, ...]
    visit: Visit | None
    with_loss: bool

    def __call__(self, piece: Piece) -> Totals:
        with np.errstate(over="ignore", invalid="ignore"):
            data = self.view(piece.counted())
            losses = _losses(self.machines, data) if self.with_loss else np.zeros(len(self.machines))
            own = [] if self.visit is None else [self._slopes(data, j, self.visit) for j in range(len(self.machines))]
            return Totals(losses, own)

    def _slopes(self, data: Data, j: int, visit: Visit) -> list[Array]:
        machine, at = self.machines[j], visit.rows(data, j)
        moving = positions(machine, visit.layer)
        if not len(at):
            matrices = flatten(machine.layers)
            return [np.zeros_like(matrices[k]) for k in moving]
        return [len(at) * slope for slope in slopes(machine, moving, data, at, 1.0)]


def _losses(machines: Sequence[Machine], data: Data) -> Array:
    return np.array([loss(machine, data) * len(data) for machine in machines]) if len(data) else np.zeros(len(machines))


def _added(a: Totals, b: Totals) -> Totals:
    return a + b


class _Rotation:
    """One rotation on its way: weights and velocities, and the gradient of the mini-batch that is being summed up."""

    def __init__(self, start: Machine, step: Step) -> None:
        self.machine = copied(start)
        self.velocity = [np.zeros_like(W) for W in flatten(start.layers)]
        self.step = step
        self.batch: list[Array] = []
        self.seen = 0

    def add(self, data: Data, rows: IntArray, moving: list[int], mean_weight: float, size: int) -> None:
        """Go on with these rows, in their order; a step is taken wherever a mini-batch is full."""
        at = 0
        while at < len(rows):
            own = rows[at : at + size - self.seen]
            part = [len(own) * slope for slope in slopes(self.machine, moving, data, own, mean_weight)]
            self.batch = [a + b for a, b in zip(self.batch, part, strict=True)] if self.batch else part
            at, self.seen = at + len(own), self.seen + len(own)
            if self.seen == size:
                self.take_step(moving)

    def take_step(self, moving: list[int]) -> None:
        if self.seen:
            self.step.move(self.machine, self.velocity, moving, [slope / self.seen for slope in self.batch])
        self.batch, self.seen = [], 0


def copied(machine: Machine) -> Machine:
    return with_layers(machine, [W.copy() for W in flatten(machine.layers)])


@dataclass(frozen=True)
class Descent:
    """Rows in pieces, what they count, how weights move, and the seed of mini-batches."""

    pieces: Pieces
    census: Census
    view: View
    step: Step
    seed: int

    def losses(self, machines: Sequence[Machine]) -> float:
        """The overall loss: the mean of the rotations' losses on all rows."""
        totals = self.pieces.reduce(TotalsOf(self.view, tuple(machines), None, True), _added)
        return self._overall(totals.losses)

    def run(self, rotations: list[_Rotation], visit: Visit, key: tuple[int, int], with_loss: bool) -> float:
        """One pass, and the overall loss at its beginning where asked; `key` are the epoch and the number of the pass
        in it."""
        whole = self.step.batch_size is None or self.step.batch_size >= self.census.counts.max()
        with np.errstate(over="ignore", invalid="ignore"):  # a diverging run ends in one clear error, raised by `train`
            totals = (
                self._as_one_batch(rotations, visit, with_loss)
                if whole
                else self._in_batches(rotations, visit, key, with_loss)
            )
        return self._overall(totals)

    def _overall(self, totals: Array) -> float:
        return float(np.mean(totals)) / float(self.census.weights.sum())

    def _as_one_batch(self, rotations: list[_Rotation], visit: Visit, with_loss: bool) -> Array:
        machines = tuple(rotation.machine for rotation in rotations)
        totals = self.pieces.reduce(TotalsOf(self.view, machines, visit, with_loss), _added)
        for rotation, part, sums in zip(rotations, visit.parts, totals.slopes, strict=True):
            gradient = [slope / self.census.weights[part] for slope in sums]
            self.step.move(rotation.machine, rotation.velocity, positions(rotation.machine, visit.layer), gradient)
        return totals.losses

    def _in_batches(self, rotations: list[_Rotation], visit: Visit, key: tuple[int, int], with_loss: bool) -> Array:
        before = [copied(rotation.machine) for rotation in rotations]
        mean_weight, size = self.census.weights / self.census.counts, self.step.batch_size or 1
        moving = positions(before[0], visit.layer)

        def on(data: Data, number: int, j: int) -> float:
            with np.errstate(over="ignore", invalid="ignore"):  # threads have their own state
                rng = generator(self.seed, Purpose.BATCHES, j, *key, number)
                rows = rng.permutation(visit.rows(data, j))
                rotations[j].add(data, rows, moving, float(mean_weight[visit.parts[j]]), size)
                return float(_losses([before[j]], data)[0]) if with_loss else 0.0

        # side by side; a single one has all threads for its products
        every, wide = range(len(rotations)), len(rotations) > 1 and blas_threads() > 1
        total = np.zeros(len(rotations))
        for number, piece in enumerate(self.pieces.each()):
            stop_if_asked()
            data = self.view(piece.counted())
            total += list(in_order(partial(on, data, number), every) if wide else map(partial(on, data, number), every))
        for rotation in rotations:
            rotation.take_step(moving)
        return total


def train(
    starts: Sequence[Machine], pieces: Pieces, found: Census, unit: Array, step: Step, *,
    max_iter: int, patience: int, tol: float, seed: int,
) -> Trained:  # fmt: skip
    """Descend from the given machines, one per rotation: as `adds.train`, on all rows of the pieces. A loss that is no
    number any more ends it, since it will not be one again."""
    descent = Descent(pieces, found, View(starts[0], unit), step, seed)
    rotations = [_Rotation(start, replace(step, passes=1)) for start in starts]
    each = visits(starts[0].depth, len(starts), step.passes)
    losses: list[float] = []
    begun, best_epoch, best_loss, best = np.inf, 0, np.inf, list(starts)
    for epoch in range(max_iter + 1):
        reached = [copied(rotation.machine) for rotation in rotations]
        value = descent.run(rotations, each[0], (epoch, 0), True) if epoch < max_iter else descent.losses(reached)
        if epoch == 0:
            begun = value
        else:
            losses.append(value)
            if value < best_loss * (1 - tol):
                best_epoch, best_loss, best = epoch, value, reached
            if epoch - best_epoch >= patience or not np.isfinite(value):
                break
        if epoch < max_iter:
            for number, visit in enumerate(each[1:], 1):
                descent.run(rotations, visit, (epoch, number), False)
    check_descended(best_loss, begun, losses, unit, step)
    return Trained(tuple(best), losses, len(losses))
