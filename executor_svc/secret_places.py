"""The places in a request where a credential may stand, in words; and the command that binds it to one."""

import shlex
from typing import Final

from services.contracts.api import Location, SecretKind

_PLACES: Final = {
    Location.HEADER: "the header",
    Location.QUERY: "the query parameter",
    Location.COOKIE: "the cookie",
    Location.PATH: "the path's parameter",
    Location.BODY: "the body's field",
}


def said_place(location: Location, name: str) -> str:
    """A place, for people."""
    return f"{_PLACES[location]} {name!r}"


def bind_command(secret: str, place: tuple[Location, str] | None, kind: SecretKind) -> str:
    """The command by which a credential is presented at this place; without one, in the usual place of its kind."""
    option = f"--scheme {kind}" if place is None else f"--{place[0]} {shlex.quote(place[1])}"
    return f"nestor secrets bind {shlex.quote(secret)} {option}"
