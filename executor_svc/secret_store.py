"""Credentials by name: who may use them, where they may be sent, and how they stay out of everything else.

The store is a JSON object of entries by secret name (``provider.scheme``)::

    {"sandbox.apiKey":  {"value": "...", "hosts": ["127.0.0.1:8090"]},
     "crm.basic":       {"username": "...", "password": "...", "hosts": ["crm.example.com"]},
     "bank.oauth":      {"client_id": "...", "client_secret": "...", "client_auth": "basic",
                         "hosts": ["api.bank.example", "login.bank.example"]}}

``hosts`` is mandatory. Server and token URLs come from imported documents. Without ``hosts``, a hostile document could
name a known provider and have its credentials sent elsewhere. ``host`` means HTTPS on port 443; ``host:port`` means
that port, with or without TLS. For the same reason an entry can hold more: ``in`` and ``name``, the place of a key in a
request; ``scheme``, its kind; and ``tenants``, for whom it is presented (all if absent).
"""

import asyncio
import base64
import re
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Final, Literal, Self
from urllib.parse import quote_plus

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    SecretStr,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)

from executor_svc.masking import MIN_SECRET_CHARS
from executor_svc.secret_file import Entries, SecretsUnreadable, edit_file, load_file, read_entries, renewal_lock
from services.contracts.api import Location, SecretKind, Tenant
from services.telemetry import get_logger

__all__ = ["AwsKey", "Certificate", "Client", "Login", "Secret", "SecretStore", "SecretsUnreadable", "Token", "parse"]

_log = get_logger(__name__)
_BEARER: Final = re.compile(rf"bearer +(\S{{{MIN_SECRET_CHARS},}})", re.IGNORECASE)
HOST_PATTERN: Final = r"^(\[[0-9a-fA-F:.]+\]|[^\s:/@\[\]]+)(:[0-9]{1,5})?$"
Host = Annotated[str, StringConstraints(pattern=HOST_PATTERN, to_lower=True)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=2_000, pattern=r"^[^\x00-\x1f\x7f]*$")]
Url = Annotated[str, StringConstraints(max_length=2_000, pattern=r"^https?://[^\s\x00-\x1f@]+$")]


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    hosts: tuple[Host, ...] = Field(min_length=1)
    scheme: SecretKind | None = None
    tenants: tuple[Tenant, ...] | None = Field(default=None, min_length=1)

    @field_validator("*", mode="after")
    @classmethod
    def _fit_to_send(cls, value: object) -> object:
        if isinstance(value, SecretStr):
            text = value.get_secret_value()
            if len(text) < MIN_SECRET_CHARS:
                raise ValueError(f"is shorter than {MIN_SECRET_CHARS} characters")
            if any(ord(char) < 32 or ord(char) == 127 for char in text):
                raise ValueError("contains control characters, which cannot be sent")
        return value

    def masked(self) -> tuple[str, ...]:
        """What must never be seen."""
        return tuple(
            value.get_secret_value()
            for name in type(self).model_fields
            if isinstance(value := getattr(self, name), SecretStr)
        )

    def usable_by(self, tenant: str | None) -> bool:
        """Whether calls of this tenant may present it. None means that the call's tenant is unknown."""
        return self.tenants is None or tenant in self.tenants

    def bound_to(self, scheme: str, host: str, port: int) -> bool:
        """Whether this secret may be sent to ``scheme://host:port``."""
        name = f"[{host}]" if ":" in host else host
        return f"{name}:{port}" in self.hosts or (scheme == "https" and port == 443 and name in self.hosts)


