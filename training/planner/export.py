"""The trained network as it is served, int8 ONNX and the tokenizer; and its weights read back from that."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Final

import onnx
import torch

from planner_svc.backends.compact.inputs import FEATURES
from planner_svc.backends.compact.items import SHAPES
from planner_svc.backends.compact.looks import LOOKS
from training.planner.network import Inputs, Network, Outputs
from training.shared.exports import restore_weights
from training.shared.quantisation import to_int8_dynamic, without_traces

NETWORK: Final = "planner.onnx"


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

    Args:
        network: of the same sizes.
        dimension: of the items' vectors.
        folder: that :func:`write_model` wrote.

    Raises:
        CheckpointError: it cannot be read, or is of a network of other sizes.
    """
    restore_weights(network, lambda: export_fp32(network.eval(), dimension), folder / NETWORK)


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
