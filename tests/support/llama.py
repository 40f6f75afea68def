"""A tiny Llama model that a test creates, an adapter for it, and their computation in plain numpy.

Weights have transformers' names and order. The GGUF file is written from them with llama.cpp's names and order.
:meth:`TinyLlama.log_probabilities` computes with them as transformers does. A reader of the file must get the same
numbers.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter
from gguf.quants import quantize
from numpy.typing import NDArray

Array = NDArray[np.float32]

BLOCKS, WIDTH, HEADS, KEY_HEADS, INNER = 2, 128, 4, 2, 160
HEAD = WIDTH // HEADS
EPSILON, ROPE_BASE = 1e-5, 10_000.0
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
VOCABULARY = 256 + len(SPECIAL) + 1
SHAPES = {
    "self_attn.q_proj": (WIDTH, WIDTH), "self_attn.k_proj": (KEY_HEADS * HEAD, WIDTH),
    "self_attn.v_proj": (KEY_HEADS * HEAD, WIDTH), "self_attn.o_proj": (WIDTH, WIDTH),
    "mlp.gate_proj": (INNER, WIDTH), "mlp.up_proj": (INNER, WIDTH), "mlp.down_proj": (WIDTH, INNER),
}  # fmt: skip
GGUF_NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}  # fmt: skip
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


@dataclass(frozen=True)
class TinyLlama:
    """Weights by module, in transformers' order of rows."""

    weights: dict[str, Array]
    embedding: Array = field(repr=False)

    def changed(self, factors: dict[str, tuple[Array, Array]], scale: float) -> TinyLlama:
        """A copy with an adapter added: ``scale * up @ down`` for each module's (down, up)."""
        added = {name: self.weights[name] + scale * (up @ down) for name, (down, up) in factors.items()}
        return replace(self, weights=self.weights | added)

    def log_probabilities(self, tokens: list[int]) -> Array:
        """The log probability of every token as the next one."""
        x = self.embedding[tokens]
        for block in range(BLOCKS):
            x = x + self._attention(block, _normed(x))
            x = x + self._mlp(block, _normed(x))
        logits = (_normed(x[-1:]) @ self.embedding.T)[0].astype(np.float64)
        logits -= logits.max()
        result: Array = (logits - np.log(np.exp(logits).sum())).astype(np.float32)
        return result

    def _weight(self, block: int, name: str) -> Array:
        return self.weights[f"model.layers.{block}.{name}"]

    def _attention(self, block: int, x: Array) -> Array:
        count = len(x)
        q = _rotated((x @ self._weight(block, "self_attn.q_proj").T).reshape(count, HEADS, HEAD))
        k = _rotated((x @ self._weight(block, "self_attn.k_proj").T).reshape(count, KEY_HEADS, HEAD))
        v = (x @ self._weight(block, "self_attn.v_proj").T).reshape(count, KEY_HEADS, HEAD)
        k, v = (np.repeat(one, HEADS // KEY_HEADS, axis=1) for one in (k, v))
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(HEAD)
        scores += np.triu(np.full((count, count), -np.inf), 1)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        mixed = np.einsum("hqk,khd->qhd", weights, v).reshape(count, WIDTH)
        result: Array = mixed @ self._weight(block, "self_attn.o_proj").T
        return result

    def _mlp(self, block: int, x: Array) -> Array:
        gate = x @ self._weight(block, "mlp.gate_proj").T
        inner = gate / (1 + np.exp(-gate)) * (x @ self._weight(block, "mlp.up_proj").T)
        result: Array = inner @ self._weight(block, "mlp.down_proj").T
        return result

    def write(self, path: Path, kind: str = "F32", architecture: str = "llama") -> Path:
        """Write the model as a GGUF file in llama.cpp's layout."""
        writer = GGUFWriter(path, architecture)
        writer.add_block_count(BLOCKS)
        writer.add_context_length(2_048)
        writer.add_embedding_length(WIDTH)
        writer.add_feed_forward_length(INNER)
        writer.add_head_count(HEADS)
        writer.add_head_count_kv(KEY_HEADS)
        writer.add_rope_dimension_count(HEAD)
        writer.add_rope_freq_base(ROPE_BASE)
        writer.add_layer_norm_rms_eps(EPSILON)
        writer.add_vocab_size(VOCABULARY)
        _write_vocabulary(writer)
        writer.add_tensor("token_embd.weight", self.embedding)
        writer.add_tensor("output_norm.weight", np.ones(WIDTH, np.float32))
        number = GGMLQuantizationType[kind]
        for block in range(BLOCKS):
            for norm in ("attn_norm", "ffn_norm"):
                writer.add_tensor(f"blk.{block}.{norm}.weight", np.ones(WIDTH, np.float32))
            for name, short in GGUF_NAMES.items():
                weight = in_llama_cpp_order(short, self._weight(block, name))
                writer.add_tensor(f"blk.{block}.{short}.weight", quantize(weight, number), raw_dtype=number)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path


def tiny_llama(seed: int = 0) -> TinyLlama:
    """A random model whose next token depends on the previous tokens and their positions."""
    random = np.random.default_rng(seed)
    weights = {
        f"model.layers.{block}.{name}": _drawn(random, shape, 1.5 / np.sqrt(shape[1]))
        for block in range(BLOCKS)
        for name, shape in SHAPES.items()
    }
    embedding = _drawn(random, (VOCABULARY, WIDTH), 0.3)
    embedding[128 : 256 + len(SPECIAL)] = 0  # so that it writes ASCII and never ends by itself
    return TinyLlama(weights, embedding)


def tiny_factors(rank: int = 4, seed: int = 1, shapes: dict[str, tuple[int, int]] | None = None) -> dict[str, Any]:
    """An adapter's (down, up) by module. By default it fits :func:`tiny_llama` and changes all its layers."""
    random = np.random.default_rng(seed)
    wanted = shapes or {f"model.layers.{b}.{name}": shape for b in range(BLOCKS) for name, shape in SHAPES.items()}
    return {
        name: (_drawn(random, (rank, inputs), 0.1), _drawn(random, (outputs, rank), 0.5))
        for name, (outputs, inputs) in wanted.items()
    }


def write_peft(folder: Path, factors: dict[str, tuple[Array, Array]], alpha: float = 8, /, **config: object) -> Path:
    """Write an adapter as peft does, its numbers as float16."""
    folder.mkdir(parents=True, exist_ok=True)
    rank = next(iter(factors.values()))[0].shape[0]
    described = {"peft_type": "LORA", "r": rank, "lora_alpha": alpha, "bias": "none", **config}
    (folder / "adapter_config.json").write_text(json.dumps(described), encoding="utf-8")
    tensors = {}
    for name, (down, up) in factors.items():
        tensors[f"base_model.model.{name}.lora_A.weight"] = down.astype("<f2")
        tensors[f"base_model.model.{name}.lora_B.weight"] = up.astype("<f2")
    write_safetensors(folder / "adapter_model.safetensors", tensors)
    return folder


def write_safetensors(path: Path, tensors: dict[str, NDArray[Any]]) -> None:
    """Write tensors of float16 or float32."""
    header, start = {}, 0
    for name, tensor in tensors.items():
        end = start + tensor.nbytes
        kind = {"float16": "F16", "float32": "F32"}[tensor.dtype.name]
        header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [start, end]}
        start = end
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(one.tobytes() for one in tensors.values()))


