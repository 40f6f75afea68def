"""What plans of given APIs look like, as constraints that a server can enforce on the model's output.

There are two forms. A *JSON Schema* for ``response_format`` and vLLM's ``structured_outputs`` is flat, since grammar
compilers are very slow with nested alternatives and long repetitions. It enumerates the names of APIs and arguments,
and uses the parameters' own types and listed values. Where a reference stands, it names a field of some candidate's
answer. A free text may hold anything, also what looks like a reference: no pattern says "any text but these" to servers
that match it against the value and to those that match its JSON form alike. A *GBNF grammar* for llama.cpp is stricter:
it allows arguments in any order, and references only to answer fields of some candidate whose type fits. The compiler
checks what neither can express: that a label is one of an earlier call, and that a field is in that call's answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from planner_svc.backends.served.grammar import write_grammar
from planner_svc.backends.served.references import reference_pattern
from planner_svc.compiler.nodes import Node
from planner_svc.compiler.schemas import Schemas
from planner_svc.settings import ConstraintKind
from services.codecs.calls import RESULT
from services.compute import checkpoint
from services.contracts.api import Api, Location
from services.contracts.base import JsonSchema

MAX_DEPTH: Final = 2
"""Levels of nested objects that are written out; deeper ones are any JSON."""
MAX_LISTED: Final = 100
MAX_MEMBERS: Final = 60
MAX_NODES: Final = 3_000
MAX_CHARS: Final = 1_000_000
"""Most characters of members' names and listed values together."""
MAX_CALLS: Final = 24
"""Most calls of a plan."""
MAX_SHORT_CALLS: Final = 12
"""The same for the short form. The longest plan of the training data has 11 calls."""
_REFERENCE: Final[JsonSchema] = {"$ref": "#/$defs/reference"}
_WORD: Final[JsonSchema] = {"$ref": "#/$defs/word"}
_WORD_PATTERN: Final = r'^([^"$\\\x00-\x1F][^"\\\x00-\x1F]*)?$'
"""A text that is no reference, without quotes, backslashes and control characters."""
_WORDS: Final = frozenset({"date", "date-time", "time", "duration", "uuid", "email", "hostname", "ipv4", "ipv6", "uri"})
"""Formats whose texts are words."""
_SCALARS: Final = ("boolean", "integer", "number", "string")

LADDER: Final[tuple[ConstraintKind, ...]] = ("json_schema", "json_object", "none")
"""What ``auto`` tries in order, strictest first, if a server refuses a constraint."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint, in the forms that were asked for."""

    schema: JsonSchema
    grammar: str

    def members(self, kind: ConstraintKind) -> dict[str, JsonValue]:
        """The members of a completion request that make a server enforce the constraint."""
        if kind == "json_schema":
            form: JsonValue = {"type": "json_schema", "json_schema": {"name": "plan", "schema": self.schema}}
            return {"response_format": form}
        if kind == "structured_outputs":
            return {"structured_outputs": {"json": self.schema}}
        if kind == "gbnf":
            return {"grammar": self.grammar}
        return {"response_format": {"type": "json_object"}} if kind == "json_object" else {}


def constrain(
    apis: Sequence[Api], names: Mapping[str, str], *, calls_only: bool = False, kind: ConstraintKind | None = None
) -> Constraint:
    """The constraint for plans of these APIs.

    Args:
        apis: the APIs that the prompt shows.
        names: the name of each API in the prompt, by its id.
        calls_only: leave out ``foreach``, ``var_result`` and ``need``, which the brief instruction does not mention.
        kind: the constraint that the server is asked for: only its form is written, the other is empty. None: both.
    """
    most = MAX_SHORT_CALLS if calls_only else MAX_CALLS
    schema: JsonSchema = {}
    if kind in (None, "json_schema", "structured_outputs"):
        schema = _Writer(calls_only).plan(apis, names, most)
    written = kind in (None, "gbnf")
    return Constraint(schema, write_grammar(apis, names, most_calls=most, calls_only=calls_only) if written else "")


