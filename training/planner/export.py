"""Exports the trained network for serving (int8 ONNX and the tokenizer), and reads its weights back."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Final

import onnx
import torch
from torch import Tensor, nn

from planner_svc.backends.compact.inputs import FEATURES, WORD
from planner_svc.backends.compact.items import SHAPES
from planner_svc.backends.compact.surface_features import SURFACE_FEATURES
from training.planner.network import Inputs, Lower, Network, Outputs
from training.shared.exports import restore_weights, save_tokenizer, trace_encoder
from training.shared.quantisation import to_int8_dynamic, without_traces

NETWORK: Final = "planner.onnx"
LOWER: Final = "model.onnx"
"""The lower half: an encoder like any other (:class:`services.encoder.OnnxEncoder`)."""


class _Graph(nn.Module):  # type: ignore[misc]  # torch is not installed where types are checked
    """The lower half in the form of a served encoder: ids and mask in, token vectors and their normalised mean out."""

    def __init__(self, lower: Lower) -> None:
        super().__init__()
        self.lower = lower

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor]:
        read = self.lower(input_ids, attention_mask)
        there = attention_mask[:, :, None].to(read.dtype)
        return read, nn.functional.normalize((read * there).sum(dim=1) / there.sum(dim=1), dim=1)


def write_lower(lower: Lower, tokenizer: Any, out: Path) -> None:
    """Write ``model.onnx`` and ``tokenizer.json``, which :func:`services.encoder.load_encoder` reads.

    Args:
        lower: moved to the CPU.
        tokenizer: of the encoder, from ``tokenizers``.
        out: a directory, created if missing.
    """
    out.mkdir(parents=True, exist_ok=True)
    onnx.save(to_int8_dynamic(trace_encoder(_Graph(lower.to("cpu").float()))), out / LOWER)
    save_tokenizer(tokenizer, out / "tokenizer.json")


def write_network(network: Network, dimension: int, out: Path) -> None:
    """Write ``planner.onnx`` next to the lower half.

    Args:
        network: trained; moved to the CPU.
        dimension: of the units.
        out: the directory.
    """
    out.mkdir(parents=True, exist_ok=True)
    exported = export_fp32(network.to("cpu").float().eval(), dimension)
    onnx.save(to_int8_dynamic(exported), out / NETWORK)


def export_fp32(network: Network, dimension: int) -> onnx.ModelProto:
    """Trace the network for one request at a time. The numbers of tokens, units, APIs and items stay dynamic."""
    limits = {"t": (2, 512), "n": (2, 60_000), "a": (2, 512), "u": (2, 4096), "m": (2, 8192)}
    tokens, units, apis, longest, items = (
        torch.export.Dim(name, min=low, max=high) for name, (low, high) in limits.items()
    )
    axes = {
        "read": {1: tokens},
        "mask": {1: tokens},
        "looks": {1: tokens},
        "units": {0: units},
        "unit_kind": {0: units},
        "unit_shape": {0: units},
        "rows": {0: apis, 1: longest},
        "request": {0: apis},
        "tops": {1: apis},
        "place": {1: items},
        "kind": {1: items},
        "shape": {1: items},
        "owner": {1: items},
        "parent": {1: items},
        "features": {1: items},
        "matches": {1: items, 2: tokens},
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


def start_from_export(network: Network, lower: Lower, dimension: int, folder: Path) -> None:
    """Load the weights of an exported planner, both halves, in place and with the precision of 8 bits.

    Args:
        network: of the same sizes.
        lower: likewise; an upper half reads the output of the lower one that it was trained with.
        dimension: of the units.
        folder: that :func:`write_network` and :func:`write_lower` wrote to.

    Raises:
        CheckpointError: the export cannot be read, or has other sizes.
    """
    restore_weights(network, lambda: export_fp32(network.eval(), dimension), folder / NETWORK)
    graph = _Graph(lower)
    restore_weights(graph, lambda: trace_encoder(graph), folder / LOWER)


def _sample(dimension: int) -> Inputs:
    tokens, words = 7, 3
    kind = torch.tensor([[0, 1, 2, 3, 0, 1]])
    place = torch.tensor([[0, 4, 5, 6, 7, 9]])
    unit_kind = torch.full((10,), WORD)
    unit_kind[place[0]] = kind[0]
    assert words == int((unit_kind[:7] == WORD).sum())
    return Inputs(
        read=torch.randn(1, tokens, dimension),
        mask=torch.ones(1, tokens, dtype=torch.int64),
        looks=torch.zeros(1, tokens, SURFACE_FEATURES),
        units=torch.randn(10, dimension),
        unit_kind=unit_kind,
        unit_shape=torch.zeros(10, SHAPES),
        rows=torch.tensor([[0, 1, 2, 3, 4, 5, 6], [7, 8, 9, -1, -1, -1, -1]]),
        request=torch.zeros(2, dtype=torch.int64),
        tops=torch.tensor([[0, 7]]),
        place=place,
        kind=kind,
        shape=torch.zeros(1, 6, SHAPES),
        owner=torch.tensor([[0, 0, 0, 0, 1, 1]]),
        parent=torch.tensor([[0, 1, 1, 3, 4, 5]]),
        features=torch.zeros(1, 6, FEATURES),
        matches=torch.zeros(1, 6, tokens),
    )
