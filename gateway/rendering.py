"""The answer as text a person can read. The values beside it keep their JSON types; this is only for the eye."""

from collections.abc import Iterable

from pydantic import JsonValue

from services.contracts.run import AnswerValue

MAX_ITEMS = 10
MAX_CHARS = 4_000
_MAX_VALUE = 200


def render(values: Iterable[AnswerValue]) -> str:
    """One line for each value, with lists and objects indented below their name; long ones are cut, and say so."""
    lines = [line for value in values for line in _block(value.name, value.value, indent="")]
    text = "\n".join(lines)
    return text if len(text) <= MAX_CHARS else text[: MAX_CHARS - 1] + "…"


def _block(name: str, value: JsonValue, indent: str) -> list[str]:
    if isinstance(value, dict) and value:
        return [f"{indent}{name}:", *(line for k, v in value.items() for line in _block(k, v, indent + "  "))]
    if isinstance(value, list) and value:
        shown = [f"{indent}  - {_inline(item)}" for item in value[:MAX_ITEMS]]
        more = [f"{indent}  … and {len(value) - MAX_ITEMS} more"] if len(value) > MAX_ITEMS else []
        return [f"{indent}{name}:", *shown, *more]
    return [f"{indent}{name}: {_inline(value)}"]


def _inline(value: JsonValue) -> str:
    if value is None:
        text = "none"
    elif isinstance(value, bool):
        text = "yes" if value else "no"
    elif isinstance(value, dict):
        text = ", ".join(f"{key}: {_inline(item)}" for key, item in value.items() if item not in (None, [], {})) or "{}"
    elif isinstance(value, list):
        text = ", ".join(_inline(item) for item in value[:MAX_ITEMS]) or "none"
    else:
        text = str(value)
    return text if len(text) <= _MAX_VALUE else text[: _MAX_VALUE - 1] + "…"
