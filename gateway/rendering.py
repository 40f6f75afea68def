"""Renders an answer as text for people. The answer's values keep their JSON types."""

import re
import unicodedata
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import chain, groupby, islice, zip_longest
from typing import Final

from pydantic import JsonValue
from pydantic_core import to_json

from gateway.labels import NO_LABELS, Labels
from services.contracts.answer import AnswerValue
from services.contracts.base import EVERY, before_every
from services.contracts.evidence import MAX_REASON_CHARS

MAX_ITEMS = 10
MAX_CHARS = 4_000
MAX_SENTENCE_CHARS = 1_500
_MAX_VALUE = 200
_MAX_BARE: Final = 60
_MAX_NAMED: Final = 5
_PUNCTUATED: Final = re.compile('[.!?:;\u2026\u3002\uff01\uff1f](?=\\s|$)|["“”„«»{}]')
_LISTED: Final = re.compile(_PUNCTUATED.pattern + "|,")
_SAYING: Final = ("detail", "message", "error_description", "description", "error", "errors", "title", "msg", "reason")
"""Members of an error that say in words what is wrong, the clearest first."""
_MAX_WITHIN: Final = 4
_OPEN, _CLOSE = "“", "”"


def render(values: Iterable[AnswerValue], *remarks: str, labels: Labels = NO_LABELS) -> str:
    """One line for each value, with lists and objects indented below their name. Long ones are cut and marked as cut.

    Values of a call with a label stand below it, and answers of calls for items begin with the item's label. If there
    are values, the remarks come before them, and one that names those from lists that were not read to their end. Line
    breaks inside names and texts become blanks. Otherwise an upstream could make its text look like another value.
    """
    values = tuple(values)
    remarks = (*remarks, _incomplete([value.name for value in values if value.partial]))
    lines, room = list[str](), MAX_CHARS
    for line in _labelled(values, labels):
        lines.append(line)
        room -= len(line)
        if room < 0:  # a value may have a hundred thousand members
            break
    text = "\n".join([*filter(None, remarks), *lines] if lines else lines)
    return text if len(text) <= MAX_CHARS else text[: MAX_CHARS - 1] + "…"


def message_line(detail: JsonValue) -> str:
    """A text of an upstream on one line, cut, to be put in quotation marks. The executor has already masked it."""
    if detail is None:
        return ""
    text = detail if isinstance(detail, str) else to_json(detail).decode()
    line = " ".join("".join(char if char.isprintable() else " " for char in text[: 4 * MAX_REASON_CHARS]).split())
    return re.sub("[“”]", "'", line[:MAX_REASON_CHARS])


def said_in(detail: JsonValue) -> str:
    """What the body of an upstream's error says in words, on one line; empty if it says nothing.

    Members are those of RFC 9457, and what others call them.
    """
    for _ in range(_MAX_WITHIN):
        if isinstance(detail, list):
            detail = detail[0] if detail else None
        if not isinstance(detail, dict):
            break
        detail = next((detail[name] for name in _SAYING if detail.get(name)), None)
    return message_line(detail) if isinstance(detail, str) and not detail.lstrip().startswith("<") else ""


def fill_sentence(pieces: Sequence[str | int], values: Sequence[AnswerValue]) -> str | None:
    """A sentence with its values filled in; None if a value cannot be part of a sentence.

    That is the case if a value is missing, an object, a preview of a large value, or text that is not a single line.
    :func:`render` shows such a value under its name. A text that could be mistaken for part of the sentence is put in
    quotation marks.

    Args:
        pieces: literal text, and indices of values.
        values: the values.
    """
    parts: list[str] = []
    for piece in pieces:
        if isinstance(piece, str):
            parts.append(piece)
            continue
        if not 0 <= piece < len(values) or values[piece].stored is not None:
            return None
        value_text = _value_text(values[piece].value)
        if value_text is None:
            return None
        parts.append(value_text)
    text = "".join(parts)
    return text if len(text) <= MAX_SENTENCE_CHARS else None


def _value_text(value: JsonValue) -> str | None:
    """A value as part of a sentence; None where it cannot be."""
    if not isinstance(value, list):
        return _scalar_text(value, within=_PUNCTUATED)
    words = [_scalar_text(item, within=_LISTED) for item in value[:MAX_ITEMS]]
    if not words or any(word is None for word in words):
        return None
    more = [f"… and {len(value) - MAX_ITEMS} more"] if len(value) > MAX_ITEMS else []
    return ", ".join([*(word for word in words if word is not None), *more])


def _scalar_text(value: JsonValue, within: re.Pattern[str]) -> str | None:
    """A single value. Text that is long, or in which ``within`` matches, is put in quotation marks."""
    if value is None or isinstance(value, (dict, list)):
        return None
    if not isinstance(value, str):
        return _inline(value)
    text = value.strip(" ")
    shown = text[:_MAX_VALUE]
    if not text or any(unicodedata.category(char)[0] == "C" or char in "\u2028\u2029" for char in shown):
        return None
    if len(text) <= _MAX_BARE and not within.search(text):
        return text
    return _OPEN + re.sub('["“”„«»]', "'", _inline(text)) + _CLOSE


