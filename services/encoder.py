"""Text encoders: one interface, two implementations.

``OnnxEncoder`` is for serving: it needs onnxruntime and tokenizers, not torch. ``SentenceTransformersEncoder`` is
optional and runs any sentence-transformers model. Both import their libraries only when one is created.

Vectors are float32 and L2-normalised, so an inner product is a cosine similarity. An encoder's ``name`` changes
whenever its vectors could change: store it beside every vector and embed again when it differs.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from services.errors import UnusableSettings

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

Vectors = NDArray[np.float32]

DEFAULT_MODEL = "all-MiniLM-L6-v2"
RETRIEVER_MODEL = "nestor-retriever-v3"
"""The default model fine-tuned to match requests and APIs (docs/training.md). For other texts the default is better."""
PLANNER_MODEL = "nestor-planner-v8"
"""The compact planner's network (docs/planning.md)."""
MAX_TOKENS = 256
"""Maximum sequence length that all-MiniLM-L6-v2 declares. Longer texts are truncated."""
MAX_CHARS = 8192
"""Maximum characters read of a text: far more than ``MAX_TOKENS`` tokens of prose, and tokenised in milliseconds."""

_SHIPPED = Path(__file__).parent / "models"
_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class TokenEncoding:
    """Token vectors of one text, for late interaction and for pooling parts of it.

    Attributes:
        vectors: (t, d) contextual token vectors, not normalised. Special tokens are left out unless requested.
        offsets: t pairs (start, end), half-open, in characters of the input text.
        pooled: (d,) the same normalised vector that ``encode`` returns for this text.
    """

    vectors: Vectors
    offsets: list[tuple[int, int]]
    pooled: Vectors


class Encoder(Protocol):
    """Encodes text as vectors. Thread-safe. Accepts any text."""

    @property
    def name(self) -> str:
        """Identity of the vectors: model name and a hash of its content."""
        ...

    @property
    def dimension(self) -> int:
        """Length d of a vector."""
        ...

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Encode texts into an (n, d) array with L2-normalised rows, (0, d) for no texts.

        A text's vector does not depend on the texts encoded with it.
        """
        ...

    def encode_tokens(self, text: str, *, special: bool = False) -> TokenEncoding:
        """Encode one text token by token; with ``special``, include the special tokens at its ends."""
        ...


class EncoderError(UnusableSettings):
    """A model cannot be loaded. The message says what to do about it."""


class OnnxEncoder:
    """Runs a sentence encoder exported to ONNX.

    The directory holds ``tokenizer.json`` and ``model.onnx``. The model has the inputs ``input_ids``,
    ``attention_mask`` and optionally ``token_type_ids`` (int64, (n, t)), and the outputs ``token_embeddings`` (n, t, d)
    and ``sentence_embedding`` (n, d), pooled and normalised. These are the names that sentence-transformers uses.
    ``training.retriever.export_encoder`` writes such a directory.

    Args:
        directory: folder of the two files.
        threads: number of texts that one call of ``encode`` encodes in parallel.

    Raises:
        EncoderError: a file is missing or is not such a model.
    """

    def __init__(self, directory: Path, threads: int = 1) -> None:
        model, tokenizer = directory / "model.onnx", directory / "tokenizer.json"
        for path in (model, tokenizer):
            if not path.is_file():
                raise EncoderError(f"the encoder directory {directory} has no {path.name}")
        self._name = f"{directory.name}@{_hash(model.read_bytes(), tokenizer.read_bytes(), str(MAX_TOKENS).encode())}"
        self._tokenizer = load_tokenizer(tokenizer)
        self._session = load_session(model)
        self._threads = threads
        self._inputs = frozenset(node.name for node in self._session.get_inputs())
        shapes = {node.name: node.shape for node in self._session.get_outputs()}
        if not shapes.keys() >= {"token_embeddings", "sentence_embedding"}:
            raise EncoderError(
                f"{model} has outputs {sorted(shapes)}, not token_embeddings and sentence_embedding;"
                " export it with python -m training.retriever.export_encoder"
            )
        self._dimension = int(shapes["sentence_embedding"][-1])

    @property
    def name(self) -> str:
        """Model name and hash of its content."""
        return self._name

    @property
    def dimension(self) -> int:
        """Length d of a vector."""
        return self._dimension

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Encode texts into (n, d), rows normalised."""
        # One text per run. Batches are no faster on a CPU, and their padding can change the last bits of a vector.
        vectors = np.empty((len(texts), self._dimension), dtype=np.float32)
        workers = min(self._threads, len(texts))

        def fill(first: int) -> None:
            for row in range(first, len(texts), workers):
                vectors[row] = self._run(self._tokenize(texts[row]), "sentence_embedding")[0][0]

        if workers == 1:
            fill(0)
        elif workers:
            with ThreadPoolExecutor(workers, thread_name_prefix="encoder") as pool:
                list(pool.map(fill, range(workers)))
        return vectors

    def encode_tokens(self, text: str, *, special: bool = False) -> TokenEncoding:
        """Encode one text token by token."""
        encoding = self._tokenize(text)
        tokens, pooled = self._run(encoding, "token_embeddings", "sentence_embedding")
        real = (np.asarray(encoding.special_tokens_mask) == 0) | special
        offsets = [offset for offset, keep in zip(encoding.offsets, real, strict=True) if keep]
        return TokenEncoding(vectors=tokens[0][real], offsets=offsets, pooled=pooled[0])

    def _tokenize(self, text: str) -> Encoding:
        return self._tokenizer.encode(sanitised(text))

    def _run(self, encoding: Encoding, *outputs: str) -> list[Vectors]:
        feed = {
            "input_ids": encoding.ids,
            "attention_mask": encoding.attention_mask,
            "token_type_ids": encoding.type_ids,
        }
        arrays = {name: np.asarray([row], dtype=np.int64) for name, row in feed.items() if name in self._inputs}
        result: list[Vectors] = self._session.run(outputs, arrays)
        return result


