"""Which credentials the operations of a provider ask for."""

from collections.abc import Iterable
from urllib.parse import urlsplit

import orjson

from services.contracts.api import NeededSecret

_SAFE = ("GET", "HEAD")
_MAX_SCOPES = 200


def needed_secrets(documents: Iterable[str]) -> tuple[NeededSecret, ...]:
    """The credentials that these APIs need.

    Args:
        documents: the APIs as JSON.
    """
    found = dict[str, NeededSecret]()
    for document in documents:
        api = orjson.loads(document)
        alternatives = api.get("security", ())
        named = {requirement["secret"]: requirement for alternative in alternatives for requirement in alternative}
        for name, requirement in named.items():
            known = found.get(name) or NeededSecret.model_validate(requirement | {"scopes": ()})
            alone = [r["secret"] for r in alternatives[0]] == [name]
            reads = api["method"] in _SAFE and api.get("effect") != "change"
            harmless = reads and not any(_is_needed(p) for p in api.get("parameters", ()))
            better = alone and (known.probe is None or (harmless and not known.harmless))
            update: dict[str, object] = {"operations": known.operations + 1}
            update["scopes"] = tuple(dict.fromkeys([*known.scopes, *requirement.get("scopes", ())]))[:_MAX_SCOPES]
            update["hosts"] = tuple(dict.fromkeys([*known.hosts, *_host(api.get("server", ""))]))
            if better:
                update |= {"probe": api["id"], "harmless": harmless}
            found[name] = known.model_copy(update=update)
    return tuple(found[name] for name in sorted(found))


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
