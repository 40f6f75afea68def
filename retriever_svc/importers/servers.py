"""The base URL of an operation."""

from __future__ import annotations

import ipaddress
import re
from contextlib import suppress
from urllib.parse import urljoin, urlsplit

from pydantic import JsonValue

from retriever_svc.importers.refs import JsonObject, as_list, as_object

_MAX_URL = 2_000
_MAX_FILLED = 2 * _MAX_URL
"""Characters of a URL with its variables' defaults, counted before it is made."""
_MAX_SERVERS = 20
_PRIVATE_ENDINGS = (".localhost", ".local", ".internal", ".intranet", ".lan", ".home.arpa", ".corp")
PLACEHOLDER = re.compile(
    r"\byour|example|placeholder|changeme|change-me|replace|<|abcd|^my[-_]?(?:[-_]|shop|store|domain|company|org|tenant)"
    r"|^(?:tenant|subdomain|domain|company|organi[sz]ation|account|customer|hostname|instance|site|x+)$",
    re.IGNORECASE,
)
"""Defaults that are placeholders for the user's own value."""
_VARIABLE = re.compile(r"\{([^{}]+)\}")
_HOST = re.compile(r"(?:[a-z0-9-]+\.)+[a-z]{2,}(?::\d+)?(?:/|$)", re.IGNORECASE)


class NoServer(Exception):
    """A declared server cannot be called; the message says what is missing."""


def choose_server(levels: list[JsonValue], given: str | None) -> tuple[str, str]:
    """The base URL, without a final slash, and why it is not the first declared one; empty if it is.

    Args:
        levels: the ``servers`` lists of the operation, its path item and the document. The first non-empty list is
            used, and of it the first server that can be called.
        given: replaces an absolute server and completes a relative one.

    Raises:
        NoServer: none can be called.
    """
    servers = next((found for level in levels if (found := as_list(level))), [])
    if given is not None:
        return _completed(given, servers[0] if servers else {}), ""
    reasons = list[str]()
    for server in servers[:_MAX_SERVERS]:
        try:
            return _callable(_expand(server)), reasons[0] if reasons else ""
        except NoServer as reason:
            reasons.append(str(reason))
    raise NoServer(reasons[0] if reasons else "the document has no server")


def located_server(levels: list[JsonValue], url: str) -> str:
    """The base URL of a document's relative server, resolved against the URL that the document came from.

    A document without servers has the relative server ``/``.

    Raises:
        NoServer: none of its servers is relative.
    """
    usual: list[JsonValue] = [{"url": "/"}]  # OpenAPI's default
    servers = next((found for level in levels if (found := as_list(level))), usual)
    for server in servers[:_MAX_SERVERS]:
        with suppress(NoServer, ValueError):
            path = _expand(server)
            if path and not urlsplit(path).scheme and not _HOST.match(path):
                return _callable(urljoin(url, path))
    raise NoServer("none of the document's servers is relative")


def private_host(server: str) -> str | None:
    """The `host` or `host:port` of a URL if it is a private address, judged by the name alone; else None."""
    parts = urlsplit(server)
    host = parts.hostname or ""
    try:
        private = not ipaddress.ip_address(host).is_global
    except ValueError:
        private = bool(host) and ("." not in host or host.endswith(_PRIVATE_ENDINGS))
    return parts.netloc if private else None


def _completed(given: str, server: JsonValue) -> str:
    try:
        declared = _url(server)
        url = given if declared.strip("/") == "" or _scheme(declared) else urljoin(given, declared)
        return _callable(url)
    except (ValueError, NoServer):
        return _callable(given)


def _scheme(url: str) -> str:
    """The scheme of a URL; empty for relative references and invalid URLs."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return parts.scheme or ("https" if parts.netloc else "")


def _url(server: JsonValue) -> str:
    """The URL with its variables replaced by their defaults, if they have one.

    Raises:
        NoServer: it is too long. A default may be as long as a document, and be used a thousand times.
    """
    template = _template(server)
    used = (max(len(name), len(_default(server, name))) for name in _VARIABLE.findall(template))
    if sum(used, len(template)) > _MAX_FILLED:
        raise NoServer(f"the server's URL is too long with its variables' defaults ({template[:100]})")
    return _VARIABLE.sub(lambda match: _default(server, match[1]) or match[0], template)


def _template(server: JsonValue) -> str:
    url = as_object(server).get("url")
    return url.strip()[:_MAX_URL] if isinstance(url, str) else ""


def _default(server: JsonValue, name: str) -> str:
    variable = _variable(server, name)
    value = variable.get("default")
    return str(value) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else ""


def _variable(server: JsonValue, name: str) -> JsonObject:
    return as_object(as_object(as_object(server).get("variables")).get(name))


def _expand(server: JsonValue) -> str:
    """The URL with its variables replaced by their defaults.

    Raises:
        NoServer: a variable has no default, or a variable in the host has a placeholder as its default; or it is too
            long.
    """
    template = _template(server)
    host = template.partition("://")[2].partition("/")[0]
    for name in dict.fromkeys(_VARIABLE.findall(template)):
        default = _default(server, name)
        if not default:
            raise NoServer(f"the server's variable {name[:60]!r} is unset: it has no default ({template[:100]})")
        is_choice = bool(as_list(_variable(server, name).get("enum")))
        if f"{{{name}}}" in host and not is_choice and (PLACEHOLDER.search(default, 0, _MAX_URL) or default == name):
            raise NoServer(
                f"the server's variable {name[:60]!r} is unset: its default {default[:60]!r} is a placeholder for your "
                f"own value ({template[:100]})"
            )
    return _url(server)


def _callable(url: str) -> str:
    """The URL if it is an http or https URL. A host without a scheme gets https.

    Query, fragment, and user with password are removed.

    Raises:
        NoServer: it is not such a URL.
    """
    if _HOST.match(url):
        url = f"https://{url}"
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        raise NoServer(f"the server is not a URL: {url[:100]!r}") from None
    if not parts.scheme and not parts.netloc:
        raise NoServer(f"the server is relative: {url[:100]!r}")
    if not valid or re.search(r"[\s{}\x00-\x1f]", url):
        raise NoServer(f"the server is not an http or https URL: {url[:100]!r}")
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")