def _rows_of(value: AnswerValue) -> Hashable:
    """The list that the value is a column of, or else its own id: columns of a list are shown side by side."""
    column = EVERY in value.path and isinstance(value.value, list) and value.stored is None
    return (value.step, before_every(value.path), len(value.value)) if column else id(value)  # type: ignore[arg-type]


def _labelled(values: Sequence[AnswerValue], labels: Labels) -> Iterator[str]:
    """The lines of the values, those of a call with a label below it."""
    for step, of_step in groupby(values, lambda value: value.step):
        found = [one.model_copy(update={"name": labels.names.get(one.name, one.name)}) for one in of_step]
        label = _joined_lines(labels.calls.get(step, ""))
        if label:
            yield f"{label}:"
        blocks = (_lines(list(group), labels.items.get(step, ())) for _, group in groupby(found, _rows_of))
        yield from (f"  {line}" if label else line for line in chain.from_iterable(blocks))


def _lines(values: Sequence[AnswerValue], items: Sequence[str]) -> Iterator[str]:
    """The lines of a value, or of several columns of one list.

    Args:
        values: the value, or the columns.
        items: labels of the items that the whole answer of a step is about.
    """
    names = [value.name for value in values]
    if len(set(names)) == len(names) > 1:
        rows = islice(zip(*(value.value for value in values), strict=True), MAX_ITEMS)
        shown: list[JsonValue] = [dict(zip(names, row, strict=True)) for row in rows]
        more = len(values[0].value) - len(shown)  # type: ignore[arg-type]
        yield from _block(", ".join(names), shown, indent="", more=more)
        return
    for value in values:
        yield from _block(value.name, value.value, indent="", labels=() if value.path else items)
        if value.stored is not None:
            yield f"  … this is only the beginning of a value of {value.stored.bytes:,} bytes"


def _incomplete(names: Sequence[str]) -> str:
    """The remark that these values may lack items; empty if there are none."""
    shown = ", ".join(f"{_OPEN}{_joined_lines(name)[:_MAX_BARE]}{_CLOSE}" for name in names[:_MAX_NAMED])
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return f"Not complete, since a list goes on after the part that was read: {shown}{more}." if names else ""


def _block(name: str, value: JsonValue, indent: str, more: int = 0, labels: Sequence[str] = ()) -> Iterator[str]:
    """The lines of a value. ``more``: the items of its list that were left out already."""
    name = _joined_lines(name)
    if isinstance(value, dict) and value:
        yield f"{indent}{name}:"
        for key, item in value.items():
            yield from _block(key, item, indent + "  ")
    elif isinstance(value, list) and value:
        yield f"{indent}{name}:"
        for item, label in zip_longest(value[:MAX_ITEMS], labels[: min(len(value), MAX_ITEMS)], fillvalue=""):
            yield f"{indent}  - {_joined_lines(label)}: {_inline(item)}" if label else f"{indent}  - {_inline(item)}"
        if more := max(len(value) - MAX_ITEMS, more):
            yield f"{indent}  … and {more} more"
    else:
        yield f"{indent}{name}: {_inline(value)}"


def _inline(value: JsonValue, *, nested: bool = False) -> str:
    """A value on one line. Lists and objects that are ``nested`` in another one are put in brackets."""
    if value is None:
        text = "none"
    elif isinstance(value, bool):
        text = "yes" if value else "no"
    elif isinstance(value, dict):
        members = ((key, item) for key, item in value.items() if item not in (None, [], {}))
        inside = _beginning(f"{_joined_lines(key)}: {_inline(item, nested=True)}" for key, item in members)
        text = f"({inside})" if nested and inside else inside or ("none" if value else "{}")
    elif isinstance(value, list):
        more = [f"… and {len(value) - MAX_ITEMS} more"] if len(value) > MAX_ITEMS else []
        text = _beginning(chain((_inline(item, nested=True) for item in value[:MAX_ITEMS]), more)) or "none"
        text = f"[{text}]" if nested and value else text
    else:
        text = _joined_lines(str(value))
    return text if len(text) <= _MAX_VALUE else text[: _MAX_VALUE - 1] + "…"


def _beginning(texts: Iterable[str]) -> str:
    """The texts, joined: as many as are shown, and one more to show that there are more."""
    taken, room = list[str](), _MAX_VALUE
    for text in texts:
        taken.append(text)
        room -= len(text)
        if room < 0:
            break
    return ", ".join(taken)


def _joined_lines(text: str) -> str:
    """The text on one line."""
    return " ".join(text.splitlines())
