"""Presents credentials: chooses the alternative that can be met, and puts each secret where it travels.

A secret goes only to the hosts its entry names; for OAuth2 that holds for the token endpoint and for the API alike.
"""

import re

from yarl import URL

from executor_svc.adapters.http.digest import Digest
from executor_svc.adapters.http.request import Credentials, is_settable_header
from executor_svc.adapters.http.tokens import CredentialUnavailable, Tokens
from executor_svc.adapters.http.transport import Transport
from executor_svc.masking import Masker
from executor_svc.secret_store import AwsKey, Certificate, Client, Login, SecretStore, Token
from services.contracts.api import Api, Location, SecretKind, SecurityRequirement

__all__ = ["Authenticator", "CredentialUnavailable"]

_COOKIE_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_COOKIE_VALUE = re.compile(r"[!#-+\--:<-\[\]-~]*")


class Authenticator:
    """Credentials for calls. ``skew_s``: how many seconds before its expiry a token is replaced."""

    def __init__(self, store: SecretStore, transport: Transport, masker: Masker, skew_s: float) -> None:
        self._store, self._masker, self._known = store, masker, store.version
        self._tokens = Tokens(store, transport, masker, skew_s)

    async def present(self, api: Api, origin: URL, deadline: float) -> Credentials:
        """The credentials of the first alternative that can be met in full.

        Raises:
            CredentialUnavailable: there is none, or the token endpoint gave no token before ``deadline``.
        """
        if not api.security:
            return Credentials()
        self._refresh()
        problems: list[str] = []
        for alternative in api.security:
            missing = [p for requirement in alternative if (p := self._problem(requirement, origin))]
            if not missing:
                return await self._present(alternative, origin, deadline)
            problems += missing
        raise CredentialUnavailable("; ".join(dict.fromkeys(problems)))

    def forget(self, token: str) -> None:
        """Drop a token that an API has refused, so that the next call gets another."""
        self._tokens.forget(token)

    def _refresh(self) -> None:
        """Take what has changed in the secrets file, and mask it before it can turn up anywhere."""
        self._store.reload()
        if self._known != self._store.version:
            self._known = self._store.version
            self._masker.know(self._store.masked())

    def _problem(self, requirement: SecurityRequirement, origin: URL) -> str | None:
        """Why this requirement cannot be met at this origin, or None."""
        secret = self._store.get(requirement.secret, requirement.kind)
        if secret is None:
            return f"the secret {requirement.secret!r} is not configured as {requirement.kind}"
        if not secret.bound_to(origin.scheme, origin.raw_host or "", origin.port or 0):
            return f"the secret {requirement.secret!r} is not bound to {origin.raw_host}:{origin.port}"
        if isinstance(secret, Token):
            return _token_problem(requirement, secret)
        if isinstance(secret, Client):
            return self._tokens.problem(requirement, secret, origin)
        return _certificate_problem(requirement, secret, origin) if isinstance(secret, Certificate) else None

    async def _present(self, alternative: tuple[SecurityRequirement, ...], origin: URL, deadline: float) -> Credentials:
        places: dict[Location, dict[str, str]] = {place: {} for place in Location}
        headers = places[Location.HEADER]
        token = aws = digest = tls = None
        for requirement in alternative:
            secret = self._store.get(requirement.secret, requirement.kind)
            if isinstance(secret, Client):
                token = await self._tokens.get(requirement, secret, origin, deadline)
                self._masker.add(token)  # each time: it keeps those in use
                headers["Authorization"] = f"Bearer {token}"
            elif isinstance(secret, Login) and requirement.kind is SecretKind.DIGEST:
                digest = Digest(secret)
            elif isinstance(secret, Login):
                headers["Authorization"] = secret.header()
            elif isinstance(secret, AwsKey):
                aws = secret
            elif isinstance(secret, Certificate):
                tls = secret.context()
            elif isinstance(secret, Token):
                location, name = _place(requirement, secret)
                value = secret.value.get_secret_value()
                if location is None:
                    headers["Authorization"] = f"Bearer {value}"
                else:
                    places[location][name] = value
        query, cookies, path, body = (
            places[place] for place in (Location.QUERY, Location.COOKIE, Location.PATH, Location.BODY)
        )
        return Credentials(headers, query, cookies, path, body, token, aws, digest, tls)


def _place(requirement: SecurityRequirement, secret: Token) -> tuple[Location | None, str]:
    """Where a pasted value goes; no location: it is a bearer token."""
    if requirement.kind is SecretKind.API_KEY:
        return requirement.location or Location.HEADER, requirement.parameter or ""
    own = {Location.HEADER: secret.header, Location.QUERY: secret.query, Location.COOKIE: secret.cookie}
    return next(((location, name) for location, name in own.items() if name), (None, ""))


def _token_problem(requirement: SecurityRequirement, secret: Token) -> str | None:
    location, name = _place(requirement, secret)
    if location is None:
        return None
    if not name:
        return f"the scheme {requirement.scheme!r} does not say where its key travels"
    if location is Location.HEADER and not is_settable_header(name):
        return f"the key of scheme {requirement.scheme!r} cannot travel in the header {name!r}"
    if location is Location.COOKIE:
        value = secret.value.get_secret_value()
        if not _COOKIE_NAME.fullmatch(name) or not _COOKIE_VALUE.fullmatch(value):
            return f"the key of scheme {requirement.scheme!r} cannot travel in a cookie"
    return None


def _certificate_problem(requirement: SecurityRequirement, secret: Certificate, origin: URL) -> str | None:
    if origin.scheme != "https":
        return f"the secret {requirement.secret!r} is a client certificate, and {origin.raw_host} is not reached by TLS"
    try:
        secret.context()
    except OSError as error:
        return f"the certificate of {requirement.secret!r} cannot be used: {type(error).__name__}"
    return None
