"""A graph of ONNX operations under construction, and the model of the package onnx that it becomes.

`graph("Add", a, b)` adds a + b and returns the name of the result. Arrays and numbers among the inputs become
constants. Equal constants are stored once, and an operation that has been added before is not repeated, so that terms
of a kernel share points and ranks.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .._types import Array, IntArray
from ..runtime.sizes import EXPORTED_INDICATOR_LEVELS

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto

Operand: TypeAlias = str | float | Sequence[int] | NDArray[np.generic] | np.generic
Attribute: TypeAlias = "int | Sequence[int] | Sequence[str] | GraphProto"

ML = "ai.onnx.ml"
OPSETS = {"": 18, ML: 3}
TYPES = {"float32": 1, "int64": 7, "string": 8, "float64": 11}  # the numbers that ONNX has for them


def package(name: str) -> ModuleType:
    """Import a package of the extra `onnx`, or say what to install."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f'to_onnx needs the package {name}: pip install "mlkm[onnx]".') from error


@dataclass
class Graph:
    """Operations, constants, inputs and outputs so far. All names that are made begin with `prefix`."""

    prefix: str = "mlkm/"
    nodes: "list[NodeProto]" = field(default_factory=list)
    constants: dict[str, NDArray[np.generic]] = field(default_factory=dict)
    inputs: "dict[str, ValueInfoProto]" = field(default_factory=dict)
    outputs: "list[ValueInfoProto]" = field(default_factory=list)
    _names: dict[tuple[object, ...], str] = field(default_factory=dict)
    _made: "dict[str, NodeProto]" = field(default_factory=dict)
    _onnx: ModuleType = field(default_factory=lambda: package("onnx"))

    def model(self) -> "ModelProto":
        """Return the graph as a checked `onnx.ModelProto`."""
        constants = [self._onnx.numpy_helper.from_array(array, name) for name, array in self.constants.items()]
        body = self._onnx.helper.make_graph(self.nodes, "mlkm", list(self.inputs.values()), self.outputs, constants)
        used = {"", *(node.domain for node in self.nodes)}
        opsets = [self._onnx.helper.make_opsetid(name, version) for name, version in OPSETS.items() if name in used]
        # with the operations of opset 18, format 8 is read by every onnxruntime since 1.14
        model: ModelProto = self._onnx.helper.make_model(body, opset_imports=opsets, ir_version=8, producer_name="mlkm")
        self._onnx.checker.check_model(model)
        return model

    def new(self, kind: str) -> str:
        """Return a name that was not used yet."""
        return f"{self.prefix}{kind}{len(self.nodes) + len(self.constants)}"

    def constant(self, array: Operand) -> str:
        """Store an array, unless an equal one is stored already, and return its name."""
        value = np.asarray(array, order="C")
        key = value.dtype.str, value.shape, value.tobytes()
        if key not in self._names:
            self._names[key] = self.new("constant")
            self.constants[self._names[key]] = value
        return self._names[key]

    def __call__(self, kind: str, *inputs: Operand, domain: str = "", **attributes: Attribute) -> str:
        """Add an operation, unless it was added before, and return the name of its result."""
        names = self._unfused(kind, tuple(x if isinstance(x, str) else self.constant(x) for x in inputs))
        key = kind, names, domain, *attributes, *map(str, attributes.values())
        if key not in self._names:
            self._names[key] = output = self.new(kind)
            node: NodeProto = self._onnx.helper.make_node(
                kind, names, [output], name=output, domain=domain, **attributes
            )
            self._made[output] = node
            self.nodes.append(node)
        return self._names[key]

    def _unfused(self, kind: str, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the inputs with an operation that changes nothing between a matrix product and a single factor beside
        it: onnxruntime would fuse the two, with a factor in float32 whatever the type of the product, and older
        versions have no such product in float64."""
        scales = self._is_scaling(kind, names)

        def fuses(name: str) -> bool:
            """Return whether onnxruntime would fuse this operation with the one that makes an input."""
            node = self._made.get(name)
            if node is None:
                return False
            if kind == "MatMul":
                return self._is_scaling(node.op_type, node.input)
            return scales and node.op_type == "MatMul"

        least = np.finfo(np.float64).min
        return tuple(self("Max", name, least) if fuses(name) else name for name in names)

    def _is_scaling(self, kind: str, names: Sequence[str]) -> bool:
        """Return whether an operation is a product with a constant that is one number."""
        constants = (self.constants[name] for name in names if name in self.constants)
        return kind in ("Mul", "Div") and any(array.size == 1 and array.dtype == np.float64 for array in constants)

    def input(self, name: str, dtype: str, shape: tuple[int, ...]) -> str:
        """Add an input, unless it was added before, and return its name."""
        port = self._port(name, dtype, ["rows", *shape])
        if self.inputs.setdefault(name, port) != port:
            raise ValueError(
                f"Column {name!r} is a category to one part of the model and a number to another, which cannot be"
                " exported; make it a category in the table itself, as words."
            )
        return name

    def output(self, name: str, tensor: str, dtype: str, shape: tuple[int, ...]) -> None:
        """Add an output of rows of this shape; underscores are added to its name where a column has it."""
        while name in self.inputs:
            name += "_"
        shaped = self.cast(self("Reshape", tensor, [-1, *shape]), dtype)
        self.nodes.append(self._onnx.helper.make_node("Identity", [shaped], [name], name=name))
        self.outputs.append(self._port(name, dtype, ["rows", *shape]))

    def _port(self, name: str, dtype: str, shape: Sequence[int | str | None]) -> "ValueInfoProto":
        """Return the name, the type and the shape of an input or output, as the package onnx has them."""
        port: ValueInfoProto = self._onnx.helper.make_tensor_value_info(name, TYPES[dtype], shape)
        return port

    # Operations that are needed all the time.

    def cast(self, tensor: str, dtype: DTypeLike) -> str:
        """Return a tensor in another type."""
        return self("Cast", tensor, to=TYPES[np.dtype(dtype).name])

    def columns(self, tensor: str, at: Sequence[int] | IntArray) -> str:
        """Return these columns of a tensor."""
        return self("Gather", tensor, np.asarray(at, np.int64), axis=1)

    def side_by_side(self, parts: Sequence[str]) -> str:
        """Return one tensor with the columns of several."""
        return parts[0] if len(parts) == 1 else self("Concat", *parts, axis=1)

    def row_sums(self, tensor: str) -> str:
        """Return the sums of rows, (n, 1)."""
        return self("ReduceSum", tensor, [1], keepdims=1)

    def squared_norms(self, tensor: str) -> str:
        """Return the sums of squares of rows, (n, 1)."""
        return self.row_sums(self("Mul", tensor, tensor))

    def total(self, parts: Sequence[str]) -> str:
        """Return the sum of tensors."""
        return reduce(lambda total, part: self("Add", total, part), parts)

    def clip(self, tensor: str, low: Array, high: Array) -> str:
        """Return a tensor with values between `low` and `high`."""
        return self("Min", self("Max", tensor, np.asarray(low, np.float64)), np.asarray(high, np.float64))

    def affine(self, tensor: str, W: Array) -> str:
        """Return [h, 1] W for every row h."""
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
        left = self("Concat", self("Pad", u, [0, 0, 0, 1], 1.0), of_u, axis=1)
        right = self("Pad", self("Concat", v, of_v, axis=0), [0, 0, 1, 0], 1.0)
        return self("Min", self("MatMul", left, right), 0.0)

    def _minus_half_norms(self, x: str, axis: int) -> str:
        return self("Mul", self("ReduceSum", self("Mul", x, x), [axis], keepdims=1), -0.5)

    def minus_distances(self, relevance: Array, Z: str, points: Array) -> str:
        """Return -sum_j gamma_j |z_j - p_j|.

        ONNX has no product or operation for l1 distances: a Scan goes over the rows, with gamma'|P' - z| for one z at
        a time, so that memory stays at one table of the points.
        """
        seen = np.flatnonzero(relevance)
        columns = self("Gather", self.points(points), seen.astype(np.int64), axis=0)
        weights = self.constant(-np.asarray(relevance[seen], np.float64)[None])
        upright, flat = self.constant([-1, 1]), self.constant([-1])
        row, column, apart, size, product, result = (f"{self.prefix}in a row/{k}" for k in range(6))
        operations = [
            ("Reshape", [row, upright], column),
            ("Sub", [columns, column], apart),
            ("Abs", [apart], size),
            ("MatMul", [weights, size], product),
            ("Reshape", [product, flat], result),
        ]
        steps = [self._onnx.helper.make_node(kind, inputs, [made], name=made) for kind, inputs, made in operations]
        ends = [self._port(row, "float64", [len(seen)])], [self._port(result, "float64", [None])]
        body = self._onnx.helper.make_graph(steps, "row", *ends)
        return self("Scan", self.columns(Z, seen), body=body, num_scan_inputs=1)

    def same_levels(self, weights: Array, Z: str, points: Array, dtype: DTypeLike) -> str:
        """Return sum_c w_c 1[z_c = p_c]: columns of few levels by one product of indicators, the others by
        comparisons."""
        seen, P = np.flatnonzero(weights), self.points(points)
        levels_of = {c: np.unique(points[:, c]).astype(np.float64) for c in seen}
        few = [c for c in seen if len(levels_of[c]) <= EXPORTED_INDICATOR_LEVELS]
        parts = []
        if few:
            at = np.repeat(few, [len(levels_of[c]) for c in few])
            levels = np.concatenate([levels_of[c] for c in few])
            left = self.cast(self("Equal", self.columns(Z, at), levels), dtype)
            right = self.cast(self("Equal", self("Gather", P, at, axis=0), levels[:, None]), dtype)
            parts.append(self("MatMul", left, self("Mul", right, weights[at, None].astype(dtype))))
        for c in (c for c in seen if len(levels_of[c]) > EXPORTED_INDICATOR_LEVELS):
            same = self("Equal", self.columns(Z, np.array([c])), self("Gather", P, np.array([c]), axis=0))
            parts.append(self("Where", same, weights[c].astype(dtype), np.zeros((), dtype)))
        if not parts:
            parts = [self.cast(self("MatMul", self.columns(Z, [0]), np.zeros((1, len(points)))), dtype)]
        return self.total(parts)