class SentenceTransformersEncoder:
    """Any sentence-transformers model, by hub name or directory. Needs torch; not part of the default install.

    Args:
        name_or_path: what ``SentenceTransformer`` takes.

    Raises:
        EncoderError: sentence-transformers is not installed, or it cannot load the model.
    """

    def __init__(self, name_or_path: str) -> None:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise EncoderError(
                f"{name_or_path!r} is neither a model that ships with Nestor nor a directory with model.onnx and"
                " tokenizer.json; to load it with sentence-transformers: pip install sentence-transformers"
            ) from error
        try:
            self._model: Any = SentenceTransformer(name_or_path)
        except (OSError, ValueError) as error:  # raised by transformers for a missing or unsupported model
            raise EncoderError(f"sentence-transformers cannot load {name_or_path!r}: {error}") from error
        self._dimension = int(self._model.get_embedding_dimension())
        self._name = f"{Path(name_or_path).name}@{_hash(*_torch_content(self._model))}"
        # Not thread-safe without a lock: transformers sets truncation and padding on the shared tokenizer at each call.
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """Model name and hash of its content."""
        return self._name

    @property
    def dimension(self) -> int:
        """Length d of a vector."""
        return self._dimension

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Encode texts into (n, d), rows normalised."""
        if not texts:
            return np.empty((0, self._dimension), dtype=np.float32)
        with self._lock:
            vectors = self._model.encode(
                [sanitised(text) for text in texts], normalize_embeddings=True, show_progress_bar=False
            )
        return np.asarray(vectors, dtype=np.float32)

    def encode_tokens(self, text: str, *, special: bool = False) -> TokenEncoding:
        """Encode one text token by token."""
        import torch

        with self._lock, torch.inference_mode():
            features = self._model.tokenizer(
                sanitised(text),
                truncation=True,
                max_length=self._model.max_seq_length,
                return_offsets_mapping=True,
                return_special_tokens_mask=True,
                return_tensors="pt",
            ).to(self._model.device)
            offsets, marks = features.pop("offset_mapping")[0], features.pop("special_tokens_mask")[0]
            output = self._model(dict(features))
        real = (marks == 0).cpu() | special
        tokens = output["token_embeddings"][0].float().cpu()[real].numpy()
        pooled = torch.nn.functional.normalize(output["sentence_embedding"][0].float(), dim=0).cpu().numpy()
        spans = [(int(start), int(end)) for start, end in offsets.cpu()[real].tolist()]
        return TokenEncoding(vectors=tokens, offsets=spans, pooled=pooled)


def model_directory(name: str) -> Path:
    """The directory of a model that ships with Nestor, by name. Any other name is taken as a directory."""
    return _SHIPPED / name if name in {path.name for path in _SHIPPED.iterdir()} else Path(name)


def load_encoder(name_or_path: str = DEFAULT_MODEL, threads: int = 1) -> Encoder:
    """Load a shipped model by name, an exported one by directory, or any other with sentence-transformers.

    A shipped model is loaded once per process and number of threads, and then shared.

    Args:
        name_or_path: ``all-MiniLM-L6-v2`` or ``nestor-retriever-v3``; a directory with ``model.onnx`` and
            ``tokenizer.json``; or any argument of ``SentenceTransformer``.
        threads: number of texts that an ONNX model encodes in parallel in one call of ``encode``.

    Raises:
        EncoderError: the model cannot be loaded.
    """
    if name_or_path in {path.name for path in _SHIPPED.iterdir()}:
        return _shipped(name_or_path, threads)
    directory = Path(name_or_path)
    if (directory / "model.onnx").is_file():
        return OnnxEncoder(directory, threads)
    return SentenceTransformersEncoder(name_or_path)


@cache
def _shipped(name: str, threads: int) -> OnnxEncoder:
    return OnnxEncoder(model_directory(name), threads)


def sanitised(text: str) -> str:
    """Truncate the text and replace lone surrogates, which tokenizers rejects. Character offsets do not change."""
    return _SURROGATES.sub("\ufffd", text[:MAX_CHARS])


def _hash(*parts: bytes) -> str:
    """12 hex digits of the SHA-256 of the parts, each preceded by its length."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()[:12]


