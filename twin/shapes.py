"""Finds the item or the list of items in an answer, and the usual names of paging fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from services.contracts.base import JsonSchema
from twin.schemas import Definitions, fits, kinds_of, members, plain, resolved, singular

_CONTAINERS: Final = ("data", "result", "item", "response", "payload", "record", "object", "resource", "body")
_LISTS: Final = frozenset({"items", "data", "results", "records", "entries", "values", "content", "rows", "elements"})
_KEYS: Final = ("id", "uuid", "guid", "sid", "key", "slug", "code", "uid", "number", "name")
_LEVELS: Final = 3
TOTALS: Final = frozenset(
    {"total", "totalcount", "totalitems", "totalresults", "totalrecords", "totalelements", "count"}
)
ENDS: Final = frozenset(
    {
        *(
            "next",
            "nexturl",
            "nextlink",
            "nextpage",
            "nextpageurl",
            "nextpageuri",
            "odatanextlink",
            "nexthref",
            "nextpagetoken",
        ),
        *(
            "nextcursor",
            "nexttoken",
            "continuationtoken",
            "nextmarker",
            "endcursor",
            "cursor",
            "cursors",
            "previous",
            "after",
        ),
        *("previouspageurl", "previouspageuri", "prev", "nextsynctoken", "pagetoken", "nextoffset"),
    }
)
MORE: Final = frozenset({"hasmore", "hasnext", "hasnextpage", "more", "moreresults"})
PAGES: Final = frozenset({"pages", "totalpages", "pagecount", "numpages", "lastpage", "pagetotal"})


@dataclass(frozen=True, slots=True)
class ItemLocation:
    """A place in an answer: its path from the top, and the schema of the item there."""

    path: tuple[str | int, ...]
    schema: JsonSchema


def key_of(schema: JsonSchema, noun: str, parameter: str, definitions: Definitions) -> str | None:
    """The field with an item's id: named like the path's parameter, or with a usual name for ids."""
    properties = members(resolved(schema, definitions).get("properties"))
    names = {
        plain(name): name
        for name, value in properties.items()
        if not kinds_of(value, definitions) & {"object", "array"}
    }
    bare = plain(parameter)
    own = [bare, bare.removeprefix(noun), bare.removesuffix("id")] if bare and bare != "id" else []
    wanted = [*own[:2], f"{noun}id", *_KEYS[:6], f"{noun}key", f"{noun}code", *_KEYS[6:], *own[2:], f"{noun}name"]
    return next((names[name] for name in wanted if name in names), None)


def locate_item(schema: JsonSchema, definitions: Definitions, noun: str) -> ItemLocation | None:
    """Where an item is in an answer: at the top, or in a member with a fitting name. None if unknown."""
    return _locate_item(schema, definitions, noun, ())


def _locate_item(
    schema: JsonValue, definitions: Definitions, noun: str, way: tuple[str | int, ...]
) -> ItemLocation | None:
    declared = resolved(schema, definitions)
    kinds = kinds_of(declared, definitions)
    if "array" in kinds and "object" not in kinds:
        return _locate_item(declared.get("items"), definitions, noun, (*way, 0)) if len(way) < _LEVELS else None
    properties = members(declared.get("properties"))
    if not properties:
        return None
    if (
        key_of({"properties": properties}, noun, "", definitions) in (None, properties.get("name"))
        and len(way) < _LEVELS
    ):
        for name in sorted(properties, key=lambda one: _rank(one, noun)):
            if _rank(name, noun) > len(_CONTAINERS) + 1:
                break
            found = _locate_item(properties[name], definitions, noun, (*way, name))
            if found is not None:
                return found
    return ItemLocation(way, declared)


def _rank(name: str, noun: str) -> int:
    bare = plain(name)
    if singular(bare) == noun:
        return 0
    return _CONTAINERS.index(bare) + 1 if bare in _CONTAINERS else 99


def locate_list(schema: JsonSchema, definitions: Definitions, noun: str) -> ItemLocation | None:
    """Where a list of items is in an answer: at the top, or in a member with a fitting name. None if there is none."""
    return _locate_list(schema, definitions, noun, ())


def _locate_list(
    schema: JsonValue, definitions: Definitions, noun: str, way: tuple[str | int, ...]
) -> ItemLocation | None:
    declared = resolved(schema, definitions)
    if "array" in kinds_of(declared, definitions):
        return ItemLocation(way, resolved(declared.get("items"), definitions))
    properties = members(declared.get("properties"))
    if len(way) >= _LEVELS or (not way and "id" in {plain(name) for name in properties}):
        return None
    lists = [name for name, value in properties.items() if "array" in kinds_of(value, definitions)]
    lists.sort(key=lambda name: (singular(plain(name)) != noun, plain(name) not in _LISTS))
    fitting = [name for name in lists if singular(plain(name)) == noun or plain(name) in _LISTS]
    if fitting or (len(lists) == 1 and _is_about_lists(properties)):
        name = (fitting or lists)[0]
        return ItemLocation((*way, name), resolved(resolved(properties[name], definitions).get("items"), definitions))
    for name, value in properties.items():
        if plain(name) in _CONTAINERS or singular(plain(name)) == noun or plain(name).startswith("embedded"):
            found = _locate_list(value, definitions, noun, (*way, name))
            if found is not None:
                return found
    return None


def _is_about_lists(properties: Mapping[str, JsonValue]) -> bool:
    """Whether the members beside a list describe it, such as its length. If not, the answer is an item with a list."""
    names = {plain(name) for name in properties}
    about = names & (
        TOTALS | ENDS | MORE | PAGES | {"meta", "metadata", "pagination", "paging", "links", "page", "pageinfo"}
    )
    return len(names) <= 3 or bool(about)


def put(answer: JsonValue, path: tuple[str | int, ...], value: JsonValue) -> JsonValue:
    """The answer with this value at the path."""
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        inner = answer[0] if isinstance(answer, list) and answer else None
        return [put(inner, rest, value)]
    found = dict(answer) if isinstance(answer, dict) else {}
    found[step] = put(found.get(step), rest, value)
    return found


def at(answer: JsonValue, path: tuple[str | int, ...]) -> JsonValue:
    """The value at the path; None if there is none."""
    for step in path:
        if isinstance(step, int):
            answer = answer[0] if isinstance(answer, list) and answer else None
        else:
            answer = answer.get(step) if isinstance(answer, dict) else None
    return answer


def overlay(
    shown: JsonValue, stored: Mapping[str, JsonValue], schema: JsonSchema, definitions: Definitions
) -> JsonValue:
    """The item in an answer: its stored fields if the schema has them, and the generated values for the others."""
    properties = members(schema.get("properties"))
    if not properties:
        return dict(stored)
    found = dict(shown) if isinstance(shown, dict) else {}
    for name, value in properties.items():
        if name in stored and fits(stored[name], kinds_of(value, definitions)):
            found[name] = stored[name]
    return found


def last_page(answer: JsonValue, count: int, path: tuple[str | int, ...]) -> JsonValue:
    """The answer of a list, marked as the last page, and with the total count."""
    if not isinstance(answer, dict):
        return answer
    found: dict[str, JsonValue] = {}
    for name, value in answer.items():
        bare = plain(name)
        inner = path[1:] if path and path[0] == name else ()
        if path and path[0] == name and not inner:
            found[name] = value
        elif bare in ENDS:
            continue
        elif isinstance(value, dict) and (
            inner or bare in ("meta", "metadata", "pagination", "paging", "pageinfo", "page", "links")
        ):
            found[name] = last_page(value, count, inner)
        elif isinstance(value, bool):
            found[name] = False if bare in MORE else value
        elif isinstance(value, (int, float)):
            found[name] = count if bare in TOTALS else 1 if bare in PAGES else value
        else:
            found[name] = value
    return found
