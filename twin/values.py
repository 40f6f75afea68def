"""Generates values from schemas. They are deterministic and hold every declared field in its declared type."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping

from pydantic import JsonValue

from services.contracts.base import JsonSchema
from twin.checking import validator_of
from twin.schemas import fits, kinds_of, listed, members, resolved

_DEPTH = 8
_MOST_VALUES = 5_000
_EXAMPLE = re.compile(r"e\.g\.?,?\s*:?\s*[\"'“]?([^,;)\"'”]{1,60})")
_FORMATS: Mapping[str, str] = {
    "date": "2024-05-17",
    "date-time": "2024-05-17T10:30:00Z",
    "time": "10:30:00",
    "email": "someone@example.com",
    "uri": "https://example.com/thing",
    "url": "https://example.com/thing",
}


def example_of(schema: JsonValue, name: str, definitions: Mapping[str, JsonSchema], *, number: int = 1) -> JsonValue:
    """A value of this schema. The same number always gives the same value.

    Args:
        schema: the schema of the value.
        name: used in the generated texts.
        definitions: targets of its references.
        number: distinguishes values of the same schema.
    """
    return _Maker(definitions, number).value(schema, name, 0)


class _Maker:
    """``left``: how many more values may be generated. A schema of a few lines can describe billions."""

    def __init__(self, definitions: Mapping[str, JsonSchema], number: int) -> None:
        self._definitions, self._number, self.left = definitions, number, _MOST_VALUES

    def value(self, schema: JsonValue, name: str, depth: int) -> JsonValue:
        self.left -= 1
        if depth > _DEPTH or self.left < 0:
            return None
        declared = resolved(schema, self._definitions)
        shown = self._shown(declared)
        return shown if shown is not None else self._typed(declared, name, depth)

    def _shown(self, declared: JsonSchema) -> JsonValue:
        """A value from the schema itself: its constant, one of its choices, or an example of its type."""
        kinds = kinds_of(declared, self._definitions)
        if declared.get("const") is not None:
            return declared["const"]
        choices = [one for one in listed(declared.get("enum")) if one is not None]
        if choices:
            return choices[(self._number - 1) % len(choices)]
        examples = [declared.get("default"), declared.get("example"), *listed(declared.get("examples"))[:1]]
        return next((one for one in examples if one is not None and fits(one, kinds)), None)

    def _typed(self, declared: JsonSchema, name: str, depth: int) -> JsonValue:
        kind = declared.get("type")
        if isinstance(kind, list):
            kind = next((one for one in kind if one != "null"), None)
        properties = declared.get("properties")
        if isinstance(properties, list):  # NESTFUL's executable APIs list names only
            properties = {str(key): {} for key in properties}
        if kind == "object" or isinstance(properties, dict):
            return {key: self.value(value, key, depth + 1) for key, value in members(properties).items()}
        if kind == "array":
            least = declared.get("minItems")
            count = least if isinstance(least, int) and 1 < least <= 20 else 1
            return [self.value(declared.get("items"), name, depth + 1) for _ in range(count)]
        if kind == "null":
            return None
        shown = _EXAMPLE.search(str(declared.get("description") or ""))
        text = shown[1].strip() if shown else ""
        if kind == "boolean":
            return text.lower() != "false"
        if kind in ("integer", "number"):
            return self._number_of(declared, text)
        return self._text(declared, name, text)

    def _number_of(self, declared: JsonSchema, text: str) -> int | float:
        least, most = declared.get("minimum"), declared.get("maximum")
        if isinstance(least, (int, float)) and not isinstance(least, bool):
            further = least + self._number - 1
            return further if not isinstance(most, (int, float)) or further <= most else least
        if not re.fullmatch(r"-?\d{1,9}(\.\d{1,6})?", text):
            is_over = isinstance(most, (int, float)) and self._number > most
            return int(most) if is_over and isinstance(most, (int, float)) else self._number
        return float(text) if declared.get("type") == "number" and "." in text else int(float(text))

    def _text(self, declared: JsonSchema, name: str, text: str) -> str:
        form = str(declared.get("format"))
        if form == "uuid":
            return str(uuid.UUID(int=0x4000_8000_0000_0000_0000 + self._number))
        found = text or _FORMATS.get(form, f"{name} {self._number}")
        pattern, least, most = declared.get("pattern"), declared.get("minLength"), declared.get("maxLength")
        if isinstance(pattern, str):
            found = _matching(pattern, found, self._number)
        if isinstance(least, int) and len(found) < least <= 10_000:
            found += "x" * (least - len(found))
        return found[:most] if isinstance(most, int) and most > 0 else found


def _matching(pattern: str, text: str, number: int) -> str:
    """The first of some usual texts that matches the pattern; the text as it is if none does."""
    hexes = f"{number:032x}"
    prefixed = re.match(r"\^?([A-Za-z_]{1,6})\[", pattern)
    made = (f"{prefixed[1]}{hexes}",) if prefixed else ()
    usual = (text, str(number), f"{number:04d}", f"a{number}", f"A{number:03d}", "AB", "ABC", hexes, hexes[8:], *made)
    validator = validator_of({"pattern": pattern}, {})
    return next((one for one in usual if validator is None or validator.is_valid(one)), text)
