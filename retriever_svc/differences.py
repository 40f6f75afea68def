"""The differences between a stored API and the one that would replace it, for a person to review.

A changed description can mislead a planner, and a changed server can receive the calls. So every difference is shown:
both APIs are compared in full, and the fields that people and planners read come first.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import Enum
from typing import Final, Literal
from urllib.parse import urlsplit

from pydantic import JsonValue

from retriever_svc.models import stamp
from services.contracts.api import Api, FieldChange, ImportChange, Parameter
from services.contracts.review import SensitiveChange

_FIRST = ("method", "server", "path", "security", "summary", "description", "parameters")
_RANKS: Mapping[str | int, int] = {name: rank for rank, name in enumerate(_FIRST)}
_MAX_FIELDS = 300
_MAX_TEXT = 4_000
_CONTEXT = 60
_NEW: Final = "(new)"
_PLACES = 1_000
"""Most places of a provider that are remembered."""


class _Nowhere(Enum):
    """The value of a path that one side does not have."""

    NOWHERE = "nowhere"


NOWHERE: Final = _Nowhere.NOWHERE
_Path = tuple[str | int, ...]
_Value = JsonValue | _Nowhere


def updated(before: Api, after: Api) -> ImportChange:
    """The change from one API to another, with each difference once.

    A value that only one side has, such as a parameter, is one field if its JSON is short enough to be shown.
    """
    found = {path: (old, new) for path, old, new in _differences(before, after)}
    paths = [path for path in found if not _repeats_another(path, found)]
    paths.sort(key=lambda path: _RANKS.get(path[0], len(_RANKS)))
    fields = tuple(_field(path, *found[path]) for path in paths[:_MAX_FIELDS])
    left_out = max(0, len(paths) - _MAX_FIELDS)
    return ImportChange(action="updated", id=after.id, summary=after.summary, fields=fields, left_out=left_out)


def sensitive(before: Api, after: Api) -> Iterator[SensitiveChange]:
    """Differences in the host, in the effect (method, and whether it changes something), and in the credentials."""
    pairs: tuple[tuple[Literal["host", "effect", "credentials"], str, str], ...] = (
        ("host", _host(before.server), _host(after.server)),
        ("effect", _effect(before), _effect(after)),
        ("credentials", _credentials(before), _credentials(after)),
    )
    for what, old, new in pairs:
        if old != new:
            yield SensitiveChange(api=before.id, what=what, before=old[:_MAX_TEXT], after=new[:_MAX_TEXT])


def places(api: Api) -> dict[str, SensitiveChange]:
    """Where its calls go, and which credential they send there: by a digest, what to confirm if it is a new one.

    A credential counts with its token URL and without its scopes: what is granted is no matter of where it is sent.
    """
    origin = _origin(api.server)
    found = {
        stamp([origin]): SensitiveChange(api=api.id, what="host", before=_NEW, after=_host(api.server)[:_MAX_TEXT])
    }
    for requirement in itertools.chain.from_iterable(api.security):
        text = requirement.model_dump_json(exclude_defaults=True, exclude={"scopes"})
        shown = SensitiveChange(api=api.id, what="credentials", before=_NEW, after=text[:_MAX_TEXT])
        found[stamp([origin, text])] = shown
    return found


def new_places(apis: Iterable[Api], known: Collection[str]) -> list[SensitiveChange]:
    """The places of added operations that their provider never had: so none of its calls moves there under a new id."""
    found = list[SensitiveChange]()
    for api in apis:
        fresh = [change for digest, change in places(api).items() if digest not in known]
        found += [change for change in fresh if change.what == "host"] or fresh
    return found


def remembered(apis: Iterable[Api], earlier: Iterable[str]) -> tuple[str, ...]:
    """The digests of these APIs' places and, if there is room, of earlier ones. What is forgotten counts as new."""
    found = dict[str, None]()
    for api in apis:
        found |= dict.fromkeys(places(api))
    return tuple(found | dict.fromkeys(earlier))[:_PLACES]


def _origin(server: str) -> str:
    parts = urlsplit(server)
    return f"{parts.scheme}://{parts.netloc.lower()}"


def _host(server: str) -> str:
    return _origin(server) if server else "no server"


def _effect(api: Api) -> str:
    return f"{api.method}, {'change' if api.mutating else 'read'}"


def _credentials(api: Api) -> str:
    """The alternatives in full: what is sent, and which host exchanges it for a token."""
    alternatives = (
        " and ".join(requirement.model_dump_json(exclude_defaults=True) for requirement in alternative)
        for alternative in api.security
    )
    return " or ".join(alternatives) or "none"


