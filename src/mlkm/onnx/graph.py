"""A graph of operations under construction, as plain data: every step is said once, and what is equal is shared.

`graph("Add", a, b)` is the name of a + b. Arrays among the inputs become constants; equal constants are stored once,
and an operation that was asked for before is not repeated, so terms with the same points or ranks share them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._types import Array, IntArray

ML = "ai.onnx.ml"
OPSETS = {"": 18, ML: 3}
_FEW = 32  # levels of a column up to which a product of indicators takes less time than comparisons
TYPES = {"float32": 1, "int64": 7, "string": 8, "float64": 11}  # the numbers that ONNX has for them


@dataclass(frozen=True)
class Node:
    """One operation."""

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    domain: str = ""
    attributes: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Body:
    """What a Scan does with one row: a vector of `size` numbers to one of any length, in float64."""

    nodes: tuple[Node, ...]
    row: str
    size: int
    result: str


@dataclass(frozen=True)
class Port:
    """An input or output: its name, its type, and its shape after the rows."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass
class Graph:
    """What has been said so far. `prefix` begins all names that are made."""

    prefix: str = "mlkm/"
    nodes: list[Any] = field(default_factory=list)  # of `Node`, or ready nodes of another converter
    constants: dict[str, NDArray[Any]] = field(default_factory=dict)
    inputs: list[Port] = field(default_factory=list)
    outputs: list[Port] = field(default_factory=list)
    _known: dict[Any, str] = field(default_factory=dict)
    _made: dict[str, Node] = field(default_factory=dict)

    def new(self, kind: str) -> str:
        """A name that was not used yet."""
        return f"{self.prefix}{kind}{len(self.nodes) + len(self.constants)}"

    def constant(self, array: Any) -> str:
        value = np.ascontiguousarray(array).reshape(np.shape(array))
        key = value.dtype.str, value.shape, value.tobytes()
        if key not in self._known:
            self._known[key] = self.new("constant")
            self.constants[self._known[key]] = value
        return self._known[key]

    def __call__(self, kind: str, *inputs: Any, domain: str = "", **attributes: Any) -> str:
        names = self._kept_apart(kind, tuple(x if isinstance(x, str) else self.constant(x) for x in inputs))
        key = kind, names, domain, repr(sorted(attributes.items()))
        if key not in self._known:
            output = self.new(kind)
            node = Node(kind, names, (output,), domain, tuple(sorted(attributes.items())))
            self.nodes.append(node)
            self._made[output], self._known[key] = node, output
        return self._known[key]

    def _kept_apart(self, kind: str, names: tuple[str, ...]) -> tuple[str, ...]:
        """The inputs, with a step between a matrix product and a single factor beside it: onnxruntime would make the
        factor an attribute of the product, which is in float32 whatever the type of the product, or in older versions
        find no such product in float64."""
        if kind == "MatMul":
            return tuple(self._as_it_is(name) if self._is_scaled(name) else name for name in names)
        if self._has_single(kind, names):
            return tuple(self._as_it_is(name) if self._is_product(name) else name for name in names)
        return names

    def _as_it_is(self, name: str) -> str:
        return self("Max", name, np.array(np.finfo(np.float64).min))

    def _has_single(self, kind: str, names: tuple[str, ...]) -> bool:
        """Whether this is a product with a constant that is one number."""
        own = (self.constants[name] for name in names if name in self.constants)
        return kind in ("Mul", "Div") and any(array.size == 1 and array.dtype == np.float64 for array in own)

    def _is_scaled(self, name: str) -> bool:
        node = self._made.get(name)
        return node is not None and self._has_single(node.kind, node.inputs)

    def _is_product(self, name: str) -> bool:
        node = self._made.get(name)
        return node is not None and node.kind == "MatMul"

    def input(self, name: str, dtype: str, shape: tuple[int, ...]) -> str:
        """An input by its name; the same one where it was asked for before."""
        port = Port(name, dtype, shape)
        known = {own.name: own for own in self.inputs}
        if name not in known:
            self.inputs.append(port)
        elif known[name] != port:
            raise ValueError(
                f"Column {name!r} is a category to one part of the model and a number to another, which cannot be"
                " exported; make it a category in the table itself, as words."
            )
        return name

    def output(self, name: str, tensor: str, dtype: str, shape: tuple[int, ...]) -> None:
        """A result; its name goes on with an underscore where a column has it."""
        while any(name == port.name for port in self.inputs):
            name += "_"
        self.nodes.append(Node("Identity", (tensor,), (name,)))
        self.outputs.append(Port(name, dtype, shape))

    # What is asked for all the time.

    def cast(self, tensor: str, dtype: Any) -> str:
        return self("Cast", tensor, to=TYPES[np.dtype(dtype).name])

    def columns(self, tensor: str, at: Sequence[int] | IntArray) -> str:
        """Some of the columns."""
        return self("Gather", tensor, np.asarray(at, np.int64), axis=1)

    def side_by_side(self, parts: Sequence[str]) -> str:
        return parts[0] if len(parts) == 1 else self("Concat", *parts, axis=1)

    def row_sums(self, tensor: str) -> str:
        """(n, 1)."""
        return self("ReduceSum", tensor, np.array([1]), keepdims=1)

    def total(self, parts: Sequence[str]) -> str:
        result = parts[0]
        for part in parts[1:]:
            result = self("Add", result, part)
        return result

    def held(self, tensor: str, low: Array, high: Array) -> str:
        """No lower and no higher than that."""
        return self("Min", self("Max", tensor, np.asarray(low, np.float64)), np.asarray(high, np.float64))

    def affine(self, tensor: str, W: Array) -> str:
        """[h, 1] @ W."""
        return self("Add", self("MatMul", tensor, W[:-1]), W[-1])

    # What kernels are made of. Points are stored as columns (d, M), the way products need them: older versions of
    # onnxruntime have no product with a transposed matrix in float64.

    def points(self, points: Array) -> str:
        """Return points as (d, M), in float64; they are stored in the precision that they have."""
        name = self.constant(points.T)
        return name if points.dtype == np.float64 else self.cast(name, np.float64)

    def minus_half_squares(self, directions: Array, Z: str, points: Array) -> str:
        """Return -|u - v|^2 / 2 = [u, 1, -|u|^2 / 2] [v, -|v|^2 / 2, 1]' for u = T z and v = T p, as one product."""
        T = directions if len(directions) else np.zeros((1, directions.shape[1]))
        u, v = self("MatMul", Z, T.T), self("MatMul", T, self.points(points))
        of_u, of_v = (self._minus_half_norms(x, axis) for x, axis in ((u, 1), (v, 0)))
        left = self("Concat", self("Pad", u, np.array([0, 0, 0, 1]), np.array(1.0)), of_u, axis=1)
        right = self("Pad", self("Concat", v, of_v, axis=0), np.array([0, 0, 1, 0]), np.array(1.0))
        return self("Min", self("MatMul", left, right), np.array(0.0))

    def _minus_half_norms(self, x: str, axis: int) -> str:
        return self("Mul", self("ReduceSum", self("Mul", x, x), np.array([axis]), keepdims=1), np.array(-0.5))

    def minus_distances(self, relevance: Array, Z: str, points: Array) -> str:
        """Return -sum_j gamma_j |z_j - p_j|. l1 distances have no product and no operation in ONNX: a Scan goes over
        the rows, with gamma'|P' - z| for one z at a time, so that memory stays at one table of the points."""
        seen = np.flatnonzero(relevance)
        columns = self("Gather", self.points(points), seen.astype(np.int64), axis=0)
        weights = self.constant(-np.asarray(relevance[seen], np.float64)[None])
        upright, flat = self.constant(np.array([-1, 1])), self.constant(np.array([-1]))
        row, column, apart, size, product, result = (f"{self.prefix}in a row/{k}" for k in range(6))
        body = Body(
            (
                Node("Reshape", (row, upright), (column,)),
                Node("Sub", (columns, column), (apart,)),
                Node("Abs", (apart,), (size,)),
                Node("MatMul", (weights, size), (product,)),
                Node("Reshape", (product, flat), (result,)),
            ),
            row,
            len(seen),
            result,
        )
        return self("Scan", self.columns(Z, seen), body=body, num_scan_inputs=1)

    def same_levels(self, weights: Array, Z: str, points: Array, dtype: Any) -> str:
        """Return sum_c w_c 1[z_c = p_c]: columns of few levels by one product of indicators, the others by
        comparisons."""
        seen, P = np.flatnonzero(weights), self.points(points)
        levels_of = {c: np.unique(points[:, c]).astype(np.float64) for c in seen}
        few = [c for c in seen if len(levels_of[c]) <= _FEW]
        parts = []
        if few:
            at = np.repeat(few, [len(levels_of[c]) for c in few])
            levels = np.concatenate([levels_of[c] for c in few])
            left = self.cast(self("Equal", self.columns(Z, at), levels), dtype)
            right = self.cast(self("Equal", self("Gather", P, at, axis=0), levels[:, None]), dtype)
            parts.append(self("MatMul", left, self("Mul", right, weights[at, None].astype(dtype))))
        for c in (c for c in seen if len(levels_of[c]) > _FEW):
            same = self("Equal", self.columns(Z, np.array([c])), self("Gather", P, np.array([c]), axis=0))
            parts.append(self("Where", same, weights[c].astype(dtype), np.zeros((), dtype)))
        if not parts:
            parts = [self.cast(self("MatMul", self.columns(Z, [0]), np.zeros((1, len(points)))), dtype)]
        return self.total(parts)
