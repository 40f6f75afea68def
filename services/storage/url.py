"""Addresses of databases, checked when settings are read: the errors of their drivers come too late."""

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


def _redis(url: str | None) -> str | None:
    from redis.asyncio.connection import parse_url

    try:
        if url is not None:
            parse_url(url)
    except ValueError:
        raise ValueError("it must be redis://:PASSWORD@HOST:PORT/NUMBER") from None
    return url


DatabaseUrl = Annotated[str, AfterValidator(_usable)]
RedisUrl = Annotated[str | None, AfterValidator(_redis)]
