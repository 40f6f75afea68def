"""APIs as they are shown to a language model: one typed line each.

``searchAirports(query, limit?: integer) -> items[0].iata, items[0].name | Find airports by name or city``

A type that is not given is text. A field is written as the path that follows the label in a reference, so the model
only copies it.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Final

from pydantic import JsonValue

from planner_svc.compiler.nodes import Node
from planner_svc.compiler.schemas import Schemas
from services.codecs.calls import RESULT
from services.codecs.text import format_path
from services.compute import checkpoint, with_checkpoints
from services.contracts.api import Api, Parameter
from services.contracts.base import JsonPath

_MAX_DEPTH: Final = 6
_MAX_WALKED: Final = 400
_MAX_NESTED: Final = 4
_MAX_CHOICES_CHARS: Final = 800
_MAX_NAME: Final = 60
_MAX_MEMBER: Final = 100
"""Most characters of a member's name. A longer one is left out: a part of it would be wrong."""
_MAX_WANTED: Final = 100
_SHALLOW: Final = 3
_IDENTIFYING: Final = frozenset({"id", "code", "key", "name", "title", "number"})


@dataclass(frozen=True, slots=True)
class Detail:
    """How much of an API its line shows.

    Attributes:
        optional: most optional parameters; those that share words with the request come first.
        fields: most fields of the answer; those that could feed a parameter of a candidate come first.
        values: most values of an enumeration.
        text: most characters of the description.
        request: whether provider, method and path are shown.
        parameter_text: most characters of each parameter's description; 0: none.
    """

    optional: int
    fields: int
    values: int
    text: int
    request: bool
    parameter_text: int


BRIEF: Final = Detail(optional=4, fields=6, values=6, text=60, request=False, parameter_text=0)
"""For small models: 30 to 60 tokens per API."""
FULL: Final = Detail(optional=40, fields=40, values=20, text=300, request=True, parameter_text=120)
"""For models that process thousands of tokens per second."""
SHORTER: Final = (
    Detail(optional=6, fields=10, values=12, text=100, request=True, parameter_text=40),
    Detail(optional=14, fields=18, values=20, text=160, request=True, parameter_text=80),
)
"""Shorter forms of :data:`FULL`, the shortest first, where not all APIs have room in full."""
DETAILS: Final[Mapping[str, Detail]] = {"brief": BRIEF, "full": FULL}
"""By the names that settings, recipes and registries use."""


def call_names(apis: Iterable[Api]) -> dict[str, str]:
    """The name of each API in prompt and answer, by its id: its name if nothing else has that, otherwise its id.

    A document may name an operation like another one's id.
    """
    listed = list(apis)
    used = Counter([RESULT, *(api.id for api in listed), *(api.name for api in listed)])
    return {api.id: api.name if used[api.name] == 1 and _sayable(api.name) else api.id for api in listed}


def with_names(text: str, names: Mapping[str, str]) -> str:
    """The text with each API's name, from :func:`call_names`, in place of its id. One id may begin another."""
    ids = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    return re.sub(ids, lambda match: names[match[0]], text) if ids else text


@dataclass(frozen=True, slots=True)
class Wanted:
    """The names of the candidates' parameters, and everything that these end with."""

    names: frozenset[str] = frozenset()
    ends: frozenset[str] = frozenset()

    def has(self, path: JsonPath) -> bool:
        """Whether a parameter has the field's name: ``longitude`` feeds ``pick_up_longitude``."""
        names = [part for part in path if isinstance(part, str)]
        if not names:
            return False
        leaf, owned = _plain(names[-1]), _plain("".join(names[-2:]))[-_MAX_NAME:]
        return leaf in self.ends or any(owned[at:] in self.names for at in range(len(owned)))


def wanted_names(apis: Iterable[Api], further: Iterable[str] = ()) -> Wanted:
    """The names of the parameters of these APIs, of each the first hundred, and further names."""
    of_apis = (parameter.name for api in apis for parameter in api.parameters[:_MAX_WANTED])
    names = {_plain(name)[-_MAX_NAME:] for name in (*of_apis, *further)}
    return Wanted(frozenset(names), frozenset(name[at:] for name in names for at in range(len(name))))


