"""Why a database cannot be used when a service starts, in one line for the person who operates it."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncEngine

from services.errors import UnusableSettings

_CLASSES: Final = ("08", "28", "3D", "53", "57", "58")
"""Classes of SQLSTATE: no connection, not authorised, no such database, no resources, stopped, broken system."""
_STATES: Final = ("0A000", "25006", "42501")
"""Not supported (an extension that is not installed), read-only, no right."""


@asynccontextmanager
async def opening(engine: AsyncEngine) -> AsyncIterator[None]:
    """Raise UnusableSettings for an error that the operator can mend, for example a refused password.

    Other errors of a database are bugs, and pass.
    """
    try:
        yield
    except (DBAPIError, sqlite3.Error, OSError, PoolTimeout, BufferError, UnicodeDecodeError) as error:
        if _is_bug(error):
            raise
        where = engine.url.render_as_string(hide_password=True)
        raise UnusableSettings(f"the database {where} cannot be used: {reason(error)}") from error


def reason(error: BaseException) -> str:
    """The first line of what the driver says, without the statement and its values."""
    while isinstance(error, DBAPIError) and error.orig is not None:
        error = error.orig
    if error.__cause__ is not None and getattr(error, "sqlstate", None) is not None:
        error = error.__cause__  # asyncpg's own error; SQLAlchemy's puts the name of its class before it
    return str(error).partition("\n")[0] or type(error).__name__


def _is_bug(error: Exception) -> bool:
    if isinstance(error, DBAPIError) and error.statement is None:
        return False  # it comes from connecting
    cause = error.orig if isinstance(error, DBAPIError) else error
    code = getattr(cause, "sqlite_errorcode", None)
    if code is not None:
        return code & 0xFF in {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISUSE}
    state = str(getattr(cause, "sqlstate", None) or "")
    return isinstance(error, DBAPIError) and not (state.startswith(_CLASSES) or state in _STATES)
