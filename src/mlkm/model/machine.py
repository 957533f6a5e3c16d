"""Multi-Layer and Residual Kernel Machines as plain data, and pure functions over them.

MLKM:   h = phi_1(x);   h <- phi_{l+1}(W_l h + a_l)                       for l = 1..L-1;   f = W_L h + a_L.
RKM:    h = phi_1(x);   u = W_l^(1) h + a;  h <- W_l^(2) phi_{l+1}(u) + a' + u   for l = 1..L-1;   f = W_L h + a_L.

Both have L random-feature maps and L layers of trained weights; a layer of RKM before the last has two matrices. The
last layer may also see phi_1(x) (`skip`) and x itself (`linear`).

Every weight matrix carries its bias as the last row, so that W h + a is `[h, 1] @ W`. Feature maps are frozen; `layers`
is what is trained.

Derivatives use the layer structure. The gradient of an output with respect to one weight matrix at row i is the outer
product of what enters the matrix and what comes back to it, so the n x p Jacobian is kept as one pair of thin factors
(H, G) per matrix, and is never formed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, TypeAlias

import numpy as np

from .._types import Array, BoolArray
from ..runtime.resources import side_by_side
from ..runtime.sizes import PARALLEL_ENTRIES
from .features import on_ranks
from .transforms import BackTransform

Weights: TypeAlias = tuple[Array, ...]
Layers: TypeAlias = tuple[Weights, ...]
Factors: TypeAlias = list[tuple[Array, Array]]


@dataclass(frozen=True)
class Machine:
    """Feature maps phi_1..phi_L and weights of layers 1..L. phi_1 may be any feature map, deeper ones are cosines. With
    a back-transform f is a fit to transformed targets, and predictions are back-transformed."""

    maps: tuple[Any, ...]
    layers: Layers
    residual: bool = False
    skip: bool = False
    linear: bool = False
    back_transform: BackTransform | None = None

    @property
    def depth(self) -> int:
        """Return the number of layers."""
        return len(self.maps)

    @property
    def n_parameters(self) -> int:
        """Return the number of trained weights."""
        return sum(W.size for W in flatten(self.layers))


@dataclass(frozen=True)
class Tape:
    """The results of a forward pass that the backward pass needs: h before each layer, the angles inside each hidden
    layer, and f."""

    hidden: list[Array]
    angles: list[Array]
    output: Array


def flatten(layers: Layers) -> list[Array]:
    """Return the weight matrices of all layers in one tuple."""
    return [W for layer in layers for W in layer]


def with_layers(machine: Machine, matrices: Sequence[Array]) -> Machine:
    """Return the machine with the weight matrices of `flatten(machine.layers)` replaced, in the same order."""
    given = iter(matrices)
    return replace(machine, layers=tuple(tuple(next(given) for _ in layer) for layer in machine.layers))


def with_last(machine: Machine, W: Array) -> Machine:
    """Return the machine with another last layer."""
    return replace(machine, layers=(*machine.layers[:-1], (W,)))


def averaged(machines: Sequence[Machine], shares: Sequence[float]) -> tuple[Machine, ...]:
    """Return machines whose plain average is the sum of these with their shares."""
    return tuple(_times(machine, len(machines) * share) for machine, share in zip(machines, shares, strict=True))


def _times(machine: Machine, factor: float) -> Machine:
    """Return the machine with its predictions multiplied by a factor."""
    if machine.back_transform is not None:
        return replace(machine, back_transform=machine.back_transform.times(factor))
    return with_last(machine, factor * machine.layers[-1][0])


def layer_shapes(
    maps: Sequence[Any],
    n_outputs: int,
    residual: bool = False,
    skip: bool = False,
    linear: bool = False,
    n_inputs: int | None = None,
) -> list[list[tuple[int, int]]]:
    """Return the shapes of the weight matrices, bias row included, layer by layer."""
    widths = [phi.n_features for phi in maps]
    shapes: list[list[tuple[int, int]]] = []
    for here, phi in zip(widths[:-1], maps[1:], strict=True):
        into = phi.frequencies.shape[0]
        shapes.append([(here + 1, into), (phi.n_features + 1, into)] if residual else [(here + 1, into)])
    last = maps[-1].frequencies.shape[0] if residual and len(maps) > 1 else widths[-1]
    last += (widths[0] if skip and len(maps) > 1 else 0) + ((n_inputs or maps[0].frequencies.shape[0]) if linear else 0)
    return [*shapes, [(last + 1, n_outputs)]]


def positions(machine: Machine, layer: int | None) -> list[int]:
    """Return the places of the matrices of a layer, or of all layers, in `flatten(machine.layers)`."""
    layers = [l for l, weights in enumerate(machine.layers) for _ in weights]
    return [place for place, l in enumerate(layers) if layer in (None, l)]


def affine(W: Array, h: Array) -> Array:
    """Return [h, 1] @ W."""
    z: Array = h @ W[:-1]
    z += W[-1]
    return z


def last_inputs(machine: Machine, X: Array, first: Array, h: Array) -> Array:
    """Return the inputs of the last layer: h, and phi_1(x) and x where asked."""
    parts = [h]
    if machine.skip and machine.depth > 1:
        parts.append(first)
    if machine.linear:
        parts.append(X)
    return np.hstack(parts) if len(parts) > 1 else h


def forward(machine: Machine, X: Array, first: Array | None = None) -> Tape:
    """Return f(x) for every row, with what the backward pass needs. `first` is phi_1(X), where it is already known."""
    first = machine.maps[0].features(X) if first is None else first
    h, hidden, turned = first, [], []
    for phi, layer in zip(machine.maps[1:], machine.layers[:-1], strict=True):
        hidden.append(h)
        u = affine(layer[0], h)
        theta = phi.angles(u)
        turned.append(theta)
        h = np.cos(theta)
        h *= phi.amplitudes
        if machine.residual:
            h = affine(layer[1], h)
            h += u
    h = last_inputs(machine, X, first, h)
    hidden.append(h)
    return Tape(hidden, turned, affine(machine.layers[-1][0], h))


def predict(machine: Machine, X: Array, entries: int = 2**24) -> Array:
    """Return f(x) for every row, back-transformed where there is a back-transform."""
    f = predict_transformed(machine, X, entries)
    return f if machine.back_transform is None else machine.back_transform.mean(f)


def predict_average(machines: Sequence[Machine], X: Array) -> Array:
    """Return the plain average of the predictions of the machines; two machines predict at the same time where that
    takes long."""
    if len(machines) == 2 and len(X) * machines[0].maps[0].n_features > PARALLEL_ENTRIES:
        return np.asarray(sum(side_by_side(*(partial(predict, m, X) for m in machines), wide=True)) / 2)
    return np.asarray(np.mean([predict(machine, X) for machine in machines], axis=0))


def predict_transformed(machine: Machine, X: Array, entries: int = 2**24) -> Array:
    """Return f(x) for every row, on the scale of the transformed targets, computed in blocks of rows, each with a table
    of features of at most so many entries."""
    phi, X = machine.maps[0], np.ascontiguousarray(X)  # the same sums whatever the order in memory
    block = int(np.clip(entries // phi.n_features if phi.n_features else 4096, 16, 4096))
    several = machine.depth == 1 and len(phi.parts) > 1
    f = _by_parts if several else lambda m, rows: forward(m, rows).output
    return np.vstack([f(machine, X[start : start + block]) for start in range(0, len(X), block)])


def _by_parts(machine: Machine, X: Array) -> Array:
    """Return f(x) of one layer of several maps: the sum of the parts of f that the maps carry, each in its
    precision."""
    W, at = machine.layers[0][0], 0
    total = np.tile(W[-1], (len(X), 1)).astype(np.float64)
    for ranks, part in machine.maps[0].parts:
        total += part.output(on_ranks(ranks, X), W[at : at + part.n_features])
        at += part.n_features
    return total + X @ W[at:-1] if machine.linear else total


def backward(machine: Machine, tape: Tape, cotangent: Array) -> Factors:
    """Return factors (H, G), one pair per weight matrix: the gradient of sum(cotangent * f) at row i is outer([H_i, 1],
    G_i).

    `cotangent` has the shape of f: (n, number of outputs).
    """
    pairs: list[list[tuple[Array, Array]]] = [[(tape.hidden[-1], cotangent)]]
    width = _width_before_last(machine)
    G = cotangent @ machine.layers[-1][0][:width].T
    for l in range(machine.depth - 2, -1, -1):
        phi, layer, theta = machine.maps[l + 1], machine.layers[l], tape.angles[l]
        slope = np.sin(theta)
        slope *= -phi.amplitudes
        if machine.residual:
            s = np.cos(theta) * phi.amplitudes
            slope *= G @ layer[1][:-1].T
            into = slope @ phi.frequencies.T
            into += G
            pairs.insert(0, [(tape.hidden[l], into), (s, G)])
        else:
            slope *= G
            into = slope @ phi.frequencies.T
            pairs.insert(0, [(tape.hidden[l], into)])
        if l:
            G = into @ layer[0][:-1].T
    return [pair for layer_pairs in pairs for pair in layer_pairs]


def _width_before_last(machine: Machine) -> int:
    """Return the number of columns of the last layer's input that come from below, rather than from phi_1(x) or x."""
    phi = machine.maps[-1]
    return int(phi.frequencies.shape[0] if machine.residual and machine.depth > 1 else phi.n_features)