class Token(_Entry):
    """An API key or a pasted token.

    ``in`` and ``name`` give its place. Entries of earlier versions use ``header``, ``query`` or ``cookie`` instead. If
    neither the entry nor the document names a place, it is a bearer token.
    """

    model_config = ConfigDict(validate_by_name=False, validate_by_alias=True)

    value: SecretStr
    location: Location | None = Field(default=None, alias="in")
    name: Text | None = None

    @model_validator(mode="before")
    @classmethod
    def _one_place(cls, given: object) -> object:
        if not isinstance(given, dict):
            return given
        old = [place for place in ("header", "query", "cookie") if given.get(place) is not None]
        if len(old) + ("in" in given) > 1 or ("in" in given) is not ("name" in given):
            raise ValueError("`in` and `name` must be set together")
        rest = {key: value for key, value in given.items() if key not in ("header", "query", "cookie")}
        return rest | {"in": old[0], "name": given[old[0]]} if old else rest

    @property
    def bearer(self) -> str:
        """The value as a bearer token, without the word `Bearer`, which people often copy along with it."""
        value = self.value.get_secret_value()
        return found[1] if (found := _BEARER.fullmatch(value)) else value

    @property
    def place(self) -> tuple[Location, str] | None:
        """Its place in a request, from the entry."""
        return (self.location, self.name) if self.location is not None and self.name is not None else None


class Login(_Entry):
    """A user name and password for HTTP Basic (RFC 7617) or Digest (RFC 7616)."""

    username: Annotated[str, StringConstraints(pattern=r"^[^:\x00-\x1f\x7f]*$")]
    password: SecretStr

    def header(self) -> str:
        """The value of the Authorization header for HTTP Basic."""
        return basic(self.username, self.password.get_secret_value())

    def masked(self) -> tuple[str, ...]:
        """What must never be seen."""
        return (*super().masked(), self.header().removeprefix("Basic "))


class Client(_Entry):
    """An OAuth2 client (RFC 6749): on its own, with a user's password, or with the tokens of a login.

    Attributes:
        client_auth: how it authenticates (section 2.3.1); without a secret it sends only its id.
        token_url: the token endpoint; None means the document's.
        scopes: the scopes to request; empty means the operation's.
        access_token: the last token that a login or a renewal returned.
        expires_at: when that token expires, in seconds of Unix time; None if unknown.
        refresh_token: renews it (section 6).
    """

    client_id: Text
    client_secret: SecretStr | None = None
    client_auth: Literal["basic", "body"] = "basic"
    token_url: Url | None = None
    scopes: tuple[Text, ...] = Field(default=(), max_length=200)
    username: Text | None = None
    password: SecretStr | None = None
    access_token: SecretStr | None = None
    refresh_token: SecretStr | None = None
    expires_at: float | None = Field(default=None, allow_inf_nan=False)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.username is None) != (self.password is None):
            raise ValueError("username and password must be set together")
        return self

    def header(self) -> str | None:
        """The value of the Authorization header, with both parts form-encoded. None without a secret."""
        if self.client_secret is None:
            return None
        return basic(quote_plus(self.client_id), quote_plus(self.client_secret.get_secret_value()))

    def masked(self) -> tuple[str, ...]:
        """What must never be seen."""
        return (*super().masked(), (self.header() or "").removeprefix("Basic "))


class Certificate(_Entry):
    """A client certificate for mutual TLS, as paths of PEM files. ``authority``: CA file instead of the default CAs."""

    certificate: Text
    key: Text
    authority: Text | None = None

    def context(self) -> ssl.SSLContext:
        """The TLS context. Raises OSError (SSLError included) if the files are missing or do not match."""
        files = (self.certificate, self.key, self.authority)
        return _context(*files, tuple(Path(file).stat().st_mtime_ns for file in files if file))


class AwsKey(_Entry):
    """An access key of AWS. Region and service are taken from the host if not given."""

    access_key_id: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9]{3,128}$")]
    secret_access_key: SecretStr
    session_token: SecretStr | None = None
    region: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{1,64}$")] | None = None
    service: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{1,64}$")] | None = None


