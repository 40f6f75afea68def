"""Where in a request a secret may stand.

A document says where a key travels, and anybody who may import one can say that it is an argument which the operation
gives back. So the entry's own place counts, and a document that says another one is refused. Entries without a place
go into headers and cookies only.
"""

import re
from typing import Final

from executor_svc.adapters.http.request import is_settable_header
from executor_svc.secret_places import bind_command, said_place
from executor_svc.secret_store import Secret, Token
from services.contracts.api import Location, SecretKind, SecurityRequirement

_COOKIE_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_COOKIE_VALUE = re.compile(r"[!#-+\--:<-\[\]-~]*")
_BEARER: Final = frozenset({SecretKind.BEARER, SecretKind.OAUTH2, SecretKind.OPENID_CONNECT})
"""The kinds of which a pasted token is a bearer token."""
_AUTHORIZATION: Final = (Location.HEADER, "Authorization")
_ECHOED: Final = frozenset({Location.QUERY, Location.PATH, Location.BODY})
"""Where arguments travel, which operations give back."""


def place_of(requirement: SecurityRequirement, secret: Token) -> tuple[Location | None, str]:
    """Where a pasted value goes as the document says, or else the entry; no location: it is a bearer token."""
    if requirement.kind is SecretKind.API_KEY:
        return requirement.location or Location.HEADER, requirement.parameter or ""
    if requirement.kind is SecretKind.OTHER and secret.place is not None:
        return secret.place
    return None, ""


def place_problem(requirement: SecurityRequirement, secret: Secret) -> str | None:
    """Why a secret may not be presented in this way, or None."""
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
    """Whether the document wants a pasted value where its entry does not have it.

    A bearer token's place is one header, as which kind of key an entry has it there.
    """
    if secret.place is None:
        return _another_kind(requirement, secret.scheme)
    if location is None:
        return not _same(secret.place, _AUTHORIZATION)
    return _another_kind(requirement, secret.scheme) or not _same(secret.place, (location, name))


def _another_kind(requirement: SecurityRequirement, scheme: SecretKind | None) -> bool:
    """Whether the document says another kind than the entry; bearer tokens are one, wherever they come from."""
    if scheme is None or requirement.kind in (scheme, SecretKind.OTHER):
        return False
    return not {scheme, requirement.kind} <= _BEARER


def _same(one: tuple[Location, str], other: tuple[Location | None, str]) -> bool:
    folded = one[0] is Location.HEADER and one[1].lower() == other[1].lower()
    return one[0] is other[0] and (folded or one[1] == other[1])


def _moved(requirement: SecurityRequirement, secret: Token | None) -> str:
    """That the document wants a secret where its entry does not have it, and what to do if the document is right."""
    place = None
    if requirement.kind is SecretKind.API_KEY:
        place = requirement.location or Location.HEADER, requirement.parameter or ""
    asked = f"as {requirement.kind}" if place is None else f"in {said_place(*place)}"
    held = "set as another kind"
    if secret is not None and secret.place is not None:
        held = f"set for {said_place(*secret.place)}"
    elif secret is not None:
        held = f"set as {secret.scheme or 'a token'}, for no place in a request"
    return (
        f"the secret {requirement.secret!r} is {held}, and the document asks for it {asked}; if the document is right: "
        f"{bind_command(requirement.secret, place, requirement.kind)}"
    )
