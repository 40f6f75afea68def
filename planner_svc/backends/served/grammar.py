"""The GBNF grammar of plans (llama.cpp's notation for context-free grammars)."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from pydantic import JsonValue

from planner_svc.compiler.nodes import Node, followed
from planner_svc.compiler.schemas import Schemas
from services.codecs.calls import RESULT
from services.codecs.text import format_path
from services.compute import checkpoint, with_checkpoints
from services.contracts.api import Api
from services.contracts.base import JsonPath

MAX_DEPTH: Final = 3
MAX_MEMBERS: Final = 100
MAX_LISTED: Final = 200
MAX_FIELDS: Final = 60
MAX_RULES: Final = 4_000
MAX_CHARS: Final = 1_000_000
"""Most characters of rules. Values beyond these limits may be any JSON."""
MAX_FIELD_CHARS: Final = 200_000
"""Most characters of all fields that references can name. With more of them, they can name any."""
MAX_PLACES: Final = 5
"""For this many calls, references may only name earlier calls; later calls may name any label."""
MAX_PLACED: Final = 150
"""Most parameters of all APIs for which each place has its own rules: servers parse the grammar on every request."""
MAX_TEXT: Final = 500
"""Most characters of a text. The longest that training requests quote has 413; longer values come from answers, by
reference. Without bounds a small model that repeats itself writes until it is cut off, which is no plan."""
MAX_ITEMS: Final = 30
"""Most items of a list, and most members of an object that no schema describes."""
_MAX_PATH: Final = 6
_FITS: Final = {
    "string": frozenset({"string", "integer", "number", "boolean"}),
    "number": frozenset({"number", "integer"}),
    "integer": frozenset({"integer"}),
    "boolean": frozenset({"boolean"}),
    "array": frozenset({"array"}),
    "object": frozenset({"object"}),
}
"""The types of fields that can feed a parameter, by its type: text takes whatever can be written as text."""

Field = tuple[JsonPath | None, frozenset[str] | None]
"""A path in an answer with the JSON types it may have; None if that is not known."""

_FIXED: Final = (
    r"""
