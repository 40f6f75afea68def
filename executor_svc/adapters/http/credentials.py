"""Presents credentials: chooses the first security alternative that can be met, and puts each secret in its place.

A secret goes only to the hosts that its entry names. For OAuth2 this applies to both the token endpoint and the API.
It is sent only in the place that its entry names, and only for the tenants that the entry names.
"""

import re

from yarl import URL

from executor_svc.adapters.http.digest import Digest
from executor_svc.adapters.http.places import place_of, place_problem
from executor_svc.adapters.http.request import Credentials
from executor_svc.adapters.http.tokens import CredentialUnavailable, Tokens
from executor_svc.adapters.http.transport import Transport
from executor_svc.masking import MIN_SECRET_CHARS
from executor_svc.secret_store import AwsKey, Certificate, Client, Login, SecretStore, Token
from services.contracts.api import Api, Location, SecretKind, SecurityRequirement

__all__ = ["Authenticator", "CredentialUnavailable"]
_AUTH_PARAMETER = re.compile(r'(?<![\w-])([\w-]+)\s*=\s*"?([^",\s]+)')
"""A parameter such as in `Token token="..."`: its name and its value."""
_SECRET_NAMES = ("token", "key", "signature", "password", "secret", "credential", "response")
"""How the names of parameters end whose values are secrets of their own."""


class Authenticator:
    """Credentials for calls. ``skew_s``: seconds before its expiry at which a token is replaced."""

    def __init__(self, store: SecretStore, transport: Transport, skew_s: float) -> None:
        self._store, self._tokens = store, Tokens(store, transport, skew_s)

    async def present(self, api: Api, origin: URL, deadline: float, tenant: str | None) -> Credentials:
        """The credentials of the first alternative that the secrets of ``tenant`` meet in full.

        Raises:
            CredentialUnavailable: there is no such alternative, or no token was issued before ``deadline``.
        """
        if not api.security:
            return Credentials()
        self._store.reload()
        problems: list[str] = []
        for alternative in api.security:
            missing = [p for requirement in alternative if (p := self._problem(requirement, origin, tenant))]
            if not missing:
                return await self._present(alternative, origin, deadline)
            problems += missing
        raise CredentialUnavailable("; ".join(dict.fromkeys(problems)))

    def forget(self, token: str) -> bool:
        """Drop a token that an API refused, so that the next call gets a new one. False: it is kept."""
        return self._tokens.forget(token)

    def _problem(self, requirement: SecurityRequirement, origin: URL, tenant: str | None) -> str | None:
        """Why this requirement cannot be met at this origin, or None."""
        secret = self._store.get(requirement.secret, requirement.kind)
        if secret is None or not secret.usable_by(tenant):
            return f"the secret {requirement.secret!r} is not configured as {requirement.kind}"
        if not secret.bound_to(origin.scheme, origin.raw_host or "", origin.port or 0):
            return f"the secret {requirement.secret!r} is not bound to {origin.raw_host}:{origin.port}"
        if problem := place_problem(requirement, secret):
            return problem
        if isinstance(secret, Client):
            return self._tokens.problem(requirement, secret, origin)
        return _certificate_problem(requirement, secret, origin) if isinstance(secret, Certificate) else None

    async def _present(self, alternative: tuple[SecurityRequirement, ...], origin: URL, deadline: float) -> Credentials:
        places: dict[Location, dict[str, str]] = {place: {} for place in Location}
        headers = places[Location.HEADER]
        token = aws = digest = tls = None
        shown = set[str]()
        for requirement in alternative:
            secret = self._store.get(requirement.secret, requirement.kind)
            if isinstance(secret, Client):
                token = await self._tokens.get(requirement, secret, origin, deadline)
                shown.add(token)
                headers["Authorization"] = f"Bearer {token}"
            elif isinstance(secret, Login) and requirement.kind is SecretKind.DIGEST:
                shown.update(secret.masked())
                digest = Digest(secret)
            elif isinstance(secret, Login):
                shown.update(secret.masked())
                headers["Authorization"] = secret.header()
            elif isinstance(secret, AwsKey):
                shown.update(secret.masked())
                aws = secret
            elif isinstance(secret, Certificate):
                tls = secret.context()
            elif isinstance(secret, Token):
                location, name = place_of(requirement, secret)
                value = secret.value.get_secret_value() if location is not None else secret.bearer
                shown.add(value)
                if location is None:
                    headers["Authorization"] = f"Bearer {value}"
                else:
                    places[location][name] = value
                    if location is Location.HEADER and "authorization" in name.lower():
                        shown.update(_without_scheme(value))
        names = tuple(dict.fromkeys(requirement.secret for requirement in alternative))
        query, cookies, path, body = (
            places[place] for place in (Location.QUERY, Location.COOKIE, Location.PATH, Location.BODY)
        )
        return Credentials(headers, query, cookies, path, body, token, aws, digest, tls, frozenset(shown), names)


def _without_scheme(header: str) -> set[str]:
    """What follows the scheme in the value of an `Authorization` header, and the secrets among its parameters.

    Upstreams echo the token alone. A user name or a realm is no secret, and masking it would garble answers. Any other
    header's value is one secret, whatever it looks like.
    """
    credentials = header.partition(" ")[2].strip()
    parameters = _AUTH_PARAMETER.findall(credentials)
    found = {credentials, *(value for name, value in parameters if name.lower().endswith(_SECRET_NAMES))}
    return {text for text in found if len(text) >= MIN_SECRET_CHARS}


def _certificate_problem(requirement: SecurityRequirement, secret: Certificate, origin: URL) -> str | None:
    if origin.scheme != "https":
        return f"the secret {requirement.secret!r} is a client certificate, but {origin.raw_host} does not use TLS"
    try:
        secret.context()
    except OSError as error:
        return f"the certificate of {requirement.secret!r} cannot be used: {type(error).__name__}"
    return None
