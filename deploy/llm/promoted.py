"""Which model llama.cpp serves: the file that the settings name, or else the model that a registry promotes.

So what ``nestor train gate`` promotes is what plans from the next start on.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from deploy.llm.errors import ModelFileError
from deploy.llm.install import BASE_NAME, find_installed, install, is_known_base, registered_adapter, shipped_registry
from deploy.llm.settings import FOLDER, REGISTRY, LlmSettings, settings_from_environment
from services.registry import PromptForm, RegistryError, read_registry

_KIND = "Q8_0"


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A GGUF file, the form of the prompt that its model was trained with, and that model's folder in a registry."""

    file: Path
    detail: PromptForm = "brief"
    folder: Path | None = None


def registry_to_read(given: Path | None = None) -> Path:
    """The folder of the registry: ``given``, or else what ``NESTOR_LLM_REGISTRY`` names.

    Without either it is the one that `nestor train` writes, if it promotes a model, or else the one that ships.

    Raises:
        LlmError: a setting is wrong, or the registry of `nestor train` cannot be read.
    """
    if found := given or settings_from_environment().registry:
        return found
    try:
        return REGISTRY if read_registry(REGISTRY).current() is not None else shipped_registry()
    except RegistryError as error:
        raise ModelFileError(str(error)) from None


def model_to_serve(settings: LlmSettings, folder: Path = FOLDER) -> ServedModel:
    """The model that the settings name, or else the promoted one, merged into its base if it is not yet.

    A file that `nestor llm install` wrote is used if it was made from the promoted model. It is never overwritten.

    Args:
        settings: of the server.
        folder: where the base and merged models are.

    Raises:
        LlmError: the registry cannot be read or promotes nothing; a file that it names is missing, has another hash or
            does not fit; or the base model is missing.
    """
    if settings.model is not None:
        return ServedModel(settings.model)
    registry = registry_to_read(settings.registry)
    found = registered_adapter(registry)
    own_file = f"registered-{found.entry.name}.gguf"
    file = find_installed(folder, found, own_file)
    if file is None:
        if is_known_base(found.entry) and not (folder / BASE_NAME).is_file():
            raise ModelFileError(f"there is no {folder / BASE_NAME} to merge {found.folder} into: make llm")
        file = install(folder, found.folder, _KIND, _say, found.base(), own_file)
    _say(f"{found.entry.name}, which {registry} promotes, is served from {file}")
    return ServedModel(file, found.entry.detail, found.folder)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
