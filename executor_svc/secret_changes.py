"""The audit log of `nestor secrets`: who changed which secret. It lies beside the secrets file and holds no values.

It is as trustworthy as the secrets file, since the same accounts can write both.
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
"""How much of the end of the file is read. A line has about 200 bytes."""


class SecretChange(Contract):
    """One change.

    Attributes:
        user: the account of the operating system that ran the command.
        fields: the names of the entry's fields.
        hosts: the hosts that the secret may be sent to from then on.
        place: its place in a request, and its kind.
        tenants: the tenants whose calls may present it; empty means all.
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
    """The file with the changes of a secrets file."""
    real = file.resolve()
    return real.with_name(f"{real.name}.changes")


def tell_change(file: Path, action: Changed, name: str, entry: JsonValue = None) -> None:
    """Add a line. Call it before changing the secrets file, so that no change goes unrecorded. Raises OSError."""
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
    """The recorded changes, oldest first. Skips invalid lines. Raises OSError."""
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
