"""Names for the places of credentials in requests, and the command that binds a credential to a place."""

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


def place_text(location: Location, name: str) -> str:
    """A place as readable text."""
    return f"{_PLACES[location]} {name!r}"


def bind_command(secret: str, place: tuple[Location, str] | None, kind: SecretKind) -> str:
    """The command that binds a credential to this place; if ``place`` is None, to the usual place of its kind."""
    option = f"--scheme {kind}" if place is None else f"--{place[0]} {shlex.quote(place[1])}"
    return f"nestor secrets bind {shlex.quote(secret)} {option}"
