"""Smaller ONNX models: weights and word embeddings as 8-bit integers.

It works on graphs with standard operators, whatever library traced them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

WORD_TABLE_ROWS = 10_000
"""A Gather from an initializer with at least this many rows reads the word embeddings."""


def to_int8(model: onnx.ModelProto) -> onnx.ModelProto:
    """Store matrix weights and the word embeddings as int8. In the file, activations stay float."""
    return _rewritten(_with_int8_words(model), "MatMul", 1, _dequantised_weight)


def to_int8_dynamic(model: onnx.ModelProto) -> onnx.ModelProto:
    """Store the word embeddings as in ``to_int8``; use onnxruntime's dynamic quantisation for the matrix products."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "fp32.onnx"), Path(folder, "int8.onnx")
        model = _with_int8_words(model)
        del model.graph.value_info[:]  # a Gemm's weights get transposed, but their noted shapes do not
        onnx.save(model, source)
        quantize_dynamic(
            source,
            target,
            op_types_to_quantize=["MatMul"],
            per_channel=True,
            reduce_range=True,
            weight_type=QuantType.QInt8,
        )
        return onnx.load(target)


def dequantised(model: onnx.ModelProto) -> dict[str, NDArray[np.float32]]:
    """The float weights of a graph made by ``to_int8_dynamic``, by their original names."""
    held = {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}
    found = {name: values for name, values in held.items() if values.dtype == np.float32}
    for name, values in held.items():
        if name.endswith("_int8"):
            found[name.removesuffix("_int8")] = values.astype(np.float32) * held[f"{name.removesuffix('_int8')}_scale"]
        elif name.endswith("_quantized"):
            bare = name.removesuffix("_quantized")
            centred = values.astype(np.float32) - held[f"{bare}_zero_point"].astype(np.float32)
            found[bare] = centred * held[f"{bare}_scale"]
    return found


def to_fp16(model: onnx.ModelProto) -> onnx.ModelProto:
    """Convert to half-precision weights and operators, for comparison."""
    from onnxruntime.transformers.float16 import convert_float_to_float16

    converted: onnx.ModelProto = convert_float_to_float16(model, keep_io_types=True)
    return converted


def without_traces(model: onnx.ModelProto) -> onnx.ModelProto:
    """Drop the exporter's stack traces: they name this machine's paths and make two exports differ."""
    graph = model.graph
    for item in (model, graph, *graph.node, *graph.value_info, *graph.input, *graph.output, *graph.initializer):
        del item.metadata_props[:]
        item.doc_string = ""
    return model


def _with_int8_words(model: onnx.ModelProto) -> onnx.ModelProto:
    return _rewritten(model, "Gather", 0, _quantised_rows, only=_is_word_table)


def _rewritten(
    model: onnx.ModelProto,
    operator: str,
    input_number: int,
    rewrite: Callable[[onnx.GraphProto, onnx.NodeProto, onnx.TensorProto], list[onnx.NodeProto]],
    only: Callable[[onnx.TensorProto], bool] = lambda _: True,
) -> onnx.ModelProto:
    """Replace the nodes of an operator whose input with that number is one of the weights."""
    weights = {tensor.name: tensor for tensor in model.graph.initializer if only(tensor)}
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        if node.op_type == operator and node.input[input_number] in weights:
            nodes += rewrite(model.graph, node, weights[node.input[input_number]])
        else:
            nodes.append(node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    onnx.checker.check_model(model)
    return model


def _is_word_table(tensor: onnx.TensorProto) -> bool:
    return len(tensor.dims) == 2 and tensor.dims[0] >= WORD_TABLE_ROWS


def _quantise(graph: onnx.GraphProto, tensor: onnx.TensorProto, axis: int) -> tuple[str, str, bool]:
    """Replace a float matrix by int8 values and the float scales left after reducing ``axis``; return their names."""
    values, scales = f"{tensor.name}_int8", f"{tensor.name}_scale"
    if any(existing.name == values for existing in graph.initializer):
        return values, scales, False
    matrix = numpy_helper.to_array(tensor)
    scale = np.maximum(np.abs(matrix).max(axis=axis, keepdims=True), 1e-12).astype(np.float32) / np.float32(127)
    quantised = np.clip(np.rint(matrix / scale), -127, 127).astype(np.int8)
    graph.initializer.remove(tensor)
    graph.initializer.append(numpy_helper.from_array(quantised, values))
    graph.initializer.append(numpy_helper.from_array(scale.ravel() if axis == 0 else scale, scales))
    return values, scales, True


def _dequantised_weight(graph: onnx.GraphProto, node: onnx.NodeProto, tensor: onnx.TensorProto) -> list[onnx.NodeProto]:
    values, scales, first = _quantise(graph, tensor, axis=0)
    node.input[1] = f"{tensor.name}_float"
    dequantise = helper.make_node("DequantizeLinear", [values, scales], [node.input[1]], axis=1)
    return [dequantise, node] if first else [node]


def _quantised_rows(graph: onnx.GraphProto, node: onnx.NodeProto, tensor: onnx.TensorProto) -> list[onnx.NodeProto]:
    """Gather int8 rows first and scale only those: dequantising the table would cost 47 MB of memory."""
    values, scales, _ = _quantise(graph, tensor, axis=1)
    rows, ids, out = f"{tensor.name}_rows", node.input[1], node.output[0]
    return [
        helper.make_node("Gather", [values, ids], [rows]),
        helper.make_node("Gather", [scales, ids], [f"{rows}_scale"]),
        helper.make_node("Cast", [rows], [f"{rows}_float"], to=TensorProto.FLOAT),
        helper.make_node("Mul", [f"{rows}_float", f"{rows}_scale"], [out]),
    ]