def gradients(factors: Factors) -> list[Array]:
    """Return the sum over rows of outer([H_i, 1], G_i), one array per weight matrix."""
    return [np.vstack([H.T @ G, G.sum(axis=0)]) for H, G in factors]


def output_factors(machine: Machine, tape: Tape, output: int = 0) -> Factors:
    """Return the Jacobian of one output with respect to all weights, as factors."""
    cotangent = np.zeros_like(tape.output)
    cotangent[:, output] = 1
    return backward(machine, tape, cotangent)


def input_gradient(machine: Machine, X: Array, output: int = 0) -> Array:
    """Return df/dx at every row, (n, d); with a back-transform, the gradient of the prediction."""
    tape = forward(machine, X)
    factors = output_factors(machine, tape, output)
    W = machine.layers[-1][0]
    phi, n, d = machine.maps[0], len(X), X.shape[1]
    at = _width_before_last(machine)
    if machine.depth == 1:
        G = np.broadcast_to(W[:at, output], (n, at))
    else:
        G = factors[0][1] @ machine.layers[0][0][:-1].T
        if machine.skip:
            G = G + W[at : at + phi.n_features, output]
            at += phi.n_features
    gradient: Array = phi.pullback(X, G)
    if machine.linear:
        gradient += W[at : at + d, output]
    if machine.back_transform is not None:
        gradient *= machine.back_transform.slope(tape.output)[:, [output]]
    return gradient


class Features(Protocol):
    """Features whose products are summed over rows."""

    def inputs(self, X: Array) -> Array:
        """Return X in the precision in which products of many rows are computed: as it is, unless a class says
        otherwise."""
        return X

    def rows_of_features(self, X: Array) -> Array:
        """Return the features at every row of X, (n, D), in a new array."""


@dataclass(frozen=True)
class Columns(Features):
    """Inputs themselves as features: the columns that are selected."""

    selected: BoolArray

    def rows_of_features(self, X: Array) -> Array:
        """Return the selected columns of X."""
        return X[:, self.selected]


@dataclass(frozen=True)
class LastInputs(Features):
    """The inputs of the last layer of a machine, the layers below held fixed."""

    below: Machine

    def rows_of_features(self, X: Array) -> Array:
        """Return the inputs of the last layer at every row of X."""
        return forward(self.below, X).hidden[-1]

    def machine(self, coefficients: Array, intercept: Array) -> Machine:
        """Return the machine with these coefficients and intercepts in its last layer."""
        return with_last(self.below, np.vstack([coefficients, intercept]))