def load_tokenizer(path: Path) -> Tokenizer:
    """A tokenizer that truncates to ``MAX_TOKENS`` and does not pad. Raises EncoderError if the file is not one."""
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises a plain Exception for a file it cannot read
        raise EncoderError(f"{path} is not a tokenizer: {error}") from error
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS)
    return tokenizer


def load_session(path: Path) -> Any:
    """An ONNX Runtime session that uses one thread per run. Raises EncoderError if the file is not a model."""
    # Without this, onnxruntime sends usage data and keeps a device id on disk. It is read before the first session.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state as errors

    options = onnxruntime.SessionOptions()
    # One thread per run, several runs in parallel: onnxruntime's own threads spin, which is slow on shared cores.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # The memory arena stays on: with one text per run it levels off at about 30 MB per thread, malloc at 60 to 120 MB.
    # All sessions of a process share one arena: the planner runs two models, one after the other.
    _register_arena()
    options.add_session_config_entry("session.use_env_allocators", "1")
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except (errors.Fail, errors.InvalidArgument, errors.InvalidGraph, errors.InvalidProtobuf) as error:
        raise EncoderError(f"{path} is not a model that onnxruntime can run: {error}") from error


@cache
def _register_arena() -> None:
    import onnxruntime

    memory = onnxruntime.OrtMemoryInfo(
        "Cpu", onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, onnxruntime.OrtMemType.DEFAULT
    )
    as_usual = dict.fromkeys(("arena_extend_strategy", "initial_chunk_size_bytes", "max_dead_bytes_per_chunk"), -1)
    onnxruntime.create_and_register_allocator(memory, onnxruntime.OrtArenaCfg({"max_mem": 0, **as_usual}))


def _torch_content(model: Any) -> list[bytes]:
    """What determines the vectors of a sentence-transformers model: weights, modules and length limit."""
    parts = [str(model).encode(), str(model.max_seq_length).encode()]
    for key, tensor in sorted(model.state_dict().items()):
        parts += [key.encode(), tensor.detach().float().cpu().contiguous().numpy().tobytes()]
    return parts