class Signature:
    """The line of one API, in any detail. Its answer's schema is read once.

    Args:
        api: The API.
        name: Its name in the prompt, from :func:`call_names`.
        request_words: The request's words in lower case.
        wanted: Names of the candidates' parameters, from :func:`wanted_names`.
    """

    def __init__(self, api: Api, name: str, request_words: frozenset[str], wanted: Wanted) -> None:
        self._api, self._name, self._words, self._wanted = api, name, request_words, wanted
        checkpoint()
        self._schemas = Schemas()
        self._fields = _fields(api, self._schemas)

    @cached_property
    def _feeding(self) -> list[JsonPath]:
        """The fields, those that feed a parameter first: the order of the brief form."""
        return sorted(self._fields, key=lambda path: not self._wanted.has(path))

    @cached_property
    def _useful(self) -> list[JsonPath]:
        """The fields, the most useful ones first: those that feed, identify, or share words with the request."""

        def rank(path: JsonPath) -> int:
            words = words_of(str(next((part for part in reversed(path) if isinstance(part, str)), "")))
            useful = self._wanted.has(path) + 2 * bool(words & _IDENTIFYING) + 2 * bool(words & self._words)
            return (len(path) > _SHALLOW) - useful

        return sorted(self._fields, key=rank)

    def line(self, detail: Detail, most: int = sys.maxsize, *, cut: bool = False) -> str:
        """The line; empty if it is too long. In the forms that show the request, ``…`` stands for what was left out.

        Args:
            detail: How much it shows.
            most: Most characters. A document may make lines of gigabytes: they are written only as far as this.
            cut: Leave out the last parameters and fields of a line that is too long, instead of all of it.
        """
        checkpoint()
        api = self._api
        told = self._told(detail)
        shown = with_checkpoints(shown_parameters(api, detail, self._words))
        pieces = (_parameter(self._schemas, api, one, detail) for one in shown)
        taken, left = _fitting(pieces, most - len(self._name) - len(_flat(told)))
        if left < 0 and not cut:
            return ""
        first = set((self._useful if detail.request else self._feeding)[: detail.fields])
        given, left = _fitting((_field_name(path) for path in self._fields if path in first), left)
        if detail.request:
            taken += ["…"] * (len(taken) < len(api.parameters))
            given += ["…"] * (len(given) < len(self._fields))
        answer = f" -> {', '.join(given)}" if given else ""
        line = f"{self._name}({', '.join(taken)}){answer}" + (f" | {told}" if told else "")
        line = _flat(line)  # a line that a document hides in a name would read like one of the prompt's
        return line if cut or (left >= 0 and len(line) <= most) else ""

    def _told(self, detail: Detail) -> str:
        """What the line says of the API in words."""
        api = self._api
        about = [one_line(api.summary or api.description, detail.text)]
        if detail.request:
            about.insert(0, f"{api.provider} {api.method} {api.path}")
            if api.summary and api.description and api.description != api.summary:
                about.append(one_line(api.description, detail.text))
        return " | ".join(part for part in about if part)


def signature(api: Api, name: str, detail: Detail, request_words: frozenset[str], wanted: Wanted) -> str:
    """The line of one API; see :class:`Signature`."""
    return Signature(api, name, request_words, wanted).line(detail)


def shown_parameters(api: Api, detail: Detail, request_words: frozenset[str]) -> list[Parameter]:
    """All required parameters, and optional ones within the limit, in the API's own order."""
    optional = [one for one in api.parameters if not one.needed]
    ranked = sorted(optional, key=lambda one: -len(words_of(f"{one.name} {one.description}") & request_words))
    kept = {one.name for one in ranked[: detail.optional]}
    return [one for one in api.parameters if one.needed or one.name in kept]


def answer_fields(api: Api, limit: int, schemas: Schemas | None = None) -> list[JsonPath]:
    """Paths of the answer's values, in lists that of the first item; outermost first, a bounded number."""
    return _fields(api, schemas or Schemas())[:limit]


