"""The trained network as it is served, int8 ONNX and the tokenizer; and its weights read back from that."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import numpy_helper

from planner_svc.backends.compact.inputs import FEATURES
from planner_svc.backends.compact.items import SHAPES
from planner_svc.backends.compact.looks import LOOKS
from training.planner.network import Inputs, Network, Outputs
from training.shared.checkpoints import CheckpointError
from training.shared.quantisation import dequantised, to_int8_dynamic, without_traces

NETWORK: Final = "planner.onnx"


_CUT_UP: Final = 64
"""Weights of fewer numbers may be constants of the graph, row by row."""


def write_model(network: Network, tokenizer: Any, dimension: int, out: Path) -> None:
    """Write ``planner.onnx`` and ``tokenizer.json``.

    Args:
        network: trained; moved to the CPU.
        tokenizer: of its encoder, from ``tokenizers``.
        dimension: of the items' vectors.
        out: a directory, made where it is missing.
    """
    out.mkdir(parents=True, exist_ok=True)
    exported = export_fp32(network.to("cpu").float().eval(), dimension)
    onnx.save(to_int8_dynamic(exported), out / NETWORK)
    tokenizer.no_padding()
    tokenizer.save(str(out / "tokenizer.json"), pretty=False)


def export_fp32(network: Network, dimension: int) -> onnx.ModelProto:
    """Trace the network; the axes of requests, tokens and items stay free."""
    batch, tokens, items = (torch.export.Dim(name, min=low, max=4096) for name, low in (("b", 1), ("t", 2), ("m", 2)))
    axes = {
        "ids": {0: batch, 1: tokens},
        "mask": {0: batch, 1: tokens},
        "looks": {0: batch, 1: tokens},
        "vectors": {0: batch, 1: items},
        "kind": {0: batch, 1: items},
        "shape": {0: batch, 1: items},
        "owner": {0: batch, 1: items},
        "parent": {0: batch, 1: items},
        "features": {0: batch, 1: items},
        "matches": {0: batch, 1: items, 2: tokens},
    }
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        torch.onnx.export(
            network,
            tuple(_sample(dimension)),
            file.name,
            input_names=list(Inputs._fields),
            output_names=list(Outputs._fields),
            dynamic_shapes={"inputs": tuple(axes[name] for name in Inputs._fields)},
            external_data=False,
            dynamo=True,
        )
        return without_traces(onnx.load(file.name))


def start_from_export(network: Network, dimension: int, folder: Path) -> None:
    """Give a network the weights of one that was exported, as far as 8 bits hold them, in place.

    An exporter names matrices by their place in the graph. Which is which is seen by tracing this network with weights
    that are all different.

    Args:
        network: of the same sizes.
        dimension: of the items' vectors.
        folder: that :func:`write_model` wrote.

    Raises:
        CheckpointError: it cannot be read, or is of a network of other sizes.
    """
    file = folder / NETWORK
    try:
        exported = dequantised(onnx.load(file))
    except Exception as error:  # whatever its parser stumbles over
        raise CheckpointError(f"cannot start from {file}: {error}") from error
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in network.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator))
    traced = {one.name: numpy_helper.to_array(one) for one in export_fp32(network.eval(), dimension).graph.initializer}
    with torch.no_grad():
        for name, weight in network.named_parameters():
            weight.copy_(torch.from_numpy(_matching(name, weight.numpy(), traced, exported).copy()))


def _matching(
    name: str, marked: NDArray[np.float32], traced: dict[str, NDArray[Any]], exported: dict[str, NDArray[Any]]
) -> NDArray[np.float32]:
    """What an export holds in the place where a trace of the marked weight holds that; by rows where it was cut up."""
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
    """A matrix as wide as the marked one: what a network reads that the earlier one did not counts nothing at first."""
    grown = np.zeros_like(marked)
    if earlier.shape[0] != grown.shape[0] or earlier.shape[1] > grown.shape[1]:
        raise CheckpointError(f"cannot start from this export: a matrix is {earlier.shape}, not {grown.shape}")
    grown[:, : earlier.shape[1]] = earlier
    return grown


def _sample(dimension: int) -> Inputs:
    tokens, items = 7, 5
    return Inputs(
        ids=torch.randint(1000, 2000, (2, tokens)),
        mask=torch.ones(2, tokens, dtype=torch.int64),
        looks=torch.zeros(2, tokens, LOOKS),
        vectors=torch.randn(2, items, dimension),
        kind=torch.tensor([[0, 1, 2, 3, 0]] * 2),
        shape=torch.zeros(2, items, SHAPES),
        owner=torch.tensor([[0, 0, 0, 0, 1]] * 2),
        parent=torch.tensor([[0, 1, 1, 3, 4]] * 2),
        features=torch.zeros(2, items, FEATURES),
        matches=torch.zeros(2, items, tokens),
    )
