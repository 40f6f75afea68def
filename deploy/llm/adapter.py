"""Reads a LoRA adapter as ``peft`` saves it (``adapter_config.json``, ``adapter_model.safetensors``), without torch.

Only plain LoRA on linear layers is supported. Anything that would change what the adapter computes (DoRA, other weights
saved with it, ranks per layer) is refused, never ignored.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deploy.llm.errors import ModelFileError

Array = NDArray[np.float32]

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_MAX_HEADER_BYTES = 16_000_000
_MAX_RANK = 4_096
_ENTRY = re.compile(r"base_model\.model\.(?P<module>.+)\.lora_(?P<side>[AB])(?:\.default)?\.weight")
_PLAIN: Mapping[str, object] = {
    "use_dora": False, "fan_in_fan_out": False, "lora_bias": False, "bias": "none", "rank_pattern": {},
    "alpha_pattern": {}, "modules_to_save": None, "layer_replication": None, "megatron_config": None,
    "target_parameters": None, "trainable_token_indices": None, "alora_invocation_tokens": None, "use_qalora": False,
    "use_bdlora": None, "arrow_config": None, "kasa_config": None, "monteclora_config": None, "velora_config": None,
}  # fmt: skip
"""Fields of the configuration, each with the value that means plain LoRA. An absent or empty field means the same."""


@dataclass(frozen=True, slots=True)
class LowRank:
    """The change of one weight, as two factors: ``scale * up @ down`` is added to it.

    Attributes:
        down: (r, inputs), peft's ``lora_A``.
        up: (outputs, r), peft's ``lora_B``.
    """

    down: Array
    up: Array


@dataclass(frozen=True, slots=True)
class Adapter:
    """A whole adapter.

    Attributes:
        rank: r.
        scale: factor of the product of both matrices: alpha / r, or alpha / sqrt(r) if rank-stabilised.
        changes: the factors by module, named as in transformers (``model.layers.0.self_attn.q_proj``).
    """

    rank: int
    scale: float
    changes: Mapping[str, LowRank]


def read_adapter(folder: Path) -> Adapter:
    """Read a peft folder.

    Raises:
        ModelFileError: a file is missing, truncated, or holds something other than plain LoRA.
    """
    config = _config(folder / CONFIG)
    rank, alpha = config.get("r"), config.get("lora_alpha")
    if not isinstance(rank, int) or isinstance(rank, bool) or not 1 <= rank <= _MAX_RANK:
        raise ModelFileError(f"{folder / CONFIG}: the rank `r` must be a whole number from 1 to {_MAX_RANK}")
    if not isinstance(alpha, int | float) or isinstance(alpha, bool) or not math.isfinite(alpha):
        raise ModelFileError(f"{folder / CONFIG}: `lora_alpha` must be a number")
    scale = alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)
    return Adapter(rank, scale, _changes(folder / WEIGHTS, rank))


def _config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelFileError(f"there is no adapter in {path.parent}: {path.name} is missing") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ModelFileError(f"{path} cannot be read: {error}") from None
    if not isinstance(config, dict) or config.get("peft_type") != "LORA":
        raise ModelFileError(f"{path} does not describe a LoRA adapter (`peft_type` is not `LORA`)")
    for name, plain in _PLAIN.items():
        if config.get(name) and config[name] != plain:
            raise ModelFileError(f"{path}: `{name}` is {config[name]!r}; only plain LoRA can be converted")
    return config


def _changes(path: Path, rank: int) -> dict[str, LowRank]:
    sides: dict[str, dict[str, Array]] = {}
    for name, tensor in read_safetensors(path).items():
        match = _ENTRY.fullmatch(name)
        if match is None:
            raise ModelFileError(f"{path} holds {name!r}, which is no part of plain LoRA")
        if tensor.ndim != 2 or tensor.shape[0 if match["side"] == "A" else 1] != rank:
            raise ModelFileError(f"{path}: {name} has the shape {tensor.shape}, which does not fit the rank {rank}")
        if not np.isfinite(tensor).all():
            raise ModelFileError(f"{path}: {name} holds values that are no finite numbers")
        sides.setdefault(match["module"], {})[match["side"]] = tensor
    if lone := next((module for module, pair in sides.items() if len(pair) != 2), None):
        raise ModelFileError(f"{path}: of {lone}, one of lora_A and lora_B is missing")
    if not sides:
        raise ModelFileError(f"{path} holds no weights")
    return {module: LowRank(down=pair["A"], up=pair["B"]) for module, pair in sides.items()}


def read_safetensors(path: Path) -> dict[str, Array]:
    """Every tensor of a safetensors file, as float32.

    Raises:
        ModelFileError: the file is missing, truncated, malformed, or holds types other than 16- and 32-bit floats.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror}") from None
    size = int.from_bytes(content[:8], "little")
    if len(content) < 8 or size > min(len(content) - 8, _MAX_HEADER_BYTES):
        raise ModelFileError(f"{path} is no safetensors file, or is cut off")
    data = memoryview(content)[8 + size :]
    try:
        header = json.loads(content[8 : 8 + size])
        return {name: _tensor(data, **entry) for name, entry in header.items() if name != "__metadata__"}
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ModelFileError(f"{path} is damaged: {error}") from None


def _tensor(data: memoryview, dtype: str, shape: list[int], data_offsets: list[int]) -> Array:
    """One tensor. Raises ValueError or TypeError if its header entry does not fit the data."""
    start, end = data_offsets
    if not 0 <= start <= end <= len(data):
        raise ValueError("a tensor lies outside the file")
    part = data[start:end]
    match dtype:
        case "F32":
            values = np.frombuffer(part, "<f4").astype(np.float32)
        case "F16":
            values = np.frombuffer(part, "<f2").astype(np.float32)
        case "BF16":  # the upper half of a float32
            values = (np.frombuffer(part, "<u2").astype(np.uint32) << 16).view(np.float32)
        case _:
            raise ValueError(f"values of type {dtype!r} are not supported")
    if any(not isinstance(length, int) or length < 0 for length in shape):
        raise ValueError("a tensor's shape is malformed")
    return values.reshape(shape)
