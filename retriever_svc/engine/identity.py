"""Which APIs are the same operation: keys that do not depend on the provider, and an order of versions."""

from __future__ import annotations

import hashlib
import ipaddress
import re
from urllib.parse import SplitResult, urlsplit

from services.contracts.api import OUTSIDE_CONTENT, Api

_PATH_VERSION = re.compile(r"v\d+(?:[._]\d+)*(?:(?:alpha|beta|rc|p)\d*)*|20\d\d-\d\d(?:-\d\d)?", re.IGNORECASE)
_VERSION = re.compile(r"v?(\d+(?:[._-]\d+)*)(.*)", re.IGNORECASE | re.DOTALL)
_DIGITS = 32
_MAX_REVISION = 30

Precedence = tuple[tuple[int, ...], bool, tuple[int, ...]]
"""A version as something that sorts: its numbers, whether it is a release, the numbers after them."""


def operation_key(api: Api) -> str:
    """The same for the same method, host and path template, whatever version; empty where no host is known.

    Names of path parameters do not count, nor do segments such as ``v2``, wherever a document writes them: in the
    server's URL or in the path.
    """
    url = _server(api)
    if url is None or _is_own_machine(url.hostname or ""):
        return ""
    segments = [re.sub(r"\{[^}]*\}", "{}", part) for part in _segments(api, url) if not _PATH_VERSION.fullmatch(part)]
    return _digest(f"{api.method} {url.netloc.lower()} {'/'.join(segments)}")


def content_key(api: Api) -> str:
    """The same for an API that differs in nothing but its provider, its server and its credentials."""
    ignored = {"id", "provider", "server", "security", *OUTSIDE_CONTENT}
    return _digest(api.model_dump_json(exclude=ignored, ensure_ascii=True))


def revision(api: Api, document_version: str) -> str:
    """The version in the path and the one of the document, a blank between them; either may be missing."""
    url = _server(api)
    parts = _segments(api, url) if url is not None else api.path.split("/")
    in_path = next((part for part in parts if _PATH_VERSION.fullmatch(part)), "")
    return f"{in_path[:_MAX_REVISION]} {''.join(document_version.split())[:_MAX_REVISION]}"


def precedence(revision: str) -> tuple[Precedence, Precedence]:
    """A revision as something that sorts, oldest first. The path decides; no version is older than any."""
    in_path, _, of_document = revision.partition(" ")
    return _precedence(in_path), _precedence(of_document)


def _precedence(version: str) -> Precedence:
    """``1.10`` after ``1.9``; ``v1beta2`` before ``v1``. What is not a version is older than any."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (), False, ()
    return _numbers(match[1]), not match[2], _numbers(match[2])


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(digits[:18]) for digits in re.findall(r"[0-9]+", text))


def _server(api: Api) -> SplitResult | None:
    try:
        url = urlsplit(api.server)
        return url if url.hostname else None
    except ValueError:  # "http://[::"
        return None


def _segments(api: Api, url: SplitResult) -> list[str]:
    return [part for part in f"{url.path}/{api.path}".split("/") if part]


def _is_own_machine(host: str) -> bool:
    """Whether every document may mean another service by it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:_DIGITS]
