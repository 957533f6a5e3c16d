"""From a `Graph` to a model of the package onnx."""

from importlib import import_module
from typing import Any

from .graph import OPSETS, TYPES, Body, Graph, Node, Port

_FORMAT = 8  # of the file; with the operations of opset 18, for every onnxruntime since 1.14


def package(name: str) -> Any:
    """A package of the extra `onnx`, or what to install."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f'to_onnx needs the package {name}: pip install "mlkm[onnx]".') from error


def as_model(graph: Graph) -> Any:
    """A checked `onnx.ModelProto`."""
    onnx = package("onnx")
    helper = onnx.helper
    body = helper.make_graph(
        [node_proto(node) for node in graph.nodes],
        "mlkm",
        [_value(port) for port in graph.inputs],
        [_value(port) for port in graph.outputs],
        [onnx.numpy_helper.from_array(array, name) for name, array in graph.constants.items()],
    )
    used = {domain: version for domain, version in OPSETS.items() if domain in {"", *_domains(graph)}}
    opsets = [helper.make_opsetid(domain, version) for domain, version in used.items()]
    model = helper.make_model(body, opset_imports=opsets, ir_version=_FORMAT, producer_name="mlkm")
    onnx.checker.check_model(model)
    return model


def node_proto(node: Any) -> Any:
    """A node; ready ones as they are."""
    if not isinstance(node, Node):
        return node
    return package("onnx").helper.make_node(
        node.kind, node.inputs, node.outputs, name=node.outputs[0], domain=node.domain, **attributes(node)
    )


def attributes(node: Node) -> dict[str, Any]:
    return {name: _body(value) if isinstance(value, Body) else value for name, value in node.attributes}


def _body(body: Body) -> Any:
    helper = package("onnx").helper
    return helper.make_graph(
        [node_proto(node) for node in body.nodes],
        "row",
        [helper.make_tensor_value_info(body.row, TYPES["float64"], [body.size])],
        [helper.make_tensor_value_info(body.result, TYPES["float64"], [None])],
    )


def _value(port: Port) -> Any:
    return package("onnx").helper.make_tensor_value_info(port.name, TYPES[port.dtype], ["rows", *port.shape])


def _domains(graph: Graph) -> set[str]:
    return {node.domain for node in graph.nodes}
