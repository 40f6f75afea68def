"""The address of a service's database, checked when its settings are read: the engine's own error comes too late."""

from typing import Annotated, Final

from pydantic import AfterValidator

_DRIVERS: Final = ("sqlite+aiosqlite", "postgresql+asyncpg")


def _usable(url: str) -> str:
    """The URL. Raises ValueError, without quoting it, since it may hold a password."""
    from sqlalchemy.engine import make_url  # here: the command line reads settings and needs no database
    from sqlalchemy.exc import ArgumentError

    try:
        usable = make_url(url).drivername in _DRIVERS
    except (ArgumentError, ValueError):
        usable = False
    if not usable:
        raise ValueError("it must be sqlite+aiosqlite:///FILE or postgresql+asyncpg://USER:PASSWORD@HOST/DATABASE")
    return url


DatabaseUrl = Annotated[str, AfterValidator(_usable)]