def _differences(before: Api, after: Api) -> Iterator[tuple[_Path, _Value, _Value]]:
    """Each path where they differ, with both values. Parameters are matched by name, and their order is one value."""
    old, new = _parameters(before), _parameters(after)
    if [key for key in old if key in new] != [key for key in new if key in old]:
        yield ("parameters",), _names(before), _names(after)
    for key in {**new, **old}:
        sides = old.get(key), new.get(key)
        if None in sides:  # defaults of a new or removed parameter are not worth showing
            one, other = (NOWHERE if p is None else p.model_dump(mode="json", exclude_defaults=True) for p in sides)
        else:
            one, other = (p.model_dump(mode="json") for p in sides if p is not None)
        yield from _walk(("parameters", *key), one, other)
    outside = {"content_hash", "parameters"}
    yield from _walk(
        (), before.model_dump(mode="json", exclude=outside), after.model_dump(mode="json", exclude=outside)
    )


def _parameters(api: Api) -> dict[_Path, Parameter]:
    """Parameters by name; those that share a name, also by number."""
    found: dict[_Path, Parameter] = {}
    seen = Counter[str]()
    for parameter in api.parameters:
        name = parameter.name
        found[(name, seen[name]) if name in seen else (name,)] = parameter
        seen[name] += 1
    return found


def _names(api: Api) -> str:
    return ", ".join(json.dumps(parameter.name) for parameter in api.parameters)


def _walk(path: _Path, old: _Value, new: _Value) -> Iterator[tuple[_Path, _Value, _Value]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in {**new, **old}:
            yield from _walk((*path, name), old.get(name, NOWHERE), new.get(name, NOWHERE))
    elif isinstance(old, list) and isinstance(new, list) and not (_is_flat(old) and _is_flat(new)):
        for index in range(max(len(old), len(new))):
            yield from _walk((*path, index), _item(old, index), _item(new, index))
    elif not (_is_long(old) or _is_long(new)):
        if not _same(old, new):
            yield path, old, new
    elif old is NOWHERE or new is NOWHERE:
        for key, part in _parts(new if old is NOWHERE else old):
            yield from _walk((*path, key), *((NOWHERE, part) if old is NOWHERE else (part, NOWHERE)))
    else:
        yield from _walk(path, old, NOWHERE)
        yield from _walk(path, NOWHERE, new)


def _is_flat(value: list[JsonValue]) -> bool:
    return not any(isinstance(item, dict | list) for item in value)


def _item(value: list[JsonValue], index: int) -> _Value:
    return value[index] if index < len(value) else NOWHERE


def _parts(value: _Value) -> Iterable[tuple[str | int, JsonValue]]:
    return value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()


def _is_long(value: _Value) -> bool:
    """Whether an object or list is too long to be shown as JSON. Only the start of a large one is read."""
    waiting: list[_Value] = [value] if isinstance(value, dict | list) else []
    chars = 0
    while waiting and chars <= _MAX_TEXT:
        one = waiting.pop()
        chars += len(one) if isinstance(one, str) else 1
        for key, part in itertools.islice(_parts(one), _MAX_TEXT):
            chars += len(str(key))
            waiting.append(part)
    return bool(waiting) or (isinstance(value, dict | list) and len(_text(value) or "") > _MAX_TEXT)


def _same(one: _Value, other: _Value) -> bool:
    """Whether both are equal as JSON, where 1, 1.0 and true are different values."""
    return one is not NOWHERE and other is not NOWHERE and json.dumps(one) == json.dumps(other)


def _repeats_another(path: _Path, found: Mapping[_Path, tuple[_Value, _Value]]) -> bool:
    """Whether a parameter's field only repeats another field: importers copy descriptions and defaults."""
    if path[0] != "parameters":
        return False
    copies = (("json_schema", "description"), ("description",)), (("constant",), ("json_schema", "default"))
    for copy, original in copies:
        start = path[: -len(copy)]
        if path[-len(copy) :] == copy and len(start) in (2, 3) and found.get((*start, *original)) == found[path]:
            return True
    return False


def _field(path: _Path, old: _Value, new: _Value) -> FieldChange:
    before, after = _text(old), _text(new)
    if before == after:  # the number 1 and the text "1"
        before, after = json.dumps(old), json.dumps(new)
    before, after = _window(before, after)
    return FieldChange(field=_label(path), before=before, after=after)


def _label(path: _Path) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return "".join(parts).removeprefix(".")[:_MAX_TEXT]


def _text(value: _Value) -> str | None:
    if value is NOWHERE:
        return None
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _window(before: str | None, after: str | None) -> tuple[str | None, str | None]:
    """Both texts. Long ones are cut to start shortly before the first difference."""
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
