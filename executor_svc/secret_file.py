"""The secrets file: read as a whole, changed by one process at a time, and replaced atomically."""

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from filelock import AsyncFileLock, FileLock
from pydantic import JsonValue, TypeAdapter

from services.errors import UnusableSettings

DEFAULT_FILE: Final = Path("var") / "secrets" / "executor.json"
"""The default path for the command line and `nestor serve`. docker-compose mounts the same file."""
Entries = dict[str, JsonValue]
_OBJECT: TypeAdapter[Entries] = TypeAdapter(Entries)
_EDIT_S: Final = 10.0
_POLL_S: Final = 0.05


class SecretsUnreadable(UnusableSettings):
    """The secrets file or setting is invalid or cannot be read. The message never quotes a value."""


def read_entries(text: str, where: str) -> Entries:
    """The entries by name, unchecked. Raises SecretsUnreadable."""
    try:
        return _OBJECT.validate_python(json.loads(text))
    except (ValueError, RecursionError):
        raise SecretsUnreadable(f"{where} is not a JSON object of entries by secret name") from None


def load_file(file: Path) -> Entries:
    """The file's entries by name, unchecked. Raises SecretsUnreadable."""
    try:
        return read_entries(file.read_text("utf-8"), f"the secrets file {file}")
    except (OSError, UnicodeDecodeError) as error:
        raise SecretsUnreadable(f"the secrets file {file} cannot be read: {type(error).__name__}") from None


def change_file(file: Path, changes: Mapping[str, JsonValue]) -> None:
    """Set entries by name; None removes an entry. Other entries are kept. Creates the file if there is none.

    Raises:
        SecretsUnreadable, OSError: as :func:`edit_file`.
    """
    edit_file(file, lambda _: changes, create=True)


def edit_file(file: Path, changes_of: Callable[[Entries], Mapping[str, JsonValue]], *, create: bool = False) -> None:
    """Change entries with what ``changes_of`` returns for those in the file: entries to set; None removes one.

    No other process changes the file in the meantime. A new file is readable by its owner only. An existing file keeps
    its mode; it is not written if nothing is to be changed. Without ``create``, a missing file stays missing.

    Raises:
        SecretsUnreadable: the existing file cannot be read, so it is not overwritten.
        OSError: the file cannot be written.
    """
    file = file.resolve()  # a link is followed, not replaced
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with FileLock(_beside(file, "lock"), timeout=_EDIT_S):
        there = file.exists()
        if not (there or create):
            return
        entries = load_file(file) if there else {}
        changes = changes_of(entries)
        if there and not changes:
            return
        kept = {name: entry for name, entry in (entries | dict(changes)).items() if entry is not None}
        _replace(file, json.dumps(kept, indent=2) + "\n", file.stat().st_mode & 0o777 if there else 0o600)


def renewal_lock(file: Path, name: str) -> AsyncFileLock:
    """The lock for renewing a token that can be renewed only once. It is not fair: waiters have no order."""
    digest = hashlib.sha256(name.encode()).hexdigest()[:12]
    lock = _beside(file.resolve(), f"{digest}.lock")
    return AsyncFileLock(lock, poll_interval=_POLL_S, thread_local=False, run_in_executor=False)


def _beside(file: Path, suffix: str) -> Path:
    return file.with_name(f".{file.name}.{suffix}")


def _replace(file: Path, text: str, mode: int) -> None:
    """Replace the file atomically: it never has another mode or a part of its text."""
    draft = _beside(file, "new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8") as opened:
        os.fchmod(opened.fileno(), mode)
        opened.write(text)
        opened.flush()
        os.fsync(opened.fileno())
    draft.replace(file)
