"""Where in a request a secret may be sent.

An imported document says where a key is sent. A hostile document could name an argument that the operation echoes. So
the place in the secret's own entry decides, and a document that names another place is refused. Secrets whose entries
have no place are sent in headers and cookies only.
"""

import re
from typing import Final

from executor_svc.adapters.http.request import is_settable_header
from executor_svc.secret_places import bind_command, place_text
from executor_svc.secret_store import Secret, Token
from services.contracts.api import Location, SecretKind, SecurityRequirement

_COOKIE_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_COOKIE_VALUE = re.compile(r"[!#-+\--:<-\[\]-~]*")
_BEARER: Final = frozenset({SecretKind.BEARER, SecretKind.OAUTH2, SecretKind.OPENID_CONNECT})
"""The kinds for which a pasted token is a bearer token."""
_AUTHORIZATION: Final = (Location.HEADER, "Authorization")
_ECHOED: Final = frozenset({Location.QUERY, Location.PATH, Location.BODY})
"""The locations of arguments, which operations may echo."""


def place_of(requirement: SecurityRequirement, secret: Token) -> tuple[Location | None, str]:
    """Where a pasted value is sent: as the document says, or else the entry. No location means a bearer token."""
    if requirement.kind is SecretKind.API_KEY:
        return requirement.location or Location.HEADER, requirement.parameter or ""
    if requirement.kind is SecretKind.OTHER and secret.place is not None:
        return secret.place
    return None, ""


def place_problem(requirement: SecurityRequirement, secret: Secret) -> str | None:
    """Why a secret must not be presented for this requirement, or None."""
    if not isinstance(secret, Token):
        return _moved(requirement, None) if _another_kind(requirement, secret.scheme) else None
    location, name = place_of(requirement, secret)
    if location is not None and not name:
        return f"the scheme {requirement.scheme!r} does not say where its key is sent"
    if _is_elsewhere(requirement, secret, location, name):
        return _moved(requirement, secret)
    if location in _ECHOED and secret.place is None:
        return _moved(requirement, secret)
    if location is Location.HEADER and not is_settable_header(name):
        return f"the key of scheme {requirement.scheme!r} cannot be sent in the header {name!r}"
    if location is Location.COOKIE:
        value = secret.value.get_secret_value()
        if not _COOKIE_NAME.fullmatch(name) or not _COOKIE_VALUE.fullmatch(value):
            return f"the key of scheme {requirement.scheme!r} cannot be sent in a cookie"
    return None


def _is_elsewhere(requirement: SecurityRequirement, secret: Token, location: Location | None, name: str) -> bool:
    """Whether the document puts a pasted value in another place than its entry.

    A bearer token is always sent in the Authorization header, so its entry must name that header or no place.
    """
    if secret.place is None:
        return _another_kind(requirement, secret.scheme)
    if location is None:
        return not _same(secret.place, _AUTHORIZATION)
    return _another_kind(requirement, secret.scheme) or not _same(secret.place, (location, name))


def _another_kind(requirement: SecurityRequirement, scheme: SecretKind | None) -> bool:
    """Whether the document names another kind than the entry. All kinds of bearer token count as one."""
    if scheme is None or requirement.kind in (scheme, SecretKind.OTHER):
        return False
    return not {scheme, requirement.kind} <= _BEARER


def _same(one: tuple[Location, str], other: tuple[Location | None, str]) -> bool:
    folded = one[0] is Location.HEADER and one[1].lower() == other[1].lower()
    return one[0] is other[0] and (folded or one[1] == other[1])


def _moved(requirement: SecurityRequirement, secret: Token | None) -> str:
    """The message that the document and the entry disagree, with the command to run if the document is right."""
    place = None
    if requirement.kind is SecretKind.API_KEY:
        place = requirement.location or Location.HEADER, requirement.parameter or ""
    asked = f"as {requirement.kind}" if place is None else f"in {place_text(*place)}"
    held = "set as another kind"
    if secret is not None and secret.place is not None:
        held = f"set for {place_text(*secret.place)}"
    elif secret is not None:
        held = f"set as {secret.scheme or 'a token'}, for no place in a request"
    return (
        f"the secret {requirement.secret!r} is {held}, and the document asks for it {asked}; if the document is right: "
        f"{bind_command(requirement.secret, place, requirement.kind)}"
    )
