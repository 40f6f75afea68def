"""Shell patterns over where a call goes: host and path as they stand on the wire, however a document spells them.

What is not known before the call, or what servers read in different ways, matches *maybe*: a rule that forbids has to
hold then, a rule that allows must not. So every question is asked twice, with ``certain`` and without.
"""

import ipaddress
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase, translate
from functools import lru_cache
from typing import Final
from urllib.parse import unquote, urlsplit

from yarl import URL

_MAX_CHARS: Final = 4_000
_DECODINGS: Final = 5
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_NAME = re.compile(r"[a-z0-9_.-]+")
_NUMERIC = re.compile(r"[0-9a-fx.]+")
_EXPRESSION = re.compile(r"\{[^{}]+\}")
_ANY: Final = "\ue000"
"""Stands in a path for a parameter: any text, or none where the server drops it as a matrix parameter (`;x=1`)."""
_TOKEN = re.compile(r"\[!?\]?[^\]]*\]|.", re.DOTALL)
_PORT = re.compile(r":[^:\]]*$")


@dataclass(frozen=True, slots=True)
class Place:
    """Where the calls of an operation go.

    Attributes:
        host: in lower case, without a dot at its end; a numeric address in its usual form; None: it cannot be told.
        port: as it is written, or the scheme's.
        default_port: whether it is the scheme's.
        exact: the path, decoded once, with ``_ANY`` for each parameter; None: it is too long to be looked at.
        loose: the path as the most lenient server would read it.
    """

    host: str | None
    port: int
    default_port: bool
    exact: str | None
    loose: str


@lru_cache(maxsize=4096)
def place_of(server: str, path: str) -> Place:
    """Where an operation's calls go, by its base URL and path."""
    host, port, is_default, prefix = _server(server)
    template = path.partition("#")[0].partition("?")[0]
    whole = _EXPRESSION.sub(_ANY, prefix.rstrip("/") + template)
    if len(whole) > _MAX_CHARS:
        return Place(host, port, is_default, None, "")
    return Place(host, port, is_default, unquote(whole), _loose(whole))


def matches_host(pattern: str, place: Place, *, certain: bool) -> bool:
    """Whether a pattern matches the host. Without a port it means the scheme's, and forbids all."""
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
    return place.host == _spelt(wanted) or fnmatchcase(place.host, wanted)


def matches_path(pattern: str, place: Place, *, certain: bool) -> bool:
    """Whether a pattern matches the path; parameters in it may become any text."""
    if pattern == "*":
        return True
    if place.exact is None:
        return not certain
    readings = [(pattern, place.exact), (_lenient(pattern), place.loose)]
    if not certain and "%" in pattern:  # copied as it stands on the wire
        readings += [(unquote(pattern), place.exact), (_lenient(unquote(pattern)), place.loose)]
    found = (_matches(_tokens(wanted), text, certain=certain) for wanted, text in readings)
    return all(found) if certain else any(found)


def _server(server: str) -> tuple[str | None, int, bool, str]:
    """Host, port, whether that is the scheme's own, and the path of a base URL."""
    try:
        parts = urlsplit(server)
        port, default = parts.port, _DEFAULT_PORTS.get(parts.scheme, 0)
        path = URL(server).raw_path  # as requests are made of it: without dot segments
    except ValueError:
        return None, 0, False, ""
    host = _host(parts.hostname or "") if "\\" not in server and "@" not in parts.netloc else None
    return host, port or default, port in (None, default), path


def _host(name: str) -> str | None:
    """A host's name or address in its usual form; None where it is in none that is understood here."""
    name = name.rstrip(".")
    if not _NAME.fullmatch(name) and ":" not in name:
        return None
    try:
        # Resolvers take 127.1, 0x7f000001 and 2130706433 for addresses, too.
        address = ipaddress.ip_address(socket.inet_aton(name) if _NUMERIC.fullmatch(name) else name)
    except (ValueError, OSError):
        return name if _NAME.fullmatch(name) else None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address) if isinstance(address, ipaddress.IPv4Address) or mapped else f"[{address}]"


@lru_cache(maxsize=4096)
def _spelt(pattern: str) -> str | None:
    """The one host that a pattern names, in its usual form: an address in brackets is no pattern of one character."""
    bare = pattern.removeprefix("[").removesuffix("]")
    try:
        return _host(bare if ":" in bare else pattern.encode("idna").decode())
    except UnicodeError:
        return None


def _loose(path: str) -> str:
    """A path as the most lenient server reads it: decoded, without dot segments, empty ones and matrix parameters."""
    for _ in range(_DECODINGS):
        decoded = unquote(path)
        if decoded == path:
            break
        path = decoded
    kept = list[str]()
    for raw in path.replace("\\", "/").split("/"):
        segment = raw.partition(";")[0]
        if segment == "..":
            del kept[-1:]
        elif segment not in ("", "."):
            kept.append(segment)
    return "/" + "/".join(kept).lower()


def _lenient(pattern: str) -> str:
    """The pattern for paths that are read so."""
    return "/" + re.sub("/+", "/", pattern.lower()).strip("/") if pattern.startswith("/") else pattern.lower()


@lru_cache(maxsize=4096)
def _tokens(pattern: str) -> tuple[str | re.Pattern[str], ...]:
    """The pattern taken apart: ``*``, or what matches one character."""
    return tuple(part if part == "*" else re.compile(translate(part)) for part in _TOKEN.findall(pattern))


def _matches(tokens: Sequence[str | re.Pattern[str]], text: str, *, certain: bool) -> bool:
    """Whether the pattern matches the text: with some texts in place of its parameters or, ``certain``, with all."""
    states = _skipped(tokens, {0})
    for char in text:
        if char != _ANY:
            states = {s if tokens[s] == "*" else s + 1 for s in states if s < len(tokens) and _takes(tokens[s], char)}
        elif certain:  # only `*` takes whatever comes
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
    """Where any text can lead."""
    return set(range(min(states), len(tokens) + 1))


def _skipped(tokens: Sequence[str | re.Pattern[str]], states: set[int]) -> set[int]:
    """The states, and those that are reached from them because ``*`` may stand for nothing."""
    found = set(states)
    for state in sorted(states):
        while state < len(tokens) and tokens[state] == "*":
            state += 1
            found.add(state)
    return found
