"""The registry of finetuned language models: which one plans, on which base model, with which prompt.

It is a folder with ``registry.json`` and one folder per model: an adapter, or a whole model. Training writes it and
promotes a model only if it is better than the previous one. Servers read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

REGISTRY: Final = "registry.json"
_MAX_BYTES: Final = 1_000_000

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.\-]{0,99}$")]
PromptForm = Literal["brief", "full"]
"""The form of the prompt: brief, or with all of each API's fields and the whole instruction."""
PromptVersions = Mapping[PromptForm, str]
"""The version of each form of the prompt."""
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class RegistryError(ValueError):
    """The registry cannot be read, or an adapter does not match. The message says which and why."""


class Entry(BaseModel):
    """A model: an adapter, or a whole model.

    Attributes:
        name: name of its folder, beside ``registry.json``.
        base: name of the base model it was trained on.
        base_sha256: hash of the base model's file, or of all its weight files together.
        base_file: where that file was when the model was promoted; None: unknown, or the base can be fetched.
        prompt_version: version of the prompt it was trained with; it does not work with another.
        detail: form of the prompt it was trained with, and has to be asked in.
        data_sha256: hash of the conversations it was trained on.
        weights_sha256: hash of its configuration and weight files together; None in registries of earlier versions.
        figures: metrics measured before promotion, in percent, by folder of requests.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name
    base: str
    base_sha256: Sha256
    base_file: Path | None = None
    prompt_version: str
    detail: PromptForm = "brief"
    data_sha256: Sha256
    weights_sha256: Sha256 | None = None
    figures: dict[str, dict[str, float]] = {}


class Registry(BaseModel):
    """The content of ``registry.json``: all adapters by name, and the name of the promoted one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    promoted: Name | None = None
    adapters: dict[Name, Entry] = {}

    def current(self) -> Entry | None:
        """The promoted adapter; None if none is promoted."""
        return self.adapters.get(self.promoted) if self.promoted is not None else None


def read_registry(folder: Path) -> Registry:
    """The registry of a folder; an empty one if the folder has none.

    Raises:
        RegistryError: it cannot be read, or it promotes an adapter that it does not contain.
    """
    file = folder / REGISTRY
    try:
        with file.open("rb") as content:
            text = content.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return Registry()
    except OSError as error:
        raise RegistryError(f"{file} cannot be read: {error.strerror}") from None
    try:
        found = Registry.model_validate_json(text if len(text) <= _MAX_BYTES else b"")
    except ValidationError as error:
        raise RegistryError(f"{file}: {error.errors(include_url=False, include_input=False)[0]['msg']}") from None
    if found.promoted is not None and found.promoted not in found.adapters:
        raise RegistryError(f"{file}: {found.promoted!r} is promoted, but is not one of the adapters")
    return found


def promoted(folder: Path, versions: PromptVersions) -> tuple[Path, Entry] | None:
    """The folder and the entry of the promoted adapter; None if none is promoted.

    Raises:
        RegistryError: the registry cannot be read, the folder is missing, or the adapter was trained with another
            version of the prompt.
    """
    entry = read_registry(folder).current()
    return _usable(folder, entry, versions) if entry is not None else None


def named(folder: Path, name: str, versions: PromptVersions) -> tuple[Path, Entry]:
    """The folder and the entry of the adapter with this name, promoted or not.

    Raises:
        RegistryError: there is none, or as for :func:`promoted`.
    """
    adapters = read_registry(folder).adapters
    if name not in adapters:
        raise RegistryError(f"{folder / REGISTRY} lists no {name!r}; it lists {', '.join(adapters) or 'nothing'}")
    return _usable(folder, adapters[name], versions)


def _usable(folder: Path, entry: Entry, versions: PromptVersions) -> tuple[Path, Entry]:
    if entry.prompt_version != versions[entry.detail]:
        raise RegistryError(
            f"{entry.name} in {folder} was trained with version {entry.prompt_version} of the prompt, but this "
            f"Nestor uses version {versions[entry.detail]}: finetune it again"
        )
    if not (folder / entry.name).is_dir():
        raise RegistryError(f"{folder / REGISTRY} lists {entry.name}, which does not exist")
    return folder / entry.name, entry


def enter(folder: Path, entry: Entry, *, promote: bool) -> None:
    """Add an adapter, or replace the one of the same name. Servers use a promoted adapter from their next start.

    Raises:
        RegistryError: the existing registry cannot be read.
    """
    before = read_registry(folder)
    adapters = dict(before.adapters) | {entry.name: entry}
    after = Registry(promoted=entry.name if promote else before.promoted, adapters=adapters)
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{REGISTRY}.part"
    part.write_text(after.model_dump_json(indent=2, exclude_none=True) + "\n", encoding="utf-8")
    part.replace(folder / REGISTRY)
