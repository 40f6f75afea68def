"""Writes GGUF files of the Llama architecture: a base with a LoRA adapter merged in, a whole model, or an adapter.

Uses ``gguf`` and numpy only. llama.cpp rotates neighbouring pairs of a head's dimensions, transformers rotates the two
halves. So its files store the rows of the query and key projections in another order (:func:`reordered`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from deploy.llm.adapter import Adapter, Array, LowRank
from deploy.llm.errors import ModelFileError

if TYPE_CHECKING:
    from gguf import GGUFReader, GGUFWriter

ARCHITECTURE: Final = "llama"
KINDS: Final = ("Q8_0", "Q4_0", "Q4_1", "Q5_0", "F16", "BF16", "F32")
"""Number types in which a merged model's layers can be written."""

_MODULE = re.compile(r"model\.layers\.(?P<block>\d{1,4})\.(?:self_attn|mlp)\.(?P<name>\w+)")
_WEIGHTS: Final = {
    "q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "o_proj": "attn_output",
    "gate_proj": "ffn_gate", "up_proj": "ffn_up", "down_proj": "ffn_down",
}  # fmt: skip
_BLOCK = re.compile(r"blk\.\d+\.(?:attn|ffn)_\w+\.weight")
_PART = re.compile(r"blk\.(?P<block>\d+)\.(?P<name>\w+)\.weight")
_OF_BLOCKS: Final = (
    {short: f"self_attn.{name}" for name, short in _WEIGHTS.items() if short.startswith("attn_")}
    | {short: f"mlp.{name}" for name, short in _WEIGHTS.items() if short.startswith("ffn_")}
    | {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
)
_OUTSIDE: Final = {
    "token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}  # fmt: skip
_FROM_DIMENSIONS: Final = "rope_freqs.weight"
"""The tensor of a base model that is computed from its dimensions and is never trained."""


@dataclass(frozen=True, slots=True)
class Heads:
    """Numbers of attention heads: ``queries``, and ``keys`` for keys and values."""

    queries: int
    keys: int


def read_model(path: Path) -> GGUFReader:
    """Open a model; its tensors stay on disk until they are read.

    Raises:
        ModelFileError: the file is missing, truncated, not a GGUF file, or not of the Llama architecture.
    """
    from gguf import GGUFReader

    try:
        reader = GGUFReader(path)
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, IndexError, KeyError, TypeError, OverflowError) as error:
        raise ModelFileError(f"{path} is no GGUF file, or is cut off: {error}") from None
    found = _field(reader, "general.architecture")
    if found != ARCHITECTURE:
        raise ModelFileError(f"{path} is of the architecture {found!r}; only {ARCHITECTURE!r} can be converted")
    return reader


def _field(reader: GGUFReader, name: str) -> Any:
    field = reader.get_field(name)
    return None if field is None else field.contents()


def heads_of(reader: GGUFReader) -> Heads:
    """The model's numbers of heads. Raises ModelFileError if the model does not state them."""
    queries = _field(reader, f"{ARCHITECTURE}.attention.head_count")
    keys = _field(reader, f"{ARCHITECTURE}.attention.head_count_kv") or queries
    if not isinstance(queries, int) or not isinstance(keys, int) or queries < 1 or keys < 1:
        raise ModelFileError("the base model does not say how many attention heads it has")
    return Heads(queries, keys)


def reordered(rows: Array, heads: int) -> Array:
    """Convert the rows of a query or key projection, (outputs, any), from transformers' order into llama.cpp's."""
    half = rows.shape[0] // heads // 2
    return rows.reshape(heads, 2, half, -1).swapaxes(1, 2).reshape(rows.shape)


def fitted(adapter: Adapter, base: GGUFReader) -> dict[str, LowRank]:
    """The adapter's changes by the name of the base model's tensor, in llama.cpp's order of rows.

    Raises:
        ModelFileError: a module is unknown, missing from the base model, or has another shape there.
    """
    heads = heads_of(base)
    shapes = {
        tensor.name: (int(tensor.shape[1]), int(tensor.shape[0])) for tensor in base.tensors if len(tensor.shape) == 2
    }
    changes = {}
    for module, change in adapter.changes.items():
        match = _MODULE.fullmatch(module)
        weight = _WEIGHTS.get(match["name"]) if match else None
        if match is None or weight is None:
            raise ModelFileError(f"the adapter changes {module!r}, which is no linear layer of a Llama block")
        name = f"blk.{int(match['block'])}.{weight}.weight"
        shape = (change.up.shape[0], change.down.shape[1])
        if shapes.get(name) != shape:
            raise ModelFileError(
                f"the adapter is for another base model: {module} has the shape {shape}, the base model's "
                f"{shapes.get(name, 'has no such layer')}"
            )
        turned = {"attn_q": heads.queries, "attn_k": heads.keys}.get(weight)
        changes[name] = LowRank(change.down, reordered(change.up, turned)) if turned else change
    return changes


def write_merged(base: Path, adapter: Adapter, out: Path, kind: str) -> None:
    """Write the base model with the adapter merged in. Its layers get the type ``kind``; everything else is unchanged.

    Raises:
        ModelFileError: a file is missing, damaged or does not fit, or its layers cannot be written in this type.
    """
    from gguf import GGMLQuantizationType

    _check_kind(kind)
    reader = read_model(base)
    changes = fitted(adapter, reader)

    def fill(writer: GGUFWriter) -> None:
        for tensor in reader.tensors:
            if not _BLOCK.fullmatch(tensor.name) or len(tensor.shape) != 2:
                writer.add_tensor(tensor.name, np.asarray(tensor.data), raw_dtype=tensor.tensor_type)
                continue
            weight = plain_weight(tensor.data, tensor.tensor_type)
            if change := changes.get(tensor.name):
                weight += adapter.scale * (change.up @ change.down)
            writer.add_tensor(tensor.name, _encoded(weight, kind), raw_dtype=GGMLQuantizationType[kind])

    _write_as(kind, reader, out, fill)


def write_whole(base: Path, weights: Mapping[str, Array], out: Path, kind: str) -> None:
    """Write a model of which all weights were trained; its vocabulary and dimensions are the base model's.

    Args:
        base: the GGUF file of the base model.
        weights: all weights, with transformers' names and order.
        out: the file to write.
        kind: number type of all matrices.

    Raises:
        ModelFileError: a file is missing or damaged, or the weights are not those of such a model.
    """
    from gguf import GGMLQuantizationType

    _check_kind(kind)
    reader = read_model(base)
    heads = heads_of(reader)
    own = {name: _trained_name(name, weights) for tensor in reader.tensors if (name := tensor.name) != _FROM_DIMENSIONS}
    if strange := sorted(weights.keys() - set(own.values()) - {"lm_head.weight"}):
        raise ModelFileError(f"the trained model is no Llama of the base model's size: {strange[0]} has no place there")
    for tensor in reader.tensors:
        found = weights.get(own.get(tensor.name, ""))
        if tensor.name in own and (found is None or list(found.shape) != [int(n) for n in reversed(tensor.shape)]):
            has = "is missing" if found is None else f"has the shape {found.shape}"
            raise ModelFileError(f"the trained model does not fit the base model: {own[tensor.name]} {has}")
        if found is not None and not np.isfinite(found).all():
            raise ModelFileError(f"the trained model holds values that are no finite numbers: {own[tensor.name]}")

    def fill(writer: GGUFWriter) -> None:
        for tensor in reader.tensors:
            if tensor.name not in own:
                writer.add_tensor(tensor.name, np.asarray(tensor.data), raw_dtype=tensor.tensor_type)
                continue
            weight = weights[own[tensor.name]]
            if weight.ndim == 1:
                writer.add_tensor(tensor.name, weight)
                continue
            if turned := {"attn_q": heads.queries, "attn_k": heads.keys}.get(tensor.name.split(".")[-2]):
                weight = reordered(weight, turned)
            writer.add_tensor(tensor.name, _encoded(weight, kind), raw_dtype=GGMLQuantizationType[kind])

    _write_as(kind, reader, out, fill)


def _trained_name(name: str, weights: Mapping[str, Array]) -> str:
    """Transformers' name of a tensor of a GGUF file. Raises ModelFileError if a Llama has no such tensor."""
    if name == "output.weight" and "lm_head.weight" not in weights:
        name = "token_embd.weight"  # both are the same
    match = _PART.fullmatch(name)
    own = _OF_BLOCKS.get(match["name"]) if match else None
    if match and own:
        return f"model.layers.{match['block']}.{own}.weight"
    if name not in _OUTSIDE:
        raise ModelFileError(f"the base model holds {name!r}, which is no part of a Llama with all weights trained")
    return _OUTSIDE[name]


def _check_kind(kind: str) -> None:
    if kind not in KINDS:
        raise ModelFileError(f"{kind!r} is not a type to write; there are {', '.join(KINDS)}")


def _write_as(kind: str, base: GGUFReader, out: Path, fill: Callable[[GGUFWriter], None]) -> None:
    """Write a model with the base's description and layers of this type. Raises ModelFileError if they do not fit."""
    from gguf.quants import QuantError

    described = dict(_described(base)) | {"general.file_type": _file_type(kind)}
    try:
        _write(out, described, fill)
    except QuantError as error:
        raise ModelFileError(f"{out} cannot be written as {kind}: {error}") from None


def write_lora(base: Path, adapter: Adapter, out: Path) -> None:
    """Write the adapter alone. llama.cpp adds it to the base model at load time (``--lora``).

    Raises:
        ModelFileError: a file is missing, damaged or does not fit.
    """
    reader = read_model(base)
    changes = fitted(adapter, reader)

    def fill(writer: GGUFWriter) -> None:
        # llama.cpp always scales with alpha / r, even for rank-stabilised adapters.
        writer.add_float32("adapter.lora.alpha", adapter.scale * adapter.rank)
        for name, change in changes.items():
            writer.add_tensor(f"{name}.lora_a", change.down.astype(np.float16))
            writer.add_tensor(f"{name}.lora_b", np.ascontiguousarray(change.up.astype(np.float16)))

    _write(out, {"general.type": _text("adapter"), "adapter.type": _text("lora")}, fill)


def plain_weight(data: NDArray[Any], kind: Any) -> Array:
    """A tensor's numbers as float32, copied. Raises ModelFileError for a type that cannot be read."""
    from gguf.quants import dequantize

    try:
        return np.array(dequantize(data, kind), dtype=np.float32)
    except NotImplementedError:
        raise ModelFileError(f"the base model holds tensors of the type {kind.name}, which cannot be read") from None


def _encoded(weight: Array, kind: str) -> NDArray[Any]:
    from gguf import GGMLQuantizationType
    from gguf.quants import quantize

    encoded: NDArray[Any] = quantize(weight, GGMLQuantizationType[kind])
    return encoded


@dataclass(frozen=True, slots=True)
class _Value:
    """One metadata entry of a file: its content, its type, and its elements' type for an array."""

    content: Any
    kind: Any
    element: Any = None


def _text(content: str) -> _Value:
    from gguf import GGUFValueType

    return _Value(content, GGUFValueType.STRING)


def _file_type(kind: str) -> _Value:
    from gguf import GGUFValueType, LlamaFileType

    return _Value(LlamaFileType["ALL_F32" if kind == "F32" else f"MOSTLY_{kind}"].value, GGUFValueType.UINT32)


def _described(reader: GGUFReader) -> Iterator[tuple[str, _Value]]:
    """A model's metadata: its dimensions, its vocabulary, its chat template."""
    from gguf import GGUFValueType

    for name, field in reader.fields.items():
        if not name.startswith("GGUF."):
            element = field.types[-1] if field.types[0] == GGUFValueType.ARRAY else None
            yield name, _Value(field.contents(), field.types[0], element)


def _write(out: Path, described: Mapping[str, _Value], fill: Callable[[GGUFWriter], None]) -> None:
    """Write a temporary file, then replace the target atomically: no reader sees a partial file."""
    from gguf import GGUFWriter

    out.parent.mkdir(parents=True, exist_ok=True)
    draft = out.with_name(f"{out.name}.new")
    writer = GGUFWriter(draft, ARCHITECTURE)
    try:
        for name, value in described.items():
            if name != "general.architecture":  # the writer writes it itself
                writer.add_key_value(name, value.content, value.kind, value.element)
        fill(writer)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        draft.replace(out)
    finally:
        draft.unlink(missing_ok=True)