def in_llama_cpp_order(short: str, weight: Array) -> Array:
    """Put dimensions i and i + half of each head side by side, as llama.cpp's rotary positions need it."""
    if short not in ("attn_q", "attn_k"):
        return weight
    half = HEAD // 2
    order = [h * HEAD + i + side * half for h in range(len(weight) // HEAD) for i in range(half) for side in (0, 1)]
    return weight[order]


def _drawn(random: np.random.Generator, shape: tuple[int, int], spread: float) -> Array:
    """Random numbers that float16 represents exactly."""
    return (random.standard_normal(shape) * spread).astype(np.float16).astype(np.float32)


def _normed(x: Array) -> Array:
    result: Array = x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON)
    return result


def _rotated(x: Array) -> Array:
    """Apply rotary positions as in transformers: the two halves of a head are the real and imaginary parts."""
    half = HEAD // 2
    angles = np.outer(np.arange(len(x)), ROPE_BASE ** (-np.arange(half) / half))[:, None, :]
    first, second = x[..., :half], x[..., half:]
    turned = (first * np.cos(angles) - second * np.sin(angles), second * np.cos(angles) + first * np.sin(angles))
    return np.concatenate(turned, axis=-1).astype(np.float32)


def _write_vocabulary(writer: GGUFWriter) -> None:
    """Write a vocabulary of all bytes in GPT-2's spelling, with one merge because llama.cpp needs a list of merges."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in plain]
    spelled = {byte: chr(byte) for byte in plain} | {byte: chr(256 + i) for i, byte in enumerate(rest)}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list([*(spelled[byte] for byte in range(256)), *SPECIAL, "he"])
    writer.add_token_types([1] * 256 + [3] * len(SPECIAL) + [1])
    writer.add_token_merges(["h e"])
    writer.add_bos_token_id(256)
    writer.add_eos_token_id(258)
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)
