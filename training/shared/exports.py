"""Exports encoders to ONNX and reads weights back, so that training can continue from a shipped model."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import numpy_helper

from services.encoder import MAX_TOKENS
from training.shared.checkpoints import CheckpointError
from training.shared.quantisation import dequantised, without_traces

_CUT_UP: Final = 64
"""Weights with fewer numbers may be constants of the graph, row by row."""


def trace_encoder(graph: torch.nn.Module) -> onnx.ModelProto:
    """Trace an encoder in float32 for :class:`services.encoder.OnnxEncoder`. Batch and token axes stay dynamic.

    Args:
        graph: returns (n, t, d) token vectors and (n, d) normalised text vectors for (n, t) ids and mask.
    """
    ids = torch.randint(1000, 2000, (2, 7))
    axes = {0: torch.export.Dim("batch", min=1, max=4096), 1: torch.export.Dim("tokens", min=2, max=512)}
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        torch.onnx.export(
            graph.eval(),
            (ids, torch.ones_like(ids)),
            file.name,
            input_names=["input_ids", "attention_mask"],
            output_names=["token_embeddings", "sentence_embedding"],
            dynamic_shapes={"input_ids": axes, "attention_mask": axes},
            external_data=False,
            dynamo=True,
        )
        return without_traces(onnx.load(file.name))


def save_tokenizer(tokenizer: Any, path: Path) -> None:
    """Write a tokenizer of ``tokenizers`` with the truncation used in service, without padding."""
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS)
    tokenizer.save(str(path), pretty=False)


def restore_weights(
    module: torch.nn.Module, trace: Callable[[], onnx.ModelProto], file: Path, *, unused: str | None = None
) -> None:
    """Load the weights of an exported module into this one, in place and with the precision of 8 bits.

    An exporter names matrices by their place in the graph. To identify them, this module is traced with weights that
    are all different.

    Args:
        module: of the same sizes.
        trace: exports the module in float32.
        file: that :func:`training.shared.quantisation.to_int8_dynamic` made.
        unused: part of the names of weights that are not in the graph and stay unchanged.

    Raises:
        CheckpointError: the file cannot be read, or is of a module of other sizes.
    """
    try:
        exported = dequantised(onnx.load(file))
    except Exception as error:  # the parser may raise anything
        raise CheckpointError(f"cannot start from {file}: {error}") from error
    generator = torch.Generator().manual_seed(1)
    used = {name: weight for name, weight in module.named_parameters() if unused is None or unused not in name}
    with torch.no_grad():
        for weight in used.values():
            weight.copy_(torch.randn(weight.shape, generator=generator))
    graph = trace().graph
    turned = {node.input[1] for node in graph.node if node.op_type == "Gemm" and _is_turned(node)}
    traced = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    # Quantisation stores the matrices of these nodes transposed.
    traced |= {name: traced[name].T for name in turned & traced.keys()}
    with torch.no_grad():
        for name, weight in used.items():
            weight.copy_(torch.from_numpy(_matching(name, weight.numpy(), traced, exported).copy()))


def _is_turned(node: onnx.NodeProto) -> bool:
    return any(one.name == "transB" and one.i for one in node.attribute)


def _matching(
    name: str, marked: NDArray[np.float32], traced: dict[str, NDArray[Any]], exported: dict[str, NDArray[Any]]
) -> NDArray[np.float32]:
    """The exported values at the place of the marked weight in the trace; row by row if the weight was split."""
    for other, values in traced.items():
        if marked.ndim == 2 and other in exported and np.array_equal(values, marked.T):
            return _grown(exported[other].T, marked)
        same_size = values.size == marked.size and other in exported and exported[other].shape == values.shape
        if same_size and np.array_equal(values.reshape(marked.shape), marked):
            return exported[other].reshape(marked.shape)
    if marked.ndim and marked.shape[0] > 1 and marked.size < _CUT_UP:
        return np.stack([_matching(name, row, traced, exported) for row in marked])
    raise CheckpointError(f"cannot start from this export: it has no {name} of shape {marked.shape}")


def _grown(earlier: NDArray[np.float32], marked: NDArray[np.float32]) -> NDArray[np.float32]:
    """The matrix padded with zeros to the marked one's width, so that new inputs have no effect at first."""
    grown = np.zeros_like(marked)
    if earlier.shape[0] != grown.shape[0] or earlier.shape[1] > grown.shape[1]:
        raise CheckpointError(f"cannot start from this export: a matrix is {earlier.shape}, not {grown.shape}")
    grown[:, : earlier.shape[1]] = earlier
    return grown
