"""The base URL of an operation."""

from __future__ import annotations

import re
from urllib.parse import urljoin, urlsplit

from pydantic import JsonValue

from retriever_svc.importers.refs import as_list, as_object

_MAX_URL = 2_000


def choose_server(levels: list[JsonValue], given: str | None) -> str:
    """The base URL, without a slash at its end; empty where the document names none that could be called.

    Args:
        levels: the ``servers`` lists of the operation, its path item and the document: the first that has any counts.
        given: replaces an absolute server and completes a relative one.
    """
    servers = next((found for level in levels if (found := as_list(level))), [])
    declared = _expand(servers[0]) if servers else ""
    if given is None:
        return _callable(declared)
    if declared.strip("/") == "" or _scheme(declared):
        return _callable(given)
    try:
        return _callable(urljoin(given, declared))
    except ValueError:
        return _callable(given)


def _scheme(url: str) -> str:
    """The scheme of a URL, empty for relative references and for what is no URL."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return parts.scheme or ("https" if parts.netloc else "")


def _expand(server: JsonValue) -> str:
    """The URL with its variables replaced by their defaults."""
    url = as_object(server).get("url")
    if not isinstance(url, str):
        return ""
    variables = as_object(as_object(server).get("variables"))

    def default(match: re.Match[str]) -> str:
        value = as_object(variables.get(match[1])).get("default")
        return str(value) if isinstance(value, (str, int, float)) else match[0]

    return re.sub(r"\{([^{}]+)\}", default, url.strip()[:_MAX_URL])


def _callable(url: str) -> str:
    """The URL where it is one that HTTP can call, else nothing.

    Query and fragment have no place in a base URL, and a user with a password none in a catalogue.
    """
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        return ""
    if not valid or re.search(r"[\s{}\x00-\x1f]", url):
        return ""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")
