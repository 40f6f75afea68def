"""The model that finetuning starts from: a Hugging Face folder, or a GGUF file of llama.cpp."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from planner_svc.backends.served.prompt import PROMPT_VERSIONS
from training.llm.card import read_report
from training.llm.settings import Method
from training.shared.base import BaseError
from training.shared.devices import faster_in_bfloat16

ADAPTER = "adapter_model.safetensors"
_WEIGHTS = ("*.safetensors", "*.bin")


@dataclass(frozen=True, slots=True)
class Start:
    """An adapter to continue from, instead of a new one.

    Attributes:
        path: the folder that ``nestor train llm`` wrote.
        name: of the folder.
        sha256: of its weights.
        rank: of its matrices.
    """

    path: Path
    name: str
    sha256: str
    rank: int


@dataclass(frozen=True, slots=True)
class Base:
    """A model to start from.

    Attributes:
        path: its folder, or its GGUF file.
        name: of the folder or the file, without its ending.
        sha256: of the file; of a folder's weights, in the order of their names.
    """

    path: Path
    name: str
    sha256: str

    @property
    def is_gguf(self) -> bool:
        """Whether it is a file of llama.cpp, which can be served unchanged."""
        return self.path.is_file()


def find_base(path: Path) -> Base:
    """Identify the base model.

    Raises:
        BaseError: it is neither a GGUF file nor a folder of a model.
    """
    if path.is_file() and path.suffix == ".gguf":
        return Base(path, path.stem, _digest([path]))
    if (path / "config.json").is_file():
        weights = sorted(one for pattern in _WEIGHTS for one in path.glob(pattern))
        return Base(path, path.resolve().name, _digest(weights))
    raise BaseError(f"{path} is neither a GGUF file nor a folder with a Hugging Face model (config.json)")


def find_start(path: Path, base: Base) -> Start:
    """Identify an adapter to continue from.

    Raises:
        BaseError: it is not an adapter, or was trained on another base or with another version of the prompt.
    """
    report = read_report(path)
    weights = path / ADAPTER
    if report is None or not weights.is_file():
        raise BaseError(f"{path} is no adapter that `nestor train llm` wrote")
    version = PROMPT_VERSIONS[report.detail]
    if (report.base.sha256, report.prompt_version) != (base.sha256, version):
        raise BaseError(
            f"{path} was trained on {report.base.name} with version {report.prompt_version} of the prompt: only an "
            f"adapter of {base.name} and of version {version} can be gone on from"
        )
    return Start(path, path.resolve().name, _digest([weights]), report.tuning.rank)


def load_base(base: Base, method: Method, device: str) -> tuple[Any, Any]:
    """Load model and tokenizer.

    Raises:
        BaseError: they cannot be loaded, or the method needs hardware or a package that is missing.
    """
    try:
        tokenizer = AutoTokenizer.from_pretrained(*_where(base)[0], **_where(base)[1])
        model = _quantised(base, device) if method == "qlora" else _plain(base, method, device)
    except (OSError, ValueError, RuntimeError, ImportError) as error:
        raise BaseError(f"{base.path} cannot be loaded: {error}") from None
    if not tokenizer.chat_template:
        raise BaseError(f"{base.path} has no chat template: take a model that was tuned to follow instructions")
    return model, tokenizer


def _plain(base: Base, method: Method, device: str) -> Any:
    # Trained weights stay float32. The frozen weights below an adapter may be stored in half the size.
    dtype = torch.bfloat16 if method == "lora" and faster_in_bfloat16(device) else torch.float32
    places, options = _where(base)
    model = AutoModelForCausalLM.from_pretrained(*places, **options, dtype=dtype)
    return _unquantised(model, dtype).to(device) if base.is_gguf else model.to(device)


def _quantised(base: Base, device: str) -> Any:
    if device != "cuda":
        raise BaseError("--method qlora needs a GPU: bitsandbytes computes in 4 bits only there. Take --method lora")
    if base.is_gguf:
        raise BaseError("--method qlora needs a Hugging Face folder: a GGUF file is quantised already")
    try:
        import bitsandbytes  # noqa: F401 - what transformers loads with, seen early for a clear message
    except ImportError:
        raise BaseError("--method qlora needs bitsandbytes: pip install bitsandbytes") from None
    from peft import prepare_model_for_kbit_training
    from transformers import BitsAndBytesConfig

    quantisation = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )
    model = AutoModelForCausalLM.from_pretrained(str(base.path), quantization_config=quantisation, device_map={"": 0})
    return prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)


def _unquantised(model: Any, dtype: torch.dtype) -> Any:
    """A copy without the mark of a GGUF file: transformers refuses to save or train what it dequantised."""
    config = model.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    plain = AutoModelForCausalLM.from_config(config, dtype=dtype)
    plain.load_state_dict(model.state_dict(), strict=False)
    plain.tie_weights()
    return plain


def _where(base: Base) -> tuple[tuple[str], dict[str, str]]:
    if base.is_gguf:
        return (str(base.path.parent),), {"gguf_file": base.path.name}
    return (str(base.path),), {}


def _digest(files: list[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as content:
            while block := content.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()