def _fields(api: Api, schemas: Schemas) -> list[JsonPath]:
    found: list[JsonPath] = []
    waiting: deque[tuple[JsonPath, Node]] = deque([((), Node(api.response.json_schema, api.definitions))])
    walked = 0
    while waiting and walked < _MAX_WALKED:
        path, node = waiting.popleft()
        walked += 1
        inner = schemas.properties(node)
        item = schemas.child(node, 0, strict=False) if "array" in schemas.kinds(node) and not inner else None
        if inner and len(path) < _MAX_DEPTH:
            room = _MAX_WALKED - walked - len(waiting)
            waiting.extend(((*path, name), child) for name, child in islice(inner.items(), max(room, 0)))
        elif isinstance(item, Node) and not schemas.is_anything(item) and len(path) < _MAX_DEPTH:
            waiting.append(((*path, 0), item))
        elif path:
            found.append(path)
    return found


def words_of(text: str) -> frozenset[str]:
    """The words of a text in lower case; names in camelCase and snake_case are split."""
    parted = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", text)
    return frozenset(re.findall(r"[^\W_]+", parted.lower()))


def one_line(text: str, limit: int) -> str:
    """The text without line breaks, cut at the end of a word."""
    flat = _flat(text[: limit * 8])
    if len(flat) <= limit:
        return flat
    return flat[:limit].rsplit(" ", 1)[0].rstrip(" ,;:") + "…"


def _fitting(pieces: Iterable[str], room: int) -> tuple[list[str], int]:
    """The first pieces that there is room for, in characters, and the room left, which is negative if one had none."""
    kept: list[str] = []
    for piece in pieces:
        room -= len(_flat(piece)) + (len(", ") if kept else 0)
        if room < 0:
            break
        kept.append(piece)
    return kept, room


def _flat(text: str) -> str:
    return " ".join(text.split())


def _parameter(schemas: Schemas, api: Api, parameter: Parameter, detail: Detail) -> str:
    said = parameter.name + ("" if parameter.needed else "?")
    kind = _kind(schemas, Node(parameter.json_schema, api.definitions), detail)
    said += f": {kind}" if kind else ""
    if detail.parameter_text and parameter.description:
        said += f" ({one_line(parameter.description, detail.parameter_text)})"
    return said


def _kind(schemas: Schemas, node: Node, detail: Detail, depth: int = 0) -> str:
    """The type in words; empty for plain text, and for what is nested too deeply.

    Objects in objects or in lists of lists are shown without the types of their members.
    """
    if depth > _MAX_NESTED:
        return ""
    listed = schemas.enumeration(node)
    if listed:
        return _choices(listed, detail, _MAX_CHOICES_CHARS >> depth)
    if schemas.is_anything(node):
        return ""
    kinds = schemas.kinds(node) - {"null"}
    if "array" in kinds:
        item = schemas.child(node, 0, strict=False)
        inner = _kind(schemas, item, detail, depth + 1) if isinstance(item, Node) else ""
        return f"[{inner or 'string'}]"
    if "object" in kinds:
        members = _members(schemas, node, detail, depth) if detail.parameter_text else ""
        return f"object{{{members}}}" if members else "object"
    if "string" in kinds:
        formats = sorted(schemas.formats(node) or ())
        return formats[0] if formats and "date" in formats[0] else ""
    return "number" if "number" in kinds else next(iter(sorted(kinds)), "")


def _members(schemas: Schemas, node: Node, detail: Detail, depth: int) -> str:
    """The members of an object, the outer ones with their types."""
    members = schemas.properties(node)
    sayable = ((name, child) for name, child in members.items() if len(name) <= _MAX_MEMBER)
    said = []
    for name, child in islice(sayable, detail.fields):
        kind = _kind(schemas, child, detail, depth + 2) if depth < 2 else ""
        said.append(f"{name}: {kind}" if kind else name)
    return ", ".join([*said, *["…"] * (len(said) < len(members))])


def _choices(listed: Sequence[JsonValue], detail: Detail, most: int) -> str:
    """The values of an enumeration. In the forms that show the request they have a bounded length together."""
    shown: list[str] = []
    for value in listed[: detail.values]:
        text = _value(value)
        most -= len(text)
        if most < 0 and detail.request and shown:
            break
        shown.append(text)
    return "|".join(shown) + ("|…" if len(listed) > len(shown) else "")


def _value(value: JsonValue) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def _field_name(path: JsonPath) -> str:
    return format_path(path).removeprefix(".")


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.lower())


def _sayable(name: str) -> bool:
    return re.fullmatch(r"[\w.\-~/]+", name) is not None
