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
"""A sort key for a version: its numbers, whether it is a release, the numbers after them."""


def operation_key(api: Api) -> str:
    """A key for the method, host and path template, regardless of the version; empty if no host is known.

    Names of path parameters are ignored. So are version segments such as ``v2``, in the server's URL or in the path.
    """
    url = _server(api)
    if url is None or _is_own_machine(url.hostname or ""):
        return ""
    segments = [re.sub(r"\{[^}]*\}", "{}", part) for part in _segments(api, url) if not _PATH_VERSION.fullmatch(part)]
    return _digest(f"{api.method} {url.netloc.lower()} {'/'.join(segments)}")


def content_key(api: Api) -> str:
    """A key that is equal for APIs that differ only in their provider, server and credentials."""
    ignored = {"id", "provider", "server", "security", *OUTSIDE_CONTENT}
    return _digest(api.model_dump_json(exclude=ignored, ensure_ascii=True))


def revision(api: Api, document_version: str) -> str:
    """The version in the path and the version of the document, separated by a blank; either may be empty."""
    url = _server(api)
    parts = _segments(api, url) if url is not None else api.path.split("/")
    in_path = next((part for part in parts if _PATH_VERSION.fullmatch(part)), "")
    return f"{in_path[:_MAX_REVISION]} {''.join(document_version.split())[:_MAX_REVISION]}"


def precedence(revision: str) -> tuple[Precedence, Precedence]:
    """A sort key for a revision, oldest first. The path decides; no version is older than any version."""
    in_path, _, of_document = revision.partition(" ")
    return _precedence(in_path), _precedence(of_document)


def _precedence(version: str) -> Precedence:
    """``1.10`` after ``1.9``; ``v1beta2`` before ``v1``. Text that is not a version is older than any version."""
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
    """Whether the host is the local machine, so that it may mean another service in each document."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:_DIGITS]
