r"""Code shared by the notations: the text form of references, escaping, and parsing of untrusted JSON.

A reference is ``$step$``, ``$step.field$`` or ``$step.items[0].id$``. This is NESTful's form (section 3), in which a
field may contain spaces (``$var1.Exchange Rate$``). A field with one of ``. [ ] $ " \`` is quoted as JSON:
``$var1["a.b"]$``. The ids of all items are ``$step.items[*].id$``. The item of a `foreach` is ``$@$`` or ``$@.code$``;
no step can have the name ``@``.
"""

import json
import re
from collections.abc import Callable
from typing import Any, cast

import orjson
from pydantic import JsonValue, ValidationError

from services.contracts.base import EVERY, JsonPath
from services.contracts.plan import ItemReference, ListValue, LiteralValue, ObjectValue, Plan, Reference, Step, Value

MAX_DEPTH = 64
"""Deepest nesting of lists and objects read from a notation, in levels."""

_QUOTED = r'"(?:[^"\\]|\\.)*"'
_SEGMENT = re.compile(rf'\.(?P<name>[^.\[\]$"\\]+)|\[(?P<index>[0-9]{{1,9}}|\*)\]|\[(?P<quoted>{_QUOTED})\]')
_REFERENCE = re.compile(
    rf'\$(?P<step>@|[A-Za-z_][A-Za-z0-9_]{{0,63}})(?P<path>(?:\.[^.\[\]$"\\]+|\[(?:[0-9]{{1,9}}|\*)\]|\[{_QUOTED}\])*)\$',
    re.DOTALL,
)
_PLAIN_NAME = re.compile(r'[^.\[\]$"\\]+')

Looks = Callable[[str], bool]
"""Whether a text looks like a reference in a notation."""


class CodecError(ValueError):
    """A text is not a plan in this notation, or the notation cannot express a plan. The message is for the caller."""


def looks_like_reference(text: str) -> bool:
    """Whether a text has the form ``$step.path$``."""
    return _REFERENCE.fullmatch(text) is not None


def parse_reference(text: str) -> Reference | ItemReference:
    """Read ``$step.path$``.

    Raises:
        CodecError: the text is not a reference, or its path is too long.
    """
    match = _REFERENCE.fullmatch(text)
    if match is None:
        raise CodecError(f'{text[:200]!r} is not a reference such as "$var1.field$"')
    path: list[str | int] = []
    for segment in _SEGMENT.finditer(match["path"]):
        if segment["name"] is not None:
            path.append(segment["name"])
        elif segment["index"] is not None:
            path.append(EVERY if segment["index"] == EVERY else int(segment["index"]))
        else:
            path.append(_unquote(segment["quoted"]))
    try:
        return (
            ItemReference(path=tuple(path)) if match["step"] == "@" else Reference(step=match["step"], path=tuple(path))
        )
    except ValidationError as error:
        raise CodecError(f"the reference {text[:200]!r} is not valid: {error.errors()[0]['msg']}") from error


def format_reference(reference: Reference | ItemReference) -> str:
    """Write ``$step.path$``.

    Raises:
        CodecError: a list index is negative or too large for the notation.
    """
    step = "@" if isinstance(reference, ItemReference) else reference.step
    return f"${step}{format_path(reference.path)}$"


def format_path(path: JsonPath) -> str:
    """Write a path in the form that follows the step's name: ``.items[0].id``, ``.items[*].id``."""
    parts = []
    for part in path:
        if isinstance(part, int):
            if not 0 <= part < 10**9:
                raise CodecError(f"a list index must lie between 0 and 999999999, not {part}")
            parts.append(f"[{part}]")
        elif part == EVERY:
            parts.append(f"[{EVERY}]")
        elif _PLAIN_NAME.fullmatch(part):
            parts.append(f".{part}")
        else:
            parts.append(f"[{json.dumps(part)}]")
    return "".join(parts)


def encode_value(value: Value, write: Callable[[Reference | ItemReference], str], looks: Looks) -> JsonValue:
    """Encode a value as JSON in which references are strings that `looks` recognises."""
    if isinstance(value, LiteralValue):
        return _escape(value.value, looks)
    if isinstance(value, ListValue):
        return [encode_value(item, write, looks) for item in value.items]
    if isinstance(value, ObjectValue):
        return {name: encode_value(field, write, looks) for name, field in value.fields.items()}
    return write(value)


