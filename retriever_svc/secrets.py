"""Which credentials the operations of a provider ask for."""

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

import orjson

from services.compute import with_checkpoints
from services.contracts.api import NeededSecret

_SAFE = ("GET", "HEAD")
_MAX_SECRETS = 1_000
_MAX_NAMES = 200
"""Scopes, and hosts, that are named of one credential."""
_MAX_ALL_NAMES = 20_000
"""Scopes and hosts that are named of all credentials together."""


class SecretsReader:
    """Reads APIs for the credentials that they need: the first 1,000, and of each the first 200 scopes and hosts."""

    def __init__(self) -> None:
        self._found = dict[str, dict[str, Any]]()
        self._left = _MAX_ALL_NAMES

    @property
    def needed(self) -> tuple[NeededSecret, ...]:
        """What the APIs that were read need, in order of the names."""
        return tuple(_needed(self._found[name]) for name in sorted(self._found))

    def read(self, documents: Iterable[str]) -> None:
        """Read further APIs, as JSON."""
        for document in with_checkpoints(documents):
            self._read(orjson.loads(document))

    def _read(self, api: Mapping[str, Any]) -> None:
        found = self._found
        alternatives, hosts = api.get("security", ()), _host(api.get("server", ""))
        named = {requirement["secret"]: requirement for alternative in alternatives for requirement in alternative}
        reads = api["method"] in _SAFE and api.get("effect") != "change"
        harmless = reads and not any(_is_needed(p) for p in api.get("parameters", ()))
        only = alternatives[0][0]["secret"] if alternatives and len(alternatives[0]) == 1 else None
        for name, requirement in named.items():
            if name not in found:
                if len(found) >= _MAX_SECRETS:
                    continue
                found[name] = requirement | {"operations": 0, "scopes": {}, "hosts": {}}
            known = found[name]
            known["operations"] += 1
            self._left -= _add(known["scopes"], requirement.get("scopes", ()), self._left)
            self._left -= _add(known["hosts"], hosts, self._left)
            if name == only and ("probe" not in known or (harmless and not known["harmless"])):
                known |= {"probe": api["id"], "harmless": harmless}


def _add(known: dict[str, None], names: Iterable[str], left: int) -> int:
    """Note names in their order, ``left`` new ones at most. Returns how many were new."""
    before = len(known)
    for name in names:
        if len(known) >= min(_MAX_NAMES, before + left):
            break
        known[name] = None
    return len(known) - before


def _needed(known: dict[str, Any]) -> NeededSecret:
    return NeededSecret.model_validate(known | {"scopes": tuple(known["scopes"]), "hosts": tuple(known["hosts"])})


def _is_needed(parameter: dict[str, object]) -> bool:
    """:attr:`Parameter.needed` for a parameter as JSON."""
    return bool(parameter.get("required")) and parameter.get("constant") is None


def _host(server: str) -> list[str]:
    """The server's host in the form that a secret's entry uses; empty if the server is not a URL."""
    try:
        url = urlsplit(server)
        port = url.port
    except ValueError:
        return []
    if url.scheme not in ("http", "https") or not url.hostname:
        return []
    host = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
    default = {"http": 80, "https": 443}[url.scheme]
    return [host if (port or default, url.scheme) == (443, "https") else f"{host}:{port or default}"]
