"""What ``nestor train llm`` wrote: an adapter, or a whole model as transformers saves it (``--method full``)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from deploy.llm.adapter import CONFIG, WEIGHTS, read_adapter, read_safetensors
from deploy.llm.errors import ModelFileError
from deploy.llm.gguf_files import write_merged, write_whole

WHOLE_CONFIG: Final = "config.json"
_WHOLE_WEIGHTS: Final = "model*.safetensors"


def is_whole(folder: Path) -> bool:
    """Whether the folder has a whole model and no adapter."""
    return (folder / WHOLE_CONFIG).is_file() and not (folder / CONFIG).is_file()


def weight_files(folder: Path) -> list[Path]:
    """The files that determine what the model computes: its configuration and its weights.

    Raises:
        ModelFileError: one is missing.
    """
    if is_whole(folder):
        weights = sorted(folder.glob(_WHOLE_WEIGHTS))
        if not weights:
            raise ModelFileError(f"there is no model in {folder}: model.safetensors is missing")
        return [folder / WHOLE_CONFIG, *weights]
    files = [folder / CONFIG, folder / WEIGHTS]
    if missing := next((file for file in files if not file.is_file()), None):
        raise ModelFileError(f"there is no adapter in {folder}: {missing.name} is missing")
    return files


def sha256_of(files: Iterable[Path]) -> str:
    """The hash of files one after the other.

    Raises:
        ModelFileError: one cannot be read.
    """
    digest = hashlib.sha256()
    for file in files:
        try:
            with file.open("rb") as content:
                while block := content.read(1 << 20):
                    digest.update(block)
        except OSError as error:
            raise ModelFileError(f"{file} cannot be read: {error.strerror}") from None
    return digest.hexdigest()


def write_planner(base: Path, folder: Path, out: Path, kind: str) -> None:
    """Write what was trained as one GGUF file. Its layers get the type ``kind``.

    Args:
        base: the GGUF file of the base model. A whole model takes only the vocabulary and the dimensions from it.
        folder: what was trained.
        out: the file to write.
        kind: number type of the layers.

    Raises:
        ModelFileError: a file is missing, damaged or does not fit.
    """
    files = weight_files(folder)
    if not is_whole(folder):
        write_merged(base, read_adapter(folder), out, kind)
        return
    weights = {name: tensor for file in files[1:] for name, tensor in read_safetensors(file).items()}
    write_whole(base, weights, out, kind)
