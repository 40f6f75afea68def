"""The registry of finetuned language models: which adapter plans, on which base, with which prompt.

A folder with ``registry.json`` and the adapters' folders beside it. Training writes it (an adapter is promoted only
where it is better than the one before), servers read it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

REGISTRY: Final = "registry.json"
_MAX_BYTES: Final = 1_000_000

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.\-]{0,99}$")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class RegistryError(ValueError):
    """The registry cannot be read, or an adapter does not fit; the message says which and why."""


class Entry(BaseModel):
    """An adapter.

    Attributes:
        name: of its folder, beside ``registry.json``.
        base: name of the model it was trained on.
        base_sha256: of that model's file, or of its weights' files together.
        prompt_version: of the prompt it was taught with; it is of no use with another.
        data_sha256: of the conversations it learnt.
        figures: what it was measured to do before it was promoted: metrics in percent by folder of requests.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name
    base: str
    base_sha256: Sha256
    prompt_version: str
    data_sha256: Sha256
    figures: dict[str, dict[str, float]] = {}


class Registry(BaseModel):
    """The content of ``registry.json``: all adapters by name, and the one that plans."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    promoted: Name | None = None
    adapters: dict[Name, Entry] = {}

    def current(self) -> Entry | None:
        """The one that plans; None where none was promoted yet."""
        return self.adapters.get(self.promoted) if self.promoted is not None else None


def read_registry(folder: Path) -> Registry:
    """The registry of a folder; an empty one where there is none.

    Raises:
        RegistryError: it cannot be read, or names what it does not hold.
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


def promoted(folder: Path, prompt_version: str) -> tuple[Path, Entry] | None:
    """The folder and the entry of the adapter that plans; None where none was promoted yet.

    Raises:
        RegistryError: the registry cannot be read, the folder is not there, or the adapter was taught with another
            version of the prompt.
    """
    entry = read_registry(folder).current()
    if entry is None:
        return None
    if entry.prompt_version != prompt_version:
        raise RegistryError(
            f"{entry.name} in {folder} was trained with version {entry.prompt_version} of the prompt, but this "
            f"Nestor uses version {prompt_version}: finetune it again"
        )
    if not (folder / entry.name).is_dir():
        raise RegistryError(f"{folder / REGISTRY} lists {entry.name}, which does not exist")
    return folder / entry.name, entry


def enter(folder: Path, entry: Entry, *, promote: bool) -> None:
    """Enter an adapter, in place of one of the same name; promoted, it plans from the next start of a server.

    Raises:
        RegistryError: the registry that is there cannot be read.
    """
    before = read_registry(folder)
    adapters = dict(before.adapters) | {entry.name: entry}
    after = Registry(promoted=entry.name if promote else before.promoted, adapters=adapters)
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{REGISTRY}.part"
    part.write_text(after.model_dump_json(indent=2) + "\n", encoding="utf-8")
    part.replace(folder / REGISTRY)