Secret = Token | Login | Client | Certificate | AwsKey
_CLASSES_BY_KIND: Final[dict[SecretKind, tuple[type[Secret], ...]]] = {
    SecretKind.API_KEY: (Token,),
    SecretKind.BEARER: (Token, Client),
    SecretKind.BASIC: (Login,),
    SecretKind.DIGEST: (Login,),
    SecretKind.OAUTH2: (Token, Client),
    SecretKind.OPENID_CONNECT: (Token, Client),
    SecretKind.MUTUAL_TLS: (Certificate,),
    SecretKind.AWS_SIGV4: (AwsKey,),
    SecretKind.OTHER: (Token, Login, Client, Certificate, AwsKey),
}
RENEWED_FIELDS: Final = frozenset({"access_token", "refresh_token", "expires_at"})
"""Fields of a :class:`Client` that a renewal replaces."""
_CLASS_FIELDS: Final[tuple[tuple[str, type[Secret]], ...]] = (
    ("client_id", Client),
    ("password", Login),
    ("certificate", Certificate),
    ("access_key_id", AwsKey),
)
"""Fields that identify the class of an entry. An entry without any of them is a :class:`Token`."""


def basic(user: str, password: str) -> str:
    """An Authorization header for HTTP basic, in UTF-8."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


class SecretStore:
    """The configured secrets, by name. The file is read again after it has changed.

    Attributes:
        version: increases with each change.
        file: the file, if there is one.
        on_reload: called after the file was read again.
    """

    def __init__(self, secrets: dict[str, Secret], file: Path | None = None) -> None:
        self.file = file
        self.on_reload: Callable[[], None] = lambda: None
        self._given = secrets
        self._renewing: dict[str, asyncio.Lock] = {}
        self._secrets, self._stamp, self.version = secrets, _stamp(file), 0
        if file is not None:
            self._secrets = parse(load_file(file), f"the secrets file {file}") | secrets

    @classmethod
    def load(cls, file: Path | None, given: SecretStr | None) -> "SecretStore":
        """Read the file and the setting. The setting's entries take precedence.

        Raises:
            SecretsUnreadable: an entry is invalid. The message names the entry and the error, never a value.
        """
        where = "the secrets setting"
        return cls({} if given is None else parse(read_entries(given.get_secret_value(), where), where), file)

    def reload(self) -> None:
        """Read the file again if it has changed. If it cannot be read, the old secrets are kept."""
        if self.file is None or (stamp := _stamp(self.file)) == self._stamp:
            return
        self._stamp = stamp
        before = self._secrets
        try:
            self._secrets = parse(load_file(self.file), f"the secrets file {self.file}") | self._given
            self.version += 1
            changed = {name for name in before.keys() & self._secrets if before[name] != self._secrets[name]}
            self.on_reload()
            _log.info(
                "secrets changed",
                added=sorted(self._secrets.keys() - before),
                changed=sorted(changed),
                removed=sorted(before.keys() - self._secrets),
            )
        except SecretsUnreadable as error:
            _log.warning("the changed secrets are not used", why=str(error))

    @property
    def entries(self) -> Mapping[str, Secret]:
        """All configured secrets."""
        return self._secrets

    def is_from_setting(self, name: str) -> bool:
        """Whether this secret comes from the setting and not from the file."""
        return name in self._given

    def names(self, tenant: str | None) -> tuple[str, ...]:
        """The names of the secrets that this tenant may use, sorted. None: those that every tenant may use."""
        return tuple(sorted(name for name, secret in self._secrets.items() if secret.usable_by(tenant)))

    def get(self, name: str, kind: SecretKind) -> Secret | None:
        """The secret of that name if its class fits this kind, else None."""
        secret = self._secrets.get(name)
        return secret if isinstance(secret, _CLASSES_BY_KIND[kind]) else None

    def client(self, name: str) -> Client | None:
        """The OAuth2 client of that name, else None."""
        secret = self._secrets.get(name)
        return secret if isinstance(secret, Client) else None

    @asynccontextmanager
    async def renewing(self, name: str) -> AsyncIterator[None]:
        """Hold the renewal lock of this secret, so that nobody else renews it. Reads the file again first.

        Other processes are kept out only where a lock can be made beside the file.
        """
        async with self._renewing.setdefault(name, asyncio.Lock()):
            if self.file is None or name in self._given:
                yield
                return
            try:
                lock = renewal_lock(self.file, name)
                await lock.acquire()
            except OSError:  # a read-only folder: no process can write a renewed token back either
                yield
                return
            try:
                self.reload()
                yield
            finally:
                await lock.release()

    def keep(self, name: str, before: Client, renewed: Client) -> None:
        """Put the tokens of a renewed client in the place of those it was renewed with; in the file, too.

        Nothing else of the entry is written, and nothing at all if the entry is another login by now or was removed:
        a person may have changed it during the renewal.
        """
        if (current := self.client(name)) is not None and _login(current) == _login(before):
            kept = current.model_copy(update={field: getattr(renewed, field) for field in RENEWED_FIELDS})
            self._secrets = self._secrets | {name: kept}
            self.version += 1
            if name in self._given:
                self._given = self._given | {name: kept}
        if self.file is None or name in self._given:
            return
        try:
            # The stamp stays as it was, so that the next reload sees this change and any other one.
            edit_file(self.file, lambda entries: _with_tokens(entries, name, before, renewed))
        except (OSError, SecretsUnreadable) as error:
            _log.warning("a renewed token cannot be stored", secret=name, why=type(error).__name__)


def parse(entries: Entries, where: str) -> dict[str, Secret]:
    """The secrets of these entries.

    Raises:
        SecretsUnreadable: an entry is invalid. The message names the entry and the error, never a value.
    """
    return {name: _entry(name, entry, where) for name, entry in entries.items()}


def revealed(secret: Secret) -> JsonValue:
    """The entry that a secret was read from, including its secret values."""
    given = {name: getattr(secret, name) for name in type(secret).model_fields}
    shown = {name: v.get_secret_value() if isinstance(v, SecretStr) else v for name, v in given.items()}
    return {name: list(v) if isinstance(v, tuple) else v for name, v in shown.items() if v not in (None, ())}


def _with_tokens(entries: Entries, name: str, before: Client, renewed: Client) -> Entries:
    """The entry with its new tokens; nothing if it is not the one that was renewed."""
    entry = entries.get(name)
    if not isinstance(entry, dict) or (entry.get("client_id"), entry.get("refresh_token")) != _login(before):
        return {}
    shown = revealed(renewed)
    assert isinstance(shown, dict)
    rest = {field: value for field, value in entry.items() if field not in RENEWED_FIELDS}
    return {name: rest | {field: value for field, value in shown.items() if field in RENEWED_FIELDS}}


def _login(client: Client) -> tuple[str, str | None]:
    """What tells a login from a later one."""
    token = client.refresh_token
    return client.client_id, None if token is None else token.get_secret_value()


def _entry(name: str, entry: JsonValue, where: str) -> Secret:
    if not isinstance(entry, dict):
        raise SecretsUnreadable(f'{where}: {name} must be an object such as {{"value": "...", "hosts": ["host:port"]}}')
    shape = next((shape for field, shape in _CLASS_FIELDS if field in entry), Token)
    try:
        return shape.model_validate(entry)
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        why = first["msg"].removeprefix("Value error, ")
        raise SecretsUnreadable(f"{where}: {name}: {'.'.join(map(str, first['loc']))}: {why}") from None


def _stamp(file: Path | None) -> tuple[int, ...] | None:
    """A stamp that changes with the file; None if there is no file. Only `ctime` cannot be set back."""
    try:
        found = file.stat() if file is not None else None
    except OSError:
        return None
    return None if found is None else (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)


@lru_cache(maxsize=100)
def _context(certificate: str, key: str, authority: str | None, _changed: tuple[int, ...]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority)
    context.load_cert_chain(certificate, key, password=lambda: "")  # never ask at the terminal
    return context
