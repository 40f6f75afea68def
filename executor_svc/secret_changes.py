"""Who changed which secret with `nestor secrets`: lines beside the secrets file, names and places, never values.

The file is as trustworthy as the secrets file: whoever may write one may write the other.
"""

import getpass
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from pydantic import AwareDatetime, Field, JsonValue, ValidationError

from services.contracts.base import Contract

Changed = Literal["set", "bind", "login", "remove"]
_SHOWN: Final = ("scheme", "in", "name", "token_url")
_MAX_BYTES: Final = 10_000_000
"""Of the end of the file that is read; a line has some 200."""


class SecretChange(Contract):
    """One change.

    Attributes:
        user: the account of the operating system that ran the command.
        fields: what the entry holds, by name.
        hosts: where the secret may be sent from then on.
        place: where in a request it may stand, and as what.
        tenants: whose calls may present it; empty: everybody's.
    """

    at: AwareDatetime
    user: str
    action: Changed
    secret: str
    fields: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    place: dict[str, str] = Field(default_factory=dict)
    tenants: tuple[str, ...] = ()


def changes_file(file: Path) -> Path:
    """Where the changes of a secrets file are told."""
    real = file.resolve()
    return real.with_name(f"{real.name}.changes")


def tell_change(file: Path, action: Changed, name: str, entry: JsonValue = None) -> None:
    """Add a line, before the secrets file is changed: nothing is changed untold. Raises OSError."""
    given = entry if isinstance(entry, dict) else {}
    change = SecretChange(
        at=datetime.now(UTC),
        user=_user(),
        action=action,
        secret=name,
        fields=tuple(sorted(given)),
        hosts=_texts(given.get("hosts")),
        place={field: str(given[field]) for field in _SHOWN if field in given},
        tenants=_texts(given.get("tenants")),
    )
    where = changes_file(file)
    where.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(where, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with open(descriptor, "ab") as opened:
        opened.write(change.model_dump_json().encode() + b"\n")
        opened.flush()
        os.fsync(opened.fileno())


def told_changes(file: Path) -> Iterator[SecretChange]:
    """The changes that were told, oldest first. Lines that are none are left out. Raises OSError."""
    where = changes_file(file)
    if not where.exists():
        return
    with where.open("rb") as opened:
        opened.seek(max(0, where.stat().st_size - _MAX_BYTES))
        for line in opened:
            try:
                yield SecretChange.model_validate_json(line)
            except ValidationError:
                continue


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # an account without a name, as in containers
        return str(os.getuid())


def _texts(value: JsonValue) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()
