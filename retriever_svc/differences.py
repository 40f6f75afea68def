"""What differs between an API that is there and one that would take its place, for a person to read before it does.

A description can be made to mislead whoever plans by it, and a server can be made another one. So nothing may differ
without being shown: what is compared is the whole of both APIs, leaf by leaf, and the leaves that people and planners
read come first.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Literal
from urllib.parse import urlsplit

from pydantic import JsonValue

from services.contracts.api import Api, FieldChange, ImportChange
from services.contracts.review import SensitiveChange

_FIRST = ("method", "server", "path", "security", "summary", "description", "parameters")
_RANKS: Mapping[str | int, int] = {name: rank for rank, name in enumerate(_FIRST)}
_MAX_FIELDS = 300
_MAX_TEXT = 4_000
_CONTEXT = 60

_Path = tuple[str | int, ...]
_Leaves = Mapping[_Path, JsonValue]


def updated(before: Api, after: Api) -> ImportChange:
    """The change from one API to another: each field that differs, and how."""
    old, new = dict(_leaves(before)), dict(_leaves(after))
    paths = [path for path in {**new, **old} if path not in old or path not in new or not _same(old[path], new[path])]
    paths.sort(key=lambda path: _RANKS.get(path[0], len(_RANKS)))
    fields = tuple(_field(path, old, new) for path in paths[:_MAX_FIELDS])
    left_out = max(0, len(paths) - _MAX_FIELDS)
    return ImportChange(action="updated", id=after.id, summary=after.summary, fields=fields, left_out=left_out)


def sensitive(before: Api, after: Api) -> Iterator[SensitiveChange]:
    """Where calls would go elsewhere, read instead of change or the reverse, or present another credential."""
    pairs: tuple[tuple[Literal["host", "effect", "credentials"], str, str], ...] = (
        ("host", _origin(before.server), _origin(after.server)),
        ("effect", _effect(before), _effect(after)),
        ("credentials", _credentials(before), _credentials(after)),
    )
    for what, old, new in pairs:
        if old != new:
            yield SensitiveChange(api=before.id, what=what, before=old[:_MAX_TEXT], after=new[:_MAX_TEXT])


def _origin(server: str) -> str:
    parts = urlsplit(server)
    return f"{parts.scheme}://{parts.netloc.lower()}"


def _effect(api: Api) -> str:
    return "change" if api.mutating else "read"


def _credentials(api: Api) -> str:
    """The alternatives, each with all that says what is sent, and to whom it is shown to be exchanged for a token."""
    alternatives = (
        " and ".join(requirement.model_dump_json(exclude_defaults=True) for requirement in alternative)
        for alternative in api.security
    )
    return " or ".join(alternatives) or "none"


def _leaves(api: Api) -> Iterator[tuple[_Path, JsonValue]]:
    """Every value of an API under its path. Parameters go by their names, and the order of those is a leaf."""
    content = api.model_dump(mode="json", exclude={"content_hash"})
    parameters = content.pop("parameters")
    yield ("parameters",), ", ".join(json.dumps(parameter["name"]) for parameter in parameters)
    seen = Counter[str]()
    for parameter in parameters:
        name = parameter["name"]
        yield from _walk(("parameters", name, seen[name]) if name in seen else ("parameters", name), parameter)
        seen[name] += 1
    yield from _walk((), content)


def _walk(path: _Path, value: JsonValue) -> Iterator[tuple[_Path, JsonValue]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _walk((*path, key), inner)
    elif isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value):
        for index, inner in enumerate(value):
            yield from _walk((*path, index), inner)
    else:
        yield path, value


def _same(one: JsonValue, other: JsonValue) -> bool:
    """Equal as JSON, where 1, 1.0 and true are three values."""
    return json.dumps(one) == json.dumps(other)


def _field(path: _Path, old: _Leaves, new: _Leaves) -> FieldChange:
    before, after = _texts(path, old), _texts(path, new)
    if before == after and before is not None:  # the number 1 and the text "1"
        before, after = json.dumps(old[path]), json.dumps(new[path])
    before, after = _window(before, after)
    return FieldChange(field=_label(path), before=before, after=after)


def _label(path: _Path) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return "".join(parts).removeprefix(".")[:_MAX_TEXT]


def _texts(path: _Path, leaves: _Leaves) -> str | None:
    if path not in leaves:
        return None
    value = leaves[path]
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _window(before: str | None, after: str | None) -> tuple[str | None, str | None]:
    """Both texts, or, where they are long, what is left of them from shortly before they begin to differ."""
    if max(len(before or ""), len(after or "")) <= _MAX_TEXT:
        return before, after
    pairs = enumerate(zip(before or "", after or "", strict=False))
    agreeing = next((index for index, (old, new) in pairs if old != new), min(len(before or ""), len(after or "")))
    start = max(0, agreeing - _CONTEXT)
    return _from(before, start), _from(after, start)


def _from(text: str | None, start: int) -> str | None:
    if text is None:
        return None
    shown, rest = text[start : start + _MAX_TEXT], len(text) - start - _MAX_TEXT
    return ("… " if start else "") + shown + (f"… ({rest} more characters)" if rest > 0 else "")
