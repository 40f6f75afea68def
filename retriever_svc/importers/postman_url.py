"""URLs of Postman collections: base, path with parameters, and query; and the variables in them."""

from __future__ import annotations

import re
from collections import ChainMap
from dataclasses import dataclass, field
from urllib.parse import unquote_plus

from pydantic import JsonValue

from retriever_svc.importers.examples import is_secret
from retriever_svc.importers.limits import MAX_NAME
from retriever_svc.importers.postman_parts import Field, Fields, fields, once
from retriever_svc.importers.refs import JsonObject, SkipOperation, as_list, as_object

_VARIABLE = re.compile(r"\{\{([^{}]*)\}\}")
_SCHEME = re.compile(r"[^/?#]*://")
_PARAMETER = re.compile(r":([^/{}:]+)")
_MAX_URL = 8_000
_MAX_VALUE = 500
_MAX_EXPANDED = 2_000
_MAX_ROUNDS = 5
"""How often a value is searched for further variables, which bounds variables that contain themselves."""


@dataclass(frozen=True, slots=True)
class Url:
    """A request's URL.

    Attributes:
        base: the URL before the path; empty if it contains a variable without a value.
        path: with ``{name}`` for parameters.
    """

    base: str
    path: str
    path_fields: Fields
    query: Fields


@dataclass(frozen=True, slots=True)
class Variables:
    """Values of variables, those of inner folders before those of outer ones."""

    values: ChainMap[str, str] = field(default_factory=ChainMap)

    def extended(self, declared: JsonValue) -> Variables:
        """These variables and those of a folder. In version 2.0 the name of a variable is its ``id``."""
        own = {
            str(variable.get("key") or variable.get("id")): str(variable["value"])
            for variable in map(as_object, as_list(declared))
            if isinstance(variable.get("value"), (str, int, float)) and variable.get("disabled") is not True
        }
        kept = {name: value for name, value in own.items() if len(value) <= _MAX_VALUE}
        return Variables(self.values.new_child(kept)) if kept else self

    def expand(self, text: str) -> str:
        """The text with variables replaced by their values, if they have one. A long text is left as it is."""
        for _ in range(_MAX_ROUNDS if len(text) <= _MAX_URL else 0):
            expanded = _VARIABLE.sub(lambda match: self.values.get(match[1].strip()) or match[0], text)
            if expanded == text or len(expanded) > _MAX_EXPANDED:
                break
            text = expanded
        return text

    def constant(self, name: str) -> str | None:
        """The value of a variable in a path; None if it has none, or is an argument (``userId``) or a secret."""
        if is_secret(name) or name.lower().endswith("id"):
            return None
        value = self.expand(f"{{{{{name}}}}}")
        return None if _VARIABLE.search(value) else value


def read_url(declared: JsonValue, variables: Variables) -> Url:
    """Read a URL, given as text or in parts.

    Raises:
        SkipOperation: there is none, or it is too long.
    """
    url: JsonObject = {"raw": declared} if isinstance(declared, str) else as_object(declared)
    raw = url.get("raw")
    text = raw.strip() if isinstance(raw, str) and raw.strip() else _joined(url)
    if not text or len(text) > _MAX_URL:
        raise SkipOperation("the request has no URL" if not text else "the request's URL is too long")
    address, _, query = text.partition("#")[0].partition("?")
    base, rest = _split(address)
    path, names = _path(rest, variables)
    described = {one.name: one for one in fields(url.get("variable"))}
    path_fields = [described.get(name) or Field(name) for name in names]
    listed = fields(url.get("query")) if isinstance(url.get("query"), list) else _pairs(query)
    return Url(_base(base, variables), path, path_fields, listed)


def _joined(url: JsonObject) -> str:
    """The text of a URL that is given only in parts."""
    host, path = _text(url.get("host"), "."), _text(url.get("path"), "/")
    protocol, port = url.get("protocol"), url.get("port")
    start = f"{protocol}://" if isinstance(protocol, str) and protocol and host else ""
    end = f":{port}" if isinstance(port, (str, int)) and port and host else ""
    return f"{start}{host}{end}/{path.lstrip('/')}" if host or path else ""


def _text(value: JsonValue, separator: str) -> str:
    parts = [part if isinstance(part, str) else as_object(part).get("value") for part in as_list(value)]
    return value if isinstance(value, str) else separator.join(part for part in parts if isinstance(part, str))


def _split(address: str) -> tuple[str, str]:
    """Scheme and host, and the path."""
    scheme = _SCHEME.match(address)
    slash = address.find("/", scheme.end() if scheme else 0)
    return (address, "") if slash < 0 else (address[:slash], address[slash:])


def _base(text: str, variables: Variables) -> str:
    """The base URL with the values of its variables; https if there is no scheme."""
    base = variables.expand(text).strip()
    if not base or _VARIABLE.search(base):
        return ""
    return base if "://" in base else f"https://{base}"


def _path(text: str, variables: Variables) -> tuple[str, list[str]]:
    """The path with ``{name}`` for ``:name`` and for variables that are not constants; and those names."""
    names: dict[str, None] = {}

    def parameter(name: str) -> str:
        names[name] = None
        return f"{{{name}}}"

    def variable(match: re.Match[str]) -> str:
        name = match[1].strip()
        value = variables.constant(name)
        return value.strip("/") if value is not None else parameter(re.sub(r"[^\w.-]+", "_", name) or "value")

    segments = []
    for segment in text.split("/")[1:]:
        whole = _PARAMETER.fullmatch(segment)
        segments.append(parameter(whole[1]) if whole else _VARIABLE.sub(variable, segment))
    path = "/" + "/".join(segments)
    return re.sub(r"\s", "%20", path), list(names)


def _pairs(query: str) -> Fields:
    pairs = [pair.partition("=") for pair in query.split("&") if pair]
    return once(Field(unquote_plus(name), unquote_plus(value)) for name, _, value in pairs if 0 < len(name) <= MAX_NAME)
