"""Shell patterns for the target of a call: host and path as sent on the wire, however a document spells them.

Parts that are unknown before the call, or that servers interpret differently, match *maybe*. A rule that forbids
applies on a maybe; a rule that allows does not. So each test has two modes, with ``certain`` and without.
"""

import ipaddress
import re
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase, translate
from functools import lru_cache
from typing import Final
from urllib.parse import unquote, urlsplit

from yarl import URL

from services.urls import url_of

_MAX_CHARS: Final = 4_000
_DECODINGS: Final = 5
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_NAME = re.compile(r"[a-z0-9_.-]+")
_NUMERIC = re.compile(r"[0-9a-fx.]+")
_EXPRESSION = re.compile(r"\{[^{}]+\}")
_ANY: Final = "\ue000"
"""Placeholder for a parameter in a path: any text, or none if the server drops it as a matrix parameter (`;x=1`)."""
_TOKEN = re.compile(r"\[!?\]?[^\]]*\]|.", re.DOTALL)
_WILDCARD = re.compile(r"[*?\[\]]")
_LABEL = re.compile(r"(?:\[!?\]?[^\]]*\]|[^.])+")
"""A label in a pattern of hosts; a dot in brackets does not end it."""
_PORT = re.compile(r":[^:\]]*$")


@dataclass(frozen=True, slots=True)
class Place:
    """The target of an operation's calls.

    Attributes:
        host: in lower case, without a trailing dot; a numeric address in its canonical form; None: unknown.
        port: the explicit port, or the scheme's default.
        default_port: whether the port is the scheme's default.
        exact: the path, decoded once, with ``_ANY`` for each parameter; None: too long to check.
        loose: the path as lenient servers would interpret it, in each order of decoding it and removing its matrix
            parameters.
    """

    host: str | None
    port: int
    default_port: bool
    exact: str | None
    loose: tuple[str, ...]


@lru_cache(maxsize=4096)
def place_of(server: str, path: str) -> Place:
    """The target of an operation's calls, from its base URL and path."""
    host, port, is_default, prefix = _server(server)
    template = path.partition("#")[0].partition("?")[0]
    whole = _EXPRESSION.sub(_ANY, prefix.rstrip("/") + template)
    if len(whole) > _MAX_CHARS:
        return Place(host, port, is_default, None, ())
    return Place(host, port, is_default, unquote(whole), _loose(whole))


def matches_host(pattern: str, place: Place, *, certain: bool) -> bool:
    """Whether a pattern matches the host.

    With ``certain``, a pattern without a port matches only the scheme's default port; otherwise it matches any port.
    """
    if pattern == "*":
        return True
    if place.host is None:
        return not certain
    wanted = pattern.lower()
    if _PORT.search(wanted):
        wanted, _, port = wanted.rpartition(":")
        if not fnmatchcase(str(place.port), port):
            return False
    elif certain and not place.default_port:
        return False
    wanted = wanted.rstrip(".")
    if place.host == _spelt(wanted):
        return True
    return any(fnmatchcase(place.host, form) for form in _in_ascii(wanted, certain=certain))


def matches_path(pattern: str, place: Place, *, certain: bool) -> bool:
    """Whether a pattern matches the path. Parameters in the path may become any text."""
    if pattern == "*":
        return True
    if place.exact is None:
        return not certain
    patterns = [pattern]
    if not certain and "%" in pattern:  # the pattern may be copied from a URL, in encoded form
        patterns.append(unquote(pattern))
    readings = [(one, place.exact) for one in patterns]
    for loose in place.loose:
        readings += [(_lenient(one), loose) for one in patterns]
        if not certain:  # lenient servers do not distinguish a path with a slash at its end
            readings += [(_merged(one), loose.rstrip("/") + "/") for one in patterns]
    found = (_matches(_tokens(wanted), text, certain=certain) for wanted, text in readings)
    return all(found) if certain else any(found)


def _server(server: str) -> tuple[str | None, int, bool, str]:
    """Host, port, whether it is the scheme's default port, and path of a base URL."""
    try:
        parts = urlsplit(server)
        port, default = parts.port, _DEFAULT_PORTS.get(parts.scheme, 0)
        path = url_of(server).raw_path  # normalised as in requests: without dot segments
    except ValueError:
        return None, 0, False, ""
    host = _host(parts.hostname or "") if "\\" not in server and "@" not in parts.netloc else None
    return host, port or default, port in (None, default), path


def _host(name: str) -> str | None:
    """A host's name or address in canonical form; None if the form is unknown."""
    name = name.rstrip(".")
    if not _NAME.fullmatch(name) and ":" not in name:
        return None
    try:
        # Resolvers also accept 127.1, 0x7f000001 and 2130706433 as addresses.
        address = ipaddress.ip_address(socket.inet_aton(name) if _NUMERIC.fullmatch(name) else name)
    except (ValueError, OSError):
        return name if _NAME.fullmatch(name) else None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address) if isinstance(address, ipaddress.IPv4Address) or mapped else f"[{address}]"