ws ::= " "?
index ::= "[" [0-9]{1,4} "]"
items ::= "[" ([0-9]{1,4} | "*") "]"
label ::= "\"var" [1-9] [0-9]? "\""
escape ::= "\\" (["\\/bfnrt] | "u" [0-9a-fA-F] [0-9a-fA-F] [0-9a-fA-F] [0-9a-fA-F])
char ::= [^"\\\x00-\x1F] | escape
string ::= "\"" char{0,TEXT} "\""
path ::= [^"$\\\x00-\x1F]{0,200}
plain ::= "\"" (([^"\\$\x00-\x1F] | escape) char{0,REST})? "\""
integer ::= "-"? ("0" | [1-9] [0-9]{0,17})
number ::= integer ("." [0-9]{1,17})? ([eE] [-+]? [0-9] [0-9]?)?
boolean ::= "true" | "false"
object ::= "{" ws (string ":" ws value ("," ws string ":" ws value){0,ITEMS})? "}"
array ::= "[" ws (value ("," ws value){0,ITEMS})? "]"
value ::= object | array | string | number | boolean | "null"
""".replace("TEXT", str(MAX_TEXT))
    .replace("REST", str(MAX_TEXT - 1))
    .replace("ITEMS", str(MAX_ITEMS - 1))
)


def write_grammar(apis: Sequence[Api], names: Mapping[str, str], *, most_calls: int, calls_only: bool = False) -> str:
    """The grammar of plans that call these APIs, by these names; ``root`` comes first. See ``constrain``."""
    writer = _Writer(apis, calls_only)
    placed = MAX_PLACES if sum(len(api.parameters) for api in apis) <= MAX_PLACED else 1
    calls, lines = f'("," ws call){{0,{most_calls - placed}}}', []
    for place in range(placed, -1, -1):
        writer.at(place + 1 if place < placed else None)
        forms = [writer.call(index, api, names[api.id]) for index, api in enumerate(apis)]
        forms += [writer.result()] if place and not calls_only else []
        name = f"call{place + 1}" if place < placed else "call"
        lines.append(f"{name} ::= {' | '.join(forms)}")
        if place < placed:
            calls = f'("," ws {name} {calls})?' if place else f"({name} {calls})?"
    need = "" if calls_only else f'("," ws {_key("need")} "[" ws (string ("," ws string){{0,{MAX_ITEMS - 1}}})? "]")?'
    root = f'root ::= "{{" ws {_key("calls")} "[" ws {calls} "]" {need} "}}"'
    return "\n".join([root, *lines, *writer.rules(), _FIXED.strip()]) + "\n"


class _Writer:
    """Collects rules. Rules with the same text are written once."""

    def __init__(self, apis: Iterable[Api], calls_only: bool) -> None:
        self._schemas = Schemas()
        self._calls_only = calls_only
        self._rules: dict[str, str] = {}
        self._known: dict[str, str] = {}
        self._written = 0
        self._place: int | None = None
        self._values: dict[tuple[int, int], str] = {}
        self._references: dict[frozenset[str], str] = {}
        self._fields = self._known_fields(apis)

    def rules(self) -> list[str]:
        return [f"{name} ::= {text}" for name, text in self._rules.items()]

    def at(self, place: int | None) -> None:
        """Set the place, from 1, of the calls whose rules follow; None: any place."""
        self._place = place
        self._values.clear()
        self._references.clear()

    def call(self, index: int, api: Api, name: str) -> str:
        given = [
            self._rule(f"a{index}x", f"{_key(one.name)} {self._value(Node(one.json_schema, api.definitions), 0)}")
            for one in api.parameters[:MAX_MEMBERS]
        ]
        arguments = self._rule(f"a{index}", _members(given))
        listed = "" if self._calls_only else self._reference({"array"})
        loop = f'("," ws {_key("foreach")} "{{" ws {_key("items")} {listed} "}}")?' if listed else ""
        label = "label" if self._place is None else _literal(f"var{self._place}")
        return self._rule(
            f"c{index}",
            f'"{{" ws {_key("name")} {_literal(name)} "," ws {_key("label")} {label} "," ws {_key("arguments")} '
            f'{arguments} {loop} "}}"',
        )

    def result(self) -> str:
        """The pseudo-call that names the outputs that answer."""
        member = f'string ":" ws {self._reference(frozenset(_FITS))}'
        return self._rule(
            "result",
            f'"{{" ws {_key("name")} {_literal(RESULT)} "," ws ({_key("label")} label "," ws)? {_key("arguments")} '
            f'"{{" ws ({member} ("," ws {member}){{0,{MAX_ITEMS - 1}}})? "}}" "}}"',
        )

    def _value(self, node: Node, depth: int) -> str:
        """The rule of a value. Types may refer to each other: at each place, each is written once for each level."""
        checkpoint()
        if self._schemas.is_anything(node) or len(self._rules) > MAX_RULES or self._written > MAX_CHARS:
            return "value"
        key = (id(followed(node)[0].schema), depth)
        if key not in self._values:
            self._values[key] = self._new_value(node, depth)
        return self._values[key]

    def _new_value(self, node: Node, depth: int) -> str:
        kinds = self._schemas.kinds(node)
        listed = self._schemas.enumeration(node)
        if listed and len(listed) <= MAX_LISTED and all(not isinstance(one, dict | list) for one in listed):
            forms = [_literal(one) for one in listed]
        else:
            forms = [kind for kind in ("integer", "number", "boolean") if kind in kinds]
            forms = [kind for kind in forms if kind != "integer" or "number" not in forms]
            forms += ["plain"] if "string" in kinds else []
            forms += [self._list(node, depth)] if "array" in kinds else []
            forms += [self._object(node, depth)] if "object" in kinds else []
        forms += [reference] if (reference := self._reference(kinds)) else []
        return self._rule("v", " | ".join(forms)) if forms else "value"

    def _list(self, node: Node, depth: int) -> str:
        item = self._schemas.child(node, 0, strict=False)
        if depth >= MAX_DEPTH or not isinstance(item, Node):
            return "array"
        one = self._value(item, depth + 1)
        return self._rule("l", f'"[" ws ({one} ("," ws {one}){{0,{MAX_ITEMS - 1}}})? "]"')

    def _object(self, node: Node, depth: int) -> str:
        if depth >= MAX_DEPTH or isinstance(self._schemas.child(node, "", strict=True), Node):
            return "object"
        members = self._schemas.properties(node)
        if not 0 < len(members) <= MAX_MEMBERS:
            return "object"
        return self._rule(
            "o", _members([f"{_key(name)} {self._value(child, depth + 1)}" for name, child in members.items()])
        )

    def _reference(self, kinds: Iterable[str]) -> str:
        """References to fields of these types or of unknown type; none for the first call."""
        if self._place == 1:
            return ""
        wanted = frozenset().union(*(_FITS.get(kind, frozenset()) for kind in kinds))
        if wanted not in self._references:
            self._references[wanted] = self._new_reference(wanted)
        return self._references[wanted]

    def _new_reference(self, wanted: frozenset[str]) -> str:
        every = "array" in wanted and not self._calls_only  # what every item of a list has makes a list
        paths = [
            _inside(path, "items" if every else "index")
            for path, own in self._fields
            if own is None or own & wanted or (every and path is not None and 0 in path)
        ]
        path = self._rule("p", " | ".join(sorted(set(paths)))) if paths else '""'
        label = '"var" [1-9] [0-9]?' if self._place is None else f'"var" [1-{self._place - 1}]'
        label = f"({label})" if self._calls_only else f'("@" | {label})'
        return self._rule("r", f'"\\"$" {label} {path} "$\\""')

    def _rule(self, stem: str, text: str) -> str:
        """The name of the rule with this text, which is added if it is new."""
        if text not in self._known:
            name = stem if stem not in self._rules else f"{stem}-{len(self._rules)}"
            self._known[text], self._rules[name] = name, text
            self._written += len(text)
        return self._known[text]

    def _known_fields(self, apis: Iterable[Api]) -> list[Field]:
        """The fields that references can name; any path if there are too many."""
        found: dict[Field, None] = {}
        chars = 0
        for field in with_checkpoints(field for api in apis for field in self._fields_of(api)):
            if field not in found:
                found[field] = None
                chars += sum(len(str(part)) for part in field[0] or ())
            if chars > MAX_FIELD_CHARS:
                return [(None, None)]
        return list(found)

    def _fields_of(self, api: Api) -> Iterator[Field]:
        """Paths that a reference can lead to, for a single call and for one that loops over a list.

        The output of a loop is a list of answers. In a loop, a reference to an item starts inside a list.
        """
        for path, kinds in self._walk(api):
            yield path, kinds
            if path is not None and kinds is not None:
                yield (0, *path), kinds
                yield from ((path[at + 1 :], kinds) for at, part in enumerate(path) if part == 0)

    def _walk(self, api: Api) -> Iterator[Field]:
        """Paths in an answer, outermost first; ``(None, None)`` if nothing is known."""
        waiting: deque[tuple[JsonPath, Node]] = deque([((), Node(api.response.json_schema, api.definitions))])
        for _ in range(MAX_FIELDS):
            if not waiting:
                return
            path, node = waiting.popleft()
            if self._schemas.is_anything(node):
                yield None, None
                continue
            kinds = self._schemas.kinds(node)
            yield path, kinds
            if len(path) >= _MAX_PATH:
                continue
            members = islice(self._schemas.properties(node).items(), MAX_FIELDS)
            waiting.extend(((*path, name), child) for name, child in members)
            item = self._schemas.child(node, 0, strict=False) if "array" in kinds else None
            if isinstance(item, Node):
                waiting.append(((*path, 0), item))


def _members(members: Sequence[str]) -> str:
    if not members:
        return '"{" ws "}"'
    one = f"({' | '.join(members)})"
    more = f'("," ws {one}){{0,{len(members) - 1}}}' if len(members) > 1 else ""
    return f'"{{" ws ({one} {more})? "}}"'


def _inside(path: JsonPath | None, index: str) -> str:
    """A path as it follows a label inside a JSON text; an index stands for any index, by the rule of that name."""
    if path is None:
        return "path"
    parts = [_quoted(_escaped(format_path((part,)))) if isinstance(part, str) else index for part in path]
    return " ".join(parts) or '""'


def _key(name: str) -> str:
    return f"{_quoted(json.dumps(name, ensure_ascii=False) + ':')} ws"


def _literal(value: JsonValue) -> str:
    return _quoted(json.dumps(value, ensure_ascii=False))


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _quoted(text: str) -> str:
    """A terminal symbol of the grammar."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'
