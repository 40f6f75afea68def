"""Credentials by name: who may see them, where they may go, and how they are kept out of everything else.

The store is a JSON object of entries by secret name (``provider.scheme``)::

    {"sandbox.apiKey":  {"value": "...", "hosts": ["127.0.0.1:8090"]},
     "crm.basic":       {"username": "...", "password": "...", "hosts": ["crm.example.com"]},
     "bank.oauth":      {"client_id": "...", "client_secret": "...", "client_auth": "basic",
                         "hosts": ["api.bank.example", "login.bank.example"]}}

``hosts`` is mandatory. A server or token URL comes from an imported document, so without it a hostile document could
name a known provider and have its credentials sent elsewhere. ``host`` means HTTPS on port 443; ``host:port`` means
that port, in clear text too.
"""

import base64
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import quote_plus

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    SecretStr,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    field_validator,
)

from executor_svc.masking import MIN_SECRET_CHARS
from services.contracts.api import SecretKind

Host = Annotated[str, StringConstraints(pattern=r"^(\[[0-9a-fA-F:.]+\]|[^\s:/@\[\]]+)(:[0-9]{1,5})?$", to_lower=True)]


class SecretsUnreadable(ValueError):
    """The secrets file or setting is not what it should be. The message never quotes a value."""


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    hosts: tuple[Host, ...] = Field(min_length=1)

    @field_validator("*", mode="after")
    @classmethod
    def _fit_to_send(cls, value: object) -> object:
        if isinstance(value, SecretStr):
            text = value.get_secret_value()
            if len(text) < MIN_SECRET_CHARS:
                raise ValueError(f"is shorter than {MIN_SECRET_CHARS} characters")
            if any(ord(char) < 32 or ord(char) == 127 for char in text):
                raise ValueError("holds control characters, which cannot be sent")
        return value

    def bound_to(self, scheme: str, host: str, port: int) -> bool:
        """Whether this secret may be sent to ``scheme://host:port``."""
        name = f"[{host}]" if ":" in host else host
        return f"{name}:{port}" in self.hosts or (scheme == "https" and port == 443 and name in self.hosts)


class Token(_Entry):
    """An API key or a bearer token."""

    value: SecretStr

    def masked(self) -> tuple[str, ...]:
        """What must never be seen."""
        return (self.value.get_secret_value(),)


class Login(_Entry):
    """A user name and password for HTTP basic (RFC 7617)."""

    username: Annotated[str, StringConstraints(pattern=r"^[^:\x00-\x1f\x7f]*$")]
    password: SecretStr

    def header(self) -> str:
        """The value of the Authorization header."""
        return basic(self.username, self.password.get_secret_value())

    def masked(self) -> tuple[str, ...]:
        """What must never be seen."""
        return (self.password.get_secret_value(), self.header().removeprefix("Basic "))


class Client(_Entry):
    """An OAuth2 client (RFC 6749, section 2.3.1), which proves itself by HTTP basic or in the request's body."""

    client_id: Annotated[str, StringConstraints(min_length=1, pattern=r"^[^\x00-\x1f\x7f]*$")]
    client_secret: SecretStr
    client_auth: Literal["basic", "body"] = "basic"

    def header(self) -> str:
        """The value of the Authorization header: both parts are form-encoded first."""
        return basic(quote_plus(self.client_id), quote_plus(self.client_secret.get_secret_value()))

    def masked(self) -> tuple[str, ...]:
        """What must never be seen."""
        return (self.client_secret.get_secret_value(), self.header().removeprefix("Basic "))


Secret = Token | Login | Client
_SHAPES: dict[SecretKind, type[Secret]] = {
    SecretKind.API_KEY: Token,
    SecretKind.BEARER: Token,
    SecretKind.BASIC: Login,
    SecretKind.OAUTH2_CLIENT_CREDENTIALS: Client,
}
_OBJECT: TypeAdapter[dict[str, JsonValue]] = TypeAdapter(dict[str, JsonValue])


def basic(user: str, password: str) -> str:
    """An Authorization header for HTTP basic, in UTF-8."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


class SecretStore:
    """The configured secrets, by name."""

    def __init__(self, secrets: dict[str, Secret]) -> None:
        self._secrets = secrets

    @classmethod
    def load(cls, file: Path | None, given: SecretStr | None) -> "SecretStore":
        """Read the file and the setting; the setting's entries win.

        Raises:
            SecretsUnreadable: naming the entry and what is wrong with it, never a value.
        """
        entries: dict[str, Secret] = {}
        if file is not None:
            try:
                entries |= _parse(file.read_text("utf-8"), "the secrets file")
            except (OSError, UnicodeDecodeError) as error:
                raise SecretsUnreadable(f"the secrets file cannot be read: {type(error).__name__}") from None
        if given is not None:
            entries |= _parse(given.get_secret_value(), "the secrets setting")
        return cls(entries)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all secrets, sorted."""
        return tuple(sorted(self._secrets))

    def get(self, name: str, kind: SecretKind) -> Secret | None:
        """The secret of that name if it has the form this kind needs, else None."""
        secret = self._secrets.get(name)
        shape = _SHAPES.get(kind)
        return secret if shape is not None and isinstance(secret, shape) else None

    def masked(self) -> Iterable[str]:
        """Every text that must never be seen."""
        return (text for secret in self._secrets.values() for text in secret.masked())


def _parse(text: str, where: str) -> dict[str, Secret]:
    try:
        entries = _OBJECT.validate_python(json.loads(text))
    except ValueError:
        raise SecretsUnreadable(f"{where} is not a JSON object of entries by secret name") from None
    return {name: _entry(name, entry, where) for name, entry in entries.items()}


def _entry(name: str, entry: JsonValue, where: str) -> Secret:
    if not isinstance(entry, dict):
        raise SecretsUnreadable(f'{where}: {name} must be an object such as {{"value": "...", "hosts": ["host:port"]}}')
    shape: type[Secret] = Login if "password" in entry else Client if "client_secret" in entry else Token
    try:
        return shape.model_validate(entry)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_input=False))
        raise SecretsUnreadable(f"{where}: {name}: {problems}") from None