class _Writer:
    """Writes one schema within a budget: whatever exceeds the budget may be anything."""

    def __init__(self, calls_only: bool) -> None:
        self._schemas = Schemas()
        self._calls_only = calls_only
        self._left = MAX_NODES
        self._left_chars = MAX_CHARS

    def plan(self, apis: Sequence[Api], names: Mapping[str, str], most_calls: int) -> JsonSchema:
        forms: list[JsonValue] = [self._call(api, names[api.id]) for api in apis]
        forms += [] if self._calls_only else [_result()]
        calls: JsonSchema = {"type": "array", "items": {"anyOf": forms}, "maxItems": most_calls}
        need: JsonSchema = {"type": "array", "items": {"type": "string"}}
        members: dict[str, JsonValue] = {"calls": calls} if self._calls_only else {"calls": calls, "need": need}
        definitions: JsonSchema = {
            "reference": {"type": "string", "pattern": reference_pattern(apis, loops=not self._calls_only)},
            "word": {"type": "string", "pattern": _WORD_PATTERN},
        }
        return _object(members, required=["calls"]) | {"$defs": definitions}

    def _call(self, api: Api, name: str) -> JsonSchema:
        """The schema of a call. No argument is required: a missing one is left out, and the user is asked for it."""
        given = {
            one.name: self._value(Node(one.json_schema, api.definitions), 0, is_word=one.location is Location.PATH)
            for one in api.parameters[:MAX_MEMBERS]
        }
        arguments: JsonSchema = _object(given) if len(api.parameters) <= MAX_MEMBERS else {"type": "object"}
        members: dict[str, JsonValue] = {
            "name": {"const": name},
            "label": {"type": "string", "pattern": "^var[1-9][0-9]?$"},
            "arguments": arguments,
        }
        if not self._calls_only:
            members["foreach"] = _object({"items": _REFERENCE}, required=["items"])
        return _object(members, required=["name", "label", "arguments"])

    def _value(self, node: Node, depth: int, *, is_word: bool = False) -> JsonSchema:
        checkpoint()
        self._left -= 1
        if self._left < 0 or self._left_chars < 0 or self._schemas.is_anything(node):
            return {}
        listed = self._schemas.enumeration(node)
        if listed and len(listed) <= MAX_LISTED and all(not isinstance(one, dict | list) for one in listed):
            self._left_chars -= len(str(listed))
            return {"anyOf": [{"enum": listed}, _REFERENCE]}
        kinds = self._schemas.kinds(node)
        covered = {"integer"} if "number" in kinds else set()
        is_word = is_word or bool((formats := self._schemas.formats(node)) and formats <= _WORDS)
        text: JsonValue = _WORD if is_word else {"type": "string"}
        forms: list[JsonValue] = [
            text if kind == "string" else {"type": kind} for kind in _SCALARS if kind in kinds - covered
        ]
        if "array" in kinds:
            item = self._schemas.child(node, 0, strict=False)
            inner = self._value(item, depth + 1) if isinstance(item, Node) and depth < MAX_DEPTH else {}
            forms.append({"type": "array", "items": inner})
        if "object" in kinds:
            forms.append(self._members(node, depth))
        if "string" not in kinds or is_word:
            forms.append(_REFERENCE)
        return forms[0] if len(forms) == 1 and isinstance(forms[0], dict) else {"anyOf": forms}

    def _members(self, node: Node, depth: int) -> JsonSchema:
        if depth >= MAX_DEPTH or isinstance(self._schemas.child(node, "", strict=True), Node):
            return {"type": "object"}
        members = self._schemas.properties(node)
        if not 0 < len(members) <= MAX_MEMBERS:
            return {"type": "object"}
        self._left_chars -= sum(map(len, members))
        return _object({name: self._value(child, depth + 1) for name, child in members.items()})


def _object(members: Mapping[str, JsonValue], required: Sequence[str] = ()) -> JsonSchema:
    found: JsonSchema = {"type": "object", "properties": dict(members), "additionalProperties": False}
    return found | ({"required": list(required)} if required else {})


def _result() -> JsonSchema:
    """The pseudo-call that names the outputs that answer."""
    arguments: JsonSchema = {"type": "object", "additionalProperties": _REFERENCE}
    return _object({"name": {"const": RESULT}, "arguments": arguments}, required=["name", "arguments"])