def decode_value(data: JsonValue, read: Callable[[str], Reference | ItemReference], looks: Looks) -> Value:
    """Decode JSON with string references to a value in canonical form. `read` parses the texts that `looks` accepts."""
    return _as_value(_decoded(data, read, looks))


def _decoded(data: JsonValue, read: Callable[[str], Reference | ItemReference], looks: Looks) -> Any:
    """JSON if it contains no reference, else a value. So a large literal is one object, not one for each part."""
    if isinstance(data, str):
        if looks(data):
            return read(data)
        return data[1:] if _is_escaped(data, looks) else data
    if isinstance(data, list):
        items = [_decoded(item, read, looks) for item in data]
        return ListValue(items=tuple(map(_as_value, items))) if any(map(_is_value, items)) else items
    if isinstance(data, dict):
        fields = {name: _decoded(item, read, looks) for name, item in data.items()}
        if any(map(_is_value, fields.values())):
            return ObjectValue(fields={name: _as_value(field) for name, field in fields.items()})
        return fields
    return data


def _is_value(decoded: object) -> bool:
    return isinstance(decoded, (Reference, ItemReference, ListValue, ObjectValue))


def _as_value(decoded: Any) -> Value:
    return cast(Value, decoded) if _is_value(decoded) else LiteralValue(value=decoded)


def canonical(plan: Plan) -> Plan:
    """The same plan with every list or object that holds no reference written as one literal (ids change with it)."""
    return Plan(steps=tuple(_canonical_step(step) for step in plan.steps), answer=plan.answer)


def read_json(data: str | bytes | JsonValue) -> JsonValue:
    """Parse text, or take parsed JSON, and check its depth.

    Raises:
        CodecError: the text is not JSON (NaN and lone surrogates are not), or is nested deeper than ``MAX_DEPTH``.
    """
    if isinstance(data, str | bytes):
        try:
            data = cast(JsonValue, orjson.loads(data))
        except (orjson.JSONDecodeError, UnicodeEncodeError) as error:
            raise CodecError(f"not JSON: {error}") from error
    level: list[JsonValue] = [data]
    for _ in range(MAX_DEPTH + 1):
        level = [child for node in level for child in _children(node)]
        if not level:
            return data
    raise CodecError(f"nested deeper than {MAX_DEPTH} levels")


def has_more_values(data: JsonValue, limit: int) -> bool:
    """Whether JSON holds more than ``limit`` values. Counts the root, and all members of objects and lists."""
    left, waiting = limit, [data]
    while waiting and left >= 0:
        left -= 1
        waiting += _children(waiting.pop())
    return left < 0


def _children(node: JsonValue) -> list[JsonValue]:
    if isinstance(node, dict):
        return list(node.values())
    return node if isinstance(node, list) else []


def _escape(data: JsonValue, looks: Looks) -> JsonValue:
    if isinstance(data, str):
        return "\\" + data if looks(data) or _is_escaped(data, looks) else data
    if isinstance(data, list):
        return [_escape(item, looks) for item in data]
    if isinstance(data, dict):
        return {name: _escape(item, looks) for name, item in data.items()}
    return data


def _is_escaped(text: str, looks: Looks) -> bool:
    return text.startswith("\\") and looks(text.lstrip("\\"))


def _unquote(quoted: str) -> str:
    try:
        return cast(str, orjson.loads(quoted))
    except orjson.JSONDecodeError as error:
        raise CodecError(f"the field name {quoted[:200]} is not a JSON string") from error


def _canonical_step(step: Step) -> Step:
    foreach, when = step.foreach, step.when
    return step.model_copy(
        update={
            "arguments": {name: _canonical_value(value) for name, value in step.arguments.items()},
            "foreach": foreach and foreach.model_copy(update={"items": _canonical_value(foreach.items)}),
            "when": when
            and when.model_copy(update={"left": _canonical_value(when.left), "right": _canonical_value(when.right)}),
        }
    )


def _canonical_value(value: Value) -> Value:
    if isinstance(value, ListValue):
        items = tuple(_canonical_value(item) for item in value.items)
        if all(isinstance(item, LiteralValue) for item in items):
            return LiteralValue(value=[item.value for item in items if isinstance(item, LiteralValue)])
        return ListValue(items=items)
    if isinstance(value, ObjectValue):
        fields = {name: _canonical_value(field) for name, field in value.fields.items()}
        if all(isinstance(field, LiteralValue) for field in fields.values()):
            return LiteralValue(value={n: f.value for n, f in fields.items() if isinstance(f, LiteralValue)})
        return ObjectValue(fields=fields)
    return value
