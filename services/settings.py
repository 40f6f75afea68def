"""Settings that all services have. Each service subclasses them with its own environment prefix."""

import inspect
import ipaddress
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

_LINK = re.compile(r"_SERVICE_HOST|(_SERVICE)?_PORT|_SERVICE_PORT_\w+|_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?")
"""Ends of the variables that Kubernetes and Docker set for each service that a container may call."""
_HOST: Final = re.compile(r"\*|[^\s/@?#\[\]]+|\[[0-9A-Fa-f:.]+\](:\d+)?")
_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


def unknown_variables(*settings: type[BaseSettings]) -> list[str]:
    """Environment variables that are named like these settings and are none: misspelt, or of another version."""
    known = {name for one in settings for name in _variables(one)}
    prefixes = tuple(str(one.model_config.get("env_prefix")).upper() for one in settings)
    given = {name: name.upper() for name in os.environ if name.upper().startswith(prefixes)}
    return sorted(name for name, upper in given.items() if upper not in known and not _is_link(upper))


def _is_link(name: str) -> bool:
    """Whether the name is one of ``_LINK`` for a service such as ``nestor-gateway``."""
    match = re.match(r"NESTOR_[A-Z0-9]+(?:_SVC)?", name)
    return match is not None and _LINK.fullmatch(name, match.end()) is not None


def _variables(settings: type[BaseSettings]) -> Iterator[str]:
    for name, field in settings.model_fields.items():
        yield f"{settings.model_config.get('env_prefix')}{name}".upper()
        if inspect.isclass(field.annotation) and issubclass(field.annotation, BaseSettings):
            yield from _variables(field.annotation)


def _http(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ValueError("it must be an http or https URL, such as http://127.0.0.1:8001")
    return url


def _host(name: str) -> str:
    if not _HOST.fullmatch(name):
        raise ValueError("it must be a host or host:port, without a scheme and a path")
    return name


def _address(text: str) -> str:
    try:
        if text != "*":
            ipaddress.ip_network(text)
    except ValueError:
        raise ValueError("it must be an address, such as 10.0.0.7") from None
    return text


def _level(name: str) -> str:
    if name.upper() not in _LEVELS:
        raise ValueError(f"it must be {', '.join(_LEVELS[:-1])} or {_LEVELS[-1]}")
    return name


HttpUrl = Annotated[str, AfterValidator(_http)]
HostName = Annotated[str, AfterValidator(_host)]
"""``host`` or ``host:port``. With a scheme or a path, which people copy from a browser, it would match nothing."""
Address = Annotated[str, AfterValidator(_address)]


class ServiceSettings(BaseSettings):
    """Settings read from the environment when a service is created, never at import time.

    Every field has a default that works on a laptop. Unknown keyword arguments are refused, so typos are noticed.
    """

    model_config = SettingsConfigDict(extra="forbid", frozen=True)

    log_level: Annotated[str, AfterValidator(_level)] = Field(
        default="INFO", description="`DEBUG`, `INFO`, `WARNING`, `ERROR` or `CRITICAL`."
    )
    log_json: bool = Field(default=True, description="JSON lines; false: coloured text for a terminal.")
    max_body_bytes: int = Field(default=1_048_576, ge=1, description="Largest request body accepted, in bytes.")
    max_json_depth: int = Field(default=64, ge=1, le=500, description="Deepest nesting accepted in a JSON body.")
    max_json_values: int = Field(
        default=100_000,
        ge=1,
        description="Most values accepted in a JSON body, including lists and objects. Ten times as many where "
        "documents or demos are imported.",
    )
    max_header_bytes: int = Field(
        default=65_536, ge=1_024, description="Largest size of the request line and headers together, in bytes."
    )
    read_timeout_s: float = Field(
        default=20.0,
        gt=0,
        description="Seconds within which a request's headers must arrive. Its body has the same time, plus one "
        "second for every 10 kB.",
    )
    max_connections: int = Field(
        default=2_000,
        ge=1,
        description="Connections open at the same time, at most half of the files that the process may open. A new "
        "connection replaces the oldest one that is waiting for a request. If all are being served, it is refused "
        "with 503.",
    )
    max_connections_per_address: int = Field(
        default=1_000,
        ge=1,
        description="Connections from one address open at the same time. For IPv6, a /64 network counts as one "
        "address.",
    )
    trusted_proxies: tuple[Address, ...] = Field(
        default=(),
        description="Addresses of reverse proxies, as a JSON list. Their `X-Forwarded-For` is trusted, and "
        "`max_connections_per_address` does not apply to them.",
    )
    allowed_hosts: tuple[HostName, ...] = Field(
        default=(),
        description="Host names of the service, as a JSON list. IP addresses, `localhost` and names without a dot are "
        "always accepted. `*.example.com`: all its subdomains; `*`: any name. Requests to other names, and from pages "
        "of other origins, are refused.",
    )
    metrics_token: SecretStr | None = Field(
        default=None,
        min_length=8,
        description="Bearer token for `/metrics`. Unset: `/metrics` needs no token, or the service token in a service "
        "that has one.",
    )
    readiness_timeout_s: float = Field(
        default=2.0, gt=0, description="How long one `/readyz` check may take, in seconds."
    )

    @property
    def takes_anybody(self) -> bool:
        """Whether the service serves anybody although it should not. If so, it should listen on loopback only."""
        return False


class InternalSettings(ServiceSettings):
    """Settings of an internal service, which only other services call."""

    service_token: SecretStr | None = Field(
        default=None,
        min_length=8,
        description="Bearer token that callers must send, of 8 characters or more. `/healthz` and `/readyz` need "
        "none. `/metrics` needs `metrics_token` if that is set. Without a service token the service listens on "
        "loopback only.",
    )
    allow_anybody: bool = Field(
        default=False,
        description="Listen on other addresses than loopback without a token. Only for a network that nothing but "
        "Nestor's services can reach.",
    )

    @property
    def takes_anybody(self) -> bool:
        """Whether no token is required and ``allow_anybody`` does not permit that."""
        return self.service_token is None and not self.allow_anybody


def default_database_url(name: str) -> str:
    """One SQLite file per service under ``var/`` of the working directory."""
    return f"sqlite+aiosqlite:///{Path('var').absolute() / name}.db"