@lru_cache(maxsize=4096)
def _spelt(pattern: str) -> str | None:
    """The host that a pattern names literally, in canonical form. Brackets of an IPv6 address are not a wildcard."""
    bare = pattern.removeprefix("[").removesuffix("]")
    try:
        return _host(bare if ":" in bare else pattern.encode("idna").decode())
    except UnicodeError:
        return None


@lru_cache(maxsize=4096)
def _in_ascii(pattern: str, *, certain: bool) -> tuple[str, ...]:
    """A pattern of hosts in the forms in which its labels may be called.

    A label outside ASCII that has a wildcard has no equal in ASCII: it matches what it says, or, without ``certain``,
    anything, as it may stand for encoded and plain labels and for several of them.
    """
    if pattern.isascii():
        return (pattern,)
    if certain:
        return (".".join(label if _WILDCARD.search(label) else _idna_2003(label) for label in pattern.split(".")),)
    return pattern, _relabelled(pattern, _idna_2003), _relabelled(pattern, _idna_2008)


def _relabelled(pattern: str, encode: Callable[[str], str]) -> str:
    """The pattern with its labels outside ASCII encoded; those with wildcards become ``*``."""

    def form(found: re.Match[str]) -> str:
        label = found[0]
        if label.isascii():
            return label
        return "*" if _WILDCARD.search(label) else encode(label)

    return _LABEL.sub(form, pattern)


def _idna_2003(label: str) -> str:
    try:
        return label.encode("idna").decode()
    except UnicodeError:
        return label


def _idna_2008(label: str) -> str:
    """The label as requests are sent; it differs from IDNA 2003 in letters such as ß, which that writes as `ss`."""
    try:
        return URL.build(scheme="https", host=label).raw_host or label
    except ValueError:
        return label


def _loose(path: str) -> tuple[str, ...]:
    """A path as lenient servers read it: decoded, without dot or empty segments and matrix parameters.

    A server may remove the matrix parameters before any of its decodings, so `/a;%2Fb` is `/a/b` or `/a`.
    """
    stages = _decoded(path)
    found = {_plain(stages[-1])}
    for stage in stages:
        for text in (stage, stage.replace("\\", "/")) if ";" in stage else ():
            stripped = "/".join(segment.partition(";")[0] for segment in text.split("/"))
            found.add(_plain(_decoded(stripped)[-1]))
    return tuple(sorted(found))


def _decoded(path: str) -> list[str]:
    """The path, decoded more and more often."""
    found = [path]
    while len(found) <= _DECODINGS and (decoded := unquote(found[-1])) != found[-1]:
        found.append(decoded)
    return found


def _plain(path: str) -> str:
    """A decoded path in lower case, without dot or empty segments and matrix parameters."""
    kept = list[str]()
    for raw in path.replace("\\", "/").split("/"):
        segment = raw.partition(";")[0]
        if segment == "..":
            del kept[-1:]
        elif segment not in ("", "."):
            kept.append(segment)
    return "/" + "/".join(kept).lower()


def _lenient(pattern: str) -> str:
    """The pattern to compare with such lenient paths."""
    merged = _merged(pattern)
    return "/" + merged.strip("/") if pattern.startswith("/") else merged


def _merged(pattern: str) -> str:
    """The pattern in lower case, with single slashes."""
    return re.sub("/+", "/", pattern.lower())


@lru_cache(maxsize=4096)
def _tokens(pattern: str) -> tuple[str | re.Pattern[str], ...]:
    """The tokens of a pattern: ``*``, or an expression that matches one character."""
    return tuple(part if part == "*" else re.compile(translate(part)) for part in _TOKEN.findall(pattern))


def _matches(tokens: Sequence[str | re.Pattern[str]], text: str, *, certain: bool) -> bool:
    """Whether the pattern matches the text for some values of its parameters; with ``certain``, for all values."""
    states = _skipped(tokens, {0})
    for char in text:
        if char != _ANY:
            states = {s if tokens[s] == "*" else s + 1 for s in states if s < len(tokens) and _takes(tokens[s], char)}
        elif certain:  # only `*` matches any value
            states = {s for s in states if s < len(tokens) and tokens[s] == "*"}
        else:
            states = _reached(tokens, states)
        if not states:
            return False
        states = _skipped(tokens, states)
    return len(tokens) in states


def _takes(token: str | re.Pattern[str], char: str) -> bool:
    return isinstance(token, str) or token.match(char) is not None


def _reached(tokens: Sequence[str | re.Pattern[str]], states: set[int]) -> set[int]:
    """The states that any text can lead to."""
    return set(range(min(states), len(tokens) + 1))


def _skipped(tokens: Sequence[str | re.Pattern[str]], states: set[int]) -> set[int]:
    """The states, and those reached from them because ``*`` may match the empty text."""
    found = set(states)
    for state in sorted(states):
        while state < len(tokens) and tokens[state] == "*":
            state += 1
            found.add(state)
    return found
